//! The kit against a real cluster: how it acts, and what it leaves when a test fails.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use testbed::kit::{TestCase, TestNamespace, check, in_namespace, wait_for};

use crate::{SOON, script_pod};

#[tokio::test]
async fn a_wait_in_vain_says_what_it_saw_last() -> anyhow::Result<()> {
    in_namespace("a_wait_in_vain_says_what_it_saw_last", async |ns| {
        let short = Duration::from_secs(10);
        let none = wait_for(&ns.api(), "x", short, "to be Ready", check::pod_ready).await;
        let said = none.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(said.ends_with("to be Ready; last seen: no such pod"), "{said}");

        ns.apply(
            &script_pod("x", "true").replace("restartPolicy:", "nodeSelector: {no: where}\n  restartPolicy:"),
        )
        .await?;
        let told = |pod: Option<&Pod>| {
            pod.and_then(|pod| pod.status.as_ref()?.conditions.clone()).ok_or_else(String::new)
        };
        wait_for(&ns.api(), "x", SOON, "to be looked at by the scheduler", told).await?;
        let pending = wait_for(&ns.api(), "x", short, "to be Ready", check::pod_ready).await;
        let said = pending.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(said.starts_with("waited ") && said.contains(&format!("pods/x of {}", ns.name())), "{said}");
        ensure!(said.contains("Pending, not scheduled: 0/"), "{said}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_failed_test_keeps_its_namespace_and_names_the_folder_with_all_about_it() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut kept = None;
    let failed = TestCase::of("a_failed_test_keeps_its_namespace")
        .evidence_in(folder.path())
        .run(async |ns| {
            kept = Some(ns.clone());
            ns.apply(&once_again("x")).await?;
            wait_for(&ns.api(), "x", SOON, "to restart", restarted).await?;
            anyhow::bail!("this had to fail")
        })
        .await;
    // Without a namespace there is another reason to fail.
    let Some(ns) = kept else { return failed };
    let looked_at = look_at_evidence(&ns, folder.path(), failed).await;
    ns.delete_and_wait().await?;
    looked_at
}

#[tokio::test]
async fn a_test_that_panics_has_failed_and_keeps_its_namespace_too() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut kept = None;
    let failed = TestCase::of("a_test_that_panics_has_failed")
        .evidence_in(folder.path())
        .run(async |ns| {
            kept = Some(ns.clone());
            panic!("oh no")
        })
        .await;
    // Without a namespace there is another reason to fail.
    let Some(ns) = kept else { return failed };
    let error = format!("{:#}", failed.err().context("a panic passed for a success")?);
    let still_there = exists(&ns).await?;
    ns.delete_namespace().await?;
    ensure!(error.contains("oh no") && error.contains(&folder.path().display().to_string()), "{error}");
    ensure!(still_there);
    Ok(())
}

#[tokio::test]
async fn a_test_that_takes_too_long_has_failed() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut kept = None;
    let failed = TestCase::of("a_test_that_takes_too_long_has_failed")
        .evidence_in(folder.path())
        .deadline(Duration::from_millis(100))
        .run(async |ns| {
            kept = Some(ns.clone());
            std::future::pending().await
        })
        .await;
    let Some(ns) = kept else { return failed };
    ns.delete_namespace().await?;
    let error = format!("{:#}", failed.err().context("it passed for a success")?);
    ensure!(error.contains("was not done within 100ms"), "{error}");
    Ok(())
}

async fn look_at_evidence(
    ns: &TestNamespace,
    folder: &Path,
    failed: anyhow::Result<()>,
) -> anyhow::Result<()> {
    let error = format!("{:#}", failed.err().context("the failure was lost")?);
    let folder: PathBuf = folder.join(ns.name());
    ensure!(error.contains("this had to fail") && error.contains(&folder.display().to_string()), "{error}");
    ensure!(exists(ns).await?, "the namespace is gone");
    let table = [
        ("failure.txt", "this had to fail"),
        ("events.txt", "Normal Scheduled Pod/x"),
        ("logs/x.shell.log", "I was here"),
        ("logs/x.shell.previous.log", "I was here"),
        ("objects/pods.yaml", "name: x"),
        ("objects/serviceaccounts.yaml", "name: default"),
    ];
    for (file, expected) in table {
        let text = fs::read_to_string(folder.join(file)).with_context(|| format!("read {file}"))?;
        ensure!(text.contains(expected), "{file}: {text}");
    }
    ensure!(
        !folder.join("incomplete.txt").exists(),
        "{}",
        fs::read_to_string(folder.join("incomplete.txt"))?
    );
    Ok(())
}

/// A pod whose container fails once, and then runs.
fn once_again(name: &str) -> String {
    let script = "echo I was here; test -e /state/before || { touch /state/before; exit 1; }; sleep 600";
    script_pod(name, script)
        .replace("restartPolicy: Never", "restartPolicy: Always")
        .replace("name: shell", "name: shell\n    volumeMounts: [{name: state, mountPath: /state}]")
        + "  volumes: [{name: state, emptyDir: {}}]\n"
}

fn restarted(pod: Option<&Pod>) -> Result<(), String> {
    let pod = pod.ok_or("no such pod")?;
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
    let again = statuses.unwrap_or_default().iter().any(|it| {
        let runs = it.state.as_ref().is_some_and(|state| state.running.is_some());
        it.restart_count > 0 && runs
    });
    if again { Ok(()) } else { Err(check::describe_pod(pod)) }
}

async fn exists(ns: &TestNamespace) -> anyhow::Result<bool> {
    let namespaces: Api<Namespace> = Api::all(ns.client());
    let found = namespaces.get_opt(ns.name()).await?;
    Ok(found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none()))
}

#[tokio::test]
async fn apply_refuses_what_would_be_a_mistake_in_a_test() -> anyhow::Result<()> {
    in_namespace("apply_refuses_what_would_be_a_mistake_in_a_test", async |ns| {
        let table = [
            ("{apiVersion: v1, kind: Namespace, metadata: {name: other}}", "belongs to the whole cluster"),
            (
                "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: default}}",
                "names the namespace",
            ),
            ("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, dta: {}}", "dta"),
            ("{apiVersion: v1, kind: Confgmap, metadata: {name: x}}", "Confgmap"),
        ];
        for (manifest, expected) in table {
            let refused = ns.apply(manifest).await.err().map(anyhow::Error::from);
            let said = refused.map(|error| format!("{error:#}")).unwrap_or_default();
            ensure!(said.contains(expected), "{manifest}: {said}");
        }
        let twice = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}";
        ns.apply(twice).await?;
        let applied = ns.apply(twice).await?;
        ensure!(applied.len() == 1);
        ns.remove_all(&applied).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn kubectl_acts_in_the_namespace_of_the_test() -> anyhow::Result<()> {
    in_namespace("kubectl_acts_in_the_namespace_of_the_test", async |ns| {
        let manifest = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}";
        ns.kubectl_with(&["apply", "-f", "-"], manifest, SOON).await?.success()?;
        let value = ns.kubectl(&["get", "configmap", "x", "-o", "jsonpath={.data.a}"]).await?.success()?;
        ensure!(value == "b", "{value}");
        let missing = ns.kubectl(&["get", "configmap", "y"]).await?;
        ensure!(missing.code == 1 && missing.stderr.contains("NotFound"), "{missing}");
        Ok(())
    })
    .await
}
