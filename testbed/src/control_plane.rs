//! The control machine: etcd, the API server, its controllers, the scheduler and the registry.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    instance::Instance,
    machine::Program,
    pki::{Authority, PkiError, Subject, write_kubeconfig},
};

/// The port of the API server on the control machine.
const API_PORT: u16 = 6443;
/// The port of the registry on the control machine.
const REGISTRY_PORT: u16 = 5000;

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The six of Kubernetes.
    pub kubernetes: PathBuf,
    /// etcd for the API server.
    pub etcd: PathBuf,
    /// The registry.
    pub registry: PathBuf,
    /// The testbed's own, as it was when the cluster was started.
    pub testbed: PathBuf,
}

/// The files of one cluster.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Which cluster.
    pub instance: Instance,
    dir: PathBuf,
}

impl Layout {
    /// The files of an instance.
    #[must_use]
    pub fn of(instance: Instance) -> Self {
        Self { instance, dir: instance.dir() }
    }

    /// The folder of one machine.
    #[must_use]
    pub fn machine(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Certificates and keys.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }

    /// Who talks to the API server, each with a certificate of its own.
    #[must_use]
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join(format!("{user}.kubeconfig"))
    }

    /// What was asked of the API server by whom, one JSON object a line.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.machine("control").join("audit.log")
    }

    /// Where the API server answers.
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("https://{}:{API_PORT}", self.instance.network().control())
    }

    /// Where the registry answers, over plain HTTP.
    #[must_use]
    pub fn registry(&self) -> String {
        format!("{}:{REGISTRY_PORT}", self.instance.network().control())
    }
}

/// The group whose members are the API server, when it asks a kubelet.
pub(crate) const KUBELET_CLIENTS: &str = "testbed:kubelet-clients";
/// The group whose members provision volumes.
pub(crate) const PROVISIONERS: &str = "testbed:provisioners";

/// Makes the authority, and a certificate and kubeconfig for everyone who needs one.
pub fn write_credentials(layout: &Layout, nodes: u8) -> Result<(), PkiError> {
    let (pki, network) = (layout.pki(), layout.instance.network());
    let authority = Authority::create(&pki)?;
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    authority.key_pair("service-accounts")?;
    authority.server("etcd", Subject::user("etcd"), &["localhost"], &[loopback])?;
    authority.client("apiserver-etcd", Subject::user("kube-apiserver"))?;
    authority.client("apiserver-kubelet", Subject::member_of("kube-apiserver", KUBELET_CLIENTS))?;
    authority.server(
        "apiserver",
        Subject::user("kube-apiserver"),
        &[
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ],
        &[loopback, network.control().into(), network.api_service().into()],
    )?;
    let mut users = vec![
        ("admin".to_owned(), "testbed-admin".to_owned(), Some("system:masters")),
        ("controller-manager".to_owned(), "system:kube-controller-manager".to_owned(), None),
        ("scheduler".to_owned(), "system:kube-scheduler".to_owned(), None),
        ("proxy".to_owned(), "system:kube-proxy".to_owned(), None),
    ];
    for number in 1..=nodes {
        let node = format!("node{number}");
        let user = format!("system:node:{node}");
        authority.server(
            &format!("{node}-serving"),
            Subject::member_of(&user, "system:nodes"),
            &[&node],
            &[network.node(number).into()],
        )?;
        users.push((
            format!("{node}-provisioner"),
            format!("testbed:provisioner:{node}"),
            Some(PROVISIONERS),
        ));
        users.push((node, user, Some("system:nodes")));
    }
    for (name, common_name, organization) in users {
        authority.client(&name, Subject { common_name: &common_name, organization })?;
        write_kubeconfig(&layout.kubeconfig(&name), &layout.api_url(), &pki, &name)?;
    }
    Ok(())
}

/// Writes the configuration files that the programs of the control machine read.
pub fn write_configuration(layout: &Layout) -> io::Result<()> {
    let dir = layout.machine("control");
    fs::create_dir_all(&dir)?;
    write_json(&dir.join("audit-policy.json"), &audit_policy())?;
    write_json(
        &dir.join("registry.json"),
        &json!({
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": dir.join("registry")}, "delete": {"enabled": true}},
            "http": {"addr": layout.registry()},
        }),
    )
}

