//! What is left of a test that failed: the objects, logs and Events of its namespace, in a folder.

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::{Discovery, Scope, verbs},
};
use serde_json::{Value, json};

use super::{KitError, TestNamespace, call};

/// All of it together; a test that failed because the API server hangs should still end.
const DEADLINE: Duration = Duration::from_secs(90);

/// Why nothing, or not all, could be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum EvidenceError {
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot write an object as YAML")]
    Yaml(#[source] serde_saphyr::SerializeError),
    #[error(transparent)]
    Call(#[from] KitError),
}

/// Where the folders of failed tests go: `TESTBED_FAILURES`, else below the workspace's `target`.
pub(super) fn folder() -> PathBuf {
    let here = env::current_dir().unwrap_or_default();
    let start = env::var_os("CARGO_MANIFEST_DIR").map_or(here, PathBuf::from);
    folder_from(env::var_os("TESTBED_FAILURES"), &start)
}

fn folder_from(named: Option<OsString>, start: &Path) -> PathBuf {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return named.into();
    }
    // Only the workspace's root has the lock file; a package inside of it has none.
    let root = start.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap_or(start);
    root.join("target/test-failures")
}

/// Writes all that can be known about a namespace. What cannot be read is noted in `incomplete.txt`, and is no
/// reason to stop.
pub(super) async fn write(
    ns: &TestNamespace,
    folder: &Path,
    failure: &anyhow::Error,
) -> Result<(), EvidenceError> {
    write_file(&folder.join("failure.txt"), &format!("{failure:?}\n"))?;
    let mut missing = Vec::new();
    let collecting = async {
        note(&mut missing, write_events(ns, folder).await);
        let logs = write_logs(ns, folder, &mut missing).await;
        note(&mut missing, logs);
        let objects = write_objects(ns, folder, &mut missing).await;
        note(&mut missing, objects);
    };
    if tokio::time::timeout(DEADLINE, collecting).await.is_err() {
        missing.push(format!("not done within {DEADLINE:?}"));
    }
    if missing.is_empty() {
        Ok(())
    } else {
        write_file(&folder.join("incomplete.txt"), &(missing.join("\n") + "\n"))
    }
}

fn note(missing: &mut Vec<String>, result: Result<(), EvidenceError>) {
    if let Err(error) = result {
        missing.push(format!("{:#}", anyhow::Error::from(error)));
    }
}

async fn write_events(ns: &TestNamespace, folder: &Path) -> Result<(), EvidenceError> {
    let events: Api<Event> = ns.api();
    let list = call("list the Events", events.list(&ListParams::default())).await?;
    let mut lines: Vec<_> = list.items.iter().map(event_line).collect();
    lines.sort();
    write_file(&folder.join("events.txt"), &(lines.join("\n") + "\n"))
}

/// Begins with its time, so that lines sort by it.
fn event_line(event: &Event) -> String {
    let series = event.series.as_ref();
    let at = series
        .and_then(|series| series.last_observed_time.as_ref().map(|time| time.0))
        .or(event.last_timestamp.as_ref().map(|time| time.0))
        .or(event.event_time.as_ref().map(|time| time.0))
        .map_or("without time".into(), |time| format!("{time:.6}"));
    let count = series.and_then(|series| series.count).or(event.count).unwrap_or(1);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let about = &event.involved_object;
    let message = text(&event.message).replace('\n', "\n    ");
    let (type_, reason) = (text(&event.type_), text(&event.reason));
    format!("{at} {type_} {reason} {}/{}: {message} (x{count})", text(&about.kind), text(&about.name))
}

async fn write_logs(
    ns: &TestNamespace,
    folder: &Path,
    missing: &mut Vec<String>,
) -> Result<(), EvidenceError> {
    let pods: Api<Pod> = ns.api();
    for pod in call("list the pods", pods.list(&ListParams::default())).await? {
        let name = pod.name_any();
        for (container, restarted) in containers(&pod) {
            let file = folder.join("logs").join(format!("{name}.{container}"));
            match ns.logs(&name, Some(&container)).await {
                Ok(text) => write_file(&file.with_added_extension("log"), &text)?,
                Err(error) => note(missing, Err(error.into())),
            }
            if restarted {
                match ns.previous_logs(&name, Some(&container)).await {
                    Ok(text) => write_file(&file.with_added_extension("previous.log"), &text)?,
                    Err(error) => note(missing, Err(error.into())),
                }
            }
        }
    }
    Ok(())
}

