//! `make test`: every check and every test, one phase after another.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, bail};
use testbed::{
    cache::{Cache, Recipe as _},
    cluster,
    images::EtcdVersion,
    instance::Instance,
    kit::Places,
    progress::in_words,
    recipe::CargoTool,
};

use crate::{image, report::Report};

/// The packages whose tests need a cluster. The inner parentheses matter: `-` binds closer than `+`.
const ON_A_CLUSTER: &str = "((package(testbed) + package(e2e)) - binary(history_on_etcd))";
/// Tests that look at the testbed itself, or need its network, its registry or its audit log: not for any cluster.
const OF_THE_TESTBED: &str = "test(/^(no_way_out|audit_log|bad_lines|history|idle|launcher_refusal|operator_killed|orphaned|partitions|pod_security|restored|silent|faults_.*)::/)";

/// What a phase runs: a command, and the nextest profile under which it leaves results if it is one of its.
struct Phase {
    name: &'static str,
    command: Command,
    profile: Option<&'static str>,
}

impl Phase {
    fn of(name: &'static str, command: Command) -> Self {
        Self { name, command, profile: None }
    }
}

pub(crate) fn run() -> anyhow::Result<()> {
    let mut report = Report::default();
    let outcome = everything(&mut report);
    report.print();
    outcome
}

fn everything(report: &mut Report) -> anyhow::Result<()> {
    let cache = Cache::for_this_user()?;
    println!("== tools");
    let begun = Instant::now();
    let nextest = tool(&cache, &CargoTool::nextest())?;
    let deny = tool(&cache, &CargoTool::deny())?;
    report.phase("tools", begun.elapsed());
    let tests = |name: &'static str, profile: &'static str, filter: &str| {
        let mut command = Command::new(&nextest);
        command.args(["nextest", "run", "--workspace", "--locked", "--profile", profile, "-E", filter]);
        Phase { name, command, profile: Some(profile) }
    };

    checks(report, &deny)?;
    // A cluster that is named explicitly is not ours to start or to remove, and neither is anything else then.
    let named = Places::named().is_some();
    // With what the tests beside it leave of the processors.
    let programs = if named { None } else { Some(image::build_aside()?) };
    let tested = run_phase(report, tests("unit tests", "unit", "kind(lib) + kind(bin)"));
    if let Some(mut programs) = programs {
        programs.wait().context("the build of our programs")?;
    }
    tested?;
    let filter = if named {
        println!(
            "TESTBED_KUBECONFIG names a cluster: only what runs in namespaces of its own is tested on it"
        );
        format!("kind(test) - {ON_A_CLUSTER} + binary(parallel) - {OF_THE_TESTBED}")
    } else {
        // Here and not inside a test, which must not take as long as a build.
        run_phase(report, Phase::of("parts", testbed(&["build"])))?;
        "kind(test) - binary(afterwards)".to_owned()
    };
    let mut phase = tests("tests on the cluster and beside it", "cluster", &filter);
    phase.command.env("ETCD_BINARIES", etcd_binaries(&cache)?);
    if named {
        return run_phase(report, phase);
    }
    // What is found out about all of them when they are over.
    let afterwards = tests("what all of them asked of the API server", "cluster", "binary(afterwards)");
    on_our_cluster(report, [phase, afterwards])
}

/// What needs no test to be run.
fn checks(report: &mut Report, deny: &Path) -> anyhow::Result<()> {
    run_phase(report, Phase::of("format", cargo(&["fmt", "--all", "--check"])))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
    run_phase(report, Phase::of("lints", cargo(&clippy)))?;
    run_phase(report, Phase::of("generated files", cargo_run("xtask", &["generate", "--check"])))?;
    run_phase(report, Phase::of("proof", cargo_run("xtask", &["proof"])))?;
    run_phase(report, Phase::of("generated RPC", cargo_run("etcd-admin-codegen", &["--check"])))?;
    // Advisories are not here: their database would have to be fetched anew by every run.
    let mut bans = Command::new(deny);
    bans.args(["--workspace", "--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    run_phase(report, Phase::of("dependencies", bans))
}

/// Runs the tests on the main testbed, which is removed afterwards if it was not there before.
fn on_our_cluster(report: &mut Report, tests: [Phase; 2]) -> anyhow::Result<()> {
    let ours = cluster::kubeconfig(Instance::Main).is_none();
    let tested = run_phase(report, Phase::of("cluster up", testbed(&["up"])))
        .and_then(|()| run_phase(report, Phase::of("our image", cargo_run("xtask", &["push"]))))
        .and_then(|()| tests.into_iter().try_for_each(|phase| run_phase(report, phase)));
    // What failed is kept for a look, except where nobody can look.
    if ours && (tested.is_ok() || env::var_os("CI").is_some()) {
        return tested.and(run_phase(report, Phase::of("cluster down", testbed(&["down"]))));
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
    let results = phase.profile.map(results_of);
    if let Some(old) = &results {
        // Results of an earlier run must not be taken for this one's.
        let _ = fs::remove_file(old);
    }
    let begun = Instant::now();
    let status = phase
        .command
        // Which one is not a matter of taste here: the tests are for the main one.
        .env("TESTBED_INSTANCE", Instance::Main.to_string())
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
    let mut command = Command::new(cargo_program());
    command.args(arguments);
    command
}

/// The cargo that runs this, or the one on the path.
pub(crate) fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn cargo_run(package: &str, arguments: &[&str]) -> Command {
    let mut command = cargo(&["run", "--quiet", "--locked", "--package", package, "--"]);
    command.args(arguments);
    command
}

/// The testbed's own command.
pub(crate) fn testbed(arguments: &[&str]) -> Command {
    let mut command =
        cargo(&["run", "--quiet", "--locked", "--package", "testbed", "--bin", "testbed", "--"]);
    command.args(arguments);
    command
}

/// Where nextest leaves its results: below the workspace, wherever cargo puts what it builds.
fn results_of(profile: &str) -> PathBuf {
    PathBuf::from("target/nextest").join(profile).join("junit.xml")
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}
