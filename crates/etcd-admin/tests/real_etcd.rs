//! The client against real etcd processes of the supported minors.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test's functions may panic too"
)]

use std::{sync::Arc, time::Duration};

use etcd_admin::{
    Alarm, AlarmKind, AuthProblem, Cause, Connect, Credentials, Error, ListedMember, Member, MemberId,
    Revision, Role,
};
use futures::StreamExt as _;
use loopback::{Cluster, VERSIONS, cause, eventually, id_of, leader};
use sha2::{Digest as _, Sha256};

/// One test per version, so that a failure names it and versions run side by side.
macro_rules! on_every_version {
    ($($name:ident)*) => {$(
        mod $name {
            #[tokio::test]
            async fn on_3_5() { super::steps::$name(super::VERSIONS[0]).await; }
            #[tokio::test]
            async fn on_3_6() { super::steps::$name(super::VERSIONS[1]).await; }
            #[tokio::test]
            async fn on_3_7() { super::steps::$name(super::VERSIONS[2]).await; }
        }
    )*};
}

on_every_version! {
    a_member_tells_who_it_is_and_what_it_holds
    without_a_quorum_only_what_a_member_knows_itself_is_answered
    a_learner_joins_catches_up_and_is_promoted
    a_learner_that_begins_with_a_snapshot_serves_when_somebody_asks_for_alarms
    the_leader_moves_only_when_it_is_asked_itself
    equal_members_have_equal_hashes
    a_snapshot_comes_whole_with_its_checksum
    authentication_neither_hides_nor_fakes_a_quorum
    a_full_database_raises_an_alarm_that_can_be_ended
    a_removed_member_is_gone_from_the_list
}

mod steps {
    use super::*;

    pub(crate) async fn a_member_tells_who_it_is_and_what_it_holds(version: &str) {
        let cluster = Cluster::start(version, 1).await;
        let member = cluster.members[0].handle();
        let written = member.put(b"foo", b"bar").await.unwrap();
        assert_eq!(member.get(b"foo").await.unwrap().as_deref(), Some(&b"bar"[..]));
        assert_eq!(member.get(b"nothing").await.unwrap(), None);
        let later = member.put(b"later", b"x").await.unwrap();
        let read = member.read(b"foo").await.unwrap();
        assert_eq!(read.found.map(|pair| pair.modified), Some(written));
        assert_eq!((read.revision, written < later), (later, true));
        // From 3.6 on the data has a version, once the members have agreed on one.
        let has_version = !version.starts_with("3.5");
        let status = eventually("the data has a version", String::new, async || {
            Some(member.status().await.unwrap())
                .filter(|status| status.storage_version.is_some() == has_version)
        })
        .await;
        assert_eq!(status.version, version);
        assert_eq!((status.leader, status.role), (Some(status.member), Role::Voter));
        assert_eq!(status.revision, later);
        assert!(status.applied.is_some_and(|applied| applied <= status.committed));
        assert!(status.db_bytes >= status.db_bytes_in_use.unwrap());
        assert!(status.errors.is_empty(), "{:?}", status.errors);
        let list = member.members_linearizable().await.unwrap();
        assert_eq!((list.cluster, list.answered_by), (status.cluster, status.member));
        let expected = ListedMember {
            id: status.member,
            name: Some("m0".to_owned()),
            peer_urls: vec![cluster.members[0].peer_url.clone()],
            client_urls: vec![cluster.members[0].client_url.clone()],
            role: Role::Voter,
        };
        assert_eq!(list.members, [expected]);
        assert_eq!(list, member.members_as_seen().await.unwrap());
        assert_eq!(member.alarms().await.unwrap(), []);
        member.defragment().await.unwrap();
    }

