//! Where the Pod Security Standard "restricted" is enforced, our pods are taken, and nobody is warned.

use anyhow::ensure;
use e2e::{SOON, crds, etcd_cluster, operator_available, repository, running, until_it_succeeds};
use testbed::kit::{PodSecurity, TestCase, TestNamespace};

/// What the API server writes into its audit log where a pod, or what makes pods, breaks the standard.
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";

/// A Deployment that breaks the standard: it shows that a warning would be seen.
const CARELESS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: careless}
spec:
  selector: {matchLabels: {app: careless}}
  template:
    metadata: {labels: {app: careless}}
    spec: {containers: [{name: x, image: x}]}
";

/// Applies as a person does; what kubectl says on the side.
async fn warned(ns: &TestNamespace, manifest: &str, how: &[&str]) -> anyhow::Result<String> {
    let said = ns.kubectl_with(&[&["apply", "-f", "-"], how].concat(), manifest.as_bytes(), SOON).await?;
    ensure!(said.code == 0, "{said}");
    Ok(said.stderr)
}

#[tokio::test]
async fn nobody_is_warned_of_our_pods_where_restricted_is_enforced() -> anyhow::Result<()> {
    TestCase::of("nobody_is_warned")
        .pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            let label = |mode: &str| format!("pod-security.kubernetes.io/{mode}=restricted");
            let labels = ["label", "namespace", ns.name(), &label("warn"), &label("audit")];
            ns.kubectl(&labels).await?.success()?;
            let log = ns.cluster().audit_log()?;
            let mark = log.mark()?;
            // From the moment on at which the API server knows of the labels.
            until_it_succeeds(async || {
                let warning = warned(&ns, CARELESS, &["--dry-run=server"]).await?;
                ensure!(warning.contains("would violate PodSecurity \"restricted"), "{warning:?}");
                Ok(())
            })
            .await?;

            crds(ns.cluster()).await?;
            for name in ["sa", "role", "rolebinding", "deployment"] {
                let file =
                    std::fs::read_to_string(repository().join(format!("example/etcd-operator-{name}.yaml")))?;
                let manifest = file.replace("namespace: default", &format!("namespace: {}", ns.name()));
                let warning = warned(&ns, &manifest, &[]).await?;
                ensure!(warning.is_empty(), "{name}: {warning}");
            }
            operator_available(&ns).await?;
            let warning = warned(&ns, &etcd_cluster("c", 3, "3.6.14"), &[]).await?;
            ensure!(warning.is_empty(), "{warning}");
            running(&ns, "c").await?;

            let remarked =
                log.since(mark).namespace(ns.name()).that(|entry| entry.annotations.contains_key(VIOLATIONS));
            let remarked: Vec<_> = remarked.entries()?.iter().map(ToString::to_string).collect();
            ensure!(
                remarked.len() == 1 && remarked.iter().all(|entry| entry.contains("careless")),
                "{remarked:?}"
            );
            Ok(())
        })
        .await
}
