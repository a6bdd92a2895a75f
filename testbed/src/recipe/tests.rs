//! What a person is told about a failed build, and what a build leaves running.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::cache::{Cache, Fingerprint, Recipe};

fn kind(error: &BuildError) -> &'static str {
    match error {
        BuildError::NoAnswer { .. } => "no answer",
        BuildError::NoPackage { .. } => "no package",
        BuildError::DiskFull { .. } => "disk full",
        BuildError::Failed { .. } => "failed",
        _ => "other",
    }
}

#[test]
fn a_log_tells_a_person_what_to_do() {
    let table = [
        ("x.go:1: Get \"https://proxy/k8s.io\": dial tcp: lookup proxy: no such host", "no answer"),
        ("verifying module: Get \"https://proxy\": net/http: TLS handshake timeout", "no answer"),
        ("Get \"https://proxy\": tls: failed to verify certificate: x509: unknown authority", "no answer"),
        ("Err:1 http://mirror bookworm/main\n  Temporary failure resolving 'mirror'", "no answer"),
        ("warning: spurious network error (3 tries remaining): [6] Could not resolve host", "no answer"),
        ("E: Unable to locate package etcd-server", "no package"),
        ("E: Package 'etcd-client' has no installation candidate", "no package"),
        ("link: mapping output file failed: no space left on device", "disk full"),
        ("main.go:3:8: undefined: x", "failed"),
    ];
    for (log, expected) in table {
        let error = BuildError::told_by(log, "go build".to_owned(), "the mirror", Path::new("/l"));
        assert_eq!(kind(&error), expected, "{log}");
        assert!(error.to_string().contains("/l"), "{error}");
    }
}

#[test]
fn only_the_last_lines_of_a_log_are_shown() {
    let text = (0..100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    let shown = BuildError::told_by(&text, "make".to_owned(), "x", Path::new("/l")).to_string();
    assert!(shown.contains("line 99") && shown.contains("line 85") && !shown.contains("line 84"));
}

#[test]
fn a_missing_program_is_told_with_how_to_get_it() {
    let tool = Tool { program: "no-such-program", install: "install it", remote: "x" };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, "").unwrap();
    let bench = Bench {
        into: folder.path().into(),
        scratch: folder.path().into(),
        log,
        lock: File::open("/dev/null").unwrap(),
    };
    let error = tool.run(&bench, &mut tool.command()).unwrap_err();
    assert_eq!(error.to_string(), "the program `no-such-program` is not installed; install it");
}

const SH: Tool = Tool { program: "sh", install: "", remote: "" };

/// Fails at first, while a program it started goes on, as a `go build` does when its builder is killed.
struct Orphaning {
    done: PathBuf,
    builds: AtomicUsize,
}

impl Recipe for Orphaning {
    fn name(&self) -> &'static str {
        "orphaning"
    }
    fn version(&self) -> &'static str {
        "1"
    }
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(["orphaning"])
    }
    fn usual(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn build(&self, bench: &Bench) -> Result<(), BuildError> {
        if self.builds.fetch_add(1, Ordering::SeqCst) == 0 {
            // A shell gives what it puts into the background no input, but it leaves other descriptors alone.
            let script = "exec 3<&0; (sleep 0.5; touch \"$0\") & exit 1";
            return SH.run(bench, SH.command().args(["-c", script]).arg(&self.done));
        }
        assert!(self.done.exists(), "the other builder's program still runs");
        Ok(())
    }
}

#[test]
fn a_builder_waits_for_what_a_dead_one_started() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Orphaning { done: folder.path().join("done"), builds: AtomicUsize::new(0) };
    let cache = Cache::at(folder.path().join("cache"));
    cache.get(&recipe).unwrap_err();
    cache.get(&recipe).unwrap();
}
