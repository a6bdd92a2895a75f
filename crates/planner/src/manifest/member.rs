//! The order that the launcher in a member's pod reads.

use std::collections::BTreeMap;

use launch::{
    CorruptionChecks, EtcdVersion, Intent, InvalidMember, LaunchOrder, MemberLaunch, MemberName, PeerUrl,
};

use crate::{attempt::Attempt, desired::Desired, effect::SeenList, observed::ListedMember};

/// At its first start a member has nothing to compare, and would only wait for peers that are starting as well.
const CHECKS: CorruptionChecks = CorruptionChecks { at_start: false, on_compaction: true };

/// The order for one of the first members of an attempt.
pub(super) fn first(
    desired: &Desired,
    attempt: &Attempt,
    member: &MemberName,
) -> Result<LaunchOrder, InvalidMember> {
    let peers = desired
        .founders(attempt)
        .into_iter()
        .map(|name| desired.peer_url(&name).map(|url| (name, url)))
        .collect::<Result<_, _>>()?;
    let launch = MemberLaunch {
        name: member.clone(),
        peer_url: desired.peer_url(member)?,
        client_url: desired.client_url(member)?,
        peers,
        token: attempt.token.clone(),
        intent: Intent::NewCluster,
        checks: CHECKS,
    };
    Ok(LaunchOrder::new(&launch, desired.version))
}

/// The order for a member that joins the cluster with this member list. etcd compares its initial cluster with the peers' own list,
/// address by address, and ends where one is missing or one too many; it does not look at the others' names.
pub(super) fn joining(
    desired: &Desired,
    attempt: &Attempt,
    member: &MemberName,
    version: EtcdVersion,
    list: &SeenList,
) -> Result<LaunchOrder, InvalidMember> {
    let peer_url = desired.peer_url(member)?;
    let others = list.members.iter().filter(|listed| !listed.is_at(&peer_url));
    let peers = others.map(peer).collect::<Result<BTreeMap<_, _>, _>>()?;
    let launch = MemberLaunch {
        name: member.clone(),
        client_url: desired.client_url(member)?,
        peer_url,
        peers,
        token: attempt.token.clone(),
        intent: Intent::Join,
        checks: CHECKS,
    };
    Ok(LaunchOrder::new(&launch, version))
}

/// A listed member's name and address. One that has not told its name goes by its ID, which no other has.
fn peer(listed: &ListedMember) -> Result<(MemberName, PeerUrl), InvalidMember> {
    let name = listed.name.clone().unwrap_or_else(|| format!("member-{}", listed.id)).parse()?;
    match listed.peer_urls.as_slice() {
        [url] => Ok((name, url.parse()?)),
        several => Err(InvalidMember::Url(several.join(","))),
    }
}

/// The same order for a member that has data: it may not start without any more. Nothing else changes, because this is written
/// to a member as it is, not as the spec may want it by now.
pub(crate) fn restarted(order: &LaunchOrder) -> LaunchOrder {
    const STATE: &str = "--initial-cluster-state=";
    let state = format!("{STATE}{}", Intent::Restart.initial_cluster_state());
    let argv = order.argv.iter().map(|flag| if flag.starts_with(STATE) { &state } else { flag }).cloned();
    LaunchOrder { intent: Intent::Restart, argv: argv.collect(), ..order.clone() }
}

/// The order for a member that has data and is to run this version from now on. Whom it is told of does not matter: with data etcd takes
/// the other members from there, so this says what it was told before.
pub(crate) fn relaunched(
    desired: &Desired,
    before: &LaunchOrder,
    version: EtcdVersion,
) -> Result<LaunchOrder, InvalidMember> {
    let member = &before.seal.member;
    let peers = before.initial_cluster().map(|(name, url)| Ok((name.parse()?, url.parse()?)));
    let launch = MemberLaunch {
        name: member.clone(),
        peer_url: desired.peer_url(member)?,
        client_url: desired.client_url(member)?,
        peers: peers.collect::<Result<_, InvalidMember>>()?,
        token: before.seal.token.clone(),
        intent: Intent::Restart,
        checks: CHECKS,
    };
    Ok(LaunchOrder::new(&launch, version))
}

/// An order for a member of this cluster that has data, and whose own order was taken away. With data etcd takes the other members from
/// there, not from its flags; and this order starts it on its data or not at all.
pub(crate) fn restored(
    desired: &Desired,
    attempt: &Attempt,
    member: &MemberName,
    version: EtcdVersion,
    list: &SeenList,
) -> Result<LaunchOrder, InvalidMember> {
    joining(desired, attempt, member, version, list).map(|order| restarted(&order))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn all_members_of_an_attempt_are_given_the_same_initial_cluster() {
        let (desired, attempt) = (fixture::desired(), fixture::attempt(1));
        let lists: Vec<String> = desired
            .founders(&attempt)
            .iter()
            .map(|member| first(&desired, &attempt, member).unwrap())
            .map(|order| order.argv.into_iter().find(|flag| flag.starts_with("--initial-cluster=")).unwrap())
            .collect();
        assert_eq!(lists.len(), 3);
        assert!(lists.iter().all(|list| *list == lists[0] && list.matches("http://").count() == 3));
    }

    #[test]
    fn a_restart_differs_from_the_first_start_only_in_what_may_be_missing() {
        let (desired, attempt) = (fixture::desired(), fixture::attempt(1));
        let before = first(&desired, &attempt, &desired.founders(&attempt)[0]).unwrap();
        let after = restarted(&before);
        assert!(before.intent.may_start_empty() && !after.intent.may_start_empty());
        let changed: Vec<_> = before.argv.iter().zip(&after.argv).filter(|(a, b)| a != b).collect();
        assert_eq!(
            changed,
            [(&"--initial-cluster-state=new".to_owned(), &"--initial-cluster-state=existing".to_owned())]
        );
        assert_eq!((before.seal, before.version), (after.seal.clone(), after.version));
        assert_eq!(restarted(&after), after);
    }

    #[test]
    fn another_version_starts_the_same_member_on_its_data_or_not_at_all() {
        let (desired, attempt) = (fixture::desired(), fixture::attempt(1));
        let before = restarted(&first(&desired, &attempt, &desired.founders(&attempt)[0]).unwrap());
        let after = relaunched(&desired, &before, "3.7.1".parse().unwrap()).unwrap();
        assert_eq!((&after.seal, after.intent), (&before.seal, Intent::Restart));
        assert_eq!(after.version.to_string(), "3.7.1");
        assert!(after.initial_cluster().eq(before.initial_cluster()));
        assert_eq!(relaunched(&desired, &before, before.version).unwrap(), before, "nothing else changes");
    }
}
