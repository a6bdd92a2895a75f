//! `make deploy` and `make undeploy`: our image in the testbed's registry, and the install manifest applied.

use anyhow::Context as _;
use testbed::{
    cluster::forget_image,
    control_plane::Layout,
    instance::Instance,
    kit::{Cluster, Places, operator},
    push::push,
};

use crate::image;

/// The one file that installs everything.
const INSTALL: &str = "deploy/install.yaml";

/// Builds, pushes and applies, and waits until the operator runs.
pub(crate) async fn deploy() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    push_image().await?;
    let manifest = image::repository()?.join(INSTALL);
    // Who followed a tutorial here made some of this with `kubectl create`, and that stays its owner until somebody takes it over.
    let arguments = ["apply", "--server-side", "--force-conflicts", "-f", &manifest.to_string_lossy()];
    println!("{}", cluster.kubectl(&arguments).await?.success()?);
    // The same tag may name another image than a moment ago, and the nodes have forgotten that one.
    println!("{}", cluster.kubectl(&["rollout", "restart", "deployment/etcd-operator"]).await?.success()?);
    Ok(operator::available_in(&cluster, "default").await?)
}

/// Takes away what `deploy` applied.
pub(crate) async fn undeploy() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    let manifest = image::repository()?.join(INSTALL);
    let arguments = ["delete", "--ignore-not-found", "-f", &manifest.to_string_lossy()];
    println!("{}", cluster.kubectl(&arguments).await?.success()?);
    Ok(())
}

/// Puts our image into the testbed's registry. A cluster that is named explicitly pulls it from where its name says.
pub(crate) async fn push_image() -> anyhow::Result<()> {
    if Places::named().is_some() {
        println!("TESTBED_KUBECONFIG names a cluster: it must be able to pull {} by itself", image::NAME);
        return Ok(());
    }
    let built = tokio::task::spawn_blocking(image::build).await.context("the build was interrupted")??;
    let instance = Instance::chosen()?;
    let pushed = push(&built, &Layout::of(instance).registry()).await?;
    println!("{} is in the testbed's registry ({})", image::NAME, pushed.digest);
    let forgotten = tokio::task::spawn_blocking(move || forget_image(instance, image::NAME)).await;
    Ok(forgotten.context("the nodes were interrupted")??)
}