    pub(crate) async fn without_a_quorum_only_what_a_member_knows_itself_is_answered(version: &str) {
        let mut cluster = Cluster::start(version, 3).await;
        let survivor = cluster.members[0].handle();
        let full = survivor.members_linearizable().await.unwrap();
        for process in &mut cluster.members[1..] {
            process.kill();
        }
        let short = survivor.within(Duration::from_secs(2));
        eventually("the survivor sees that there is no leader", String::new, async || {
            survivor.status().await.unwrap().leader.is_none().then_some(())
        })
        .await;
        for outcome in [short.ping().await, short.members_linearizable().await.map(drop)] {
            let error = outcome.unwrap_err();
            // etcd knows our deadline, and may end the stream at that moment.
            let expected =
                matches!(error.cause, Cause::NoQuorum | Cause::Timeout { .. } | Cause::ConnectionLost { .. });
            assert!(expected, "{error}");
            assert!(!error.maybe_done(), "a read does nothing: {error}");
        }
        assert_eq!(survivor.members_as_seen().await.unwrap().members, full.members);
        let error = short.put(b"foo", b"bar").await.unwrap_err();
        assert!(error.maybe_done() || error.cause == Cause::NoQuorum, "{error}");
        let error = short.remove_member(full.members[0].id).await.unwrap_err();
        assert!(
            matches!(
                error.cause,
                Cause::Timeout { maybe_done: true }
                    | Cause::ConnectionLost { maybe_done: true }
                    | Cause::NoQuorum
                    | Cause::NotEnoughStarted
                    | Cause::UnhealthyCluster
            ),
            "{error}"
        );
        // The handle made before the loss serves again without being made anew.
        cluster.run(1, "new");
        eventually("the quorum is back", String::new, async || short.ping().await.ok()).await;
    }

    pub(crate) async fn a_learner_joins_catches_up_and_is_promoted(version: &str) {
        let mut cluster = Cluster::start(version, 1).await;
        let old = cluster.members[0].handle();
        let index = cluster.push();
        let urls = [cluster.members[index].peer_url.clone()];
        let added = old.add_member(&urls, Role::Learner).await.unwrap();
        assert_eq!((added.role, &added.name, &added.peer_urls[..]), (Role::Learner, &None, &urls[..]));
        assert_eq!(cause(old.add_member(&urls, Role::Learner).await), Cause::MemberExists);
        let other = ["http://127.0.0.1:1".to_owned()];
        assert_eq!(cause(old.add_member(&other, Role::Learner).await), Cause::TooManyLearners);
        assert_eq!(cause(old.promote_member(added.id).await), Cause::LearnerNotReady);
        cluster.run(index, "existing");
        let new = cluster.members[index].handle();
        let status = eventually(
            "the learner answers",
            || cluster.members[index].log(),
            async || new.status().await.ok(),
        )
        .await;
        assert_eq!((status.member, status.role), (added.id, Role::Learner));
        assert_eq!(cause(new.ping().await), Cause::RefusedByLearner);
        let list = eventually("the learner is promoted", String::new, async || {
            match old.promote_member(added.id).await {
                Ok(list) => Some(list),
                Err(error) => {
                    assert_eq!(error.cause, Cause::LearnerNotReady, "{error}");
                    None
                }
            }
        })
        .await;
        assert_eq!(list.members.iter().filter(|member| member.role == Role::Voter).count(), 2);
        // Right after its promotion its progress is not known yet, and that is asked first.
        eventually("a voter is not promoted", String::new, async || {
            let refused = cause(old.promote_member(added.id).await);
            assert!([Cause::NotALearner, Cause::LearnerNotReady].contains(&refused), "{refused:?}");
            (refused == Cause::NotALearner).then_some(())
        })
        .await;
        eventually("the new voter reads through the quorum", String::new, async || new.ping().await.ok())
            .await;
    }

    /// etcd 3.6 and 3.7 wait for another entry, where nobody writes for ever.
    pub(crate) async fn a_learner_that_begins_with_a_snapshot_serves_when_somebody_asks_for_alarms(
        version: &str,
    ) {
        const MANY: usize = 6000;
        let mut cluster = Cluster::start_with(version, 1, &["--snapshot-count=500".to_owned()]).await;
        let old = cluster.members[0].handle();
        let writes = (0..MANY).map(async |_| old.put(b"foo", b"bar").await.unwrap());
        futures::stream::iter(writes).buffer_unordered(64).for_each(async |_| ()).await;
        let index = cluster.push();
        let urls = [cluster.members[index].peer_url.clone()];
        old.add_member(&urls, Role::Learner).await.unwrap();
        cluster.run(index, "existing");
        let new = cluster.members[index].handle();
        let log = || cluster.members[index].log();
        eventually("it has a snapshot", log, async || log().contains("applied snapshot").then_some(())).await;
        // Where its own announcement comes after the snapshot, that is the entry. So this is told, and is no failure; if it is always so,
        // nobody need ask any more.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let alone = new.within(Duration::from_secs(1)).status().await.is_ok();
        println!("etcd {version}: {}", if alone { "it serves by itself" } else { "it waits" });
        eventually("the learner answers", log, async || {
            old.alarms().await.unwrap();
            new.within(Duration::from_secs(1)).status().await.ok()
        })
        .await;
    }

