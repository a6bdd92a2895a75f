//! The table of what etcd answers, against real processes of the oldest minor with learners and of the newest two.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test's functions may panic too"
)]

use etcd_admin::Member;
use fakes::truth::etcd::{Lab, check};
use loopback::Cluster;

struct Real(Cluster);

impl Lab for Real {
    async fn start(&mut self, index: usize) {
        self.0.run(index, if index == 0 { "new" } else { "existing" });
        // The first one begins alone; the next one has an address from then on.
        if self.0.members.len() == 1 {
            self.0.push();
        }
    }

    async fn stop(&mut self, index: usize) {
        self.0.members[index].kill();
    }

    fn handle(&self, index: usize) -> Member {
        self.0.members[index].handle()
    }

    fn peer_url(&self, index: usize) -> String {
        // Who is only added, and never started, listens nowhere.
        let known = self.0.members.get(index).map(|member| member.peer_url.clone());
        known.unwrap_or_else(|| format!("http://{}:{}", loopback::own_address(), 1 + index))
    }
}

async fn on(version: &str) {
    let mut lab = Real(Cluster::prepare(version, 1, "http", &[]));
    let steps = check(&mut lab).await.unwrap_or_else(|why| panic!("etcd {version}: {why}"));
    assert!(steps > 25, "{steps}");
}

#[tokio::test]
async fn etcd_3_4_answers_step_by_step() {
    on("3.4.23").await;
}

#[tokio::test]
async fn etcd_3_6_answers_step_by_step() {
    on("3.6.14").await;
}

#[tokio::test]
async fn etcd_3_7_answers_step_by_step() {
    on("3.7.1").await;
}
