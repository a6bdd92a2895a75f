//! A reader of a seed: types what it says, in its order, into a shell on this cluster, and compares what is printed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, bail, ensure};
use e2e::{
    SOON,
    printed::printed,
    repository,
    seeds::{Block, Table},
};
use tempfile::TempDir;
use testbed::kit::{
    Cluster,
    pty::{Terminal, TerminalError},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time::{Duration, Instant, sleep, timeout},
};

/// What the client's shell says when it waits for a line.
const PROMPT: &str = "# ";
/// After so long without a word, a person types it again: etcdctl gives up after five seconds, which a busy etcd may need.
const TYPED_AGAIN: Duration = Duration::from_secs(20);

/// Somebody with a shell and, at times, a client's shell in a pod.
pub(crate) struct Reader {
    /// The reader's own copy of the repository's examples, which the seeds ask to edit.
    copy: TempDir,
    /// The folder where the reader is.
    folder: PathBuf,
    environment: [(&'static str, String); 2],
    client: Option<Terminal>,
}

impl Reader {
    /// Somebody in this folder of the repository, of which there are the examples.
    pub(crate) fn on(cluster: &Cluster, folder: &str) -> anyhow::Result<Self> {
        let places = cluster.places();
        let programs = places.kubectl.parent().context("kubectl has no folder")?;
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let environment = [("PATH", path), ("KUBECONFIG", places.kubeconfig.display().to_string())];
        let copy = tempfile::tempdir().context("no folder for the reader")?;
        copy_folder(&repository().join("example"), &copy.path().join("example"))?;
        let folder = copy.path().join(folder);
        Ok(Self { copy, folder, environment, client: None })
    }

    /// Works in another namespace from now on, as somebody does whose kubectl is set up for it, and makes the one edit that the book asks
    /// for then.
    pub(crate) async fn move_to(&mut self, namespace: &str) -> anyhow::Result<()> {
        let own = self.copy.path().join("kubeconfig");
        for (name, value) in &mut self.environment {
            if *name == "KUBECONFIG" {
                fs::copy(&*value, &own).with_context(|| own.display().to_string())?;
                *value = own.display().to_string();
            }
        }
        self.run(&format!("kubectl config set-context --current --namespace={namespace}"), None).await?;
        let edit =
            format!("sed -i 's/namespace: default/namespace: {namespace}/' etcd-operator-rolebinding.yaml");
        self.run(&edit, None).await.map(drop)
    }

    /// Reads the blocks of a seed that a test shows.
    pub(crate) async fn read(&mut self, table: &Table, seed: &str, test: &str) -> anyhow::Result<()> {
        for block in table.shown_by(seed, test) {
            self.block(block).await?;
        }
        ensure!(self.client.is_none(), "the client's shell is still open");
        Ok(())
    }

    /// One block: nothing is to be done about a listing, whose file is used by what follows.
    pub(crate) async fn block(&mut self, block: &Block) -> anyhow::Result<()> {
        let read = async {
            let mut typed = block.typed();
            if let [command, rest @ ..] = typed
                && command.contains(" --tty ")
            {
                self.open_client(command).await?;
                typed = rest;
            }
            let Some((last, before)) = typed.split_last() else { return Ok(()) };
            if let Some(client) = self.client.take() {
                return at_client(client, typed, &block.prints).await;
            }
            let mut output = String::new();
            for command in before {
                output += &self.run(command, block.fails.as_ref()).await?;
            }
            if last.ends_with(" -w") {
                self.watch(last, &output, &block.prints).await
            } else {
                self.until(last, block, &output).await
            }
        };
        read.await.with_context(|| format!("the block {} of the seeds", block.at))
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        let environment = self.environment.iter().map(|(name, value)| (*name, value.as_str()));
        shell.args(["-c", command]).current_dir(&self.folder).envs(environment);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        shell
    }

    /// Runs a command to its end; all that it printed.
    pub(crate) async fn run(&self, command: &str, fails: Option<&String>) -> anyhow::Result<String> {
        let ended = timeout(SOON, self.shell(command).output())
            .await
            .with_context(|| format!("{command}: no end"))??;
        let said =
            format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let failed = fails.is_some_and(|fails| fails == command);
        ensure!(ended.status.success() != failed, "{command}: {}\n{said}", ended.status);
        Ok(said)
    }

    /// Runs a block's last command; one that only looks, until it shows what the seed shows.
    async fn until(&self, command: &str, block: &Block, before: &str) -> anyhow::Result<()> {
        let looks = ["kubectl get ", "kubectl describe "].iter().any(|look| command.starts_with(look));
        let end = Instant::now() + SOON;
        loop {
            let output = format!("{before}{}", self.run(command, block.fails.as_ref()).await?);
            match printed(&block.prints, &output) {
                Ok(()) => return Ok(()),
                Err(difference) if !looks || Instant::now() > end => bail!("{command}: {difference}"),
                // Some of what a seed shows is there for seconds only.
                Err(_) => sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// Watches until all has been seen, and then presses Ctrl-C.
    async fn watch(&self, command: &str, before: &str, expected: &[String]) -> anyhow::Result<()> {
        let mut child = self.shell(&format!("exec {command}")).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let mut output = before.to_owned();
        let watching = async {
            while printed(expected, &output).is_err() {
                let Some(line) = lines.next_line().await? else { bail!("{command} ended") };
                output += &line;
                output.push('\n');
            }
            Ok(())
        };
        let watched = timeout(SOON, watching).await;
        child.kill().await?;
        match watched {
            Ok(watched) => watched,
            Err(_) => printed(expected, &output).map_err(anyhow::Error::msg),
        }
    }

    /// Opens a shell in a pod, and waits for its prompt.
    async fn open_client(&mut self, command: &str) -> anyhow::Result<()> {
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let argv: Vec<_> = ["env".to_owned()]
            .into_iter()
            .chain(variables)
            .chain(["sh".to_owned(), "-c".to_owned(), command.to_owned()])
            .collect();
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        for _ in 0..3 {
            let mut client = Terminal::open(&argv)?;
            // kubectl says how to get a prompt that was printed before it was attached: by pressing enter.
            client.see("If you don't see a command prompt, try pressing enter.", SOON).await?;
            client.type_line("").await?;
            client.see(PROMPT, SOON).await?;
            // A busy kubelet may not let it attach yet. Then it shows the log, and nobody hears what is typed.
            client.type_line("echo it-hears-$((1+1))").await?;
            if client.see("it-hears-2", TYPED_AGAIN).await.is_ok() {
                self.client = Some(client);
                return Ok(());
            }
            drop(client);
            self.run("kubectl delete pod etcdctl --ignore-not-found --now", None).await?;
        }
        bail!("{command}: nobody hears what is typed")
    }
}

/// Types lines into the client's shell, sees what is to be printed, and leaves it.
async fn at_client(mut client: Terminal, typed: &[String], prints: &[String]) -> anyhow::Result<()> {
    let end = Instant::now() + SOON;
    let mut output = String::new();
    'typing: loop {
        for line in typed.iter().filter(|line| *line != "exit") {
            client.type_line(line).await?;
        }
        while let Err(difference) = printed(prints, &output) {
            match client.see("\n", TYPED_AGAIN).await {
                // What was typed ahead is echoed at once, and each answer then stands behind the prompts of the shell.
                Ok(line) => output += line.replace('\r', "").trim_start_matches(PROMPT),
                Err(TerminalError::Deadline { .. }) if Instant::now() < end => continue 'typing,
                Err(error) => return Err(error).context(difference),
            }
        }
        break;
    }
    // Whatever became of what was typed once more.
    client.type_line("exit 0").await?;
    let ended = client.end(SOON).await?;
    ensure!(ended.code == 0 && ended.stdout.contains("pod \"etcdctl\" deleted"), "{ended}");
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
