//! FAKES: what an API server answers, row by row. Against the fake in a unit test, against the real one in the end-to-end tests.

use std::{collections::BTreeMap, time::Duration};

use http::Request;
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

/// How long something may take that happens by itself.
const PATIENCE: Duration = Duration::from_mins(2);
/// A UID that nothing has.
const NOBODY: &str = "00000000-0000-4000-8000-0123456789ab";

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

/// What was answered so far, by the name under which it was kept.
pub type Seen = BTreeMap<&'static str, Value>;

/// One operation.
struct Row {
    what: &'static str,
    method: &'static str,
    /// Below the namespace's own path.
    path: &'static str,
    content: &'static str,
    body: fn(&Seen) -> Value,
    code: u16,
    reason: &'static str,
    /// The name under which the answer is kept.
    keep: &'static str,
    holds: fn(&Seen, &Value) -> bool,
    /// Whether it may take a while until it is so.
    eventually: bool,
}

const ROW: Row = Row {
    what: "",
    method: "GET",
    path: "",
    content: JSON,
    body: |_| Value::Null,
    code: 200,
    reason: "",
    keep: "",
    holds: |_, _| true,
    eventually: false,
};

fn version<'a>(seen: &'a Seen, kept: &str) -> &'a Value {
    &seen[kept]["metadata"]["resourceVersion"]
}

fn uid<'a>(seen: &'a Seen, kept: &str) -> &'a Value {
    &seen[kept]["metadata"]["uid"]
}

fn lease(holder: &str, metadata: &Value) -> Value {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {"holderIdentity": holder},
    });
    lease["metadata"]["name"] = json!("l");
    lease
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/NS/leases";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/NS/leases/l";

const OF_LEASES: &[Row] = &[
    Row {
        what: "a creation",
        method: "POST",
        path: LEASES,
        body: |_| lease("a", &json!({})),
        code: 201,
        keep: "first",
        holds: |_, now| now["metadata"]["uid"].is_string() && now["metadata"]["resourceVersion"].is_string(),
        ..ROW
    },
    Row {
        what: "a second creation",
        method: "POST",
        path: LEASES,
        body: |_| lease("b", &json!({})),
        code: 409,
        reason: "AlreadyExists",
        ..ROW
    },
    Row {
        what: "an update from the version that is there",
        method: "PUT",
        path: LEASE,
        body: |seen| lease("b", &json!({"resourceVersion": version(seen, "first")})),
        keep: "second",
        holds: |seen, now| {
            uid(seen, "first") == &now["metadata"]["uid"]
                && version(seen, "first") != &now["metadata"]["resourceVersion"]
        },
        ..ROW
    },
    Row {
        what: "the loser of a race: an update from the version before",
        method: "PUT",
        path: LEASE,
        body: |seen| lease("c", &json!({"resourceVersion": version(seen, "first")})),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "an update without a version",
        method: "PUT",
        path: LEASE,
        body: |_| lease("c", &json!({})),
        code: 422,
        reason: "Invalid",
        ..ROW
    },
    Row {
        what: "an update of another object of this name",
        method: "PUT",
        path: LEASE,
        body: |seen| lease("c", &json!({"resourceVersion": version(seen, "second"), "uid": NOBODY})),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "an update that changes nothing makes no version",
        method: "PUT",
        path: LEASE,
        body: |seen| seen["second"].clone(),
        holds: |seen, now| version(seen, "second") == &now["metadata"]["resourceVersion"],
        ..ROW
    },
    Row {
        what: "a deletion of another object of this name",
        method: "DELETE",
        path: LEASE,
        body: |_| json!({"preconditions": {"uid": NOBODY}}),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "a deletion",
        method: "DELETE",
        path: LEASE,
        body: |seen| json!({"preconditions": {"uid": uid(seen, "first")}}),
        ..ROW
    },
    Row { what: "a second deletion", method: "DELETE", path: LEASE, code: 404, reason: "NotFound", ..ROW },
    Row {
        what: "an update of what is gone",
        method: "PUT",
        path: LEASE,
        body: |seen| seen["second"].clone(),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "an update of what is gone, whichever it was, makes a Lease",
        method: "PUT",
        path: LEASE,
        body: |seen| lease("d", &json!({"resourceVersion": version(seen, "second")})),
        code: 201,
        holds: |seen, now| uid(seen, "first") != &now["metadata"]["uid"],
        ..ROW
    },
];