/// Everything that a person, a test or a workload asks is logged; what the cluster's own parts ask all the time is not.
fn audit_policy() -> serde_json::Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system", PROVISIONERS]},
            {"level": "None", "users": [
                "system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy",
            ]},
            {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/openapi/*"]},
            {"level": "Metadata"},
        ],
    })
}

pub(crate) fn write_json(path: &Path, value: &serde_json::Value) -> io::Result<()> {
    fs::write(path, format!("{value:#}\n"))
}

/// etcd, which keeps what the API server is told.
#[must_use]
pub fn etcd(layout: &Layout, binaries: &Binaries) -> Program {
    let pki = layout.pki();
    let file = |name: &str| pki.join(name).display().to_string();
    Program::new(
        "etcd",
        &binaries.etcd.join("etcd"),
        [
            format!("--data-dir={}", layout.machine("control").join("etcd").display()),
            "--listen-client-urls=https://127.0.0.1:2379".to_owned(),
            "--advertise-client-urls=https://127.0.0.1:2379".to_owned(),
            "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
            format!("--cert-file={}", file("etcd.crt")),
            format!("--key-file={}", file("etcd.key")),
            "--client-cert-auth".to_owned(),
            format!("--trusted-ca-file={}", file("ca.crt")),
            // The testbed does not outlive a power cut of this machine, so its disks need not be waited for.
            "--unsafe-no-fsync".to_owned(),
            "--logger=zap".to_owned(),
            "--log-level=warn".to_owned(),
        ],
    )
}

/// The API server: certificates for everyone, Node and RBAC authorizers, no anonymous requests, everything audited.
#[must_use]
pub fn api_server(layout: &Layout, binaries: &Binaries) -> Program {
    let (pki, network, dir) = (layout.pki(), layout.instance.network(), layout.machine("control"));
    let file = |name: &str| pki.join(name).display().to_string();
    Program::new(
        "kube-apiserver",
        &binaries.kubernetes.join("kube-apiserver"),
        [
            "--etcd-servers=https://127.0.0.1:2379".to_owned(),
            format!("--etcd-cafile={}", file("ca.crt")),
            format!("--etcd-certfile={}", file("apiserver-etcd.crt")),
            format!("--etcd-keyfile={}", file("apiserver-etcd.key")),
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={}", network.control()),
            format!("--secure-port={API_PORT}"),
            format!("--service-cluster-ip-range={}", network.services()),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            "--anonymous-auth=false".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            // Policies that change objects, which stand for the webhooks that many clusters have.
            "--feature-gates=MutatingAdmissionPolicy=true".to_owned(),
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true".to_owned(),
            format!("--kubelet-certificate-authority={}", file("ca.crt")),
            format!("--kubelet-client-certificate={}", file("apiserver-kubelet.crt")),
            format!("--kubelet-client-key={}", file("apiserver-kubelet.key")),
            // The API server cannot resolve the nodes' names.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("service-accounts.pub")),
            format!("--service-account-signing-key-file={}", file("service-accounts.key")),
            format!("--audit-policy-file={}", dir.join("audit-policy.json").display()),
            format!("--audit-log-path={}", layout.audit_log().display()),
            // A test reads the log right after the answer: it must be there by then.
            "--audit-log-mode=blocking".to_owned(),
            // In MiB: a log that is turned over in the middle of a test cannot be asked any more.
            "--audit-log-maxsize=4096".to_owned(),
            "--allow-privileged".to_owned(),
        ],
    )
}

/// The controllers of Kubernetes.
#[must_use]
pub fn controller_manager(layout: &Layout, binaries: &Binaries) -> Program {
    let pki = layout.pki();
    let file = |name: &str| pki.join(name).display().to_string();
    let config = layout.kubeconfig("controller-manager").display().to_string();
    Program::new(
        "kube-controller-manager",
        &binaries.kubernetes.join("kube-controller-manager"),
        [
            format!("--kubeconfig={config}"),
            format!("--authentication-kubeconfig={config}"),
            format!("--authorization-kubeconfig={config}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
            "--use-service-account-credentials=true".to_owned(),
            format!("--service-account-private-key-file={}", file("service-accounts.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            format!("--cluster-signing-cert-file={}", file("ca.crt")),
            format!("--cluster-signing-key-file={}", file("ca.key")),
            // A lost node is noticed in a third of the usual time; much less, and a busy machine loses nodes by itself.
            "--node-monitor-period=2s".to_owned(),
            "--node-monitor-grace-period=16s".to_owned(),
        ],
    )
}

/// The scheduler.
#[must_use]
pub fn scheduler(layout: &Layout, binaries: &Binaries) -> Program {
    let config = layout.kubeconfig("scheduler").display().to_string();
    Program::new(
        "kube-scheduler",
        &binaries.kubernetes.join("kube-scheduler"),
        [
            format!("--kubeconfig={config}"),
            format!("--authentication-kubeconfig={config}"),
            format!("--authorization-kubeconfig={config}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
        ],
    )
}

/// The registry that stands for all others.
#[must_use]
pub fn registry(layout: &Layout, binaries: &Binaries) -> Program {
    let config = layout.machine("control").join("registry.json");
    Program::new(
        "registry",
        &binaries.registry.join("registry"),
        ["serve".to_owned(), config.display().to_string()],
    )
    // It would try to send traces to a collector that is not there.
    .env("OTEL_TRACES_EXPORTER", "none")
}
