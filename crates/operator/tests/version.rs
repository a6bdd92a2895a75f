//! What a person asks the program itself.

use std::process::Command;

#[test]
fn the_program_says_its_version_and_ends() {
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-operator")).arg("--version").output().unwrap();
    let expected = format!("etcd-operator {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_error_is_one_sentence_with_its_causes_also_where_backtraces_are_asked_for() {
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-operator"))
        .args(["-kubeconfig=/nowhere/config", "-gc-interval=10m", "--log-format=text"])
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert!(!output.status.success() && lines.len() == 2, "{said}");
    assert!(lines[0].contains("--gc-interval does nothing"), "{said}");
    assert!(lines[1].contains("reading the kubeconfig /nowhere/config: "), "{said}");
}
