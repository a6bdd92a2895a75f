//! `make check`, `make test` and `make test-all`: checks and tests, one phase after another.

use std::{
    env, fs,
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

use crate::{
    again, dependencies, image,
    own_tests::{self, Ground},
    phase::{Nextest, Phase, cargo, cargo_run, target, testbed},
    report::Report,
};

/// The packages whose tests need a cluster. The inner parentheses matter: `-` binds closer than `+`.
const ON_A_CLUSTER: &str = "((package(testbed) + package(e2e)) - binary(history_on_etcd))";
/// Tests that look at the testbed itself, or need its network, its registry or its audit log: not for any cluster.
const OF_THE_TESTBED: &str = "test(/^(no_way_out|audit_log|bad_lines|history|idle|launcher_refusal|operator_killed|orphaned|partitions|pod_security|restored|silent|faults_.*)::/)";
/// What only `make test-all` runs: the other combinations of versions and sizes. The walks under load take 3.4 and 3.7, and clusters of
/// one, five and seven members through more than these do.
const ONLY_IN_ALL: &str = "(package(e2e) & test(/^versions_and_sizes::(three_members_of_etcd_3_(4|7)|one_member|five_members|seven_members)_/))";
/// The explorer's worlds in which there is little to visit, and what else tells much in a moment.
const SMALL: &str = "kind(lib) + kind(bin) + binary(golden) + (package(etcd-operator-api) & kind(test)) + \
                     (package(etcd-operator-sim) & test(/^(without_faults_|deleting_the_resource_|a_cluster_that_has_|any_one_fault_is_healed)/))";

/// How much is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What needs neither a cluster nor more than a few minutes.
    Check,
    /// What CI runs.
    Test,
    /// Also what takes long and seldom tells anything new.
    All,
}

pub(crate) fn run(extent: Extent) -> anyhow::Result<()> {
    let mut report = Report::default();
    let outcome = match extent {
        Extent::Check => check(&mut report),
        Extent::Test | Extent::All => everything(&mut report, extent == Extent::All),
    };
    report.print();
    outcome
}

fn check(report: &mut Report) -> anyhow::Result<()> {
    let cache = Cache::for_this_user()?;
    let [nextest] = tools(report, &cache, &[CargoTool::nextest()])?;
    checks(report)?;
    let nextest = Nextest { program: nextest, etcd: None };
    nextest.tests("unit tests and small worlds", "unit", SMALL).run(report)
}

fn everything(report: &mut Report, all: bool) -> anyhow::Result<()> {
    let cache = Cache::for_this_user()?;
    let [program, deny] = tools(report, &cache, &[CargoTool::nextest(), CargoTool::deny()])?;
    let mut nextest = Nextest { program, etcd: None };
    checks(report)?;
    more_checks(report, &deny)?;
    // A cluster that is named explicitly is not ours to start or to remove, and neither is anything else then.
    let named = Places::named().is_some();
    // With what the tests beside it leave of the processors.
    let programs = if named { None } else { Some(image::build_aside()?) };
    let tested = nextest.tests("unit tests", "unit", "kind(lib) + kind(bin)").run(report);
    if let Some(mut programs) = programs {
        programs.wait().context("the build of our programs")?;
    }
    tested?;
    let mut filter = "kind(test) - binary(afterwards)".to_owned();
    if !all {
        filter = format!("{filter} - {ONLY_IN_ALL}");
    }
    if named {
        println!(
            "TESTBED_KUBECONFIG names a cluster: only what runs in namespaces of its own is tested on it"
        );
        nextest.etcd = Some(etcd_binaries(&cache)?);
        let filter = format!("({filter}) - ({ON_A_CLUSTER} - binary(parallel)) - {OF_THE_TESTBED}");
        return nextest.tests(ON_CLUSTER, "cluster", &filter).run(report);
    }
    keep_dependencies(report, &cache);
    // Here and not inside a test, which must not take as long as a build.
    Phase::of("parts", testbed(&["build"])).run(report)?;
    nextest.etcd = Some(etcd_binaries(&cache)?);
    let ground = Ground::of_this_repository(&cache)?;
    let is_firm = !all && ground.is_firm();
    if is_firm {
        report.skipped(own_tests::SKIPPED);
        filter = format!("{filter} - package(testbed)");
    }
    on_our_cluster(report, &nextest, &filter)?;
    if is_firm { Ok(()) } else { ground.passed(report.all()) }
}

