//! TALKING TO ETCD: who belongs to the cluster.

use crate::{
    answer::{ListedMember, MemberList, Role},
    error::{Call, Error},
    id::MemberId,
    member::Member,
    rpc::{self, cluster_client::ClusterClient},
};

impl Member {
    /// The members, as a quorum knows them now. Fails without a quorum.
    ///
    /// Before 3.5 a member list alone is answered from what the member has. So a read through the quorum goes first: after
    /// it, the member has applied every change that was agreed on before.
    pub async fn members_linearizable(&self) -> Result<MemberList, Error> {
        self.ping().await?;
        self.list(true).await
    }

    /// The members as this member sees them, which may be old. Answered without a quorum wherever [`Member::status`] is.
    pub async fn members_as_seen(&self) -> Result<MemberList, Error> {
        self.list(false).await
    }

    async fn list(&self, linearizable: bool) -> Result<MemberList, Error> {
        let message = rpc::MemberListRequest { linearizable };
        let answer = self
            .call(Call::ListMembers, message, async |channel, request| {
                ClusterClient::new(channel).member_list(request).await
            })
            .await?;
        Ok(MemberList::new(answer.header, answer.members))
    }

    /// Adds a member that will be reached by its peers at these URLs.
    ///
    /// Versions before 3.4 know no learners and would add a voter without a word: ask for one only where the version has them.
    pub async fn add_member(&self, peer_urls: &[String], role: Role) -> Result<ListedMember, Error> {
        let message =
            rpc::MemberAddRequest { peer_urls: peer_urls.to_vec(), is_learner: role == Role::Learner };
        let answer = self
            .call(Call::AddMember, message, async |channel, request| {
                ClusterClient::new(channel).member_add(request).await
            })
            .await?;
        Ok(answer.member.unwrap_or_default().into())
    }

    /// Removes a member. It can never come back under its ID.
    pub async fn remove_member(&self, id: MemberId) -> Result<MemberList, Error> {
        let message = rpc::MemberIdRequest { id: id.0 };
        let answer = self
            .call(Call::RemoveMember, message, async |channel, request| {
                ClusterClient::new(channel).member_remove(request).await
            })
            .await?;
        Ok(MemberList::new(answer.header, answer.members))
    }

    /// Gives a voter other peer URLs. Never to be used on a learner: before 3.5.31 and 3.6.12 that made it a voter on record.
    pub async fn update_voter(&self, id: MemberId, peer_urls: &[String]) -> Result<MemberList, Error> {
        let message = rpc::MemberUpdateRequest { id: id.0, peer_urls: peer_urls.to_vec() };
        let answer = self
            .call(Call::UpdateMember, message, async |channel, request| {
                ClusterClient::new(channel).member_update(request).await
            })
            .await?;
        Ok(MemberList::new(answer.header, answer.members))
    }

    /// Makes a learner a voter. etcd asks whether it has caught up, not whether it is alive: that is the caller's to know.
    pub async fn promote_member(&self, id: MemberId) -> Result<MemberList, Error> {
        let message = rpc::MemberIdRequest { id: id.0 };
        let answer = self
            .call(Call::PromoteMember, message, async |channel, request| {
                ClusterClient::new(channel).member_promote(request).await
            })
            .await?;
        Ok(MemberList::new(answer.header, answer.members))
    }
}
