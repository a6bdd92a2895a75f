//! Each right of the operator is taken away in turn: what it lacks is said in the API server's own sentence, in a condition or in the
//! operator's log, nothing is damaged, and when it is given back all goes on without a restart.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    LONG, SOON, etcd_cluster,
    members::{member, one_cluster},
    operator, operator_pod,
    pods::{living, restarts, which},
    running, says, until_it_succeeds,
};
use kube::ResourceExt;
use operator::rbac::{RULES, Used};
use serde_json::json;
use testbed::kit::{TestCase, TestNamespace};
use tokio::time::sleep;

/// A right, and what has to happen so that it is needed.
struct Right {
    verb: &'static str,
    resource: &'static str,
    /// What is typed; `POD` stands for a member's pod, and `NOTE` for something new.
    needed_by: &'static [&'static str],
    /// What goes with it, where one right is not enough to notice.
    with: &'static [&'static str],
    told: Told,
}

/// Where it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// In a condition of the cluster.
    Condition,
    /// In the operator's log: it cannot say it elsewhere, or it is no news of the cluster.
    Log,
}

const fn right(verb: &'static str, resource: &'static str, needed_by: &'static [&'static str]) -> Right {
    Right { verb, resource, needed_by, with: &[], told: Told::Condition }
}

const fn logged(verb: &'static str, resource: &'static str, needed_by: &'static [&'static str]) -> Right {
    Right { verb, resource, needed_by, with: &[], told: Told::Log }
}

const READING: &[&str] = &["get", "list", "watch"];
const A_CHANGE: &[&str] = &["annotate", "--overwrite", "etcdcluster/c", "NOTE"];

/// In an order in which each change is put right by the next: three members, two, three.
const RIGHTS: &[Right] = &[
    right("create", "services", &["delete", "service/c-client"]),
    right(
        "patch",
        "services",
        &["patch", "service/c-client", "--type=merge", "-p", r#"{"spec":{"selector":{"app":"other"}}}"#],
    ),
    Right { with: READING, ..right("get", "services", A_CHANGE) },
    right("create", "poddisruptionbudgets", &["delete", "poddisruptionbudget/c"]),
    right(
        "patch",
        "poddisruptionbudgets",
        &["patch", "poddisruptionbudget/c", "--type=merge", "-p", r#"{"spec":{"minAvailable":1}}"#],
    ),
    Right { with: READING, ..right("get", "poddisruptionbudgets", A_CHANGE) },
    right("patch", "pods", &["label", "POD", "etcd_cluster-"]),
    right("delete", "pods", &["scale", "etcdcluster/c", "--replicas=2"]),
    right("create", "pods", &["scale", "etcdcluster/c", "--replicas=3"]),
    Right { with: READING, ..right("list", "pods", A_CHANGE) },
    Right { with: READING, ..logged("get", "etcdclusters", A_CHANGE) },
    logged("create", "events", &["delete", "POD", "--wait=false"]),
    logged("patch", "etcdclusters/status", &["scale", "etcdcluster/c", "--replicas=4"]),
    logged("update", "leases", &["get", "lease/etcd-operator"]),
];

/// The Role without these verbs on this resource.
fn role_without(resource: &str, verbs: &[&str]) -> String {
    let rules = RULES.iter().filter(|rule| rule.used == Used::Always);
    let rules = rules.flat_map(|rule| rule.resources.iter().map(move |it| (rule, *it))).map(|(rule, it)| {
        let kept = rule.verbs.iter().filter(|verb| it != resource || !verbs.contains(verb));
        // Without names it is about all objects of its kind.
        let names = (!rule.names.is_empty()).then_some(rule.names);
        json!({"apiGroups": [rule.group], "resources": [it], "verbs": kept.collect::<Vec<_>>(), "resourceNames": names})
    });
    // A rule without verbs is none.
    let rules: Vec<_> = rules.filter(|rule| rule["verbs"] != json!([])).collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "etcd-operator-role"}, "rules": rules,
    })
    .to_string()
}

/// Takes a right away, and waits until the API server knows.
async fn take(ns: &TestNamespace, resource: &str, verbs: &[&str], taken: &str) -> anyhow::Result<()> {
    ns.apply(&role_without(resource, verbs)).await?;
    let (kind, part) = resource.split_once('/').unwrap_or((resource, ""));
    let (part, account) = (
        format!("--subresource={part}"),
        format!("--as=system:serviceaccount:{}:etcd-operator-sa", ns.name()),
    );
    until_it_succeeds(async || {
        let said = ns.kubectl(&["auth", "can-i", taken, kind, &part, &account]).await?;
        ensure!(said.stdout.trim() == "no", "it still may {taken} {resource}: {said}");
        Ok(())
    })
    .await
}

