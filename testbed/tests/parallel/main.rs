//! What the ground is good for: each test in a namespace of its own, all of them at once if need be.
//!
//! They need a cluster: `make cluster-up`, or the kubeconfig of one in `TESTBED_KUBECONFIG`.

mod audit_log;
mod broken_watches;
mod etcd_by_hand;
mod faults_memory;
mod faults_network;
mod faults_process;
mod faults_volume;
mod images;
mod inside_a_pod;
mod kit_itself;
mod names;
mod no_way_out;
mod node_disks;
mod pod_security;
mod rbac;
mod seeds_client;

use std::time::Duration;

use testbed::kit::{Exec, Output, TestNamespace};

/// Long enough for a busy machine, short enough to be waited for.
const SOON: Duration = Duration::from_mins(1);

/// A shell, a few tools, etcd and etcdctl of today.
const CLIENT_IMAGE: &str = testbed::images::CLIENT;

/// Runs etcdctl in a pod, and with patience: a name may take a moment to be known, and etcdctl would give up after 5 s.
async fn etcdctl(ns: &TestNamespace, pod: &str, endpoints: &str, args: &[&str]) -> anyhow::Result<Output> {
    let patience = ["--dial-timeout=60s", "--command-timeout=60s"];
    let command: Vec<_> = ["etcdctl", "--endpoints", endpoints]
        .into_iter()
        .chain(patience)
        .chain(args.iter().copied())
        .collect();
    let how = Exec { deadline: 2 * SOON, ..Exec::default() };
    Ok(ns.exec_with(pod, &command, how).await?)
}

/// The API server's answer in one number; 200 if it agreed.
fn code<T>(answer: &Result<T, kube::Error>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

/// A pod that runs a shell script and is then done, on best behaviour: no root, no privileges.
fn script_pod(name: &str, script: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    fsGroup: 1000
    seccompProfile: {{type: RuntimeDefault}}
  containers:
  - name: shell
    image: {CLIENT_IMAGE}
    command: [/bin/sh, -ec, {script:?}]
    securityContext:
      allowPrivilegeEscalation: false
      capabilities: {{drop: [ALL]}}
"
    )
}
