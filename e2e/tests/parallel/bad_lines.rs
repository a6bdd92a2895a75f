//! F60: a member whose line loses a third of what it sends and hears and is slow with the rest, and one whose line comes and goes.
//! Clients are served by the others meanwhile, and nobody is replaced for it.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    LONG,
    client::{answered, loaded, verdict},
    etcd_cluster,
    members::{identities, leader, one_cluster},
};
use k8s_openapi::api::core::v1::Event;
use kube::{ResourceExt as _, api::ListParams};
use testbed::{
    faults::{
        Ground,
        network::{Line, Peer, Way},
    },
    kit::TestCase,
};
use tokio::time::sleep;

/// Long enough for what is judged by a single moment to be judged many times.
const BAD: Duration = Duration::from_secs(20);
/// How often, and for how long each time, a line is away.
const FLAPS: (u32, Duration) = (5, Duration::from_secs(2));

#[tokio::test]
async fn a_member_with_a_bad_line_is_kept_and_the_others_serve() -> anyhow::Result<()> {
    TestCase::of("bad_line")
        .deadline(LONG)
        .run(async |ns| {
            let load = loaded(&ns, &etcd_cluster("c", 3, "3.6.14")).await?;
            let (ground, members) = (Ground::here()?, identities(&ns, "c").await?);
            let leads = leader(&ns, "c", None).await?.pod.name_any();
            let follows = members.keys().find(|name| **name != leads).context("nobody follows")?;
            for pod in [&leads, follows] {
                let place = ground.place(ns.name(), pod).await?;
                let line = place.worsen(Line { lost: 30, kilobits: 200 })?;
                sleep(BAD).await;
                answered(&load, 50).await?;
                line.heal().await?;
            }
            let place = ground.place(ns.name(), follows).await?;
            for _ in 0..FLAPS.0 {
                let cut = place.cut(Way::In, Peer::OtherMachines)?;
                sleep(FLAPS.1).await;
                cut.heal().await?;
                sleep(FLAPS.1).await;
            }
            one_cluster(&ns, "c").await?;
            ensure!(identities(&ns, "c").await? == members, "somebody was replaced");
            let events = ns.api::<Event>().list(&ListParams::default()).await?;
            let removed = events.iter().filter(|event| event.reason.as_deref() == Some("Member Removed"));
            ensure!(removed.count() == 0, "somebody was removed");
            verdict(load).await?;
            Ok(())
        })
        .await
}
