//! ACT on etcd: a change of the membership is sent only if the member list, read again at that moment through a quorum, is the one that
//! it was decided on.

use std::time::Duration;

use etcd_admin::{Cause, Member, MemberList, Role};
use planner::{Basis, Effect, ListedMember, MemberChange};

use super::{Actor, Outcome};
use crate::{gate::Failure, metrics::MemberChanged};

impl Actor<'_> {
    pub(super) async fn change_membership(
        &self,
        effect: &Effect,
        basis: &Basis,
        change: &MemberChange,
    ) -> Outcome {
        let limit = effect.deadline().limit();
        let member = match self.still(basis, limit).await {
            Ok(member) => member,
            Err(why) => return Outcome::Moved(why),
        };
        match self.gate.change(effect.name(), limit, send(&member, change)).await {
            // Somebody has done it already; or it was done, and the answer lost.
            Err(Failure::Etcd(error))
                if matches!((change, &error.cause), (MemberChange::Remove { .. }, Cause::MemberNotFound)) =>
            {
                Outcome::Done
            }
            answer => self.settle(answer),
        }
    }

    /// The member through which a change goes, if the members are still those that it was decided on; or in what they differ.
    pub(super) async fn still(&self, basis: &Basis, limit: Duration) -> Result<Member, String> {
        let member = self.members.get(&basis.through);
        let member = member.ok_or_else(|| format!("there is no way to {}", basis.through))?.within(limit);
        let list = member.members_linearizable().await.map_err(|error| error.to_string())?;
        moved(&list, basis).map_or(Ok(member), Err)
    }
}

/// What a change counts as; another leader changes nobody's membership.
pub(super) const fn counted(change: &MemberChange) -> Option<MemberChanged> {
    match change {
        MemberChange::Add { .. } => Some(MemberChanged::Added),
        MemberChange::Promote { .. } => Some(MemberChanged::Promoted),
        MemberChange::Remove { .. } => Some(MemberChanged::Removed),
        MemberChange::MoveLeader { .. } | MemberChange::Downgrade { .. } => None,
    }
}

async fn send(member: &Member, change: &MemberChange) -> Result<(), etcd_admin::Error> {
    let id = |id: &planner::MemberId| etcd_admin::MemberId(id.0);
    match change {
        MemberChange::Add { peer_url, learner, .. } => {
            let role = if *learner { Role::Learner } else { Role::Voter };
            member.add_member(&[peer_url.to_string()], role).await.map(drop)
        }
        MemberChange::Promote { id: learner } => member.promote_member(id(learner)).await.map(drop),
        MemberChange::Remove { id: leaving } => member.remove_member(id(leaving)).await.map(drop),
        MemberChange::MoveLeader { to } => member.move_leader(id(to)).await,
        MemberChange::Downgrade { to: None } => member.cancel_downgrade().await,
        MemberChange::Downgrade { to: Some(minor) } => {
            let minor = minor.to_string();
            // etcd's own guide asks for both: what the first refuses, the second might begin.
            member.validate_downgrade(&minor).await?;
            member.enable_downgrade(&minor).await
        }
    }
}

/// In what this list differs from the one that was decided on.
fn moved(list: &MemberList, basis: &Basis) -> Option<String> {
    if list.cluster.0 != basis.list.cluster_id.0 {
        return Some(format!("{} answers for cluster {}", basis.through, list.cluster));
    }
    if list.answered_by.0 != basis.through_id.0 {
        return Some(format!("member {} answers in the place of {}", list.answered_by, basis.through_id));
    }
    let now = list.members.iter().map(|member| ListedMember {
        id: planner::MemberId(member.id.0),
        name: member.name.clone(),
        peer_urls: member.peer_urls.clone(),
        learner: member.role == Role::Learner,
    });
    (!now.eq(basis.list.members.iter().cloned())).then(|| "the member list has changed since".to_owned())
}

#[cfg(test)]
mod tests {
    use planner::{ClusterId, MemberId, SeenList};

    use super::*;

    fn list(cluster: u64, answered_by: u64, learner: bool, name: Option<&str>) -> MemberList {
        let member = etcd_admin::ListedMember {
            id: etcd_admin::MemberId(1),
            name: name.map(str::to_owned),
            peer_urls: vec!["http://a:2380".to_owned()],
            client_urls: vec![],
            role: if learner { Role::Learner } else { Role::Voter },
        };
        MemberList {
            cluster: etcd_admin::ClusterId(cluster),
            answered_by: etcd_admin::MemberId(answered_by),
            members: vec![member],
        }
    }

    #[test]
    fn any_difference_to_what_was_decided_on_is_a_reason_not_to_send() {
        let listed = ListedMember {
            id: MemberId(1),
            name: Some("a".to_owned()),
            peer_urls: vec!["http://a:2380".to_owned()],
            learner: false,
        };
        let basis = Basis {
            through: "a".parse().unwrap(),
            through_id: MemberId(1),
            list: SeenList { cluster_id: ClusterId(12), members: vec![listed] },
            healthy: vec![],
        };
        assert_eq!(moved(&list(12, 1, false, Some("a")), &basis), None);
        let mut more = list(12, 1, false, Some("a"));
        more.members.push(more.members[0].clone());
        for other in [
            list(13, 1, false, Some("a")),
            list(12, 2, false, Some("a")),
            list(12, 1, true, Some("a")),
            list(12, 1, false, None),
            more,
        ] {
            assert!(moved(&other, &basis).is_some(), "{other:?}");
        }
    }
}
