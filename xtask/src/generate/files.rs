//! Beside the loop: which files are generated, and what is in them.

use anyhow::Result;

use super::{roles, yaml};

/// A file that follows from the types.
pub(crate) struct Generated {
    /// Where it is, from the root of the repository.
    pub(crate) path: &'static str,
    /// All of it.
    pub(crate) content: String,
}

/// Every generated file.
pub(crate) fn all() -> Result<Vec<Generated>> {
    Ok(vec![
        // The book installs the one kind that it uses, from a file of this name.
        Generated {
            path: "example/etcd-operator-crd.yaml",
            content: yaml::documents(&[api::crd::cluster()])?,
        },
        Generated { path: "deploy/crds.yaml", content: yaml::documents(&api::crd::all())? },
        Generated { path: "deploy/user-roles.yaml", content: yaml::documents(&roles::for_users())? },
    ])
}
