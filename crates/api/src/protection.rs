//! What users write: `spec.deletionProtection`, as the API server enforces it. No rule of a CRD is asked when an object is deleted, so a policy
//! is; `xtask` writes it into `deploy/`. The operator has no part in it: a webhook of its own could be down.

/// The policy's name, and its binding's.
pub const POLICY: &str = "etcd-operator-deletion-protection";

/// Whether a cluster may be deleted, in CEL. An object that was stored before the schema existed may have no spec.
pub const ALLOWED: &str =
    "!(has(oldObject.spec) && has(oldObject.spec.deletionProtection) && oldObject.spec.deletionProtection)";

/// What to say where it may not.
pub const REFUSAL: &str = "spec.deletionProtection is true, so this EtcdCluster is not deleted: set it to false first, if its data may go";
