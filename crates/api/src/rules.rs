//! What users write: every rule, as the API server runs it (CEL) and as people read it. [`crate::validate`] holds the same rules
//! in code, for objects that were stored before the schema or past it, and answers in the same words.
//!
//! Two traps, both met on a real API server. A stored object that breaks a rule can still be written as long as the field at fault stays as it
//! is, but only where the rule says *false*: one that cannot be evaluated refuses every write, the operator's status included. So no rule
//! touches a field whose stored value may have an odd type. And a rule on the whole object is asked at every write; those on names
//! therefore count only while there is no status, which is when the object is created.
//!
//! Costs: the API server multiplies a rule's cost by the largest value the schema admits, so each string, list and map has a limit
//! (`crd.rs` gives one to those of Kubernetes' own types).

use kube::core::Rule;

/// One rule: what must hold, and what to tell the person whose object breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// The CEL expression; `self` is the field that the rule stands on. Empty where only code can judge.
    pub cel: &'static str,
    /// What is wrong and what to write instead.
    pub message: &'static str,
}

impl From<Check> for Rule {
    fn from(check: Check) -> Self {
        Self::new(check.cel).message(check.message)
    }
}

/// A rule that only [`crate::validate`] can judge.
const fn in_code(message: &'static str) -> Check {
    Check { cel: "", message }
}

/// On `spec.pod.resources`, as the three below. Go read a quantity from any number, so old objects have `cpu: 0.5`, for which neither the
/// schema nor CEL has a type: the schema takes what is there.
pub const RESOURCES_QUANTITIES: Check =
    in_code("resources must be quantities such as cpu: 500m and memory: 512Mi");
/// On `spec.pod.resources`.
pub const RESOURCES_NEGATIVE: Check = in_code("resources must not be negative");
/// On `spec.pod.resources`.
pub const RESOURCES_ORDER: Check = in_code("each request must be at most its limit: no pod could be made");
/// On `spec.pod.resources`.
pub const RESOURCES_MEMORY: Check =
    in_code("the memory limit must be at least 16Mi: etcd does not start with less (was a unit forgotten?)");

/// The rules that only code can judge, with their names.
pub const ONLY_IN_CODE: &[(&str, Check)] = &[
    ("RESOURCES_QUANTITIES", RESOURCES_QUANTITIES),
    ("RESOURCES_NEGATIVE", RESOURCES_NEGATIVE),
    ("RESOURCES_ORDER", RESOURCES_ORDER),
    ("RESOURCES_MEMORY", RESOURCES_MEMORY),
];