    pub(crate) async fn the_leader_moves_only_when_it_is_asked_itself(version: &str) {
        let cluster = Cluster::start(version, 3).await;
        let handles = cluster.handles();
        let from = leader(&handles).await;
        let to = (from + 1) % 3;
        let target = id_of(&handles[to]).await;
        let term = handles[from].status().await.unwrap().term;
        assert_eq!(cause(handles[to].move_leader(target).await), Cause::NotLeader);
        assert_eq!(cause(handles[from].move_leader(MemberId(4711)).await), Cause::BadTransferee);
        handles[from].move_leader(target).await.unwrap();
        assert_eq!(leader(&handles).await, to);
        assert_eq!(handles[to].status().await.unwrap().term.0, term.0 + 1);
    }

    pub(crate) async fn equal_members_have_equal_hashes(version: &str) {
        let cluster = Cluster::start(version, 3).await;
        let handles = cluster.handles();
        let mut last = Revision(0);
        for index in 0..20_u8 {
            last = handles[usize::from(index) % 3].put(b"key", &[index]).await.unwrap();
        }
        let mut hashes = Vec::new();
        for handle in &handles {
            handle.ping().await.unwrap();
            hashes.push(handle.hash_keys(last).await.unwrap());
        }
        assert!(
            hashes.iter().all(|hash| (hash.hash, hash.compacted) == (hashes[0].hash, hashes[0].compacted))
        );
        let earlier = handles[0].hash_keys(Revision(last.0 - 1)).await.unwrap();
        assert_ne!(earlier.hash, hashes[0].hash);
        assert_eq!(cause(handles[0].hash_keys(Revision(last.0 + 100)).await), Cause::FutureRevision);
        handles[0].compact(last).await.unwrap();
        assert_eq!(cause(handles[0].hash_keys(Revision(2)).await), Cause::Compacted);
        assert_eq!(cause(handles[0].compact(last).await), Cause::Compacted);
    }

    pub(crate) async fn a_snapshot_comes_whole_with_its_checksum(version: &str) {
        let cluster = Cluster::start(version, 1).await;
        let member = cluster.members[0].handle();
        for index in 0..200_u8 {
            member.put(&[b'k', index], &[index; 2000]).await.unwrap();
        }
        // A snapshot has the version of what it holds once the members have agreed on one, and that is on disk.
        if !version.starts_with("3.5") {
            eventually("a snapshot tells its version", String::new, async || {
                let mut early = member.snapshot().await.unwrap();
                early.next().await.unwrap();
                early.version().is_some().then_some(())
            })
            .await;
        }
        let mut snapshot = member.snapshot().await.unwrap();
        assert_eq!(snapshot.remaining(), None);
        let mut bytes = Vec::new();
        let mut told = None;
        while let Some(part) = snapshot.next().await.unwrap() {
            bytes.extend_from_slice(&part);
            let total = bytes.len() as u64 + snapshot.remaining().unwrap();
            assert!(
                *told.get_or_insert(total) == total || bytes.len() as u64 == total,
                "the size is told once and for all"
            );
            assert_eq!(snapshot.version().is_some(), !version.starts_with("3.5"));
        }
        assert_eq!(told, Some(bytes.len() as u64 - 32));
        assert_eq!(bytes.len() % 512, 32);
        let (data, checksum) = bytes.split_at(bytes.len() - 32);
        assert_eq!(Sha256::digest(data).as_slice(), checksum);
        assert!(data.len() > 200 * 2000);
    }

    /// A user `root` with the role `root`: without it, etcd does not enable authentication.
    async fn make_root(anybody: &Member) {
        anybody.add_user("root", "secret").await.unwrap();
        assert_eq!(cause(anybody.add_user("root", "secret").await), Cause::Auth(AuthProblem::Exists));
        assert_eq!(cause(anybody.enable_auth().await), Cause::Auth(AuthProblem::State));
        match anybody.add_role("root").await {
            Ok(()) | Err(Error { cause: Cause::Auth(AuthProblem::Exists), .. }) => {}
            Err(error) => panic!("{error}"),
        }
        anybody.grant_role("root", "root").await.unwrap();
    }

