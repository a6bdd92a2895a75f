//! What users read: every reason that a status gives, in one list. A reason for doing nothing is data, with a word that machines can
//! rely on and a sentence that tells a person what it is about and, where someone has to act, what to do.

use std::fmt;

/// Declares the reasons: variant, machine word, what it knows, sentence.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident: $type:ty),* })? = $word:literal => $sentence:literal;)*) => {
        /// Why a condition is as it is, or why nothing is done.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the fields are what the sentence names")]
        pub enum Reason {
            $($(#[$doc])* $name $({ $($field: $type),* })?,)*
        }

        impl Reason {
            /// The stable word for machines.
            #[must_use]
            pub fn as_str(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $word,)*
                }
            }
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name $({ $($field),* })? => write!(f, $sentence),)*
                }
            }
        }

        /// All words with their sentences, for the documentation.
        pub const CATALOGUE: &[(&str, &str)] = &[$(($word, $sentence)),*];
    };
}

reasons! {
    /// A linearizable read succeeded in the last seconds.
    ClusterAvailable = "Cluster available" => "";
    /// Members are being added.
    ScalingUp { from: usize, to: usize } = "Scaling up" => "Current cluster size: {from}, desired cluster size: {to}";
    /// Members are being removed.
    ScalingDown { from: usize, to: usize } = "Scaling down" => "Current cluster size: {from}, desired cluster size: {to}";
    /// Members are being moved to another version.
    ClusterUpgrading { to: String } = "Cluster upgrading" => "upgrading to {to}";
    /// A majority is lost, and a backup is being restored.
    DisasterRecovery = "Disaster recovery" => "Majority is down. Recovering from backup";

    /// Everything is as the spec says.
    Settled = "Settled" => "the cluster is as its spec says";
    /// The spec can be carried out.
    Accepted = "Accepted" => "the spec can be carried out";
    /// The spec breaks rules. Nothing is done until it is corrected; a running cluster goes on running.
    InvalidSpec { problems: String } = "InvalidSpec" => "the spec cannot be carried out, and nothing is changed until it is corrected: {problems}";
    /// Fields of the spec break rules. A cluster that has formed goes on without them.
    InvalidFields { problems: String } = "InvalidFields" => "these fields of the spec cannot be carried out; the members keep what they run, and everything else in the spec is carried out: {problems}";
    /// Fields that this operator cannot carry out on a cluster that has formed without them.
    FieldsHeldBack { fields: String } = "FieldsHeldBack" => "these fields of the spec were set after the cluster had formed and are not carried out; the members go on without them, and everything else in the spec is carried out: {fields}";
    /// The spec asks for something that this operator cannot do yet, and going without would be worse than waiting.
    NotYetSupported { fields: String } = "NotYetSupported" => "this operator cannot do everything that the spec asks for yet, and going without would be worse than waiting, so no member is made or replaced until it can or these are taken out: {fields}";
    /// The spec has fields that do nothing.
    FieldsWithoutEffect { fields: String } = "FieldsWithoutEffect" => "these fields are set and have no effect: {fields}";
    /// The members cannot be brought to the version.
    UpgradeRefused { message: String } = "UpgradeRefused" => "the members keep the version that they run: {message}";
    /// A member is restarted with another version or another image.
    UpgradingMember { member: String, to: String } = "UpgradingMember" => "member {member} is restarted with etcd {to}; the next one follows when it is ready and has caught up";
    /// A member does not run what it was given.
    MemberNotUpgraded { member: String, to: String, why: String } = "MemberNotUpgraded" => "member {member} was given etcd {to} and does not run it: {why}. The upgrade stops here, and the member keeps its data and its place; correct spec.version or spec.repository, or set it back";
    /// The next member is restarted when the others are healthy.
    UpgradeWaitsForMembers { healthy: usize, voters: usize } = "UpgradeWaitsForMembers" => "the next member is upgraded when all others are healthy and have caught up: {healthy} of {voters} are";
    /// etcd has not agreed on its cluster version yet.
    WaitingForClusterVersion { version: String, next: String } = "WaitingForClusterVersion" => "the members go on to etcd {next} when they have agreed on cluster version {version}";
    /// etcd rewrites its data for an older minor.
    WaitingForStorageVersion { version: String } = "WaitingForStorageVersion" => "etcd is bringing its data into the form of {version}; the members are downgraded when all have";
    /// etcd is asked to let its members go down.
    EnablingDowngrade { to: String } = "EnablingDowngrade" => "etcd is asked to let its members go down to {to}";
    /// A downgrade is allowed while the cluster is paused.
    DowngradeInForce { to: String } = "DowngradeInForce" => "etcd lets its members go down to {to} while the cluster is paused; it is gone on with, or taken back, when spec.paused is not set any more";
    /// A downgrade is taken back.
    CancellingDowngrade { to: String } = "CancellingDowngrade" => "etcd still lets its members go down to {to}, which the spec does not ask for; that is taken back";
    /// A small cluster does not serve while a member restarts.
    UpgradeInterrupts { size: usize } = "UpgradeInterrupts" => "a cluster of {size} does not serve while a member restarts; its data is kept";
    /// Something else was changed after the cluster had formed.
    ChangeNotYetSupported { pod: String, what: String } = "ChangeNotYetSupported" => "this operator changes the version and the image of running members, and nothing else of them yet: pod {pod} and its like keep what the spec said when they were made ({what})";
    /// The whole kind is not served yet.
    KindNotYetSupported { kind: String } = "KindNotYetSupported" => "this operator does not act on {kind} resources yet; nothing is done with this one, and it is taken up when a version that does is installed";
    /// An even number of members.
    EvenSize { size: i64 } = "EvenSize" => "{size} members tolerate no more failures than {size} less one would; an odd size is better";
    /// `spec.paused` is set.
    Paused = "Paused" => "spec.paused is set: the operator watches and does nothing";
    /// The resource was used before, and there is no record of its birth.
    AdoptionNeeded { evidence: String } = "AdoptionNeeded" => "this resource has been used before ({evidence}), so it may have data somewhere: the operator will not start it as a new cluster";
    /// The resource is being deleted.
    BeingDeleted = "BeingDeleted" => "the resource is being deleted; Kubernetes removes what was made for it";
    /// The namespace is going away.
    NamespaceTerminating { namespace: String } = "NamespaceTerminating" => "namespace {namespace} is being deleted, nothing new can be made in it";

    /// A name that we need is in use.
    NameTaken { kind: String, name: String, owner: String } = "NameTaken" => "{kind} {name} exists already and belongs to {owner}: delete or rename it, or give the cluster another name";
    /// A quota does not admit the object.
    QuotaExceeded { kind: String, name: String, message: String } = "QuotaExceeded" => "{kind} {name} was refused by a quota: {message}";
    /// Admission control or the API server's validation refused the object.
    CreationRefused { kind: String, name: String, message: String } = "CreationRefused" => "{kind} {name} was refused: {message}";
    /// The operator lacks a permission.
    PermissionMissing { kind: String, name: String, message: String } = "PermissionMissing" => "the operator may not write {kind} {name}: {message}";
    /// The API server could not be asked, or does not let us read.
    ApiUnavailable { message: String } = "ApiUnavailable" => "the Kubernetes API gave no good answer: {message}";
    /// The CRD in the cluster has not all fields that this operator writes.
    CrdOutdated { crd: String } = "CrdOutdated" => "CRD {crd} is older than this operator: apply the CRDs of this release";

    /// No node takes the pod.
    WaitingForPodScheduled { pod: String, message: String } = "WaitingForPodScheduled" => "pod {pod} is not placed on a node: {message}";
    /// The pod's volumes are not there yet.
    WaitingForVolume { pod: String, message: String } = "WaitingForVolume" => "pod {pod} waits for a volume: {message}";
    /// The image cannot be pulled.
    ImagePullFailing { pod: String, image: String, message: String } = "ImagePullFailing" => "pod {pod} cannot pull image {image}: {message}";
    /// The container cannot be made.
    ContainerConfigFailing { pod: String, message: String } = "ContainerConfigFailing" => "pod {pod} cannot start its container: {message}";
    /// The pod is on its way.
    WaitingForPodStarted { pod: String } = "WaitingForPodStarted" => "pod {pod} is starting";
    /// The member is up and does not serve yet.
    WaitingForPodReady { pod: String } = "WaitingForPodReady" => "pod {pod} runs, and its member does not serve yet";
    /// The pod is going away.
    WaitingForPodGone { pod: String } = "WaitingForPodGone" => "pod {pod} is being deleted";
    /// The launcher will not start etcd.
    LauncherRefused { pod: String, message: String } = "LauncherRefused" => "the launcher in pod {pod} will not start etcd: {message}";
    /// etcd ends again and again.
    MemberCrashing { pod: String, message: String } = "MemberCrashing" => "etcd in pod {pod} keeps ending: {message}";

    /// The record of birth is being written.
    RecordingBirth = "RecordingBirth" => "status.birth is written before the first pod is made";
    /// The members are starting and do not make a quorum yet.
    Forming { ready: usize, size: usize } = "Forming" => "the cluster is forming: {ready} of {size} members are up";
    /// An attempt at forming the cluster ended before the cluster had formed.
    BirthAbandoned { incarnation: i64, why: String } = "BirthAbandoned" => "attempt {incarnation} at forming the cluster is abandoned and another one starts: {why}; the cluster had not formed, so it held nobody's data";
    /// An attempt at forming the cluster would be given up, and a member that may hold data cannot be asked.
    AbandonmentUnsafe { member: String, why: String } = "AbandonmentUnsafe" => "this attempt at forming the cluster would be given up ({why}), but member {member} serves and does not tell this operator whether clients have written to it: nothing is given up until it does";
    /// A pod of an attempt that was given up holds what clients wrote to it, or may.
    AbandonedPodKept { pod: String, why: String } = "AbandonedPodKept" => "pod {pod} is of an attempt at forming the cluster that was given up, and is kept all the same, because {why}: save its data with etcdctl snapshot save if you need it, then delete the pod";
    /// Less than a quorum answers.
    WaitingForQuorum { healthy: usize, voters: usize } = "WaitingForQuorum" => "only {healthy} of {voters} voting members answer, which is no quorum: nothing is changed until more return";
    /// All could agree, and do not.
    WaitingForPeers { answering: usize, voters: usize } = "WaitingForPeers" => "{answering} of {voters} voting members answer, and none of them reads through a quorum: they are choosing a leader or do not reach each other, and nothing is changed until they agree";
    /// Too many are lost for a quorum that could replace them.
    QuorumLost { lost: String } = "QuorumLost" => "voting members are lost with their data ({lost}), and without them there is no quorum any more: nothing is changed; save what is left with etcdctl snapshot save through a member that still answers, before it is restarted and before you delete the resource";
    /// Nobody could be asked.
    MembersUnknown { message: String } = "MembersUnknown" => "the members could not be asked: {message}";
    /// A member is lost, and not replaced yet.
    MemberLost { member: String, why: String } = "MemberLost" => "member {member} is lost ({why}), and is replaced as soon as a quorum of the others agrees and nothing else holds it up";
    /// Something is put right or carried out at this moment.
    Working { step: String } = "Working" => "the operator is at work: {step}";
    /// Not all members serve, and nothing else is to be said of it.
    MembersNotReady { ready: usize, size: usize } = "MembersNotReady" => "{ready} of {size} members serve";
    /// A member's pod has lost its owner.
    PodDisowned { pod: String, owner: String } = "PodDisowned" => "pod {pod} is that of a member, but its owner reference was changed and it belongs to {owner}: its member is left alone until that is put back or the pod is deleted";
    /// A member does not serve and may come back.
    WaitingForMemberBack { member: String, why: String } = "WaitingForMemberBack" => "member {member} does not serve ({why}) and may come back; it is replaced if it does not within spec.memberReplacement.graceSeconds";
    /// A member should leave, and the others could not do without it.
    RemovalRisky { member: String, why: String } = "RemovalRisky" => "member {member} should leave ({why}), but the healthy members without it would be no quorum: it stays until more are healthy";
    /// A member is on its way out.
    RemovingMember { member: String, why: String } = "RemovingMember" => "member {member} is being removed: {why}";
    /// Another member is to lead before the leader leaves.
    MovingLeader = "MovingLeader" => "the leader is to leave, and another member is made the leader first";
    /// A member is on its way in.
    WaitingForMemberJoined { member: String } = "WaitingForMemberJoined" => "member {member} joins the cluster";
    /// One member after another was to join, and did not.
    JoinFailing { times: u32, message: String } = "JoinFailing" => "{times} members in a row could not join, and the next one is tried less soon each time; the last one was given up because {message}";
    /// A member should be added, and the others are not all up.
    WaitingForMembersHealthy { healthy: usize, voters: usize } = "WaitingForMembersHealthy" => "a member is missing, and is added when the others are healthy: {healthy} of {voters} are";
    /// Somebody added a member by hand and has not started it.
    UnknownMember { member: String } = "UnknownMember" => "etcd lists member {member}, which this operator did not add and nobody has started; it is removed if that stays so";
    /// Somebody added a member by hand and started it.
    ForeignMember { member: String } = "ForeignMember" => "etcd lists member {member}, which somebody else added and started: the operator leaves it alone and changes the size no more until it is removed";
    /// No pod of so small a cluster may be evicted.
    NoEviction { size: i64 } = "NoEviction" => "a cluster of {size} can lose no member, so its pods cannot be evicted and draining their nodes waits";
    /// etcd itself refused a change of its membership.
    MembershipRefused { message: String } = "MembershipRefused" => "etcd refused a change of its members, which is tried again: {message}";
    /// Somebody undoes what the operator puts right.
    ChangeUndone { kind: String, name: String } = "ChangeUndone" => "somebody undoes it each time the operator puts the {kind} {name} right; it goes on, less often each time";
    /// A member answers for another cluster.
    ClusterIdMismatch { member: String, seen: String, expected: String } = "ClusterIdMismatch" => "member {member} says that its cluster is {seen}, and this one is {expected}: nothing is changed";
    /// Two members read through a quorum and list different members.
    MembersDisagree { one: String, other: String } = "MembersDisagree" => "members {one} and {other} each read through a quorum and list different members: if that stays so, one of them was started as a cluster of its own (--force-new-cluster) or does not tell the truth. No member and no pod of a member is changed until they agree: find out whose data is right, and delete the pod of the other";
    /// A pod is ready whose member is not in etcd's list.
    UnlistedMemberServes { pod: String } = "UnlistedMemberServes" => "pod {pod} is ready, but its member is not in etcd's list and does not answer this operator: the pod is kept until it is not ready any more, or its member says who it is";
    /// etcd's database has reached its largest size.
    DatabaseFull = "DatabaseFull" => "etcd raised the alarm NOSPACE, its database has reached its largest size, and only reads and deletes are answered: delete what is not needed, compact (etcdctl compaction), defragment every member (etcdctl defrag --cluster), then end the alarm with etcdctl alarm disarm";
    /// Members hold different data.
    DataCorrupt = "DataCorrupt" => "etcd raised the alarm CORRUPT and takes no writes: members hold different data, and nobody can tell whose is right. No member is added or removed until the alarm is ended; save a snapshot of each member first (etcdctl snapshot save), compare them, and then end it with etcdctl alarm disarm";
    /// Every copy of the data is gone.
    DataLost { lost: String } = "DataLost" => "the data of this cluster is gone ({lost}); it is not replaced by an empty cluster: restore a backup, or delete the resource and create it again";
}

