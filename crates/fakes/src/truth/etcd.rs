//! FAKES: what etcd answers, step by step. Against the fake in a unit test, against real processes in the tests on real etcd.

use std::time::Duration;

use etcd_admin::{Cause, Error, Member, MemberId, Role};
use tokio::time::{Instant, sleep};
use tonic::Code;

/// How long something may take that happens by itself.
const PATIENCE: Duration = Duration::from_mins(1);

/// A place where members of one cluster run. Member 0 begins it; the others join.
#[allow(async_fn_in_trait, reason = "it is only used by tests, on one thread")]
pub trait Lab {
    /// Starts a member, for the first time or on its data.
    async fn start(&mut self, index: usize);
    /// Ends a member's process, at once.
    async fn stop(&mut self, index: usize);
    /// A handle on a member.
    fn handle(&self, index: usize) -> Member;
    /// Where peers reach a member.
    fn peer_url(&self, index: usize) -> String;
}

/// How far it came.
struct Steps(usize);

impl Steps {
    /// This has to be so.
    fn expect(&mut self, what: &str, is_so: bool, found: &impl std::fmt::Debug) -> Result<(), String> {
        self.0 += 1;
        if is_so { Ok(()) } else { Err(format!("{what}: {found:?}")) }
    }

    /// This has to be refused, for one of these reasons.
    fn refused<T: std::fmt::Debug>(
        &mut self,
        what: &str,
        answer: &Result<T, Error>,
        causes: &[Cause],
    ) -> Result<(), String> {
        let is_so = answer.as_ref().is_err_and(|error| causes.contains(&error.cause));
        self.expect(what, is_so, answer)
    }

