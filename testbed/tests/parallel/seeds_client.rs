//! The seeds' way to look at an etcd cluster (S8): `kubectl run … -- /bin/sh` in a terminal, then put and get.

use std::time::Duration;

use anyhow::ensure;
use testbed::kit::{handmade::HandMade, in_namespace, pty::Terminal};

use crate::SOON;

/// Types a line until it has shown this: etcdctl gives up after five seconds, which a busy etcd may need.
async fn typed_until(terminal: &mut Terminal, line: &str, shown: &str) -> anyhow::Result<()> {
    for _ in 0..3 {
        terminal.type_line(line).await?;
        if terminal.see(shown, Duration::from_secs(20)).await.is_ok() {
            return Ok(());
        }
    }
    terminal.type_line(line).await?;
    terminal.see(shown, SOON).await?;
    Ok(())
}

#[tokio::test]
async fn the_seeds_client_pod_works_as_written() -> anyhow::Result<()> {
    in_namespace("the_seeds_client_pod_works_as_written", async |ns| {
        // Its Service for clients is then called as in the seeds.
        let etcd =
            HandMade { name: "example-etcd-cluster", namespace: ns.name(), version: "3.5.33", size: 1 };
        ns.apply(&etcd.manifest()).await?;
        ns.pods_ready(&etcd.labels(), 1).await?;

        let command = "run --rm -i --tty etcdctl --image quay.io/coreos/etcd --restart=Never -- /bin/sh";
        let words: Vec<_> = command.split(' ').collect();
        let mut terminal = ns.kubectl_tty(&words)?;
        // kubectl says how to get a prompt that was printed before it was attached: by pressing enter.
        terminal.see("If you don't see a command prompt, try pressing enter.", SOON).await?;
        terminal.type_line("").await?;
        terminal.see("# ", SOON).await?;
        terminal.type_line("export ETCDCTL_API=3").await?;
        terminal.type_line("export ETCDCSVC=http://example-etcd-cluster-client:2379").await?;
        typed_until(&mut terminal, "etcdctl --endpoints $ETCDCSVC put foo bar", "\nOK\r\n").await?;
        typed_until(&mut terminal, "etcdctl --endpoints $ETCDCSVC get foo", "\nfoo\r\nbar\r\n").await?;
        terminal.type_line("exit").await?;
        let ended = terminal.end(SOON).await?;
        ensure!(ended.code == 0, "{ended}");
        ensure!(ended.stdout.contains("pod \"etcdctl\" deleted"), "{ended}");
        Ok(())
    })
    .await
}
