//! Before the loop: what a person can ask of the operator. Names and forms are the classic operator's where it had them.

use std::{net::SocketAddr, path::PathBuf};

use api::scope::Scope;
use clap::{ArgAction, Parser, ValueEnum};

/// Creates etcd clusters that are declared as `EtcdCluster` resources, and looks after them.
#[derive(Clone, Debug, Parser)]
#[command(name = "etcd-operator", version)]
pub struct Flags {
    /// Create and update the CRDs at the start. With --create-crd=false nothing is asked or written about CRDs: kinds that are
    /// missing are waited for
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub create_crd: bool,

    /// Look after all namespaces, and there only after resources with the annotation etcd.database.coreos.com/scope: clusterwide.
    /// Without it, only after resources without that annotation in the operator's own namespace
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub cluster_wide: bool,

    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub listen_addr: SocketAddr,

    /// The image with the launcher in it, for the members' init containers. Not needed in a pod: there it is the pod's own image
    #[arg(long)]
    pub launcher_image: Option<String>,

    /// A kubeconfig, for running outside of a cluster. Default: the one of the environment, or the pod's own service account
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,

    /// How logs are written. auto: as text to a terminal, as JSON otherwise
    #[arg(long, value_enum, default_value = "auto", env = "LOG_FORMAT")]
    pub log_format: LogFormat,

    /// The operator's namespace: what it looks after, and where its Lease is. Default: the kubeconfig's
    #[arg(long = "pod-namespace", env = "MY_POD_NAMESPACE", hide = true)]
    pub namespace: Option<String>,

    /// The operator pod's name: what Events are signed with
    #[arg(long = "pod-name", env = "MY_POD_NAME", hide = true)]
    pub pod_name: Option<String>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// As text to a terminal, as JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

impl Flags {
    /// Which resources this operator looks after.
    #[must_use]
    pub fn scope(&self) -> Scope {
        if self.cluster_wide { Scope::ClusterWide } else { Scope::Namespaced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Flags, clap::Error> {
        Flags::try_parse_from(["etcd-operator"].iter().chain(arguments))
    }

    #[test]
    fn the_classic_forms_of_the_flags_are_accepted() {
        let table: [(&[&str], bool, bool); 5] = [
            (&[], true, false),
            (&["--create-crd=false"], false, false),
            (&["--create-crd"], true, false),
            (&["--cluster-wide"], true, true),
            (&["--cluster-wide=true", "--create-crd=false"], false, true),
        ];
        for (arguments, create_crd, cluster_wide) in table {
            let flags = parse(arguments).unwrap();
            assert_eq!((flags.create_crd, flags.cluster_wide), (create_crd, cluster_wide), "{arguments:?}");
        }
    }

    #[test]
    fn the_default_address_is_the_classic_one() {
        assert_eq!(parse(&[]).unwrap().listen_addr.to_string(), "0.0.0.0:8080");
    }

    #[test]
    fn a_flag_that_is_none_is_refused() {
        for bad in ["--create-crd=maybe", "--chaos-level=1", "create-crd"] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