    /// This succeeds after a while; until then it is refused for one of these reasons, or for any if none is named.
    async fn eventually<T: std::fmt::Debug>(
        &mut self,
        what: &str,
        meanwhile: &[Cause],
        act: impl AsyncFn() -> Result<T, Error>,
    ) -> Result<T, String> {
        self.0 += 1;
        let begun = Instant::now();
        loop {
            let error = match act().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let allowed = meanwhile.is_empty() || meanwhile.contains(&error.cause);
            if !allowed || begun.elapsed() > PATIENCE {
                return Err(format!("{what}: {error}"));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// etcd is told our deadline, and may end the call by it a moment before we do: then the stream is reset.
const NO_QUORUM: [Cause; 6] = [
    Cause::NoQuorum,
    Cause::LeaderChanged,
    Cause::ConnectionLost { maybe_done: false },
    Cause::ConnectionLost { maybe_done: true },
    Cause::Timeout { maybe_done: false },
    Cause::Timeout { maybe_done: true },
];

/// Takes every step, and says how many they were; or at which one etcd tells another truth.
pub async fn check(lab: &mut impl Lab) -> Result<usize, String> {
    let mut steps = Steps(0);
    let added = alone(lab, &mut steps).await?;
    learner(lab, &mut steps, added).await?;
    leaders(lab, &mut steps).await?;
    without_quorum(lab, &mut steps).await?;
    leaving(lab, &mut steps, added).await?;
    Ok(steps.0)
}

/// A member that is alone, and who may be added to it.
async fn alone(lab: &mut impl Lab, steps: &mut Steps) -> Result<MemberId, String> {
    lab.start(0).await;
    let first = lab.handle(0);
    steps
        .eventually("a first member reads through its quorum of one", &[], async || first.ping().await)
        .await?;
    let status = first.status().await.map_err(|error| error.to_string())?;
    let leads = status.leader == Some(status.member) && status.role == Role::Voter;
    steps.expect("it leads, and votes", leads, &status)?;
    let list = first.members_linearizable().await.map_err(|error| error.to_string())?;
    let named = list.members.iter().map(|member| member.name.as_deref()).eq([Some("m0")]);
    let same = (list.cluster, list.answered_by) == (status.cluster, status.member);
    steps.expect("its list has it alone, under its name", named && same, &list)?;

    down(&first, steps, &status.version).await?;

    let urls = [lab.peer_url(1)];
    let added = first.add_member(&urls, Role::Learner).await.map_err(|error| error.to_string())?;
    let plain = added.role == Role::Learner && added.name.is_none() && added.peer_urls == urls;
    steps.expect("a learner is listed without a name", plain, &added)?;
    let again = first.add_member(&urls, Role::Learner).await;
    steps.refused("the same address again", &again, &[Cause::MemberExists])?;
    let second = first.add_member(&[lab.peer_url(2)], Role::Learner).await;
    steps.refused("a second learner", &second, &[Cause::TooManyLearners])?;
    let early = first.promote_member(added.id).await;
    steps.refused("a promotion before it has started", &early, &[Cause::LearnerNotReady])?;
    let nobody = first.promote_member(MemberId(4711)).await;
    steps.refused("a promotion of nobody", &nobody, &[Cause::MemberNotFound])?;
    let nobody = first.remove_member(MemberId(4711)).await;
    steps.refused("a removal of nobody", &nobody, &[Cause::MemberNotFound])?;
    let alone = first.remove_member(status.member).await;
    steps.refused(
        "the removal of the last voter",
        &alone,
        &[Cause::NotEnoughStarted, Cause::UnhealthyCluster],
    )?;
    Ok(added.id)
}

fn in_words(code: Code, message: &str) -> Cause {
    Cause::Other { code, message: message.to_owned() }
}

/// From 3.6 on etcd tells in which form its data is, and to which minor its members may go down.
async fn down(first: &Member, steps: &mut Steps, version: &str) -> Result<(), String> {
    let minor: Option<u64> = version.split('.').nth(1).and_then(|minor| minor.parse().ok());
    let Some(minor) = minor.filter(|minor| *minor >= 6) else { return Ok(()) };
    let (below, far) = (format!("3.{}", minor - 1), format!("3.{}", minor - 2));
    let validate = async || first.validate_downgrade(&below).await;
    steps.eventually("once a version is agreed on, it could go down by one minor", &[], validate).await?;
    let no_target = in_words(Code::InvalidArgument, "etcdserver: invalid downgrade target version");
    steps.refused(
        "to go down by two",
        &first.validate_downgrade(&far).await,
        std::slice::from_ref(&no_target),
    )?;
    let nothing = first.cancel_downgrade().await;
    steps.expect("to take back what was never allowed changes nothing", nothing.is_ok(), &nothing)?;
    first.enable_downgrade(&below).await.map_err(|error| error.to_string())?;
    let begun = Instant::now();
    loop {
        let status = first.status().await.map_err(|error| error.to_string())?;
        let is_below = |told: &Option<String>| told.as_ref().is_some_and(|told| told.starts_with(&below));
        if is_below(&status.downgrade) && is_below(&status.storage_version) {
            break;
        }
        let still = begun.elapsed() <= PATIENCE;
        steps.expect("allowed, its data comes into the older form, and it says both", still, &status)?;
        sleep(Duration::from_millis(100)).await;
    }
    let agreed = first.cluster_version().await;
    let is_below = agreed.as_ref().is_some_and(|agreed| agreed.starts_with(&below));
    steps.expect("the cluster has agreed on it while nobody runs it yet", is_below, &agreed)?;
    // From where the cluster is by then, that is no step down.
    steps.refused("to allow it twice", &first.enable_downgrade(&below).await, &[no_target])?;
    first.cancel_downgrade().await.map_err(|error| error.to_string())?;
    let status = first.status().await.map_err(|error| error.to_string())?;
    steps.expect("taken back, it is not told any more", status.downgrade.is_none(), &status)
}

/// A learner that starts, catches up and gets its vote.
async fn learner(lab: &mut impl Lab, steps: &mut Steps, added: MemberId) -> Result<(), String> {
    let (first, second) = (lab.handle(0), lab.handle(1));
    lab.start(1).await;
    let status = steps.eventually("a learner tells its status", &[], async || second.status().await).await?;
    steps.expect(
        "as a learner, under its ID",
        (status.member, status.role) == (added, Role::Learner),
        &status,
    )?;
    steps.refused("a read through a learner", &second.ping().await, &[Cause::RefusedByLearner])?;
    steps.refused("a list from a learner", &second.members_as_seen().await, &[Cause::RefusedByLearner])?;
    let promote = async || first.promote_member(added).await;
    steps.eventually("a promotion", &[Cause::LearnerNotReady], promote).await?;
    steps.refused("a second promotion", &first.promote_member(added).await, &[Cause::NotALearner])?;
    steps.eventually("a new voter reads through the quorum", &[], async || second.ping().await).await?;
    let lists = [first.members_linearizable().await, second.members_linearizable().await];
    let lists: Result<Vec<_>, _> = lists.into_iter().collect();
    let lists = lists.map_err(|error| error.to_string())?;
    let voters = |role: Role| role == Role::Voter;
    let agreed = lists[0].members == lists[1].members
        && lists[0].members.len() == 2
        && lists[0].members.iter().all(|member| voters(member.role) && member.name.is_some());
    steps.expect("both list two voters with names", agreed, &lists)
}

/// The leader moves, when it is asked itself.
async fn leaders(lab: &impl Lab, steps: &mut Steps) -> Result<(), String> {
    let handles = [lab.handle(0), lab.handle(1)];
    let status = handles[0].status().await.map_err(|error| error.to_string())?;
    let from = usize::from(status.leader != Some(status.member));
    let (leader, other) = (&handles[from], &handles[1 - from]);
    let target = other.status().await.map_err(|error| error.to_string())?;
    steps.refused(
        "a follower is asked to move the leader",
        &other.move_leader(target.member).await,
        &[Cause::NotLeader],
    )?;
    steps.refused("nobody is to lead", &leader.move_leader(MemberId(4711)).await, &[Cause::BadTransferee])?;
    leader.move_leader(target.member).await.map_err(|error| error.to_string())?;
    let now = other.status().await.map_err(|error| error.to_string())?;
    steps.expect(
        "the other one leads, in a new term",
        now.leader == Some(target.member) && now.term > target.term,
        &now,
    )
}

/// One of two voters ends, and comes back.
async fn without_quorum(lab: &mut impl Lab, steps: &mut Steps) -> Result<(), String> {
    let first = lab.handle(0).within(Duration::from_secs(2));
    lab.stop(1).await;
    steps
        .eventually("the other one sees that nobody leads", &[], async || {
            let status = first.status().await?;
            if status.leader.is_none() { Ok(()) } else { first.remove_member(MemberId(4711)).await.map(drop) }
        })
        .await?;
    steps.refused("a read without a quorum", &first.ping().await, &NO_QUORUM)?;
    steps.refused(
        "a list through a quorum that is not there",
        &first.members_linearizable().await,
        &NO_QUORUM,
    )?;
    let seen = first.members_as_seen().await.map_err(|error| error.to_string())?;
    steps.expect("a list as the member sees it", seen.members.len() == 2, &seen)?;
    let added = first.add_member(&[lab.peer_url(2)], Role::Learner).await;
    let mut causes = NO_QUORUM.to_vec();
    causes.extend([Cause::UnhealthyCluster, Cause::NotEnoughStarted]);
    steps.refused("a change without a quorum", &added, &causes)?;
    lab.start(1).await;
    steps.eventually("the quorum is back", &[], async || first.ping().await).await
}

/// A voter is removed, for good.
async fn leaving(lab: &mut impl Lab, steps: &mut Steps, leaving: MemberId) -> Result<(), String> {
    let (first, second) = (lab.handle(0), lab.handle(1).within(Duration::from_secs(1)));
    let remove = async || first.remove_member(leaving).await;
    let meanwhile = [Cause::UnhealthyCluster, Cause::LeaderChanged, Cause::NoQuorum];
    let list = steps.eventually("a removal, once both are connected", &meanwhile, remove).await?;
    steps.expect("one is left", list.members.len() == 1, &list)?;
    let again = steps.eventually("a leader of one", &[], async || first.ping().await).await;
    again?;
    steps.refused("a second removal", &first.remove_member(leaving).await, &[Cause::MemberNotFound])?;
    let ended = async || match second.ping().await {
        Ok(()) => second.add_member(&[], Role::Voter).await.map(drop),
        Err(_) => Ok(()),
    };
    steps.eventually("who was removed reads through no quorum any more", &[], ended).await
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use etcd_admin::Connect;

    use super::*;
    use crate::{
        etcd::{Etcd, Flags, Log},
        wire::{Record, Wire},
    };

    #[derive(Default)]
    struct Fake {
        etcd: Etcd,
        disks: BTreeMap<usize, Log>,
    }

    impl Lab for Fake {
        async fn start(&mut self, index: usize) {
            let name = |index: usize| format!("m{index}");
            let initial = (0..=index).map(|other| (name(other), self.peer_url(other))).collect();
            let flags = Flags {
                name: name(index),
                version: "3.6.14".to_owned(),
                peer_url: self.peer_url(index),
                client_url: format!("http://10.0.0.{index}:2379"),
                initial,
                new: index == 0,
                token: "t".to_owned(),
            };
            let disk = self.disks.get(&index).copied();
            let log = self.etcd.start(&format!("10.0.0.{index}"), &flags, disk, |_| true).unwrap();
            self.disks.insert(index, log);
        }

        async fn stop(&mut self, index: usize) {
            self.etcd.stop(&format!("10.0.0.{index}"));
        }

        fn handle(&self, index: usize) -> Member {
            let wire = Wire::new("test", &Record::default(), None);
            let dial = self.etcd.dial(&wire, &(Arc::new(|_: &_| Vec::new()) as crate::etcd::Judge));
            let connect = Connect { dial, ..Connect::default() };
            Member::new(&format!("http://10.0.0.{index}:2379"), &connect).unwrap()
        }

        fn peer_url(&self, index: usize) -> String {
            format!("http://m{index}:2380")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_fake_answers_step_by_step() {
        assert!(check(&mut Fake::default()).await.unwrap() > 25);
    }
}
