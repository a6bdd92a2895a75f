//! Beside the loop: which files are generated, and what is in them.

use anyhow::Result;

use super::{install, protection, roles, yaml};
use crate::{image, proof};

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
        Generated {
            path: "deploy/deletion-protection.yaml",
            content: yaml::documents(&[
                serde_json::to_value(protection::policy())?,
                serde_json::to_value(protection::binding())?,
            ])?,
        },
        Generated { path: "deploy/install.yaml", content: install::everything()? },
        Generated { path: "deploy/Dockerfile", content: image::dockerfile() },
        Generated { path: "example/etcd-operator-sa.yaml", content: yaml::documents(&[install::account()])? },
        Generated { path: "example/etcd-operator-role.yaml", content: yaml::documents(&[install::role()])? },
        Generated {
            path: "example/etcd-operator-rolebinding.yaml",
            content: yaml::documents(&[install::role_binding()])?,
        },
        Generated {
            path: "example/etcd-operator-deployment.yaml",
            content: yaml::documents(&[install::deployment()])?,
        },
        Generated {
            path: "example/deployment.yaml",
            content: yaml::documents(&[install::plain_deployment()])?,
        },
        Generated { path: "docs/proof.md", content: proof::page()? },
        Generated { path: "example/rbac/create_role.sh", content: install::create_role_script()? },
    ])
}