const PODS: &str = "/api/v1/namespaces/NS/pods";
const POD: &str = "/api/v1/namespaces/NS/pods/p";

fn annotate(metadata: &Value, value: &str) -> Value {
    let mut patch = json!({"metadata": metadata});
    patch["metadata"]["annotations"]["example.com/a"] = json!(value);
    patch
}

fn image(mut patch: Value, image: &str) -> Value {
    patch["spec"] = json!({"containers": [{"name": "c", "image": image}]});
    patch
}

const OF_PODS: &[Row] = &[
    Row {
        what: "a pod's status is not its author's to write",
        method: "POST",
        path: PODS,
        // Nobody schedules it, so nothing else happens to it.
        body: |_| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "truth"}},
            "spec": {"schedulerName": "nobody", "terminationGracePeriodSeconds": 30, "containers": [{"name": "c", "image": "i",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
                "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}},
            "status": {"phase": "Running"}})
        },
        code: 201,
        keep: "pod",
        holds: |_, now| now["status"]["phase"] == "Pending",
        ..ROW
    },
    Row {
        what: "a patch with UID and version",
        method: "PATCH",
        path: POD,
        content: MERGE,
        body: |seen| {
            annotate(&json!({"uid": uid(seen, "pod"), "resourceVersion": version(seen, "pod")}), "1")
        },
        keep: "patched",
        holds: |_, now| now["metadata"]["annotations"]["example.com/a"] == "1",
        ..ROW
    },
    Row {
        what: "a patch from an old version",
        method: "PATCH",
        path: POD,
        content: MERGE,
        body: |seen| {
            annotate(&json!({"uid": uid(seen, "pod"), "resourceVersion": version(seen, "pod")}), "2")
        },
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "a patch of another object of this name, by its version",
        method: "PATCH",
        path: POD,
        content: MERGE,
        body: |seen| annotate(&json!({"uid": NOBODY, "resourceVersion": version(seen, "pod")}), "2"),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "a patch of another object of this name, by its UID alone",
        method: "PATCH",
        path: POD,
        content: MERGE,
        body: |_| annotate(&json!({"uid": NOBODY}), "2"),
        code: 422,
        reason: "Invalid",
        ..ROW
    },
    Row {
        what: "a strategic patch changes the image of the container that it names, and nothing else of it",
        method: "PATCH",
        path: POD,
        content: STRATEGIC,
        body: |seen| {
            let metadata = json!({"uid": uid(seen, "pod"), "resourceVersion": version(seen, "patched")});
            image(annotate(&metadata, "2"), "j")
        },
        keep: "relaunched",
        holds: |_, now| {
            let containers = now["spec"]["containers"].as_array();
            containers.is_some_and(|all| all.len() == 1)
                && now["spec"]["containers"][0]["image"] == "j"
                && now["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] == false
                && now["metadata"]["annotations"]["example.com/a"] == "2"
        },
        ..ROW
    },
    Row {
        what: "a strategic patch that changes nothing makes no version",
        method: "PATCH",
        path: POD,
        content: STRATEGIC,
        body: |_| image(json!({}), "j"),
        holds: |seen, now| version(seen, "relaunched") == &now["metadata"]["resourceVersion"],
        ..ROW
    },
    Row {
        what: "a strategic patch from an old version",
        method: "PATCH",
        path: POD,
        content: STRATEGIC,
        body: |seen| {
            let metadata = json!({"uid": uid(seen, "pod"), "resourceVersion": version(seen, "patched")});
            image(json!({"metadata": metadata}), "k")
        },
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "a strategic patch of another object of this name, by its UID alone",
        method: "PATCH",
        path: POD,
        content: STRATEGIC,
        body: |_| image(json!({"metadata": {"uid": NOBODY}}), "k"),
        code: 422,
        reason: "Invalid",
        ..ROW
    },
    Row {
        what: "a pod's environment is what it was made with",
        method: "PATCH",
        path: POD,
        content: STRATEGIC,
        body: |_| json!({"spec": {"containers": [{"name": "c", "env": [{"name": "E", "value": "1"}]}]}}),
        code: 422,
        reason: "Invalid",
        ..ROW
    },
    Row {
        what: "a list by label has the pod, and a version",
        path: "/api/v1/namespaces/NS/pods?labelSelector=app%3Dtruth",
        holds: |_, now| {
            now["items"].as_array().is_some_and(|all| all.len() == 1)
                && now["metadata"]["resourceVersion"].is_string()
        },
        ..ROW
    },
    Row {
        what: "a deletion of another pod of this name",
        method: "DELETE",
        path: POD,
        body: |_| json!({"preconditions": {"uid": NOBODY}}),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "a pod that no node has is gone at once",
        method: "DELETE",
        path: POD,
        body: |seen| json!({"preconditions": {"uid": uid(seen, "pod")}}),
        ..ROW
    },
    Row { what: "it is gone", path: POD, code: 404, reason: "NotFound", ..ROW },
    Row {
        what: "a patch of what is gone",
        method: "PATCH",
        path: POD,
        content: MERGE,
        body: |_| annotate(&json!({}), "3"),
        code: 404,
        reason: "NotFound",
        ..ROW
    },
];

