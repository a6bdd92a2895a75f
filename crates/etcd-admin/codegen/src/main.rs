//! TALKING TO ETCD, made by machine: writes `src/rpc.rs` of etcd-admin from `proto/etcd.proto`.
//!
//! The result is checked in, so that nobody who builds the operator needs this, let alone `protoc`. With `--check`
//! nothing is written and a difference is an error.

use std::{env, fs, path::Path};

use anyhow::{Context as _, bail};

/// What stands above the generated code.
const HEAD: &str = "//! TALKING TO ETCD: etcd's RPC as Rust, made from `proto/etcd.proto` by `etcd-admin-codegen`; not to be edited.\n\n";

fn main() -> anyhow::Result<()> {
    let check = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => bail!("the only argument is --check"),
    };
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = crate_dir.join("src/rpc.rs");
    let code = generated(&crate_dir.join("proto"))?;
    let on_file = fs::read_to_string(&target).unwrap_or_default();
    if on_file == code {
        return Ok(());
    }
    if check {
        bail!("src/rpc.rs is not what proto/etcd.proto gives: run `cargo run -p etcd-admin-codegen`");
    }
    fs::write(&target, code).with_context(|| format!("writing {}", target.display()))
}

fn generated(proto: &Path) -> anyhow::Result<String> {
    let files = protox::compile(["etcd.proto"], [proto]).context("reading proto/etcd.proto")?;
    let out = tempfile::tempdir().context("making a folder for the generated code")?;
    tonic_prost_build::configure()
        .out_dir(out.path())
        // etcd-admin makes its channels itself.
        .build_transport(false)
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        // Snapshots are large: chunks stay in the buffer they came in.
        .bytes(".etcdserverpb.SnapshotChunk")
        .compile_fds(files)
        .context("generating code from proto/etcd.proto")?;
    let code =
        fs::read_to_string(out.path().join("etcdserverpb.rs")).context("reading the generated code")?;
    Ok(format!("{HEAD}{code}"))
}