/// A rule's name in the code, its expression and its message.
macro_rules! checks {
    ($($(#[$doc:meta])* $name:ident: $cel:literal => $message:literal;)*) => {
        $($(#[$doc])* pub const $name: Check = Check { cel: $cel, message: $message };)*
        /// All rules that the API server runs, with their names, so that tests can ask for a good and a bad object of each.
        pub const ALL: &[(&str, Check)] = &[$((stringify!($name), $name)),*];
    };
}

checks! {
    /// On the whole `EtcdCluster`.
    CLUSTER_NAME_LENGTH: "has(self.status) || self.metadata.name.size() <= 52"
        => "metadata.name must have at most 52 characters: members are named <cluster>-<10 characters>, and a pod's name fits into 63";
    /// On the whole `EtcdCluster`.
    CLUSTER_NAME: "has(self.status) || self.metadata.name.matches(r'^[a-z][-a-z0-9]*$')"
        => "metadata.name must start with a letter and have only lower-case letters, digits and dashes: it becomes the name of a Service";
    /// On the whole `EtcdCluster`: what tells a cluster that was born from one that was not must outlive every edit.
    BIRTH_KEPT: "!has(oldSelf.status) || !has(oldSelf.status.birth) || (has(self.status) && has(self.status.birth))"
        => "status.birth must not be removed: without it the operator could start this cluster a second time, empty";

    /// On `spec.size`.
    SIZE: "self >= 1 && self <= 7"
        => "size must be a number of members from 1 to 7; to stop the operator from acting set spec.paused, to remove the cluster delete it";
    /// On `spec.repository`.
    REPOSITORY: "self == '' || self.matches(r'^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$') && !self.contains('..')"
        => "repository must be an image name without tag and digest, such as quay.io/coreos/etcd: the tag is made from spec.version";
    /// On `spec.version`.
    VERSION: "self == '' || self.matches(r'^v?(0|[1-9][0-9]{0,3})[.](0|[1-9][0-9]{0,3})[.](0|[1-9][0-9]{0,3})(-[0-9A-Za-z][0-9A-Za-z.-]{0,31})?$')"
        => "version must be a full etcd version such as 3.6.14, with or without a leading v";
    /// On `spec.bootstrap`.
    BOOTSTRAP: "self in ['Parallel', 'Seed']"
        => "bootstrap must be Parallel (all members at once) or Seed (one member, then the others join it)";

    /// On `spec.memberReplacement.graceSeconds`.
    GRACE_SECONDS: "self >= 30 && self <= 86400"
        => "graceSeconds must be from 30 to 86400: a member that restarts needs some time, and one that is gone for a day does not come back";

    /// On `spec.pod.labels`.
    LABELS_RESERVED: "self.all(k, k != 'app' && !k.startsWith('etcd_') && !k.contains('etcd.database.coreos.com/'))"
        => "pod labels contain a reserved label: app, etcd_… and etcd.database.coreos.com/… belong to the operator";
    /// On `spec.pod.labels`.
    LABELS_VALID: "self.all(k, k.matches(r'^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self[k].matches(r'^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$'))"
        => "pod labels need keys like team or example.com/team and values of at most 63 letters, digits, '-', '_' and '.'";
    /// On `spec.pod.annotations`. The launcher takes orders from annotations: nobody else may write those.
    ANNOTATIONS_RESERVED: "self.all(k, k != 'etcd.version' && !k.contains('etcd.database.coreos.com/'))"
        => "pod annotations contain a reserved annotation: etcd.version and etcd.database.coreos.com/… belong to the operator";
    /// On `spec.pod.annotations`.
    ANNOTATIONS_VALID: "self.all(k, k.matches(r'^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))"
        => "pod annotations need keys like team or example.com/team";
    /// On `spec.pod.annotations`. Kubernetes takes 256 KiB of them, which would be noticed when a pod is made, and some are ours.
    ANNOTATIONS_SIZE: "self.map(k, size(k) + size(self[k])).sum() <= 65536"
        => "pod annotations may have 65536 characters together";
    /// On `spec.pod.nodeSelector`.
    NODE_SELECTOR: "self.all(k, k.matches(r'^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self[k].matches(r'^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$'))"
        => "nodeSelector needs node labels: keys like disk or example.com/disk and values of at most 63 letters, digits, '-', '_' and '.'";
    /// On `spec.pod.priorityClassName`.
    PRIORITY_CLASS: "self == '' || self.matches(r'^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')"
        => "priorityClassName must be the name of a PriorityClass";
    /// On `spec.pod.imagePullPolicy`.
    PULL_POLICY: "self in ['', 'Always', 'IfNotPresent', 'Never']"
        => "imagePullPolicy must be IfNotPresent, Always or Never";
    /// On `spec.pod.etcdEnv`.
    ENV_NAMES: "self.all(e, e.name.matches(r'^[A-Za-z_][A-Za-z0-9_]*$'))"
        => "etcdEnv needs names of letters, digits and '_' that do not start with a digit";
    /// On `spec.pod.etcdEnv`. etcd reads every flag from the environment too: one variable would be enough to start it on other data, and
    /// one that repeats a flag of ours ends it. It also talks to its peers through any proxy that the environment names.
    ENV_RESERVED: "self.all(e, !e.name.matches(r'^(LD_.*|LAUNCH.*|SSL_CERT_.*|GODEBUG|GOTRACEBACK|(HTTP|HTTPS|ALL|NO)_PROXY|(http|https|all|no)_proxy|ETCD_(NAME|DATA_DIR|WAL_DIR|CONFIG_FILE|FORCE_NEW_CLUSTER.*|UNSAFE_.*|STRICT_RECONFIG_CHECK|INITIAL_(ADVERTISE|CLUSTER).*|LISTEN_(CLIENT|PEER)_.*|ADVERTISE_.*|DISCOVERY.*|PROXY.*|CERT_.*|KEY_.*|CA_.*|TRUSTED_.*|CLIENT_.*|PEER_.*|AUTO_TLS|TLS_.*|CIPHER_SUITES|SELF_SIGNED.*|ENABLE_PPROF|HOST_WHITELIST|LOG_OUTPUTS?|LOGGER|FEATURE_GATES|EXPERIMENTAL_(PEER_.*|INITIAL_CORRUPT_CHECK|COMPACT_HASH_CHECK_ENABLED)))$'))"
        => "etcdEnv sets a variable that the operator owns: identity, data directory, URLs, cluster membership, TLS, proxies, profiling and consistency checks of a member cannot be set by hand";
    /// On `spec.pod.etcdEnv`. A pod reads what its creator need not be allowed to: who may only create clusters would read any Secret of the
    /// namespace out of a member's environment.
    ENV_SOURCES: "self.all(e, !has(e.valueFrom) || ((has(e.valueFrom.fieldRef) || has(e.valueFrom.resourceFieldRef)) && !has(e.valueFrom.secretKeyRef) && !has(e.valueFrom.configMapKeyRef) && !has(e.valueFrom.fileKeyRef)))"
        => "etcdEnv takes value, valueFrom.fieldRef and valueFrom.resourceFieldRef: what is in Secrets, ConfigMaps and files is not for everybody who may create an EtcdCluster";
    /// On `spec.pod.persistentVolumeClaimSpec`.
    CLAIM_STORAGE: "has(self.resources) && has(self.resources.requests) && 'storage' in self.resources.requests && isQuantity(string(self.resources.requests['storage'])) && quantity(string(self.resources.requests['storage'])).compareTo(quantity('1Mi')) >= 0"
        => "persistentVolumeClaimSpec must ask for storage: resources.requests.storage, such as 8Gi";
    /// On `spec.pod.persistentVolumeClaimSpec`.
    CLAIM_MODE: "!has(self.volumeMode) || self.volumeMode in ['', 'Filesystem']"
        => "persistentVolumeClaimSpec.volumeMode must be Filesystem: etcd needs a directory";
    /// On `spec.pod.persistentVolumeClaimSpec`.
    CLAIM_NAMESPACE: "!has(self.dataSourceRef) || !has(self.dataSourceRef.__namespace__) || self.dataSourceRef.__namespace__ == ''"
        => "persistentVolumeClaimSpec.dataSourceRef must not name a namespace: a cluster uses what is in its own";
    /// On `spec.pod.busyboxImage`.
    BUSYBOX_IMAGE: "self == '' || self.matches(r'^[A-Za-z0-9][A-Za-z0-9._:/@-]*$')"
        => "busyboxImage must be an image reference such as busybox:1.28.0-glibc";
    /// On `spec.pod.DNSTimeoutInSecond`.
    DNS_TIMEOUT: "self >= 0"
        => "DNSTimeoutInSecond must be 0 (wait without limit) or a number of seconds";
    /// On `spec.pod.ClusterDomain`.
    CLUSTER_DOMAIN: "self == '' || self.matches(r'^([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+$')"
        => "ClusterDomain must be empty or a dot and a DNS domain, such as .cluster.local: it is appended to <cluster>.<namespace>.svc";

    /// On each name of a Secret.
    SECRET_NAME: "self == '' || self.matches(r'^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')"
        => "this must be the name of a Secret in the same namespace";
    /// On `spec.TLS.static`.
    TLS_SERVER_MISSING: "!has(self.operatorSecret) || self.operatorSecret == '' || (has(self.member) && has(self.member.serverSecret) && self.member.serverSecret != '')"
        => "operator secret set but member serverSecret not set: set both for TLS to clients, or neither";
    /// On `spec.TLS.static`.
    TLS_OPERATOR_MISSING: "!has(self.member) || !has(self.member.serverSecret) || self.member.serverSecret == '' || (has(self.operatorSecret) && self.operatorSecret != '')"
        => "member serverSecret set but operator secret not set: set both for TLS to clients, or neither";

    /// On `status.birth`.
    BIRTH_STEPS: "self.incarnation == oldSelf.incarnation ? self.token == oldSelf.token && (self.formed || !oldSelf.formed) && (!has(oldSelf.clusterID) || (has(self.clusterID) && self.clusterID == oldSelf.clusterID)) : self.incarnation == oldSelf.incarnation + 1 && self.token != oldSelf.token && !self.formed"
        => "status.birth may only latch clusterID and formed, or go on to the next incarnation with a new token, not formed";
    /// On `status.birth`.
    BIRTH_FORMED: "!self.formed || (has(self.clusterID) && self.clusterID != '')"
        => "status.birth.formed needs status.birth.clusterID: a formed cluster has one";

    /// On the spec of an `EtcdBackup`.
    BACKUP_ENDPOINTS: "has(self.etcdEndpoints) && self.etcdEndpoints.size() > 0"
        => "spec.etcdEndpoints should not be empty: give the cluster's client URL, such as http://example-etcd-cluster-client:2379";
    /// On `spec.etcdEndpoints` of an `EtcdBackup`.
    ETCD_ENDPOINT: "self.all(e, e.matches(r'^(https?://)?([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?/?$'))"
        => "etcdEndpoints must be URLs of etcd servers, such as http://example-etcd-cluster-client:2379";
    /// On `spec.storageType` and `spec.backupStorageType`.
    STORAGE_TYPE: "self in ['S3', 'ABS', 'GCS', 'OSS']"
        => "the storage type must be S3, ABS, GCS or OSS";
    /// On the spec of an `EtcdBackup`.
    BACKUP_SOURCE: "!(self.storageType in ['S3', 'ABS', 'GCS', 'OSS']) || (self.storageType == 'S3' && has(self.s3)) || (self.storageType == 'ABS' && has(self.abs)) || (self.storageType == 'GCS' && has(self.gcs)) || (self.storageType == 'OSS' && has(self.oss))"
        => "the block of the chosen storageType is missing: S3 needs spec.s3, ABS spec.abs, GCS spec.gcs, OSS spec.oss";
    /// On the spec of an `EtcdRestore`.
    RESTORE_SOURCE: "!(self.backupStorageType in ['S3', 'ABS', 'GCS', 'OSS']) || (self.backupStorageType == 'S3' && has(self.s3)) || (self.backupStorageType == 'ABS' && has(self.abs)) || (self.backupStorageType == 'GCS' && has(self.gcs)) || (self.backupStorageType == 'OSS' && has(self.oss))"
        => "the block of the chosen backupStorageType is missing: S3 needs spec.s3, ABS spec.abs, GCS spec.gcs, OSS spec.oss";
    /// On each `path` in a store.
    OBJECT_PATH: "self.matches(r'^[A-Za-z0-9!_.*()+=:@,\\x27-]+/[A-Za-z0-9/!_.*()+=:@,\\x27-]+$') && !self.matches(r'(^|/)[.][.]?(/|$)')"
        => "path must be <bucket>/<key>, such as mybucket/etcd.backup, without spaces, '%' and the segments '.' and '..'";
    /// On each `endpoint` of a store.
    STORE_ENDPOINT: "self == '' || self.matches(r'^(https?://)?([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?/?$')"
        => "endpoint must be the URL of a server, such as https://s3.example.com, without user, path and query";
    /// On `spec.abs`.
    ABS_SECRET: "has(self.absSecret) && self.absSecret != ''"
        => "abs.absSecret must name the Secret with storage-account and storage-key";
    /// On `spec.oss`.
    OSS_SECRET: "has(self.ossSecret) && self.ossSecret != ''"
        => "oss.ossSecret must name the Secret with accessKeyID and accessKeySecret";
    /// On `spec.backupPolicy.backupIntervalInSecond`.
    BACKUP_INTERVAL: "self >= 0 && self <= 315360000"
        => "backupIntervalInSecond must be 0 (one backup) or a number of seconds, at most ten years";
    /// On `spec.backupPolicy.timeoutInSecond`. The classic operator read 0 and less as its default.
    BACKUP_TIMEOUT: "self <= 604800"
        => "timeoutInSecond must be at most 604800, a week; 0 means 60";
    /// On `spec.backupPolicy.maxBackups`.
    MAX_BACKUPS: "self >= 0 && self <= 1000000"
        => "maxBackups should not be lower than 0; 0 keeps all";
    /// On the whole `EtcdRestore`.
    RESTORE_NAME: "has(self.status) || self.metadata.name == self.spec.etcdCluster.name"
        => "an EtcdRestore must have the name of the cluster that it restores: metadata.name and spec.etcdCluster.name differ";
}
