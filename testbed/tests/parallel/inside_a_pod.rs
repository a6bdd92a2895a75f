//! The kit's ways into a pod: commands with their input and exit code, logs, and connections to its ports.

use std::time::Duration;

use anyhow::ensure;
use testbed::kit::{Exec, handmade::HandMade, in_namespace, until_it_succeeds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{SOON, script_pod};

#[tokio::test]
async fn commands_run_in_a_pod_with_their_input_and_end_with_their_exit_code() -> anyhow::Result<()> {
    in_namespace("commands_run_in_a_pod_with_their_input", async |ns| {
        ns.apply(&script_pod("shell", "echo ready; sleep 600")).await?;
        ns.pod_ready("shell").await?;
        // Who has no probe is Ready before it has said anything.
        until_it_succeeds(SOON, async || {
            let said = ns.logs("shell", None).await?;
            ensure!(said == "ready\n", "{said:?}");
            Ok(())
        })
        .await?;

        let output = ns.exec("shell", &["/bin/sh", "-c", "echo out; echo err >&2; exit 3"]).await?;
        ensure!((output.stdout.as_str(), output.stderr.as_str(), output.code) == ("out\n", "err\n", 3));

        // More than any buffer on the way holds, in both directions.
        let much = "0123456789abcdef".repeat(65536);
        let how = Exec { stdin: Some(much.as_bytes()), container: Some("shell"), ..Exec::default() };
        let echoed = ns.exec_with("shell", &["cat"], how).await?.stdout;
        ensure!(echoed == much, "{} of {} bytes came back", echoed.len(), much.len());

        let how = Exec { stdin: Some(b"nobody reads this"), ..Exec::default() };
        ensure!(ns.exec_with("shell", &["true"], how).await?.code == 0);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_command_that_cannot_run_or_takes_too_long_says_so() -> anyhow::Result<()> {
    in_namespace("a_command_that_cannot_run_or_takes_too_long_says_so", async |ns| {
        ns.apply(&script_pod("shell", "sleep 600")).await?;
        ns.pod_ready("shell").await?;
        let how = Exec { deadline: Duration::from_secs(1), ..Exec::default() };
        let refusals = [
            (ns.exec_with("shell", &["sleep", "60"], how).await, "not done within 1s"),
            (ns.exec("shell", &["no-such-command"]).await, "executable file not found"),
            (ns.exec("no-such-pod", &["true"]).await, "not found"),
        ];
        for (refusal, expected) in refusals {
            let error = refusal.err().map(anyhow::Error::from);
            let said = error.map(|error| format!("{error:#}")).unwrap_or_default();
            ensure!(said.contains(expected), "{said:?} is not {expected:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_port_of_a_pod_can_be_dialled() -> anyhow::Result<()> {
    in_namespace("a_port_of_a_pod_can_be_dialled", async |ns| {
        let etcd = HandMade { name: "etcd", namespace: ns.name(), version: "3.6.14", size: 1 };
        ns.apply(&etcd.manifest()).await?;
        ns.pods_ready(&etcd.labels(), 1).await?;

        let mut connection = ns.dial("etcd-0", 2379).await?;
        connection.write_all(b"GET /version HTTP/1.0\r\nHost: etcd\r\n\r\n").await?;
        let mut answer = String::new();
        tokio::time::timeout(SOON, connection.read_to_string(&mut answer)).await??;
        ensure!(answer.contains("\"etcdserver\":\"3.6.14\""), "{answer}");

        let mut nobody = ns.dial("etcd-0", 1).await?;
        let refused = tokio::time::timeout(SOON, nobody.read(&mut [0])).await?;
        ensure!(refused.is_err_and(|error| error.to_string().contains("refused")));
        Ok(())
    })
    .await
}
