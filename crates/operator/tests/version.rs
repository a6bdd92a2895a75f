//! What a person asks the program itself.

use std::process::Command;

#[test]
fn the_program_says_its_version_and_ends() {
    let output = Command::new(env!("CARGO_BIN_EXE_etcd-operator")).arg("--version").output().unwrap();
    let expected = format!("etcd-operator {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    assert!(output.status.success(), "{output:?}");
}
