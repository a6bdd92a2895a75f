//! S23: a machine with a member on it fails, under load. One that comes back in time with its disks has its member as before; of one
//! that comes back without them the member is replaced at once; and one that is away for too long has its leader replaced, and
//! what still runs there does no harm and goes when it comes back.

use anyhow::{Context as _, ensure};
use e2e::{
    LONG, SOON, Seen,
    client::{answered, load, verdict},
    etcd_cluster,
    members::{leader, let_lead, no_member_twice, one_cluster, replaced},
    operator, operator_pod,
    pods::{living, node_of, which},
    says_that,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use testbed::{
    faults::Ground,
    history::Running,
    kit::{TestCase, TestNamespace, check, wait_for},
    node::Node,
};

/// A cluster of three under load, and the node that will fail.
struct Scene {
    ns: TestNamespace,
    ground: Ground,
    load: Running,
    node: Node,
}

impl Scene {
    async fn set(ns: &TestNamespace, ground: &Ground) -> anyhow::Result<Self> {
        operator(ns).await?;
        let operator = ground.place_of(operator_pod(ns).await?)?;
        // Neither the operator's node, nor the one over which this machine reaches Services.
        let node = [Node(2), Node(3)].into_iter().find(|node| *node != operator.node).context("no node")?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        one_cluster(ns, "c").await?;
        let load = load(ns, "c").await?;
        Ok(Self { ns: ns.clone(), ground: ground.clone(), load, node })
    }

    /// The member on the node.
    async fn member(&self) -> anyhow::Result<Pod> {
        let here = |pod: &Pod| node_of(pod) == Some(&self.node.name());
        let mut here: Vec<_> = living(&self.ns, "c").await?.into_iter().filter(here).collect();
        ensure!(here.len() == 1, "{} members are on {:?}", here.len(), self.node);
        here.pop().context("no member")
    }

    /// The node is without power for a while, and not for too long.
    async fn comes_back_in_time(&self) -> anyhow::Result<()> {
        let before = which(&self.ns, "c").await?;
        let member = self.member().await?.name_any();
        let down = self.ground.power_cut(self.node)?;
        let waits = |seen: &Seen| seen.reason == "WaitingForMemberBack" && seen.message.contains(&member);
        says_that(&self.ns, "c", "Progressing", "to wait for the member on the lost node", waits).await?;
        answered(&self.load, 100).await?;
        down.heal().await?;
        one_cluster(&self.ns, "c").await?;
        ensure!(which(&self.ns, "c").await? == before, "its member is not the one from before");
        Ok(())
    }

    /// The node comes back at once, and without anything on its disks.
    async fn comes_back_without_disks(&self) -> anyhow::Result<()> {
        let member = self.member().await?.name_any();
        self.ground.lose(self.node)?.heal().await?;
        replaced(&self.ns, "c", &member).await?;
        answered(&self.load, 50).await?;
        one_cluster(&self.ns, "c").await?;
        Ok(())
    }

    /// The leader's node is cut off for too long, with everything on it alive.
    async fn is_away_for_too_long(&self) -> anyhow::Result<()> {
        let ns = &self.ns;
        let grace = r#"{"spec":{"memberReplacement":{"graceSeconds":30}}}"#;
        ns.kubectl(&["patch", "etcdcluster", "c", "--type=merge", "-p", grace]).await?.success()?;
        let led = self.member().await?;
        let name = led.name_any();
        let_lead(ns, "c", &led).await?;
        let process = self.ground.place_of(led)?.process("etcd")?;
        let cut = self.ground.unplug(self.node)?;
        leader(ns, "c", Some(&name)).await?;
        answered(&self.load, 100).await?;
        replaced(ns, "c", &name).await?;
        ensure!(process.is_alive(), "it does not run any more: that it does no harm is not seen");
        answered(&self.load, 50).await?;
        cut.heal().await?;
        wait_for(&ns.api::<Pod>(), &name, SOON, "to be gone", check::gone).await?;
        ensure!(process.wait_gone(SOON), "a member that was removed still runs");
        one_cluster(ns, "c").await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_lost_node_costs_its_member_only_if_its_data_is_gone_or_its_time_is_over() -> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    TestCase::of("node_lost")
        .deadline(LONG)
        .run(async |ns| {
            let mark = ns.cluster().audit_log()?.mark()?;
            let scene = Scene::set(&ns, &ground).await?;
            scene.comes_back_in_time().await?;
            scene.comes_back_without_disks().await?;
            scene.is_away_for_too_long().await?;
            verdict(scene.load).await?;
            no_member_twice(&ns, mark)
        })
        .await
}
