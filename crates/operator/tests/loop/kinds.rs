//! A kind that is missing, comes, and goes again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::scope::Scope;
use etcd_admin::Connect;
use operator::{
    busy::Busy,
    clock::Clock,
    health::Health,
    kinds::NOT_YET,
    memory::Memories,
    metrics::Metrics,
    observe::Observer,
    report::Reporter,
    round::Context,
    watch::{self, Where},
};
use planner::{MemberUser, OperatorIdentity};
use serde_json::json;
use tokio::time::sleep;

use crate::fake::{self, Asked, failure, open_gate, server};

fn context(client: &kube::Client) -> Arc<Context> {
    let (gate, leadership) = open_gate();
    let metrics = Arc::new(Metrics::new());
    Arc::new(Context {
        client: client.clone(),
        reporter: Reporter::new(client.clone(), gate.clone(), "op-1".to_owned()),
        gate,
        leadership,
        busy: Busy::default(),
        scope: Scope::Namespaced,
        operator: OperatorIdentity { launcher_image: "l:1".to_owned(), member_user: MemberUser::default() },
        memories: Memories::default(),
        observer: Observer::new(client.clone(), Arc::clone(&metrics), Connect::default(), Clock::default()),
        clock: Clock::default(),
        metrics,
    })
}

/// Waits until the health of the kind says this.
async fn until(health: &Health, words: &str) {
    for _ in 0..10_000 {
        if health.ready().1.contains(words) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(health.ready().1, words, "was not said");
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_waited_for_taken_up_and_waited_for_again_when_it_goes() {
    let served = Arc::new(AtomicBool::new(false));
    let there = Arc::clone(&served);
    let (client, log) = server(move |asked: &Asked| {
        let is_there = there.load(Ordering::SeqCst);
        let discovery = asked.path.ends_with("/v1beta2");
        match (is_there, discovery) {
            (false, _) => failure(404, "NotFound", "the server could not find the requested resource"),
            (true, true) => {
                let kind = json!({"name": "etcdbackups", "singularName": "", "namespaced": true, "kind": "EtcdBackup", "verbs": []});
                (200, json!({"kind": "APIResourceList", "groupVersion": "g/v", "resources": [kind]}))
            }
            (true, false) if asked.query.contains("watch=true") => (fake::NOT_YET, json!(null)),
            (true, false) => (
                200,
                json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackupList", "metadata": {"resourceVersion": "1"}, "items": []}),
            ),
        }
    });
    let [backup, _] = NOT_YET;
    let health = Arc::new(Health::default());
    let place = Where { client: client.clone(), scope: Scope::Namespaced, namespace: "n".to_owned() };
    let stop = watch::shared(std::future::pending());
    let task = tokio::spawn(watch::not_yet(place, backup, context(&client), Arc::clone(&health), stop));

    until(&health, "EtcdBackup: the CRD etcdbackups.etcd.database.coreos.com is missing").await;
    served.store(true, Ordering::SeqCst);
    until(&health, "EtcdBackup: watched").await;
    served.store(false, Ordering::SeqCst);
    until(&health, "is missing, and is waited for").await;
    served.store(true, Ordering::SeqCst);
    until(&health, "EtcdBackup: watched").await;
    let asked = log.lock().unwrap().clone();
    assert!(asked.iter().all(|asked| !asked.path.contains("customresourcedefinitions")), "{asked:?}");
    task.abort();
}
