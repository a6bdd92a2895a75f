//! Every rule of the API, on the real API server: what it takes, what it refuses, and in which words.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, ensure};
use e2e::{crds, repository};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use testbed::kit::{TestNamespace, in_namespace};

/// One file of `crates/api/tests/fixtures`.
struct Fixture {
    file: PathBuf,
    path: String,
    message: String,
    objects: Vec<DynamicObject>,
}

fn fixtures(folder: &str) -> anyhow::Result<Vec<Fixture>> {
    let folder = repository().join("crates/api/tests/fixtures").join(folder);
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let file = entry?.path();
        let text = fs::read_to_string(&file)?;
        let header = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(&format!("# {key}:")));
            found.unwrap_or_default().trim().to_owned()
        };
        let objects = text
            .split("\n---\n")
            .map(|document| serde_saphyr::from_str(document).with_context(|| file.display().to_string()))
            .collect::<Result<_, _>>()?;
        all.push(Fixture { path: header("path"), message: header("message"), objects, file });
    }
    ensure!(!all.is_empty(), "{} is empty", folder.display());
    Ok(all)
}

fn api(ns: &TestNamespace, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("an object without a kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    Ok(Api::namespaced_with(ns.client(), ns.name(), &ApiResource::from_gvk(&kind)))
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

fn refused<T>(answer: Result<T, kube::Error>, fixture: &Fixture) -> anyhow::Result<()> {
    let file = fixture.file.display();
    let refusal = answer.err().with_context(|| format!("{file} was taken"))?.to_string();
    ensure!(refusal.contains(&fixture.path) && refusal.contains(&fixture.message), "{file}: {refusal}");
    Ok(())
}

#[tokio::test]
async fn the_api_server_takes_every_good_object_and_refuses_every_bad_one() -> anyhow::Result<()> {
    in_namespace("rules_on_the_server", async |ns| {
        crds(ns.cluster()).await?;
        let mut seen = 0;
        for fixture in fixtures("good")?.iter().chain(&fixtures("bad-in-code")?) {
            for object in &fixture.objects {
                let answer = api(&ns, object)?.create(&dry_run(), object).await;
                answer.with_context(|| format!("{} was refused", fixture.file.display()))?;
                seen += 1;
            }
        }
        for fixture in fixtures("bad")? {
            for object in &fixture.objects {
                refused(api(&ns, object)?.create(&dry_run(), object).await, &fixture)?;
                seen += 1;
            }
        }
        println!("{seen} objects");
        Ok(())
    })
    .await
}

/// Makes an object with the first status, and tries to give it the second.
async fn update(ns: &TestNamespace, fixture: &Fixture) -> anyhow::Result<Result<DynamicObject, kube::Error>> {
    let [before, after] = fixture.objects.as_slice() else {
        anyhow::bail!("{} has not two documents", fixture.file.display());
    };
    let api = api(ns, before)?;
    let mut object = api.create(&PostParams::default(), before).await?;
    let name = object.name_any();
    object.data = before.data.clone();
    let mut object = api.replace_status(&name, &PostParams::default(), &object).await?;
    object.data = after.data.clone();
    let answer = api.replace_status(&name, &PostParams::default(), &object).await;
    ns.remove::<api::EtcdCluster>(&name).await?;
    Ok(answer)
}

#[tokio::test]
async fn the_record_of_birth_goes_only_forward() -> anyhow::Result<()> {
    in_namespace("birth_goes_forward", async |ns| {
        crds(ns.cluster()).await?;
        for fixture in fixtures("good-update")? {
            update(&ns, &fixture)
                .await?
                .with_context(|| format!("{} was refused", fixture.file.display()))?;
        }
        for fixture in fixtures("bad-update")? {
            refused(update(&ns, &fixture).await?, &fixture)?;
        }
        Ok(())
    })
    .await
}
