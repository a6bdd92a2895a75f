//! FAKES: the kinds that the API server knows, and what it does differently for each.

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a column of one table")]
pub struct Kind {
    /// Its group; empty for the core one.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its name in paths.
    pub plural: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether its status is written apart.
    pub status: bool,
    /// Whether an update may leave out the version that it was made from.
    pub unconditional: bool,
    /// Whether changes other than to metadata and status are numbered.
    pub generation: bool,
}

const CORE: Kind = Kind {
    group: "",
    version: "v1",
    plural: "",
    name: "",
    namespaced: true,
    status: false,
    unconditional: true,
    generation: false,
};

const CUSTOM: Kind = Kind {
    group: api::GROUP,
    version: api::VERSION,
    status: true,
    unconditional: false,
    generation: true,
    ..CORE
};

/// Pods.
pub const PODS: Kind = Kind { plural: "pods", name: "Pod", status: true, ..CORE };
/// Services.
pub const SERVICES: Kind = Kind { plural: "services", name: "Service", status: true, ..CORE };
/// Clusters.
pub const CLUSTERS: Kind = Kind { plural: "etcdclusters", name: "EtcdCluster", ..CUSTOM };
/// Leases.
pub const LEASES: Kind =
    Kind { group: "coordination.k8s.io", plural: "leases", name: "Lease", unconditional: false, ..CORE };
/// Events.
pub const EVENTS: Kind = Kind { plural: "events", name: "Event", ..CORE };

/// Every kind.
pub const ALL: &[Kind] = &[
    PODS,
    SERVICES,
    EVENTS,
    LEASES,
    CLUSTERS,
    Kind { plural: "etcdbackups", name: "EtcdBackup", ..CUSTOM },
    Kind { plural: "etcdrestores", name: "EtcdRestore", ..CUSTOM },
    Kind { plural: "configmaps", name: "ConfigMap", ..CORE },
    Kind { plural: "persistentvolumeclaims", name: "PersistentVolumeClaim", status: true, ..CORE },
    Kind {
        group: "policy",
        plural: "poddisruptionbudgets",
        name: "PodDisruptionBudget",
        status: true,
        unconditional: false,
        generation: true,
        ..CORE
    },
    Kind {
        group: "apiextensions.k8s.io",
        plural: "customresourcedefinitions",
        name: "CustomResourceDefinition",
        namespaced: false,
        status: true,
        unconditional: false,
        generation: true,
        ..CORE
    },
];

impl Kind {
    /// The kind of this name in paths.
    #[must_use]
    pub fn of(group: &str, version: &str, plural: &str) -> Option<Self> {
        ALL.iter().copied().find(|kind| (kind.group, kind.version, kind.plural) == (group, version, plural))
    }

    /// The kind of this name in owner references.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|kind| kind.name == name)
    }

    /// Group and version, as objects name them.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether it is one of ours, stored by the schema of its CRD.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.group == api::GROUP
    }
}
