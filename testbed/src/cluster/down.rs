//! Removing a cluster: end its machines, and take away what the kernel does not take away with them.

use std::{fs, io, path::Path, thread, time::Duration};

use super::{
    ClusterError, lock,
    record::{Found, belongs_to_another, look, machine, machine_names},
};
use crate::{cgroup, control_plane::Layout, instance::Instance, network};

pub(super) fn down(instance: Instance, checkout: &Path) -> Result<(), ClusterError> {
    crate::host::check_root()?;
    let _lock = lock(instance)?;
    let layout = Layout::of(instance);
    match look(&layout) {
        Found::Running { record, .. } if belongs_to_another(&record, checkout) => {
            Err(ClusterError::Foreign { owner: record.checkout })
        }
        _ => remove(&layout),
    }
}

/// Removes whatever is there. The caller holds the lock and has made sure that nobody wants it.
pub(super) fn remove(layout: &Layout) -> Result<(), ClusterError> {
    // Nodes before the control plane, so that nothing in it has time to act on their loss.
    for name in machine_names().iter().rev() {
        if let Some(machine) = machine(layout, name) {
            machine.power_off()?;
        }
    }
    network::disconnect_host(layout.instance)?;
    cgroup::remove(&layout.instance.cgroup())?;
    let dir = layout.instance.dir();
    let failed = |source| ClusterError::File { path: dir.clone(), source };
    // The kernel lets go of the machines' mounts a moment after their last process; a file may be busy until then.
    for _ in 0..100 {
        match fs::remove_dir_all(&dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    fs::remove_dir_all(&dir).map_err(failed)
}
