//! TALKING TO ETCD: what a member says of itself, and what it does for its operator.

use crate::{
    answer::{Alarm, KeyHash, Status},
    error::{Call, Error},
    id::{MemberId, Revision},
    member::Member,
    rpc::{self, maintenance_client::MaintenanceClient},
    snapshot::Snapshot,
};

impl Member {
    /// How the member sees itself. Answered without a quorum, and by learners.
    ///
    /// Only a member that was started without a quorum, and has not met one yet, answers no client at all (seen with 3.5.33,
    /// 3.6.14 and 3.7.1): it runs out of time, though it is alive.
    pub async fn status(&self) -> Result<Status, Error> {
        self.call(Call::Status, rpc::Empty {}, async |channel, request| {
            MaintenanceClient::new(channel).status(request).await
        })
        .await
        .map(Status::from)
    }

    /// The alarms that are raised in the cluster.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, Error> {
        let message = rpc::AlarmRequest { action: rpc::AlarmAction::Get.into(), ..Default::default() };
        let answer = self
            .call(Call::ListAlarms, message, async |channel, request| {
                MaintenanceClient::new(channel).alarm(request).await
            })
            .await?;
        Ok(answer.alarms.into_iter().filter_map(Alarm::from_rpc).collect())
    }

    /// Ends an alarm. It comes back by itself if its cause is still there.
    pub async fn disarm(&self, alarm: Alarm) -> Result<(), Error> {
        let message = rpc::AlarmRequest {
            action: rpc::AlarmAction::Deactivate.into(),
            member_id: alarm.member.map_or(0, |id| id.0),
            alarm: rpc::AlarmType::from(alarm.kind).into(),
        };
        self.call(Call::DisarmAlarm, message, async |channel, request| {
            MaintenanceClient::new(channel).alarm(request).await
        })
        .await
        .map(drop)
    }

    /// Gives the free space of the member's database back. The member answers nobody meanwhile.
    pub async fn defragment(&self) -> Result<(), Error> {
        self.call(Call::Defragment, rpc::Empty {}, async |channel, request| {
            MaintenanceClient::new(channel).defragment(request).await
        })
        .await
        .map(drop)
    }

    /// A hash over the member's keys at a revision. From 3.3 on.
    pub async fn hash_keys(&self, at: Revision) -> Result<KeyHash, Error> {
        let message = rpc::HashKvRequest { revision: at.0 };
        let answer = self
            .call(Call::HashKeys, message, async |channel, request| {
                MaintenanceClient::new(channel).hash_kv(request).await
            })
            .await?;
        let member = MemberId(answer.header.unwrap_or_default().member_id);
        Ok(KeyHash { member, hash: answer.hash, compacted: Revision(answer.compact_revision) })
    }

    /// Makes another voter the leader. Only the leader itself does it; from 3.3 on.
    pub async fn move_leader(&self, to: MemberId) -> Result<(), Error> {
        let message = rpc::MemberIdRequest { id: to.0 };
        self.call(Call::MoveLeader, message, async |channel, request| {
            MaintenanceClient::new(channel).move_leader(request).await
        })
        .await
        .map(drop)
    }

    /// Begins to take a snapshot of the member's data. The deadline holds for the beginning and for each part.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        let stream = self
            .begin(Call::Snapshot, rpc::Empty {}, None, async |channel, request| {
                MaintenanceClient::new(channel).snapshot(request).await
            })
            .await?;
        Ok(Snapshot::new(stream, self.endpoint.to_string(), self.deadline))
    }

    /// Whether the cluster could go down to a minor, such as `3.5`. From 3.5 on.
    pub async fn validate_downgrade(&self, minor: &str) -> Result<(), Error> {
        self.downgrade(Call::ValidateDowngrade, rpc::DowngradeAction::Validate, minor).await
    }

    /// Lets the cluster go down to a minor. From 3.5 on.
    pub async fn enable_downgrade(&self, minor: &str) -> Result<(), Error> {
        self.downgrade(Call::EnableDowngrade, rpc::DowngradeAction::Enable, minor).await
    }

    /// Takes [`Member::enable_downgrade`] back. From 3.5 on.
    pub async fn cancel_downgrade(&self) -> Result<(), Error> {
        self.downgrade(Call::CancelDowngrade, rpc::DowngradeAction::Cancel, "").await
    }

    async fn downgrade(&self, call: Call, action: rpc::DowngradeAction, minor: &str) -> Result<(), Error> {
        let message = rpc::DowngradeRequest { action: action.into(), version: minor.to_owned() };
        self.call(call, message, async |channel, request| {
            MaintenanceClient::new(channel).downgrade(request).await
        })
        .await
        .map(drop)
    }
}
