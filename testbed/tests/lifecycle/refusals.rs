//! What the testbed will not do, each in a sentence that says what to do instead.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use testbed::{instance::Instance, machine::Machine};

use crate::spare::{Spare, command, down, machines, run, text, up};

/// The command failed, and all that it said last is one line with these words.
fn refused(output: &Output, words: &[&str]) {
    let said = text(output);
    assert!(!output.status.success(), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("error: ") && words.iter().all(|word| last.contains(word)),
        "{words:?} not in {said:?}"
    );
}

#[test]
fn a_cluster_that_another_checkout_is_running_is_left_alone() {
    let _spare = Spare::none();
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    up(one.path());
    for verb in ["up", "down"] {
        let answer = run(&mut command(other.path(), &[verb]));
        refused(&answer, &[one.path().to_str().unwrap(), "make cluster-down"]);
    }
    assert_eq!(machines().iter().filter(|machine| machine.is_alive()).count(), 4);

    // Nobody can go to a checkout that is gone: its cluster is anybody's.
    drop(one);
    down(other.path());
    assert!(!machines().iter().any(Machine::is_alive));
}

#[test]
fn without_root_nothing_is_done() {
    let _spare = Spare::none();
    // Where everybody can reach it, whoever owns the checkout.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = folder.path().join("testbed");
    fs::copy(env!("CARGO_BIN_EXE_testbed"), &binary).unwrap();
    for verb in ["up", "down"] {
        let answer = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&binary)
            .arg(verb)
            .env("TESTBED_INSTANCE", "spare")
            .output()
            .unwrap();
        refused(&answer, &["needs root", "sudo"]);
    }
    assert!(!Instance::Spare.dir().exists());
}

#[test]
fn addresses_that_somebody_else_uses_are_not_taken() {
    struct Foreign;
    impl Drop for Foreign {
        fn drop(&mut self) {
            let _ = Command::new("ip").args(["link", "delete", "foreign0"]).status();
        }
    }
    let _spare = Spare::none();
    let ip = |arguments: &[&str]| {
        assert!(Command::new("ip").args(arguments).status().unwrap().success(), "{arguments:?}");
    };
    let pods = Instance::Spare.network().pods_of(7);
    let _foreign = Foreign;
    ip(&["link", "add", "foreign0", "type", "bridge"]);
    ip(&["address", "add", &pods.to_string(), "dev", "foreign0"]);
    ip(&["link", "set", "foreign0", "up"]);
    let answer = run(&mut command(Path::new("/"), &["up"]));
    refused(&answer, &["foreign0", "TESTBED_KUBECONFIG"]);
    assert!(machines().is_empty());
}

#[test]
fn a_full_disk_is_said_before_anything_is_built() {
    let _spare = Spare::none();
    let folder = tempfile::tempdir().unwrap();
    // The small disk is mounted for this one command only.
    let script = format!("mount -t tmpfs -o size=4m none {0} && exec \"$0\" up", folder.path().display());
    let answer = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_testbed")])
        .env("TESTBED_INSTANCE", "spare")
        .env("TESTBED_CACHE", folder.path())
        .output()
        .unwrap();
    refused(&answer, &[folder.path().to_str().unwrap(), "MiB", "TESTBED_CACHE"]);
}

#[test]
fn a_module_proxy_that_does_not_answer_is_named() {
    let _spare = Spare::none();
    let folder = tempfile::tempdir().unwrap();
    let answer = run(command(Path::new("/"), &["up"])
        .env("TESTBED_CACHE", folder.path().join("cache"))
        .env("GOMODCACHE", folder.path().join("modules"))
        .env("GOPROXY", "http://127.0.0.1:1"));
    refused(&answer, &["Go module proxy", "network"]);
    assert!(machines().is_empty());
}

#[test]
fn without_go_there_is_a_sentence_that_names_it() {
    let _spare = Spare::none();
    let folder = tempfile::tempdir().unwrap();
    // Everything that is usually on the path, except for Go.
    let path = folder.path().join("bin");
    fs::create_dir(&path).unwrap();
    for place in ["/usr/sbin", "/usr/bin", "/sbin", "/bin"] {
        for program in fs::read_dir(place).into_iter().flatten().flatten() {
            if program.file_name() != "go" {
                let _ = std::os::unix::fs::symlink(program.path(), path.join(program.file_name()));
            }
        }
    }
    let answer = run(command(Path::new("/"), &["up"])
        .env("TESTBED_CACHE", folder.path().join("cache"))
        .env("PATH", &path));
    refused(&answer, &["Go", "install"]);
}
