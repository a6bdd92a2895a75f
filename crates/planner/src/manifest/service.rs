//! The two Services: one that gives members their DNS names, one for clients.

use std::collections::BTreeMap;

use api::names::{self, CLIENT_PORT, PEER_PORT};
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::{
    attempt::Attempt,
    desired::Desired,
    manifest,
    observed::{SeenPort, SeenService},
};

/// Whom the peer Service selects.
fn peer_selector(cluster: &str, attempt: &Attempt) -> BTreeMap<String, String> {
    manifest::attempt_labels(cluster, attempt)
}

/// Whom the client Service selects: nobody before the cluster has formed, so that no write is acknowledged by a cluster that
/// may still be given up.
fn client_selector(cluster: &str, formed: Option<&Attempt>) -> BTreeMap<String, String> {
    formed.map(|attempt| manifest::attempt_labels(cluster, attempt)).unwrap_or_default()
}

/// The headless Service. It publishes members that are not ready: they have to find each other to become so.
#[must_use]
pub fn peer_service(desired: &Desired, attempt: &Attempt) -> Service {
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        publish_not_ready_addresses: Some(true),
        ports: Some(vec![port("client", CLIENT_PORT), port("peer", PEER_PORT)]),
        selector: Some(peer_selector(&desired.name, attempt)),
        ..Default::default()
    };
    service(desired, &names::peer_service(&desired.name), "peer-service", spec)
}

/// The Service for clients. Its type is not said: Kubernetes begins with `ClusterIP`, and where a person chose another one, as for clients
/// from outside, that stays through every repair.
#[must_use]
pub fn client_service(desired: &Desired, formed: Option<&Attempt>) -> Service {
    let spec = ServiceSpec {
        ports: Some(vec![port("client", CLIENT_PORT)]),
        selector: Some(client_selector(&desired.name, formed)).filter(|selector| !selector.is_empty()),
        ..Default::default()
    };
    service(desired, &names::client_service(&desired.name), "client-service", spec)
}

fn service(desired: &Desired, name: &str, component: &str, spec: ServiceSpec) -> Service {
    Service {
        metadata: manifest::metadata(desired, name, component, manifest::labels(&desired.name)),
        spec: Some(spec),
        status: None,
    }
}

fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(i32::from(number))),
        ..Default::default()
    }
}

/// Whether a Service that was seen does what the wanted one should. What somebody added to it is left alone.
pub(crate) fn is_as_wanted(seen: &SeenService, wanted: &Service) -> bool {
    let SeenService::Ours { labels, selector, ports, publishes_not_ready, .. } = seen else { return false };
    let spec = wanted.spec.clone().unwrap_or_default();
    let has_port = |port: &ServicePort| {
        let (name, port) = SeenPort::named(port);
        ports.get(&name) == Some(&port)
    };
    manifest::has_labels(labels, &wanted.metadata)
        && *selector == spec.selector.unwrap_or_default()
        && spec.ports.iter().flatten().all(has_port)
        && *publishes_not_ready == spec.publish_not_ready_addresses.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn seen(service: &Service) -> SeenService {
        SeenService::from_service(service, &fixture::desired().uid)
    }

    #[test]
    fn a_service_that_was_made_here_is_as_wanted_and_any_difference_that_matters_is_seen() {
        let (desired, one, two) = (fixture::desired(), fixture::attempt(1), fixture::attempt(2));
        let all = [
            peer_service(&desired, &one),
            peer_service(&desired, &two),
            client_service(&desired, None),
            client_service(&desired, Some(&one)),
        ];
        for (i, wanted) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                assert_eq!(is_as_wanted(&seen(other), wanted), i == j, "{i} {j}");
            }
        }
    }

    type Change = fn(&mut Service);

    #[test]
    fn what_somebody_added_is_left_alone_and_what_is_ours_is_not() {
        fn spec(service: &mut Service) -> &mut ServiceSpec {
            service.spec.as_mut().unwrap()
        }
        let table: [(&str, Change, bool); 7] = [
            ("another port", |s| spec(s).ports.as_mut().unwrap().push(port("metrics", 9000)), true),
            (
                "another label",
                |s| drop(s.metadata.labels.as_mut().unwrap().insert("a".to_owned(), "b".to_owned())),
                true,
            ),
            (
                "a label that is only recommended, which an earlier operator did not set",
                |s| {
                    let labels = s.metadata.labels.as_mut().unwrap();
                    labels.retain(|key, _| !key.starts_with(names::RECOMMENDED_LABELS));
                },
                true,
            ),
            ("a label taken away", |s| drop(s.metadata.labels.as_mut().unwrap().remove("app")), false),
            (
                "a target that leads elsewhere",
                |s| spec(s).ports.as_mut().unwrap()[0].target_port = Some(IntOrString::Int(1)),
                false,
            ),
            (
                "a target by name",
                |s| {
                    spec(s).ports.as_mut().unwrap()[0].target_port =
                        Some(IntOrString::String("x".to_owned()));
                },
                false,
            ),
            ("members that are not ready left out", |s| spec(s).publish_not_ready_addresses = None, false),
        ];
        let wanted = peer_service(&fixture::desired(), &fixture::attempt(1));
        for (title, change, is) in table {
            let mut service = wanted.clone();
            change(&mut service);
            assert_eq!(is_as_wanted(&seen(&service), &wanted), is, "{title}");
        }
    }

    #[test]
    fn a_service_of_another_owner_or_of_none_is_squatted() {
        let service = client_service(&fixture::desired(), None);
        assert!(
            matches!(SeenService::from_service(&service, "another"), SeenService::Squatted(owner) if owner.contains("EtcdCluster example"))
        );
        let mut orphan = service;
        orphan.metadata.owner_references = None;
        assert_eq!(seen(&orphan), SeenService::Squatted("nobody".to_owned()));
    }

    #[test]
    fn the_services_are_as_written_down() {
        let (desired, one) = (fixture::desired(), fixture::attempt(1));
        fixture::golden("service-peer", &peer_service(&desired, &one));
        fixture::golden("service-client-forming", &client_service(&desired, None));
        fixture::golden("service-client-formed", &client_service(&desired, Some(&one)));
    }
}
