//! Under what conditions figures were taken: without them they compare with nothing.

use std::{fmt, fs, thread};

use anyhow::Context;
use testbed::kit::{Cluster, call};

use crate::floor::ETCD;

/// The machine and the versions.
pub(crate) struct Conditions {
    cores: usize,
    memory_gib: u64,
    load_before: String,
    load_after: Option<String>,
    kubernetes: String,
}

impl Conditions {
    /// As they are before anything is measured.
    pub(crate) async fn now(cluster: &Cluster) -> anyhow::Result<Self> {
        let version = call("ask for the version", cluster.client().apiserver_version()).await?;
        Ok(Self {
            cores: thread::available_parallelism()?.get(),
            memory_gib: memory_gib(&read("/proc/meminfo")?).context("read how much memory there is")?,
            load_before: load()?,
            load_after: None,
            kubernetes: version.git_version,
        })
    }

    /// Says also how busy the machine is now.
    pub(crate) fn with_load_after(self) -> anyhow::Result<Self> {
        Ok(Self { load_after: Some(load()?), ..self })
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, memory_gib, load_before, load_after, kubernetes } = self;
        write!(f, "Kubernetes {kubernetes}, etcd v{ETCD}, {cores} cores, {memory_gib} GiB, ")?;
        write!(f, "load {load_before} before")?;
        load_after.iter().try_for_each(|load| write!(f, " and {load} after"))?;
        writeln!(f)
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {path}"))
}

/// Of the last minute.
fn load() -> anyhow::Result<String> {
    Ok(read("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned())
}

fn memory_gib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib.div_ceil(1024 * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_up_to_what_was_bought() {
        assert_eq!(memory_gib("MemTotal:       24601234 kB\nMemFree: 1 kB\n"), Some(24));
        assert_eq!(memory_gib(""), None);
    }
}