impl Reason {
    /// Whether this is certain to stay until somebody acts. What is not may still pass: a registry comes back, a node gets room.
    #[must_use]
    pub fn never_passes(&self) -> bool {
        matches!(
            self,
            Self::InvalidSpec { .. }
                | Self::NotYetSupported { .. }
                | Self::InvalidFields { .. }
                | Self::FieldsHeldBack { .. }
                | Self::UpgradeRefused { .. }
                | Self::MemberNotUpgraded { .. }
                | Self::ChangeNotYetSupported { .. }
                | Self::KindNotYetSupported { .. }
                | Self::AdoptionNeeded { .. }
                | Self::QuorumLost { .. }
                | Self::DataCorrupt
                | Self::DataLost { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const CLASSIC: [&str; 5] =
        ["Cluster available", "Scaling up", "Scaling down", "Cluster upgrading", "Disaster recovery"];

    #[test]
    fn words_are_unique_and_only_classic_ones_have_spaces() {
        let words: BTreeSet<&str> = CATALOGUE.iter().map(|(word, _)| *word).collect();
        assert_eq!(words.len(), CATALOGUE.len());
        for word in words {
            let camel_case = word.starts_with(|c: char| c.is_ascii_uppercase())
                && word.chars().all(|c| c.is_ascii_alphanumeric());
            assert!(camel_case || CLASSIC.contains(&word), "{word}");
        }
    }

    #[test]
    fn classic_texts_keep_their_spelling() {
        let table = [
            (
                Reason::ScalingUp { from: 3, to: 5 },
                "Scaling up",
                "Current cluster size: 3, desired cluster size: 5",
            ),
            (
                Reason::ScalingDown { from: 5, to: 3 },
                "Scaling down",
                "Current cluster size: 5, desired cluster size: 3",
            ),
            (
                Reason::ClusterUpgrading { to: "3.2.13".to_owned() },
                "Cluster upgrading",
                "upgrading to 3.2.13",
            ),
            (Reason::ClusterAvailable, "Cluster available", ""),
            (Reason::DisasterRecovery, "Disaster recovery", "Majority is down. Recovering from backup"),
        ];
        for (reason, word, sentence) in table {
            assert_eq!((reason.as_str(), reason.to_string().as_str()), (word, sentence));
        }
    }

    #[test]
    fn a_sentence_names_its_object() {
        let reason = Reason::NameTaken {
            kind: "Service".to_owned(),
            name: "a-client".to_owned(),
            owner: "nobody".to_owned(),
        };
        assert_eq!(reason.as_str(), "NameTaken");
        assert!(reason.to_string().starts_with("Service a-client exists already and belongs to nobody"));
    }
}
