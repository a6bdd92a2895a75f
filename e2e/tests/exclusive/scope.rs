//! A namespaced and a cluster-wide operator side by side: each looks after its own resources, and touches no other.

use anyhow::ensure;
use api::EtcdCluster;
use e2e::{SOON, etcd_cluster, members::one_cluster, operator, operator_replicas, until_it_succeeds};
use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::util::intstr::IntOrString};
use kube::{Api, api::DynamicObject, core::GroupVersionKind, discovery::ApiResource};
use testbed::kit::{Cluster, TestCase, TestNamespace, wait_for};

use crate::wide::{WIDE, cluster_wide_operator, no_roles, wide};

/// Resources of the other two kinds, which the operator answers in their status.
fn others(name: &str, annotation: &str) -> String {
    let other = |kind: &str, spec: &str| {
        format!(
            "apiVersion: etcd.database.coreos.com/v1beta2\nkind: {kind}\nmetadata: {{name: {name}{annotation}}}\nspec: {spec}\n"
        )
    };
    let store = "s3: {path: bucket/key, awsSecret: s}";
    other(
        "EtcdBackup",
        &format!("{{etcdEndpoints: ['http://{name}-client:2379'], storageType: S3, {store}}}"),
    ) + "---\n"
        + &other("EtcdRestore", &format!("{{etcdCluster: {{name: {name}}}, backupStorageType: S3, {store}}}"))
}

async fn answered(ns: &TestNamespace, kind: &str, name: &str) -> anyhow::Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("etcd.database.coreos.com", "v1beta2", kind));
    let objects: Api<DynamicObject> = Api::namespaced_with(ns.client(), ns.name(), &resource);
    let expected = format!("this operator does not act on {kind} resources yet");
    until_it_succeeds(async || {
        let object = objects.get(name).await?;
        let said = object.data.get("status").map(ToString::to_string).unwrap_or_default();
        ensure!(said.contains(&expected), "of the {kind} {name} is said: {said:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_namespaced_and_a_cluster_wide_operator_leave_each_others_resources_alone() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    no_roles(&cluster).await?;
    let in_namespace = |what: &str| TestCase::of(what).on(cluster.clone());
    let done = in_namespace("scope_of_all")
        .run(async |all| in_namespace("scope_of_one").run(async |one| side_by_side(&one, &all).await).await)
        .await;
    no_roles(&cluster).await?;
    done
}

async fn side_by_side(one: &TestNamespace, all: &TestNamespace) -> anyhow::Result<()> {
    let log = one.cluster().audit_log()?;
    let mark = log.mark()?;
    operator(one).await?;
    cluster_wide_operator(all).await?;
    one.apply(&etcd_cluster("plain", 3, "3.6.14")).await?;
    // Its first version has no image: the attempt is given up, and so every right of the operator is used.
    one.apply(&wide("wide", "3.6.13")).await?;
    one.apply(&others("plain", "")).await?;
    one.apply(&others("wide", &format!(", {WIDE}"))).await?;
    one_cluster(one, "plain").await?;
    let begun = |cluster: Option<&EtcdCluster>| {
        let birth = cluster.and_then(|cluster| cluster.status.as_ref()?.birth.clone());
        birth.map(drop).ok_or_else(|| "it has no record of birth".to_owned())
    };
    wait_for(&one.api::<EtcdCluster>(), "wide", SOON, "to be begun", begun).await?;
    one.apply(&wide("wide", "3.6.14")).await?;
    one_cluster(one, "wide").await?;
    // A budget follows the size: that right is used, too.
    one.kubectl(&["scale", "etcdcluster/wide", "--replicas=4"]).await?.success()?;
    one_cluster(one, "wide").await?;
    let asks_for_three = |budget: Option<&PodDisruptionBudget>| {
        let asked = budget.and_then(|budget| budget.spec.as_ref()?.min_available.clone());
        if asked == Some(IntOrString::Int(3)) { Ok(()) } else { Err(format!("{asked:?}")) }
    };
    wait_for(&one.api::<PodDisruptionBudget>(), "wide", SOON, "to ask for three", asks_for_three).await?;
    for (kind, name) in
        [("EtcdBackup", "plain"), ("EtcdBackup", "wide"), ("EtcdRestore", "plain"), ("EtcdRestore", "wide")]
    {
        answered(one, kind, name).await?;
    }

    // Everything that is made for a cluster begins with its name, and so do the names of its Events.
    for (operator, account, own, others) in
        [(one, "etcd-operator-sa", "plain", "wide"), (all, "default", "wide", "plain")]
    {
        let user = format!("system:serviceaccount:{}:{account}", operator.name());
        let writes = log.since(mark).user(&user).writes().namespace(one.name()).entries()?;
        let about = |name: &str| writes.iter().filter(|entry| entry.name.starts_with(name)).count();
        ensure!(about(own) > 5, "{user} is not seen at work on {own}: {writes:?}");
        ensure!(about(others) == 0, "{user} touched what is not its own: {writes:?}");
    }
    // Before its rights: it would look after what the next test makes for another one, and be denied.
    Ok(operator_replicas(all, 0).await?)
}