/// The containers that can have logged something, and whether they have run before.
fn containers(pod: &Pod) -> Vec<(String, bool)> {
    let status = pod.status.clone().unwrap_or_default();
    [status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses]
        .into_iter()
        .flatten()
        .flatten()
        .map(|container| (container.name, container.restart_count > 0))
        .collect()
}

async fn write_objects(
    ns: &TestNamespace,
    folder: &Path,
    missing: &mut Vec<String>,
) -> Result<(), EvidenceError> {
    let discovery = call("find out about all kinds", Discovery::new(ns.client()).run_aggregated()).await?;
    for group in discovery.groups_alphabetical() {
        // The same Events again as in the core group.
        if group.name() == "events.k8s.io" {
            continue;
        }
        for (resource, capabilities) in group.recommended_resources() {
            if capabilities.scope == Scope::Namespaced && capabilities.supports_operation(verbs::LIST) {
                let written = write_kind(ns, folder, &resource).await;
                note(missing, written);
            }
        }
    }
    Ok(())
}

async fn write_kind(ns: &TestNamespace, folder: &Path, resource: &ApiResource) -> Result<(), EvidenceError> {
    let api: Api<DynamicObject> = Api::namespaced_with(ns.client(), ns.name(), resource);
    let list = call(&format!("list the {}", resource.plural), api.list(&ListParams::default())).await?;
    if list.items.is_empty() {
        return Ok(());
    }
    let objects: Vec<_> = list.items.into_iter().map(|object| presentable(object, resource)).collect();
    let yaml = serde_saphyr::to_string_multiple(&objects).map_err(EvidenceError::Yaml)?;
    let dot = if resource.group.is_empty() { "" } else { "." };
    let file = format!("{}{dot}{}.yaml", resource.plural, resource.group);
    write_file(&folder.join("objects").join(file), &yaml)
}

/// Without what only machines read, and without what is secret: folders of failed tests get around.
fn presentable(mut object: DynamicObject, resource: &ApiResource) -> Value {
    object.metadata.managed_fields = None;
    if resource.kind == "Secret"
        && let Some(Value::Object(data)) = object.data.get_mut("data")
    {
        for value in data.values_mut() {
            *value = json!(format!("<{} characters>", value.as_str().unwrap_or_default().len()));
        }
    }
    let mut value =
        json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": object.metadata });
    if let (Value::Object(value), Value::Object(data)) = (&mut value, object.data) {
        value.extend(data);
    }
    value
}

fn write_file(path: &Path, text: &str) -> Result<(), EvidenceError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|source| EvidenceError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_one_that_is_named() {
        assert_eq!(folder_from(Some("f".into()), Path::new("x")), Path::new("f"));
    }

    #[test]
    fn without_a_name_the_folder_is_below_the_workspace_root() {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("testbed");
        fs::create_dir(&package).unwrap();
        assert_eq!(folder_from(None, &package), package.join("target/test-failures"));
        fs::write(root.path().join("Cargo.lock"), "").unwrap();
        assert_eq!(folder_from(Some("".into()), &package), root.path().join("target/test-failures"));
    }

    #[test]
    fn an_event_is_one_line_that_sorts_by_time() {
        let event: Event = serde_json::from_value(json!({
            "metadata": {}, "involvedObject": { "kind": "Pod", "name": "a" }, "type": "Warning", "reason": "Failed",
            "message": "no\nimage", "count": 3, "lastTimestamp": "2026-11-15T12:00:00Z",
        }))
        .unwrap();
        assert_eq!(
            event_line(&event),
            "2026-11-15T12:00:00.000000Z Warning Failed Pod/a: no\n    image (x3)"
        );
    }

    #[test]
    fn a_secret_shows_its_keys_and_keeps_its_values() {
        let secret: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "s", "managedFields": [{ "manager": "x" }] }, "data": { "password": "aHVudGVyMg==" },
        }))
        .unwrap();
        let gvk = kube::core::GroupVersionKind::gvk("", "v1", "Secret");
        let shown = presentable(secret, &ApiResource::from_gvk(&gvk));
        assert_eq!(shown["data"]["password"], "<12 characters>");
        assert_eq!(shown["metadata"], json!({ "name": "s" }));
        assert_eq!(shown["kind"], "Secret");
    }
}
