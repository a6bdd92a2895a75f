//! Real authentication and authorization: a service account may do what its Role says, and nobody may do anything.

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use testbed::kit::in_namespace;
use tokio::time::{Instant, sleep};

use crate::{SOON, code, script_pod};

/// `reader` may get and list pods, and nothing else.
const READER: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader}]
";

#[tokio::test]
async fn a_service_account_may_do_what_its_role_says_and_nothing_else() -> anyhow::Result<()> {
    in_namespace("a_service_account_may_do_what_its_role_says_and_nothing_else", async |ns| {
        ns.apply(READER).await?;
        let reader = ns.as_service_account("reader").await?;
        allowed_to_list_pods(&reader, ns.name()).await?;

        let pods: Api<Pod> = Api::namespaced(reader.clone(), ns.name());
        let pod: Pod = serde_saphyr::from_str(&script_pod("x", "true"))?;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let secrets: Api<Secret> = Api::namespaced(reader.clone(), ns.name());
        let elsewhere: Api<Pod> = Api::namespaced(reader.clone(), "default");
        let everywhere: Api<Pod> = Api::all(reader);
        let all = ListParams::default();
        let answers = [
            ("get a pod that is not there", code(&pods.get("x").await), 404),
            ("create a pod", code(&pods.create(&dry_run, &pod).await), 403),
            ("delete a pod", code(&pods.delete("x", &kube::api::DeleteParams::default()).await), 403),
            ("list secrets", code(&secrets.list(&all).await), 403),
            ("list pods of another namespace", code(&elsewhere.list(&all).await), 403),
            ("list pods of all namespaces", code(&everywhere.list(&all).await), 403),
        ];
        for (attempt, answer, expected) in answers {
            ensure!(answer == expected, "{attempt}: {answer}, not {expected}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn nobody_may_do_anything() -> anyhow::Result<()> {
    in_namespace("nobody_may_do_anything", async |ns| {
        let all = ListParams::default();
        let nobody: Api<Pod> = Api::namespaced(ns.cluster().as_nobody()?, ns.name());
        let somebody: Api<Pod> = Api::namespaced(ns.cluster().as_bearer("made-up")?, ns.name());
        for (who, pods) in [("nobody", nobody), ("a token that was made up", somebody)] {
            let answer = code(&pods.list(&all).await);
            ensure!(answer == 401, "{who}: {answer}");
        }
        Ok(())
    })
    .await
}

/// The API server's authorizer learns of a new Role by a watch of its own, which cannot be waited for from here.
async fn allowed_to_list_pods(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let started = Instant::now();
    loop {
        match pods.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 403 && started.elapsed() < SOON => {
                sleep(std::time::Duration::from_millis(50)).await;
            }
            answer => return Ok(answer.map(|_| ())?),
        }
    }
}