const SERVICES: &str = "/api/v1/namespaces/NS/services?fieldManager=etcd-operator";
const APPLIED: &str = "/api/v1/namespaces/NS/services/s?fieldManager=etcd-operator";
const FORCED: &str = "/api/v1/namespaces/NS/services/s?fieldManager=etcd-operator&force=true";

fn service(name: &str, metadata: &Value, selector: Option<Value>) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {"ports": [{"name": "client", "port": 2379, "protocol": "TCP", "targetPort": 2379}]}});
    service["metadata"]["name"] = json!(name);
    if let Some(selector) = selector {
        service["spec"]["selector"] = selector;
    }
    service
}

const OF_SERVICES: &[Row] = &[
    Row {
        what: "a Service without a selector",
        method: "POST",
        path: SERVICES,
        body: |_| service("s", &json!({}), None),
        code: 201,
        keep: "service",
        ..ROW
    },
    Row {
        what: "an apply by force with UID and version",
        method: "PATCH",
        path: FORCED,
        content: APPLY,
        body: |seen| {
            let metadata = json!({"uid": uid(seen, "service"), "resourceVersion": version(seen, "service")});
            service("s", &metadata, Some(json!({"a": "1"})))
        },
        keep: "applied",
        holds: |_, now| now["spec"]["selector"] == json!({"a": "1"}),
        ..ROW
    },
    Row {
        what: "an apply from an old version",
        method: "PATCH",
        path: FORCED,
        content: APPLY,
        body: |seen| {
            let metadata = json!({"uid": uid(seen, "service"), "resourceVersion": version(seen, "service")});
            service("s", &metadata, Some(json!({"a": "2"})))
        },
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "an apply to another object of this name",
        method: "PATCH",
        path: FORCED,
        content: APPLY,
        body: |_| service("s", &json!({"uid": NOBODY}), Some(json!({"a": "2"}))),
        code: 422,
        reason: "Invalid",
        ..ROW
    },
    Row {
        what: "somebody else's patch",
        method: "PATCH",
        path: "/api/v1/namespaces/NS/services/s?fieldManager=somebody",
        content: MERGE,
        body: |_| json!({"spec": {"selector": {"b": "1"}}}),
        holds: |_, now| now["spec"]["selector"] == json!({"a": "1", "b": "1"}),
        ..ROW
    },
    Row {
        what: "an apply over a foreign manager",
        method: "PATCH",
        path: APPLIED,
        content: APPLY,
        body: |_| service("s", &json!({}), Some(json!({"a": "3"}))),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "the same by force: a selector is taken or left as a whole",
        method: "PATCH",
        path: FORCED,
        content: APPLY,
        body: |_| service("s", &json!({}), Some(json!({"a": "3"}))),
        holds: |_, now| now["spec"]["selector"] == json!({"a": "3"}),
        keep: "forced",
        ..ROW
    },
    Row {
        what: "an apply that changes nothing makes no version",
        method: "PATCH",
        path: FORCED,
        content: APPLY,
        body: |_| service("s", &json!({}), Some(json!({"a": "3"}))),
        holds: |seen, now| version(seen, "forced") == &now["metadata"]["resourceVersion"],
        ..ROW
    },
    Row {
        what: "an apply to one that is gone, by its UID",
        method: "PATCH",
        path: "/api/v1/namespaces/NS/services/t?fieldManager=etcd-operator&force=true",
        content: APPLY,
        body: |seen| service("t", &json!({"uid": uid(seen, "service")}), None),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
];

const CLUSTERS: &str = "/apis/etcd.database.coreos.com/v1beta2/namespaces/NS/etcdclusters";
const CLUSTER: &str = "/apis/etcd.database.coreos.com/v1beta2/namespaces/NS/etcdclusters/c";
const STATUS: &str = "/apis/etcd.database.coreos.com/v1beta2/namespaces/NS/etcdclusters/c/status";
const DEPENDENT: &str = "/api/v1/namespaces/NS/configmaps/d";

fn with(seen: &Seen, kept: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut object = seen[kept].clone();
    change(&mut object);
    object
}

const OF_CLUSTERS: &[Row] = &[
    Row {
        what: "a resource is made without a status",
        method: "POST",
        path: CLUSTERS,
        body: |_| {
            json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster", "metadata": {"name": "c"},
            "spec": {"size": 3, "paused": true}, "status": {"phase": "Running"}})
        },
        code: 201,
        keep: "made",
        holds: |_, now| now["status"]["phase"].is_null() && now["metadata"]["generation"] == 1,
        ..ROW
    },
    Row {
        what: "an update of the status drops fields that the CRD does not know, and leaves the spec",
        method: "PUT",
        path: STATUS,
        body: |seen| {
            with(seen, "made", |now| {
                now["status"] = json!({"phase": "Creating", "unheardOf": 1});
                now["spec"]["size"] = json!(5);
            })
        },
        keep: "said",
        holds: |_, now| {
            now["status"]["phase"] == "Creating"
                && now["status"].get("unheardOf").is_none()
                && now["spec"]["size"] == 3
                && now["metadata"]["generation"] == 1
        },
        ..ROW
    },
    Row {
        what: "an update of the status from an old version",
        method: "PUT",
        path: STATUS,
        body: |seen| with(seen, "made", |now| now["status"] = json!({"phase": "Running"})),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "a patch of the status with UID and version",
        method: "PATCH",
        path: STATUS,
        content: MERGE,
        body: |seen| {
            let metadata = json!({"uid": uid(seen, "said"), "resourceVersion": version(seen, "said")});
            json!({"metadata": metadata, "status": {"reason": "r", "phase": null}})
        },
        keep: "patched status",
        holds: |_, now| now["status"]["reason"] == "r" && now["status"]["phase"].is_null(),
        ..ROW
    },
    Row {
        what: "a strategic patch of a custom resource",
        method: "PATCH",
        path: CLUSTER,
        content: STRATEGIC,
        body: |_| json!({"spec": {"size": 5}}),
        code: 415,
        reason: "UnsupportedMediaType",
        ..ROW
    },
    Row {
        what: "a patch of the status from an old version",
        method: "PATCH",
        path: STATUS,
        content: MERGE,
        body: |seen| json!({"metadata": {"resourceVersion": version(seen, "said")}, "status": {"reason": "s"}}),
        code: 409,
        reason: "Conflict",
        ..ROW
    },
    Row {
        what: "an update of the resource leaves its status, and numbers the change",
        method: "PUT",
        path: CLUSTER,
        body: |seen| {
            with(seen, "patched status", |now| {
                now["status"] = json!({"phase": "Failed"});
                now["spec"]["size"] = json!(5);
            })
        },
        holds: |_, now| {
            now["status"]["reason"] == "r" && now["spec"]["size"] == 5 && now["metadata"]["generation"] == 2
        },
        keep: "resized",
        ..ROW
    },
    Row {
        what: "a part that is none",
        method: "PUT",
        path: "/apis/etcd.database.coreos.com/v1beta2/namespaces/NS/etcdclusters/c/nothing",
        body: |seen| seen["resized"].clone(),
        code: 404,
        reason: "NotFound",
        ..ROW
    },
    Row {
        what: "something that belongs to it",
        method: "POST",
        path: "/api/v1/namespaces/NS/configmaps",
        body: |seen| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "ownerReferences": [{
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster", "name": "c", "controller": true,
            "uid": uid(seen, "made")}]}})
        },
        code: 201,
        ..ROW
    },
    Row { what: "the end of the owner", method: "DELETE", path: CLUSTER, ..ROW },
    Row {
        what: "what belonged to it is collected",
        path: DEPENDENT,
        code: 404,
        reason: "NotFound",
        eventually: true,
        ..ROW
    },
    Row {
        what: "a report on what is gone",
        method: "PATCH",
        path: STATUS,
        content: MERGE,
        body: |_| json!({"status": {}}),
        code: 404,
        reason: "NotFound",
        ..ROW
    },
];

