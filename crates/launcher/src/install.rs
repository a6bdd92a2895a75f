//! BEFORE ETCD: the init container's part, bringing this program into the pod.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Why the program could not be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// It does not know its own file.
    #[error("finding this program's own file")]
    Own(#[source] io::Error),
    /// The copy failed.
    #[error("copying this program to {}", path.display())]
    Copy {
        /// Where to.
        path: PathBuf,
        /// How it failed.
        #[source]
        source: io::Error,
    },
}

/// Copies this program to a path, so that it is there whole or not at all: an init container may run again.
pub(crate) fn install(destination: &Path) -> Result<(), InstallError> {
    let own = std::env::current_exe().map_err(InstallError::Own)?;
    let unfinished = destination.with_extension("unfinished");
    let copied = || {
        fs::copy(&own, &unfinished)?;
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o755))?;
        fs::rename(&unfinished, destination)
    };
    copied().map_err(|source| InstallError::Copy { path: destination.to_owned(), source })
}
