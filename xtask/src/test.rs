//! `make test`: every check and every test, one phase after another.

use std::{env, fs, os::unix::fs::symlink, path::PathBuf, process::Command, time::Instant};

use anyhow::{Context as _, bail};
use testbed::{
    cache::{Cache, Recipe as _},
    cluster,
    images::EtcdVersion,
    instance::Instance,
    progress::in_words,
    recipe::CargoTool,
};

use crate::report::Report;

/// Tests that look at the testbed itself, and not at a cluster.
const OF_THE_TESTBED: &str = "test(/^(no_way_out|audit_log)::/)";

/// What a phase runs: a command, and where nextest writes its results if it is one of its.
struct Phase {
    name: &'static str,
    command: Command,
    results: Option<&'static str>,
}

pub(crate) fn run() -> anyhow::Result<()> {
    let mut report = Report::default();
    let outcome = phases(&mut report);
    report.print();
    outcome
}

fn phases(report: &mut Report) -> anyhow::Result<()> {
    let cache = Cache::for_this_user()?;
    println!("== tools");
    let begun = Instant::now();
    let nextest = tool(&cache, &CargoTool::nextest())?;
    let deny = tool(&cache, &CargoTool::deny())?;
    report.phase("tools", begun.elapsed());

    run_phase(report, Phase { name: "format", command: cargo(&["fmt", "--all", "--check"]), results: None })?;
    let clippy =
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]);
    run_phase(report, Phase { name: "lints", command: clippy, results: None })?;
    let generated = cargo(&["run", "--quiet", "--locked", "--package", "xtask", "--", "generate", "--check"]);
    run_phase(report, Phase { name: "generated files", command: generated, results: None })?;
    let rpc = cargo(&["run", "--quiet", "--locked", "--package", "etcd-admin-codegen", "--", "--check"]);
    run_phase(report, Phase { name: "generated RPC", command: rpc, results: None })?;
    // Advisories are not here: their database would have to be fetched anew by every run.
    let mut bans = Command::new(deny);
    bans.args(["--workspace", "--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    run_phase(report, Phase { name: "dependencies", command: bans, results: None })?;
    let tests = |profile: &'static str, filter: &str| {
        let mut command = Command::new(&nextest);
        command.args(["nextest", "run", "--workspace", "--locked", "--profile", profile, "-E", filter]);
        command
    };
    let units = tests("unit", "kind(lib) + kind(bin)");
    run_phase(report, Phase { name: "unit tests", command: units, results: Some("unit") })?;

    // A cluster that is named explicitly is not ours to start or to remove, and neither is anything else then.
    let named = env::var_os("TESTBED_KUBECONFIG").is_some_and(|path| !path.is_empty());
    if named {
        println!(
            "TESTBED_KUBECONFIG names a cluster: only what runs in namespaces of its own is tested on it"
        );
    } else {
        // Here and not inside a test, which must not take as long as a build.
        run_phase(report, Phase { name: "parts", command: testbed(&["build"]), results: None })?;
        let life = tests("lifecycle", "binary(lifecycle)");
        run_phase(report, Phase { name: "life of a cluster", command: life, results: Some("lifecycle") })?;
    }
    let mut real = tests("etcd", "kind(test) - package(testbed)");
    real.env("ETCD_BINARIES", etcd_binaries(&cache)?);
    run_phase(report, Phase { name: "tests on real etcd", command: real, results: Some("etcd") })?;
    if named {
        let on_it = tests("cluster", &format!("binary(parallel) - {OF_THE_TESTBED}"));
        return run_phase(
            report,
            Phase { name: "tests on the cluster", command: on_it, results: Some("cluster") },
        );
    }

    let ours = cluster::kubeconfig(Instance::Main).is_none();
    let on_it = tests("cluster", "kind(test) & package(testbed) - binary(lifecycle)");
    let tested = run_phase(report, Phase { name: "cluster up", command: testbed(&["up"]), results: None })
        .and_then(|()| {
            run_phase(
                report,
                Phase { name: "tests on the cluster", command: on_it, results: Some("cluster") },
            )
        });
    // What failed is kept for a look, except where nobody can look.
    if ours && (tested.is_ok() || env::var_os("CI").is_some()) {
        let removed =
            run_phase(report, Phase { name: "cluster down", command: testbed(&["down"]), results: None });
        return tested.and(removed);
    }
    tested
}

/// A tool, built if it is not there yet.
fn tool(cache: &Cache, recipe: &CargoTool) -> anyhow::Result<PathBuf> {
    if !cache.has(recipe) {
        println!("{} {}: built, about {}", recipe.name(), recipe.version(), in_words(recipe.usual()));
    }
    Ok(cache.get(recipe)?.path.join("bin").join(recipe.name()))
}

fn run_phase(report: &mut Report, mut phase: Phase) -> anyhow::Result<()> {
    println!("\n== {}", phase.name);
    let results = phase.results.map(results_of);
    if let Some(old) = &results {
        // Results of an earlier run must not be taken for this one's.
        let _ = fs::remove_file(old);
    }
    let begun = Instant::now();
    let status = phase
        .command
        .status()
        .with_context(|| format!("{} could not be run", phase.command.get_program().display()))?;
    report.phase(phase.name, begun.elapsed());
    if let Some(results) = &results {
        report.tests(results)?;
    }
    if !status.success() {
        bail!("{} failed: {:?} ended with {status}", phase.name, phase.command);
    }
    Ok(())
}

/// A folder with etcd's programs of every version, each in a folder named after it: what tests of single processes take.
fn etcd_binaries(cache: &Cache) -> anyhow::Result<PathBuf> {
    let folder = target().join("etcd-binaries");
    fs::create_dir_all(&folder)?;
    for version in EtcdVersion::ALL {
        let link = folder.join(version.to_string());
        // An earlier run's may lead to an entry of an older recipe.
        let _ = fs::remove_file(&link);
        symlink(cache.get(version.recipe().as_ref())?.path.join("bin"), &link)
            .with_context(|| format!("{} could not be made", link.display()))?;
    }
    Ok(folder.canonicalize()?)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

fn testbed(arguments: &[&str]) -> Command {
    let mut command =
        cargo(&["run", "--quiet", "--locked", "--package", "testbed", "--bin", "testbed", "--"]);
    command.args(arguments);
    command
}

fn results_of(profile: &str) -> PathBuf {
    target().join("nextest").join(profile).join("junit.xml")
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}
