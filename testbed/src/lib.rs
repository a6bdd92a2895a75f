//! A real three-node Kubernetes with real etcd on one machine.
//!
//! | to read about | open |
//! | --- | --- |
//! | the whole: start, remove, look at | [`cluster`] |
//! | which testbed, its folders and addresses | [`instance`] |
//! | what this machine must have | [`host`] |
//! | a machine: namespaces around processes | [`machine`], [`network`], [`cgroup`] |
//! | what runs on the machines | [`control_plane`], [`node`], [`pki`], [`addons`], [`provisioner`] |
//! | what is built, once | [`cache`], [`recipe`] |
//! | images from files | [`image`], [`images`] |
//! | what tests stand on | [`kit`] |
//! | load on an etcd cluster, and whether it kept its promises | [`history`] |
//! | what tests break | [`faults`] |

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the testbed runs Kubernetes nodes in Linux namespaces and needs Linux; elsewhere, use a cluster that you have by \
     naming its kubeconfig in TESTBED_KUBECONFIG"
);

pub mod addons;
pub mod cache;
pub mod cgroup;
pub mod cluster;
pub mod control_plane;
pub mod faults;
pub mod history;
pub mod host;
pub mod image;
pub mod images;
pub mod instance;
pub mod kit;
pub mod machine;
pub mod network;
pub mod node;
pub mod pki;
pub mod progress;
pub mod provisioner;
pub mod push;
pub mod recipe;