    pub(crate) async fn authentication_neither_hides_nor_fakes_a_quorum(version: &str) {
        let mut cluster = Cluster::start(version, 3).await;
        let anybody = cluster.members[0].handle();
        make_root(&anybody).await;
        assert!(!anybody.auth_enabled().await.unwrap());
        let connect = |password: &str| Connect {
            credentials: Some(Arc::new(Credentials::new("root", password))),
            ..Connect::default()
        };
        let root = cluster.members[0].handle_with(&connect("secret"));
        root.put(b"foo", b"before").await.unwrap();
        root.enable_auth().await.unwrap();
        assert!(root.auth_enabled().await.unwrap());
        root.put(b"foo", b"bar").await.unwrap();
        assert_eq!(cause(anybody.get(b"foo").await), Cause::Auth(AuthProblem::Required));
        let wrong = cluster.members[0].handle_with(&connect("wrong"));
        assert_eq!(cause(wrong.get(b"foo").await), Cause::Auth(AuthProblem::Failed));
        anybody.ping().await.unwrap();
        assert_eq!(root.members_linearizable().await.unwrap().members.len(), 3);
        // Tokens do not outlive the process that gave them: the handle logs in again by itself.
        cluster.members[0].kill();
        cluster.run(0, "new");
        eventually(
            "root reads again after a restart",
            || cluster.members[0].log(),
            async || root.within(Duration::from_secs(2)).get(b"foo").await.ok(),
        )
        .await;
        // The other handle's connection went with the old process: what it says first is that.
        let again = || cluster.members[0].log();
        eventually("anybody hears of a quorum again", again, async || anybody.ping().await.ok()).await;
        for process in &mut cluster.members[1..] {
            process.kill();
        }
        let short = anybody.within(Duration::from_secs(2));
        let error =
            eventually("nobody answers for a quorum", String::new, async || short.ping().await.err()).await;
        assert!(
            matches!(error.cause, Cause::NoQuorum | Cause::Timeout { .. } | Cause::LeaderChanged),
            "{error}"
        );
    }

    pub(crate) async fn a_full_database_raises_an_alarm_that_can_be_ended(version: &str) {
        let quota = ["--quota-backend-bytes=1048576".to_owned()];
        let cluster = Cluster::start_with(version, 1, &quota).await;
        let member = cluster.members[0].handle();
        let value = vec![7; 100_000];
        let full = loop {
            if let Err(error) = member.put(b"foo", &value).await {
                break error;
            }
        };
        assert_eq!(full.cause, Cause::NoSpace, "{full}");
        assert!(full.maybe_done(), "etcd may apply what it refuses for lack of space");
        let alarm = Alarm { member: Some(id_of(&member).await), kind: AlarmKind::NoSpace };
        assert_eq!(member.alarms().await.unwrap(), [alarm]);
        assert_eq!(member.status().await.unwrap().alarms(), [AlarmKind::NoSpace].into());
        member.ping().await.unwrap();
        let now = member.status().await.unwrap().revision;
        member.compact(now).await.unwrap();
        member.defragment().await.unwrap();
        member.disarm(alarm).await.unwrap();
        assert_eq!(member.alarms().await.unwrap(), []);
        assert_eq!(member.status().await.unwrap().alarms(), [].into());
        member.put(b"foo", b"bar").await.unwrap();
    }

    pub(crate) async fn a_removed_member_is_gone_from_the_list(version: &str) {
        let cluster = Cluster::start(version, 3).await;
        let handles = cluster.handles();
        let from = leader(&handles).await;
        let victim = (from + 1) % 3;
        let id = id_of(&handles[victim]).await;
        let error = handles[from].remove_member(MemberId(4711)).await.unwrap_err();
        assert_eq!(error.cause, Cause::MemberNotFound);
        assert!(!error.maybe_done());
        let list = eventually("etcd lets the member go", String::new, async || {
            match handles[from].remove_member(id).await {
                Ok(list) => Some(list),
                Err(error) => {
                    assert_eq!(error.cause, Cause::UnhealthyCluster, "{error}");
                    None
                }
            }
        })
        .await;
        assert_eq!(list.members.len(), 2);
        let other = (from + 2) % 3;
        assert_eq!(handles[other].members_linearizable().await.unwrap().members, list.members);
        assert_eq!(cause(handles[from].remove_member(id).await), Cause::MemberNotFound);
    }
}
