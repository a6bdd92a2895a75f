//! A node: its own containerd, kubelet, kube-proxy and volume provisioner, on a machine of its own.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    control_plane::{Binaries, Layout, write_json},
    host, images,
    machine::Program,
};

/// Where CNI plugins are found: Debian's folder, and the one that everybody else uses.
const CNI_PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// A node by its number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(pub u8);

impl Node {
    /// Its name in Kubernetes.
    #[must_use]
    pub fn name(self) -> String {
        format!("node{}", self.0)
    }

    /// The zone that its label names.
    #[must_use]
    pub fn zone(self) -> String {
        format!("zone{}", self.0)
    }

    /// The cgroup of its pods, relative to each hierarchy's root.
    #[must_use]
    pub fn cgroup(self, layout: &Layout) -> String {
        format!("{}/{}", layout.instance.cgroup(), self.name())
    }
}

/// Writes the configuration files that the node's programs read.
pub fn write_configuration(layout: &Layout, node: Node) -> io::Result<()> {
    let dir = layout.machine(&node.name());
    fs::create_dir_all(dir.join("cni"))?;
    fs::create_dir_all(dir.join("registries/_default"))?;
    fs::create_dir_all(dir.join("tmp"))?;
    fs::write(dir.join("containerd.toml"), containerd_configuration(&dir))?;
    fs::write(dir.join("registries/_default/hosts.toml"), mirror(&layout.registry()))?;
    write_json(&dir.join("cni/10-bridge.conflist"), &pod_network(layout, node))?;
    write_json(&dir.join("kubelet.json"), &kubelet_configuration(layout, node))?;
    // Nobody listens there: a name that the cluster's DNS does not know is not asked of anybody else.
    fs::write(dir.join("resolv.conf"), "nameserver 127.0.0.1\n")
}

fn containerd_configuration(dir: &Path) -> String {
    let plugins = CNI_PLUGINS
        .iter()
        .find(|folder| Path::new(folder).join("bridge").exists())
        .unwrap_or(&"/opt/cni/bin");
    // restrict_oom_score_adj: root may lack CAP_SYS_RESOURCE, and then no sandbox starts without it.
    format!(
        r#"version = 2
root = "{dir}/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{dir}/cni"

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{dir}/registries"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#,
        dir = dir.display(),
        pause = images::pause_name(),
    )
}

/// Every registry is this one. `server` names it too, or a missing image would be asked of the real host next.
fn mirror(registry: &str) -> String {
    format!(
        "server = \"http://{registry}\"\n\n[host.\"http://{registry}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
    )
}

fn pod_network(layout: &Layout, node: Node) -> serde_json::Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": layout.instance.network().pods_of(node.0).to_string()}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn kubelet_configuration(layout: &Layout, node: Node) -> serde_json::Value {
    let (dir, pki, network) = (layout.machine(&node.name()), layout.pki(), layout.instance.network());
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network.node(node.0).to_string(),
        "healthzPort": 0,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true, "cacheTTL": "10s"},
            "x509": {"clientCAFile": pki.join("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": pki.join(format!("{}-serving.crt", node.name())),
        "tlsPrivateKeyFile": pki.join(format!("{}-serving.key", node.name())),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", node.cgroup(layout)),
        // Kubernetes 1.35 refuses cgroup v1 unless told otherwise; on v2 this changes nothing.
        "failCgroupV1": false,
        "failSwapOn": false,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": dir.join("resolv.conf"),
        "clusterDomain": "cluster.local",
        "clusterDNS": [network.dns_service().to_string()],
        // The nodes share one disk and one memory: what one of them uses must not make the others evict pods.
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 12,
        // Tests kill containers on purpose, and would wait minutes for the next start.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "serializeImagePulls": false,
        "registryPullQPS": 0,
        "maxPods": 250,
    })
}

/// The container runtime. The proxy is a closed port: whatever the mirror does not catch fails here, on this machine.
#[must_use]
pub fn containerd(layout: &Layout, node: Node) -> Program {
    let dir = layout.machine(&node.name());
    let closed = "http://127.0.0.1:1";
    Program::new(
        "containerd",
        &host::find("containerd").unwrap_or_else(|| PathBuf::from("/usr/bin/containerd")),
        ["--config".to_owned(), dir.join("containerd.toml").display().to_string()],
    )
    .env("HTTP_PROXY", closed)
    .env("HTTPS_PROXY", closed)
    .env("NO_PROXY", layout.instance.network().control().to_string())
    .env("TMPDIR", dir.join("tmp").display().to_string())
}

/// The kubelet.
#[must_use]
pub fn kubelet(layout: &Layout, binaries: &Binaries, node: Node) -> Program {
    let dir = layout.machine(&node.name());
    Program::new(
        "kubelet",
        &binaries.kubernetes.join("kubelet"),
        [
            format!("--config={}", dir.join("kubelet.json").display()),
            format!("--kubeconfig={}", layout.kubeconfig(&node.name()).display()),
            format!("--hostname-override={}", node.name()),
            format!("--node-ip={}", layout.instance.network().node(node.0)),
            format!("--node-labels=topology.kubernetes.io/zone={}", node.zone()),
            // Without it, statistics of containers are missing and a lowered memory limit is never applied.
            "--containerd=/run/containerd/containerd.sock".to_owned(),
        ],
    )
    .env("TMPDIR", dir.join("tmp").display().to_string())
}

/// kube-proxy, which makes Service addresses work on this node.
#[must_use]
pub fn proxy(layout: &Layout, binaries: &Binaries, node: Node) -> Program {
    Program::new(
        "kube-proxy",
        &binaries.kubernetes.join("kube-proxy"),
        [
            format!("--kubeconfig={}", layout.kubeconfig("proxy").display()),
            format!("--hostname-override={}", node.name()),
            "--proxy-mode=iptables".to_owned(),
            format!("--cluster-cidr={}", layout.instance.network().pods()),
            // The table of connections belongs to the whole machine; its size is not ours to set.
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-tcp-timeout-established=0s".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0s".to_owned(),
            "--metrics-bind-address=127.0.0.1:10249".to_owned(),
        ],
    )
}

/// The provisioner of this node's volumes.
#[must_use]
pub fn provisioner(layout: &Layout, binaries: &Binaries, node: Node) -> Program {
    Program::new(
        "provisioner",
        &binaries.testbed,
        [
            "machine".to_owned(),
            "provision".to_owned(),
            node.name(),
            layout.kubeconfig(&format!("{}-provisioner", node.name())).display().to_string(),
            layout.machine(&node.name()).join("volumes").display().to_string(),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Instance;

    #[test]
    fn every_registry_is_asked_of_ours_and_of_nobody_else() {
        let text = mirror("10.0.0.1:5000");
        assert_eq!(text.matches("http://10.0.0.1:5000").count(), 2, "{text}");
        assert!(!text.contains("push"), "{text}");
    }

    #[test]
    fn a_kubelet_takes_nobody_without_a_certificate() {
        let config = kubelet_configuration(&Layout::of(Instance::Main), Node(2));
        assert_eq!(config["authentication"]["anonymous"]["enabled"], false);
        assert_eq!(config["authorization"]["mode"], "Webhook");
        assert_eq!(config["readOnlyPort"], 0);
    }
}