const ON_CLUSTER: &str = "tests on the cluster and beside it";

/// What needs no test to be run.
fn checks(report: &mut Report) -> anyhow::Result<()> {
    Phase::of("format", cargo(&["fmt", "--all", "--check"])).run(report)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
    Phase::of("lints", cargo(&clippy)).run(report)?;
    Phase::of("generated files", cargo_run("xtask", &["generate", "--check"])).run(report)?;
    Phase::of("proof", cargo_run("xtask", &["proof"])).run(report)
}

fn more_checks(report: &mut Report, deny: &Path) -> anyhow::Result<()> {
    Phase::of("generated RPC", cargo_run("etcd-admin-codegen", &["--check"])).run(report)?;
    // Advisories are not here: their database would have to be fetched anew by every run.
    let mut bans = Command::new(deny);
    bans.args(["--workspace", "--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    Phase::of("dependencies", bans).run(report)
}

/// For the next fresh clone. That this fails makes that one slower, and is no failure of what is tested.
fn keep_dependencies(report: &mut Report, cache: &Cache) {
    println!("\n== compiled dependencies");
    let begun = Instant::now();
    if let Err(error) = dependencies::keep(cache) {
        println!("they are not kept: {error:#}");
    }
    report.phase("compiled dependencies", begun.elapsed());
}

/// Runs the tests on the main testbed, which is removed afterwards if it was not there before.
fn on_our_cluster(report: &mut Report, nextest: &Nextest, filter: &str) -> anyhow::Result<()> {
    let ours = cluster::kubeconfig(Instance::Main).is_none();
    // What is found out about all of them when they are over.
    let afterwards =
        || nextest.tests("what all of them asked of the API server", "cluster", "binary(afterwards)");
    let tested = Phase::of("cluster up", testbed(&["up"]))
        .run(report)
        .and_then(|()| Phase::of("our image", cargo_run("xtask", &["push"])).run(report))
        .and_then(|()| cluster_tests(report, nextest, filter))
        .and_then(|()| afterwards().run(report));
    // What failed is kept for a look, except where nobody can look.
    if ours && (tested.is_ok() || in_ci()) {
        return tested.and(Phase::of("cluster down", testbed(&["down"])).run(report));
    }
    tested
}

/// What nextest ends with where tests have failed, and not something else.
const TESTS_FAILED: i32 = 100;

/// Runs them. In CI, those that a busy machine may have failed are run once more, and are flaky if they pass then.
fn cluster_tests(report: &mut Report, nextest: &Nextest, filter: &str) -> anyhow::Result<()> {
    let mut phase = nextest.tests(ON_CLUSTER, "cluster", filter);
    let (status, results) = phase.see(report)?;
    let results = results.context("the tests left no results")?;
    report.tests(&results)?;
    let again = again::worth_it(report.all());
    if status.code() != Some(TESTS_FAILED) || !in_ci() || again.is_empty() {
        return phase.succeeded(status);
    }
    let filter = again::filter(&again);
    let (_, results) = nextest.tests("what failed, once more", "cluster", &filter).see(report)?;
    report.tests_again(&results.context("the tests left no results")?)?;
    if report.all().iter().any(|test| !test.passed) {
        bail!("{ON_CLUSTER} failed, also when they were run once more, or may not fail even once");
    }
    Ok(())
}

fn in_ci() -> bool {
    env::var_os("CI").is_some()
}

/// Tools, built if they are not there yet.
fn tools<const N: usize>(
    report: &mut Report,
    cache: &Cache,
    recipes: &[CargoTool; N],
) -> anyhow::Result<[PathBuf; N]> {
    println!("== tools");
    let begun = Instant::now();
    let mut programs = [(); N].map(|()| PathBuf::new());
    for (program, recipe) in programs.iter_mut().zip(recipes) {
        if !cache.has(recipe) {
            println!("{} {}: built, about {}", recipe.name(), recipe.version(), in_words(recipe.usual()));
        }
        *program = cache.get(recipe)?.path.join("bin").join(recipe.name());
    }
    report.phase("tools", begun.elapsed());
    Ok(programs)
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
