//! Which Kubernetes this is, asked once, and said to whoever asks the operator.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use operator::{health::Health, kubernetes};
use serde_json::json;
use tokio::time::timeout;

use crate::fake::{Asked, failure, server};

#[tokio::test(start_paused = true)]
async fn a_kubernetes_that_is_too_old_is_reported_and_worked_with() {
    for (minor, reported) in [("29", true), ("30", false)] {
        let times = Arc::new(AtomicU32::new(0));
        let asked_before = Arc::clone(&times);
        let (client, _) = server(move |asked: &Asked| match asked.path.as_str() {
            "/version" if asked_before.fetch_add(1, Ordering::SeqCst) < 2 => {
                failure(503, "ServiceUnavailable", "later")
            }
            "/version" => (
                200,
                json!({"major": "1", "minor": minor, "gitVersion": "v1", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            ),
            _ => failure(404, "NotFound", "no such path"),
        });
        let health = Arc::new(Health::default());
        let check = kubernetes::check(client, Arc::clone(&health));
        assert!(timeout(Duration::from_mins(5), check).await.is_ok(), "it ends with the first answer");
        let (_, text) = health.ready();
        assert_eq!(text.contains("older than 1.30"), reported, "1.{minor}: {text}");
        assert_eq!(times.load(Ordering::SeqCst), 3);
    }
}
