//! The `testbed` command: `make cluster-up` and its siblings.

mod load;

use std::{
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use testbed::{
    addons::DnsAnswers,
    cluster::{self, ClusterError, Settings},
    images::EtcdVersion,
    instance::Instance,
    kit::{Cluster, Places},
    machine, provisioner,
};

/// A real three-node Kubernetes with real etcd on this machine.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Which testbed of this machine: `main`, `spare`, `second` or `third`.
    #[arg(long, global = true, env = "TESTBED_INSTANCE", default_value = "main")]
    instance: Instance,

    /// Whose cluster it is: the checkout that this binary was built in, unless said otherwise.
    #[arg(long, global = true, env = "TESTBED_CHECKOUT")]
    checkout: Option<PathBuf>,

    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start the cluster, or repair what is left of one.
    Up {
        /// The etcd versions whose images can be pulled in it.
        #[arg(long, env = "TESTBED_ETCD", value_delimiter = ',', default_values_t = EtcdVersion::ALL)]
        etcd: Vec<EtcdVersion>,
        /// How many seconds an answer of the cluster's DNS may be believed.
        #[arg(long, env = "TESTBED_DNS_TTL", default_value_t = DnsAnswers::default().ttl)]
        dns_ttl: u32,
        /// How many seconds the cluster's DNS keeps an answer itself (0: not at all).
        #[arg(long, env = "TESTBED_DNS_CACHE", default_value_t = DnsAnswers::default().cache)]
        dns_cache: u32,
    },
    /// Build everything that a cluster needs, without starting one.
    Build,
    /// Remove the cluster and all that it left on this machine.
    Down,
    /// Say what runs where and how much memory it takes.
    Status,
    /// Print the path of the administrator's kubeconfig.
    Kubeconfig,
    /// Run kubectl on the cluster.
    Kubectl {
        /// What kubectl is given.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Write to and read from an etcd cluster all the time, then say whether it kept its promises.
    Load(load::Arguments),
    #[command(hide = true, subcommand)]
    Machine(MachineVerb),
}

/// Prints a line. Whoever reads may have seen enough (`| head`): that is no failure.
fn print(text: &dyn fmt::Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// What the testbed asks of itself inside and around its machines.
#[derive(Subcommand)]
enum MachineVerb {
    /// Start PID 1 of a machine.
    Boot { name: String, dir: PathBuf },
    /// Be PID 1 of a machine.
    Init { name: String, dir: PathBuf },
    /// Provision a node's volumes.
    Provision { node: String, kubeconfig: PathBuf, disk: PathBuf },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let Cli { instance, checkout, command } = cli;
    let checkout = checkout.unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).to_owned()
    });
    match command {
        Verb::Up { etcd, dns_ttl, dns_cache } => {
            let dns = DnsAnswers { ttl: dns_ttl, cache: dns_cache };
            in_runtime(cluster::up(&Settings { instance, checkout, etcd, dns }))?;
        }
        Verb::Build => {
            let (etcd, dns) = (EtcdVersion::ALL.to_vec(), DnsAnswers::default());
            cluster::build(&Settings { instance, checkout, etcd, dns })?;
        }
        Verb::Down => {
            cluster::down(instance, &checkout)?;
            println!("the cluster is removed");
        }
        Verb::Status => print(&in_runtime(cluster::status(instance))?)?,
        Verb::Kubeconfig => print(&places(instance)?.kubeconfig.display())?,
        Verb::Kubectl { arguments } => return kubectl(instance, &arguments),
        Verb::Load(arguments) => in_runtime(load::run(places(instance)?, arguments))?,
        // These two fork into other namespaces: no other thread may be running.
        Verb::Machine(MachineVerb::Boot { name, dir }) => machine::boot_here(&name, &dir)?,
        Verb::Machine(MachineVerb::Init { name, dir }) => machine::run_init(&name, &dir)?,
        Verb::Machine(MachineVerb::Provision { node, kubeconfig, disk }) => in_runtime(async {
            let cluster = Cluster::connect_with(&kubeconfig).await?;
            anyhow::Ok(provisioner::run(cluster.client(), node, disk).await?)
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

fn in_runtime<T, E>(work: impl Future<Output = Result<T, E>>) -> anyhow::Result<T>
where
    anyhow::Error: From<E>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime could not be started")?;
    Ok(runtime.block_on(work)?)
}

/// The cluster that is named explicitly, or the one of this machine.
fn places(instance: Instance) -> anyhow::Result<Places> {
    match Places::named() {
        Some(places) => Ok(places),
        None => Ok(cluster::places(instance).ok_or(ClusterError::NotRunning)?),
    }
}

fn kubectl(instance: Instance, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let places = places(instance)?;
    let status = std::process::Command::new(&places.kubectl)
        .arg("--kubeconfig")
        .arg(&places.kubeconfig)
        .args(arguments)
        .status()
        .with_context(|| format!("{} could not be run", places.kubectl.display()))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