async fn give_all_back(ns: &TestNamespace) -> anyhow::Result<()> {
    ns.apply(&role_without("", &[])).await?;
    Ok(())
}

/// Waits until this sentence is there.
async fn is_said(ns: &TestNamespace, told: Told, sentence: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let text = match told {
            Told::Condition => serde_json::to_string(&ns.api::<EtcdCluster>().get("c").await?.status)?,
            Told::Log => ns.logs(&operator_pod(ns).await?.name_any(), None).await?,
        };
        // There are quotes within quotes.
        if text.replace('\\', "").contains(sentence) {
            return Ok(());
        }
        ensure!(begun.elapsed() < SOON, "no {told:?} says: {sentence}");
        sleep(Duration::from_millis(500)).await;
    }
}

/// Which operator it is, and how often it was started again.
async fn operator_now(ns: &TestNamespace) -> anyhow::Result<(String, i32)> {
    let pod = operator_pod(ns).await?;
    Ok((pod.name_any(), restarts(&pod)))
}

async fn without(ns: &TestNamespace, right: &Right) -> anyhow::Result<()> {
    let verbs = if right.with.is_empty() { &[right.verb][..] } else { right.with };
    take(ns, right.resource, verbs, right.verb).await?;
    let before = which(ns, "c").await?;
    let some = living(ns, "c").await?.first().map(ResourceExt::name_any).context("no member")?;
    let (pod, note) = (format!("pod/{some}"), format!("note={}", right.resource));
    let words = right.needed_by.iter().map(|word| word.replace("POD", &pod).replace("NOTE", &note));
    let typed: Vec<String> = words.collect();
    ns.kubectl(&typed.iter().map(String::as_str).collect::<Vec<_>>()).await?.success()?;
    let sentence = format!("cannot {} resource \"{}\"", right.verb, right.resource);
    is_said(ns, right.told, &sentence).await?;
    // At most the one that the change was about is missing, and that never of two.
    let kept = which(ns, "c").await?.intersection(&before).count();
    ensure!(kept + 1 >= before.len(), "{kept} of {} members are left", before.len());
    give_all_back(ns).await?;
    if right.told == Told::Condition {
        says(ns, "c", "Progressing", "Settled").await?;
    }
    one_cluster(ns, "c").await.with_context(|| format!("after {sentence}"))?;
    Ok(())
}

#[tokio::test]
async fn each_missing_right_is_named_and_nothing_is_damaged_until_it_is_given_back() -> anyhow::Result<()> {
    TestCase::of("permissions")
        .deadline(LONG)
        .run(async |ns| {
            operator(&ns).await?;
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            let one = living(&ns, "c").await?.into_iter().next().context("no member")?;
            until_it_succeeds(async || Ok(member(&one)?.put(b"kept", b"yes").await?)).await?;
            let began = operator_now(&ns).await?;
            for right in RIGHTS {
                without(&ns, right).await?;
            }
            records_of_birth_and_other_kinds(&ns).await?;
            one_cluster(&ns, "c").await?;
            for pod in living(&ns, "c").await? {
                let found = until_it_succeeds(async || Ok(member(&pod)?.get(b"kept").await?)).await?;
                ensure!(found.as_deref() == Some(b"yes"), "{}: {found:?}", pod.name_any());
            }
            ensure!(operator_now(&ns).await? == began, "the operator was restarted");
            Ok(())
        })
        .await
}

/// Rights that only what is new needs.
async fn records_of_birth_and_other_kinds(ns: &TestNamespace) -> anyhow::Result<()> {
    take(ns, "etcdclusters/status", &["update"], "update").await?;
    ns.apply(&etcd_cluster("d", 1, "3.6.14")).await?;
    is_said(ns, Told::Log, "cannot update resource \"etcdclusters/status\"").await?;
    ensure!(living(ns, "d").await?.is_empty(), "a pod was made without a record of birth");
    give_all_back(ns).await?;
    running(ns, "d").await?;

    take(ns, "etcdbackups/status", &["patch"], "patch").await?;
    ns.apply(
        "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdBackup\nmetadata: {name: b}\n\
         spec: {etcdEndpoints: ['http://c-client:2379'], storageType: S3, s3: {path: bucket/key, awsSecret: s}}\n",
    )
    .await?;
    is_said(ns, Told::Log, "cannot patch resource \"etcdbackups/status\"").await?;
    give_all_back(ns).await?;
    // Whoever asks the audit log afterwards sees that it was only lent.
    let answered = "--for=jsonpath={.status.conditions[0].type}=SpecAccepted";
    ns.kubectl(&["wait", answered, "etcdbackup/b", "--timeout=90s"]).await?.success()?;
    Ok(())
}
