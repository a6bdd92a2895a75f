//! No packet of the cluster can leave this machine: there is no way out of it.

use std::net::Ipv4Addr;

use anyhow::{Context, ensure};
use testbed::{cluster, control_plane::Layout, instance::Instance, kit::in_namespace};

use crate::CLIENT_IMAGE;

/// An address that is nobody's (it is kept for documentation). It is looked up in routing tables and never sent to.
const OUTSIDE: &str = "192.0.2.1";

#[tokio::test]
async fn no_machine_of_the_cluster_has_a_route_to_anywhere_else() -> anyhow::Result<()> {
    let layout = Layout::of(Instance::Main);
    let machines = cluster::machines(Instance::Main);
    ensure!(machines.len() == 4, "the testbed's own cluster is needed");
    for machine in machines {
        let name = machine.name();
        let found = machine.run(&["ip", "route", "get", OUTSIDE]);
        let refusal = found.err().with_context(|| format!("{name} knows a way to {OUTSIDE}"))?;
        ensure!(refusal.to_string().contains("unreachable"), "{refusal}");
        if let Some(number) = name.strip_prefix("node") {
            // The same for what a pod of the node would send.
            let pods = layout.instance.network().pods_of(number.parse()?);
            let pod = Ipv4Addr::from_bits(pods.base.to_bits() + 250).to_string();
            let found = machine.run(&["ip", "route", "get", OUTSIDE, "from", &pod, "iif", "cni0"]);
            ensure!(found.is_err(), "{name} would forward what {pod} sends to {OUTSIDE}");
        }
        // The lookup itself works: what is on this machine is found.
        machine.run(&["ip", "route", "get", &layout.instance.network().host().to_string()])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_name_outside_the_cluster_is_asked_of_nobody_else() -> anyhow::Result<()> {
    in_namespace("a_name_outside_the_cluster_is_asked_of_nobody_else", async |ns| {
        ns.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: inside}}, spec: {{terminationGracePeriodSeconds: 0, \
             containers: [{{name: inside, image: {CLIENT_IMAGE}, command: [/bin/sh, -c, 'sleep 3600']}}]}}}}"
        ))
        .await?;
        ns.pod_ready("inside").await?;
        let name = ns.exec("inside", &["getent", "hosts", "registry.example"]).await?;
        ensure!(name.code == 2, "{name}");
        Ok(())
    })
    .await
}
