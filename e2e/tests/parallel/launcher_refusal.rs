//! A launcher that will not start etcd says why in the pod, and the condition repeats it; a corrected spec heals it.
//!
//! It needs the testbed's own registry: no published image has a wrong etcd.

use anyhow::ensure;
use e2e::{etcd_cluster, operator, running};
use testbed::{control_plane::Layout, image::Image, instance::Instance, kit::in_namespace, push::push};

use crate::truth::said;

#[tokio::test]
async fn an_image_without_etcd_is_refused_by_the_launcher_and_corrected_by_the_spec() -> anyhow::Result<()> {
    let image =
        Image::named("quay.io/coreos/hollow:v3.6.14").text("This is no program.", "/usr/local/bin/etcd");
    push(&image.build()?, &Layout::of(Instance::chosen()?).registry()).await?;
    in_namespace("launcher_refusal", async |ns| {
        operator(&ns).await?;
        let spec = etcd_cluster("c", 1, "3.6.14");
        ns.apply(&spec.replace("{size: 1", "{repository: quay.io/coreos/hollow, size: 1")).await?;
        let seen = said(&ns, "c", "LauncherRefused").await?;
        ensure!(seen.message.contains("the launcher in pod c-"), "{seen:?}");
        ensure!(seen.message.contains("does not run in this image"), "{seen:?}");
        ns.apply(&spec).await?;
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}