/// Runs every row, in order, and says how many they were; or in which one the server tells another truth.
pub async fn check(client: &Client, namespace: &str) -> Result<usize, String> {
    let mut seen = Seen::new();
    let mut rows = 0;
    for row in [OF_LEASES, OF_PODS, OF_SERVICES, OF_CLUSTERS].into_iter().flatten() {
        run(client, namespace, row, &mut seen).await.map_err(|why| format!("{}: {why}", row.what))?;
        rows += 1;
    }
    watched(client, namespace, &seen).await?;
    Ok(rows + 1)
}

async fn run(client: &Client, namespace: &str, row: &Row, seen: &mut Seen) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let (code, answer) = send(client, namespace, row, seen).await?;
        let reason = answer["reason"].as_str().filter(|_| answer["kind"] == "Status").unwrap_or_default();
        let right = (code, reason) == (row.code, row.reason) && (row.holds)(seen, &answer);
        if right {
            if !row.keep.is_empty() {
                seen.insert(row.keep, answer);
            }
            return Ok(());
        }
        if !row.eventually || begun.elapsed() > PATIENCE {
            return Err(format!("expected {} {}, and got {code}: {answer}", row.code, row.reason));
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn send(client: &Client, namespace: &str, row: &Row, seen: &Seen) -> Result<(u16, Value), String> {
    let body = (row.body)(seen);
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder()
        .method(row.method)
        .uri(row.path.replace("NS", namespace))
        .header("Content-Type", row.content)
        .header("Accept", JSON)
        .body(Body::from(bytes))
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
}

/// A watch from an old version tells every change since, in order, each with its own version.
async fn watched(client: &Client, namespace: &str, seen: &Seen) -> Result<(), String> {
    let from = version(seen, "service").as_str().unwrap_or_default();
    let uri = format!(
        "/api/v1/namespaces/{namespace}/services?watch=true&resourceVersion={from}&timeoutSeconds=60&allowWatchBookmarks=true"
    );
    let request = Request::get(uri).body(Body::empty()).map_err(|error| error.to_string())?;
    let mut body = client.send(request).await.map_err(|error| error.to_string())?.into_body();
    let expected = [
        ("MODIFIED", json!({"a": "1"})),
        ("MODIFIED", json!({"a": "1", "b": "1"})),
        ("MODIFIED", json!({"a": "3"})),
    ];
    let mut text = String::new();
    let mut events: Vec<(String, Value)> = Vec::new();
    while events.len() < expected.len() {
        let frame = timeout(PATIENCE, body.frame()).await.map_err(|_| format!("only {events:?}"))?;
        let frame = frame.ok_or("the watch ended")?.map_err(|error| error.to_string())?;
        text.push_str(&String::from_utf8_lossy(frame.data_ref().map(AsRef::as_ref).unwrap_or_default()));
        while let Some((line, rest)) = text.split_once('\n') {
            let event: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            if event["type"] != "BOOKMARK" {
                let kind = event["type"].as_str().unwrap_or_default().to_owned();
                events.push((kind, event["object"]["spec"]["selector"].clone()));
            }
            text = rest.to_owned();
        }
    }
    let as_expected = events.iter().map(|(kind, selector)| (kind.as_str(), selector.clone()));
    if as_expected.eq(expected) {
        Ok(())
    } else {
        Err(format!("a watch from an old version told {events:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::ApiServer;

    #[tokio::test(start_paused = true)]
    async fn the_fake_answers_as_the_table_says() {
        let server = ApiServer::new(jiff::Timestamp::UNIX_EPOCH);
        tokio::spawn(server.background());
        let rows = check(&server.client("n"), "n").await.unwrap();
        assert!(rows > 46, "{rows}");
    }
}
