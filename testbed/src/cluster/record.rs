//! Who started the cluster on this machine, and whether it really runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{control_plane::Layout, machine::Machine, node::Node};

/// How many nodes a cluster has.
pub const NODES: u8 = 3;

/// The machine of the control plane.
pub(super) const CONTROL: &str = "control";

/// Written when a cluster is being started, and again when it is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// Whose cluster it is.
    pub(super) checkout: PathBuf,
    pub(super) since: Timestamp,
    /// Where its Kubernetes is, kubectl among it.
    pub(super) kubernetes: PathBuf,
    /// Everything came up. Without it, whoever was starting it did not get there.
    pub(super) complete: bool,
}

impl Record {
    fn path(layout: &Layout) -> PathBuf {
        layout.machine("cluster.json")
    }

    pub(super) fn read(layout: &Layout) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::path(layout)).ok()?).ok()
    }

    pub(super) fn write(&self, layout: &Layout) -> io::Result<()> {
        let (path, new) = (Self::path(layout), layout.machine("cluster.json.new"));
        fs::create_dir_all(layout.machine(""))?;
        fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        fs::rename(new, path)
    }
}

/// What is on this machine.
pub(super) enum Found {
    /// No trace.
    Nothing,
    /// A cluster that was never finished, or whose control plane does not run any more: nobody can be using it.
    Remains {
        /// Why it is not a cluster, in words.
        why: String,
    },
    /// A cluster, some of whose nodes may be down (a test may have killed them on purpose).
    Running {
        /// Whose it is.
        record: Record,
        /// The nodes that do not run.
        dead: Vec<String>,
    },
}

/// Looks at what is on this machine. Nobody may be starting or removing a cluster meanwhile.
pub(super) fn look(layout: &Layout) -> Found {
    if !layout.instance.dir().exists() {
        return Found::Nothing;
    }
    let remains = |why: &str| Found::Remains { why: why.to_owned() };
    let Some(record) = Record::read(layout) else { return remains("it was hardly begun") };
    if !record.complete {
        return remains("it was never finished");
    }
    let mut dead = machine_names();
    dead.retain(|name| !machine(layout, name).is_some_and(|machine| machine.is_alive()));
    if dead.iter().any(|name| name == CONTROL) {
        return remains("it does not run any more");
    }
    Found::Running { record, dead }
}

/// Whether somebody else could still want the cluster: another checkout, that is still there.
pub(super) fn belongs_to_another(record: &Record, checkout: &Path) -> bool {
    record.checkout != checkout && record.checkout.exists()
}

pub(super) fn machine_names() -> Vec<String> {
    let nodes = (1..=NODES).map(|number| Node(number).name());
    std::iter::once(CONTROL.to_owned()).chain(nodes).collect()
}

pub(super) fn machine(layout: &Layout, name: &str) -> Option<Machine> {
    Machine::find(name, &layout.machine(name))
}
