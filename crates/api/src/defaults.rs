//! What users write: the values that stand for what they left out. The schema carries the same ones, so they are visible in
//! the stored object and never change under a running cluster when the operator is upgraded.

/// Where etcd's images come from.
pub const REPOSITORY: &str = "quay.io/coreos/etcd";
/// The etcd version of a cluster that names none.
///
/// The classic operator's was 3.2.13, of 2018. A new cluster gets one that is still maintained; one that the
/// classic operator made has its version written in its spec already.
pub const VERSION: &str = "3.6.14";
/// Image of the classic operator's DNS check, kept only to tell a value that someone chose.
pub const BUSYBOX_IMAGE: &str = "busybox:1.28.0-glibc";
/// How long a member that may come back is waited for, in seconds. It is not in the schema: what the book shows of a spec stays as it is.
pub const GRACE_SECONDS: u64 = 300;
/// How long a backup may take where its policy names no time, in seconds.
pub const BACKUP_TIMEOUT_SECONDS: i64 = 60;
/// The OSS endpoint of a backup that names none.
pub const OSS_ENDPOINT: &str = "http://oss-cn-hangzhou.aliyuncs.com";

/// The default where a field is missing or empty: the classic operator read both as "not set".
pub(crate) fn unless_empty<'a>(value: Option<&'a str>, default: &'a str) -> &'a str {
    value.filter(|value| !value.is_empty()).unwrap_or(default)
}
