//! Before the loop: what a person can ask of the operator. Names and forms are the classic operator's where it had them.

use std::{
    ffi::OsString,
    net::{AddrParseError, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use api::scope::Scope;
use clap::{ArgAction, Parser, ValueEnum};
use planner::MemberUser;

use crate::classic::{self, Pointless, truth};

/// Creates etcd clusters that are declared as `EtcdCluster` resources, and looks after them.
#[derive(Clone, Debug, Parser)]
#[command(name = "etcd-operator", version)]
pub struct Flags {
    /// Create and update the CRDs at the start. With --create-crd=false nothing is asked or written about CRDs: kinds that are
    /// missing are waited for
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_parser = truth)]
    pub create_crd: bool,

    /// Look after all namespaces, and there only after resources with the annotation etcd.database.coreos.com/scope: clusterwide.
    /// Without it, only after resources without that annotation in the operator's own namespace
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set, value_parser = truth)]
    pub cluster_wide: bool,

    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, default_value = "[::]:8080", value_parser = address)]
    pub listen_addr: SocketAddr,

    /// The user and group that members run as, where spec.pod.securityContext says nothing: a number, or none to leave them to a
    /// platform that gives each namespace users of its own and refuses all others
    #[arg(long, default_value_t = MemberUser::default(), value_name = "UID|none")]
    pub member_user: MemberUser,

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

    /// What has nothing to do here.
    #[command(flatten)]
    pub pointless: Pointless,
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

/// An address; as in Go, one without a host means every address of the machine.
fn address(text: &str) -> Result<SocketAddr, AddrParseError> {
    match text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        Some(port) => Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
        None => text.parse(),
    }
}

impl Flags {
    /// What a person asks for with these arguments, the first of which is the program's name. It ends the process if that is nothing.
    #[must_use]
    pub fn of(arguments: impl IntoIterator<Item = OsString>) -> Self {
        Self::parse_from(classic::with_two_dashes(arguments))
    }

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
        let arguments = ["etcd-operator"].iter().chain(arguments).map(OsString::from);
        Flags::try_parse_from(classic::with_two_dashes(arguments))
    }

    #[test]
    fn the_classic_forms_of_the_flags_are_accepted() {
        let table: [(&[&str], bool, bool); 9] = [
            (&[], true, false),
            (&["--create-crd=false"], false, false),
            (&["--create-crd"], true, false),
            (&["--cluster-wide"], true, true),
            (&["--cluster-wide=true", "--create-crd=false"], false, true),
            (&["-cluster-wide"], true, true),
            (&["-cluster-wide", "-create-crd=false"], false, true),
            (&["-create-crd=0", "-cluster-wide=T"], false, true),
            (&["-create-crd=FALSE", "-cluster-wide=f"], false, false),
        ];
        for (arguments, create_crd, cluster_wide) in table {
            let flags = parse(arguments).unwrap();
            assert_eq!((flags.create_crd, flags.cluster_wide), (create_crd, cluster_wide), "{arguments:?}");
            assert_eq!(flags.pointless.warnings(), Vec::<String>::new());
        }
    }

    #[test]
    fn flags_that_have_nothing_to_do_here_are_taken_with_a_warning() {
        for (arguments, name) in [
            (&["-gc-interval=10m"][..], "--gc-interval"),
            (&["-gc-interval", "10m"], "--gc-interval"),
            (&["--chaos-level=-1"], "--chaos-level"),
            (&["-chaos-level", "-1"], "--chaos-level"),
            (&["-analytics"], "--analytics"),
            (&["--analytics=false"], "--analytics"),
            (&["--pv-provisioner=none"], "--pv-provisioner"),
            (&["--backup-aws-secret", "aws"], "--backup-aws-secret"),
            (&["--backup-aws-config=aws"], "--backup-aws-config"),
            (&["-backup-s3-bucket=b"], "--backup-s3-bucket"),
        ] {
            let warnings = parse(arguments).unwrap().pointless.warnings();
            assert!(
                warnings.len() == 1 && warnings[0].starts_with(&format!("{name} does nothing")),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn addresses_are_taken_as_go_took_them_and_the_default_one_is_every_address() {
        let table = [
            (&[][..], "[::]:8080"),
            (&["-listen-addr=:9090"], "[::]:9090"),
            (&["-listen-addr", "0.0.0.0:9090"], "0.0.0.0:9090"),
            (&["--listen-addr=[::1]:9090"], "[::1]:9090"),
        ];
        for (arguments, expected) in table {
            assert_eq!(parse(arguments).unwrap().listen_addr.to_string(), expected);
        }
    }

    #[test]
    fn the_members_user_is_a_number_or_left_to_the_platform() {
        let table = [
            (&[][..], MemberUser::Fixed(9000)),
            (&["--member-user=1000"], MemberUser::Fixed(1000)),
            (&["--member-user=none"], MemberUser::Platform),
        ];
        for (arguments, expected) in table {
            assert_eq!(parse(arguments).unwrap().member_user, expected);
        }
    }

    #[test]
    fn a_flag_that_is_none_is_refused() {
        let bad = [
            "--create-crd=maybe",
            "--chaos=1",
            "-clusterwide",
            "create-crd",
            "--listen-addr=:x",
            "--member-user=0",
            "--member-user=root",
            "--member-user=-1",
        ];
        for bad in bad {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
