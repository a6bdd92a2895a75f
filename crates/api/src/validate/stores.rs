//! What users write, checked: the rules on an `EtcdBackup` and on an `EtcdRestore`.

use super::Findings;
use crate::{
    EtcdBackup, EtcdRestore, grammar, rules,
    storage::{AbsSource, GcsSource, OssSource, S3Source},
};

/// The blocks that say where in a store.
struct Sources<'a> {
    s3: Option<&'a S3Source>,
    abs: Option<&'a AbsSource>,
    gcs: Option<&'a GcsSource>,
    oss: Option<&'a OssSource>,
}

pub(super) fn check_backup(object: &EtcdBackup, findings: &mut Findings) {
    let spec = &object.spec;
    let endpoints = spec.etcd_endpoints.as_deref().unwrap_or_default();
    findings.check(!endpoints.is_empty(), "spec", rules::BACKUP_ENDPOINTS);
    let all_urls = endpoints.iter().all(|endpoint| grammar::is_endpoint(endpoint));
    findings.check(all_urls, "spec.etcdEndpoints", rules::ETCD_ENDPOINT);
    let sources = Sources {
        s3: spec.s3.as_ref(),
        abs: spec.abs.as_ref(),
        gcs: spec.gcs.as_ref(),
        oss: spec.oss.as_ref(),
    };
    let present = sources.has(spec.storage_type.as_deref());
    findings.check(present.is_some(), "spec.storageType", rules::STORAGE_TYPE);
    findings.check(present != Some(false), "spec", rules::BACKUP_SOURCE);
    sources.check(findings);
    check_secret(spec.client_tls_secret.as_deref(), "spec.clientTLSSecret", findings);
    if let Some(policy) = &spec.backup_policy {
        let at = |field: &str| format!("spec.backupPolicy.{field}");
        let interval = policy.backup_interval_in_second.as_ref();
        findings.field(interval, &at("backupIntervalInSecond"), rules::BACKUP_INTERVAL, |seconds| {
            (0..=315_360_000).contains(seconds)
        });
        let timeout = policy.timeout_in_second.as_ref();
        findings.field(timeout, &at("timeoutInSecond"), rules::BACKUP_TIMEOUT, |seconds| *seconds <= 604_800);
        findings.field(policy.max_backups.as_ref(), &at("maxBackups"), rules::MAX_BACKUPS, |count| {
            (0..=1_000_000).contains(count)
        });
    }
}

pub(super) fn check_restore(object: &EtcdRestore, findings: &mut Findings) {
    let spec = &object.spec;
    let target = spec.etcd_cluster.as_ref().and_then(|cluster| cluster.name.as_deref());
    findings.check(object.metadata.name.as_deref() == target, "", rules::RESTORE_NAME);
    let sources = Sources {
        s3: spec.s3.as_ref(),
        abs: spec.abs.as_ref(),
        gcs: spec.gcs.as_ref(),
        oss: spec.oss.as_ref(),
    };
    let present = sources.has(spec.backup_storage_type.as_deref());
    findings.check(present.is_some(), "spec.backupStorageType", rules::STORAGE_TYPE);
    findings.check(present != Some(false), "spec", rules::RESTORE_SOURCE);
    sources.check(findings);
}

impl Sources<'_> {
    /// Whether the block of this storage type is there; nothing for a type that does not exist.
    fn has(&self, storage_type: Option<&str>) -> Option<bool> {
        match storage_type {
            Some("S3") => Some(self.s3.is_some()),
            Some("ABS") => Some(self.abs.is_some()),
            Some("GCS") => Some(self.gcs.is_some()),
            Some("OSS") => Some(self.oss.is_some()),
            _ => None,
        }
    }

    fn check(&self, findings: &mut Findings) {
        if let Some(s3) = self.s3 {
            check_path(s3.path.as_deref(), "spec.s3.path", findings);
            check_secret(s3.aws_secret.as_deref(), "spec.s3.awsSecret", findings);
            check_endpoint(s3.endpoint.as_deref(), "spec.s3.endpoint", findings);
        }
        if let Some(abs) = self.abs {
            check_path(abs.path.as_deref(), "spec.abs.path", findings);
            check_secret(abs.abs_secret.as_deref(), "spec.abs.absSecret", findings);
            let named = abs.abs_secret.as_deref().is_some_and(|name| !name.is_empty());
            findings.check(named, "spec.abs", rules::ABS_SECRET);
        }
        if let Some(gcs) = self.gcs {
            check_path(gcs.path.as_deref(), "spec.gcs.path", findings);
            check_secret(gcs.gcp_secret.as_deref(), "spec.gcs.gcpSecret", findings);
        }
        if let Some(oss) = self.oss {
            check_path(oss.path.as_deref(), "spec.oss.path", findings);
            check_secret(oss.oss_secret.as_deref(), "spec.oss.ossSecret", findings);
            check_endpoint(oss.endpoint.as_deref(), "spec.oss.endpoint", findings);
            let named = oss.oss_secret.as_deref().is_some_and(|name| !name.is_empty());
            findings.check(named, "spec.oss", rules::OSS_SECRET);
        }
    }
}

fn check_path(path: Option<&str>, at: &str, findings: &mut Findings) {
    findings.check(path.is_some_and(grammar::is_object_path), at, rules::OBJECT_PATH);
}

fn check_secret(name: Option<&str>, at: &str, findings: &mut Findings) {
    findings.field(name, at, rules::SECRET_NAME, |name| name.is_empty() || grammar::is_object_name(name));
}

fn check_endpoint(url: Option<&str>, at: &str, findings: &mut Findings) {
    findings.field(url, at, rules::STORE_ENDPOINT, |url| url.is_empty() || grammar::is_endpoint(url));
}
