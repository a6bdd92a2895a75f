//! Before the loop: the command line of the classic operator, which was Go's: `-flag` means `--flag`, and there are flags that do nothing here.

use std::ffi::{OsStr, OsString};

use clap::Args;

/// Flags of the classic operator, of all its releases, that have nothing to do here. They are taken, so that its manifests still start.
#[derive(Clone, Debug, Default, Args)]
pub struct Pointless {
    #[arg(long, hide = true)]
    gc_interval: Option<String>,
    #[arg(long, hide = true, allow_negative_numbers = true)]
    chaos_level: Option<String>,
    #[arg(long, hide = true, default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    analytics: Option<String>,
    #[arg(long, hide = true)]
    pv_provisioner: Option<String>,
    #[arg(long, hide = true)]
    backup_aws_secret: Option<String>,
    #[arg(long, hide = true)]
    backup_aws_config: Option<String>,
    #[arg(long, hide = true)]
    backup_s3_bucket: Option<String>,
}

impl Pointless {
    /// A sentence for each that was given.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let volumes = "a StorageClass is named in spec.pod.persistentVolumeClaimSpec";
        let backups = "where backups go and who may write them is said in each EtcdBackup";
        let all = [
            (
                "gc-interval",
                &self.gc_interval,
                "Kubernetes deletes what belongs to a cluster, with the cluster",
            ),
            ("chaos-level", &self.chaos_level, "this operator breaks nothing on purpose"),
            ("analytics", &self.analytics, "nothing is sent to anybody"),
            ("pv-provisioner", &self.pv_provisioner, volumes),
            ("backup-aws-secret", &self.backup_aws_secret, backups),
            ("backup-aws-config", &self.backup_aws_config, backups),
            ("backup-s3-bucket", &self.backup_s3_bucket, backups),
        ];
        let given = all.iter().filter(|(_, value, _)| value.is_some());
        given.map(|(name, _, why)| format!("--{name} does nothing and can be left out: {why}")).collect()
    }
}

/// The arguments with two dashes where Go took one. `-h` and `-V` stay, and so does a number.
pub fn with_two_dashes(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut over = false;
    let each = arguments.into_iter().enumerate().map(|(index, argument)| {
        over |= argument == "--";
        if index > 0 && !over && is_go_flag(&argument) {
            let mut doubled = OsString::from("-");
            doubled.push(argument);
            return doubled;
        }
        argument
    });
    each.collect()
}

fn is_go_flag(argument: &OsStr) -> bool {
    let bytes = argument.as_encoded_bytes();
    matches!(bytes, [b'-', first, _, ..] if first.is_ascii_alphabetic())
}

/// What Go took for true and false.
pub fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dash_becomes_two_only_before_a_flag() {
        let table = [
            ("-cluster-wide", "--cluster-wide"),
            ("-gc-interval=10m", "--gc-interval=10m"),
            ("--create-crd=false", "--create-crd=false"),
            ("-h", "-h"),
            ("-1", "-1"),
            ("-10", "-10"),
            ("-", "-"),
            ("10m", "10m"),
        ];
        for (argument, expected) in table {
            let arguments = ["-program", argument, "--", "-last"].map(OsString::from);
            let doubled = with_two_dashes(arguments);
            assert_eq!(doubled, ["-program", expected, "--", "-last"], "{argument}");
        }
    }
}
