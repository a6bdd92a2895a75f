//! Every rule, with good and bad objects, as an API server would run it and as the code does. The testbed applies the same
//! fixtures to a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test is what a panic is for"
)]

mod common;

use std::collections::BTreeSet;

use common::{fixtures, in_code, server};
use serde_json::Value;

#[test]
fn every_rule_has_a_good_and_a_bad_object() {
    let rules = |folders: [&str; 2]| -> BTreeSet<String> {
        folders.into_iter().flat_map(fixtures).map(|fixture| fixture.rule).collect()
    };
    let (good, bad) = (rules(["good", "good-update"]), rules(["bad", "bad-update"]));
    for (name, _) in api::rules::ALL {
        assert!(good.contains(*name), "no good object for {name}");
        assert!(bad.contains(*name), "no bad object for {name}");
    }
}

#[test]
fn every_rule_stands_in_a_schema() {
    let text: String = api::crd::all().iter().map(|crd| serde_json::to_string(crd).unwrap()).collect();
    for (name, check) in api::rules::ALL {
        let rule = serde_json::to_string(check.cel).unwrap();
        let message = serde_json::to_string(check.message).unwrap();
        assert!(text.contains(&format!(r#""rule":{rule}"#)), "{name}");
        assert!(text.contains(&format!(r#""message":{message}"#)), "{name}");
    }
}

#[test]
fn every_variable_that_is_not_the_users_is_refused_by_the_server_and_the_code() {
    let object = |name: &str| {
        serde_json::json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster", "metadata": {"name": "a"},
            "spec": {"size": 3, "pod": {"etcdEnv": [{"name": name, "value": "x"}]}},
        })
    };
    let etcds = "NAME DATA_DIR WAL_DIR CONFIG_FILE FORCE_NEW_CLUSTER UNSAFE_NO_FSYNC STRICT_RECONFIG_CHECK \
                 INITIAL_ADVERTISE_PEER_URLS INITIAL_CLUSTER INITIAL_CLUSTER_TOKEN LISTEN_CLIENT_URLS LISTEN_CLIENT_HTTP_URLS LISTEN_PEER_URLS ADVERTISE_CLIENT_URLS \
                 DISCOVERY_SRV PROXY_DIAL_TIMEOUT CERT_FILE KEY_FILE CA_FILE TRUSTED_CA_FILE CLIENT_CRL_FILE PEER_CERT_FILE \
                 AUTO_TLS TLS_MAX_VERSION CIPHER_SUITES SELF_SIGNED_CERT_VALIDITY ENABLE_PPROF HOST_WHITELIST LOG_OUTPUT \
                 LOG_OUTPUTS LOGGER FEATURE_GATES EXPERIMENTAL_PEER_SKIP_CLIENT_SAN_VERIFICATION \
                 EXPERIMENTAL_INITIAL_CORRUPT_CHECK EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED";
    let others = "LD_LIBRARY_PATH LAUNCH_ORDER SSL_CERT_FILE SSL_CERT_DIR GODEBUG GOTRACEBACK HTTP_PROXY HTTPS_PROXY ALL_PROXY \
                  NO_PROXY http_proxy https_proxy all_proxy no_proxy";
    let etcds = etcds.split_whitespace().map(|name| format!("ETCD_{name}"));
    for name in etcds.chain(others.split_whitespace().map(str::to_owned)) {
        let object = object(&name);
        assert!(server::admit(&object, None).is_err(), "the server takes {name}");
        assert_ne!(in_code(&object), vec![], "the code takes {name}");
    }
    let users = "ETCD_ENABLE_V2 ETCD_LISTEN_METRICS_URLS ETCD_LOG_LEVEL ETCD_NAMES ETCD_QUOTA_BACKEND_BYTES ETCD_SNAPSHOT_COUNT GOGC GOMAXPROCS MY_HTTP_PROXY ETCDCTL_API";
    for name in users.split_whitespace() {
        let object = object(name);
        assert!(server::admit(&object, None).is_ok(), "the server refuses {name}");
        assert_eq!(in_code(&object), vec![], "the code refuses {name}");
    }
}

#[test]
fn good_objects_pass_the_server_and_the_code() {
    for fixture in fixtures("good") {
        let stored = server::admit(&fixture.documents[0], None);
        let stored = stored.unwrap_or_else(|refusals| panic!("{}: {refusals:?}", fixture.name));
        for object in [&fixture.documents[0], &stored] {
            assert_eq!(in_code(object), vec![], "{}", fixture.name);
        }
    }
}

#[test]
fn bad_objects_are_refused_for_their_reason_and_no_other() {
    let mut wrong = Vec::new();
    for fixture in fixtures("bad") {
        let object = &fixture.documents[0];
        let expected = vec![(fixture.path.clone(), fixture.message.clone())];
        let by_server = server::admit(object, None).err().unwrap_or_default();
        // Not every object that the schema refuses can be read by the types.
        let by_code = if fixture.rule == "schema" { expected.clone() } else { in_code(object) };
        if by_server != expected || by_code != expected {
            wrong.push(format!("{}: server {by_server:?}, code {by_code:?}", fixture.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_only_code_can_judge_is_judged_there() {
    let mut judged = BTreeSet::new();
    for fixture in fixtures("bad-in-code") {
        let stored = server::admit(&fixture.documents[0], None);
        let stored = stored.unwrap_or_else(|refusals| panic!("{}: {refusals:?}", fixture.name));
        let expected = vec![(fixture.path.clone(), fixture.message.clone())];
        assert_eq!(in_code(&stored), expected, "{}", fixture.name);
        judged.insert(fixture.rule);
    }
    for (name, _) in api::rules::ONLY_IN_CODE {
        assert!(judged.contains(*name), "no object for {name}");
    }
}

#[test]
fn an_old_object_with_an_odd_name_can_still_be_told_so() {
    let odd = fixtures("bad").into_iter().find(|fixture| fixture.rule == "CLUSTER_NAME");
    let mut object = odd.unwrap().documents.remove(0);
    assert!(server::admit(&object, None).is_err(), "a new one is refused");
    object["status"] = serde_json::json!({"phase": "Running"});
    assert!(server::admit(&object, Some(&object)).is_ok(), "a stored one takes a status");
    assert_eq!(in_code(&object).len(), 1, "and the code knows");
}

#[test]
fn the_message_in_a_fixture_is_its_rules() {
    let folders = ["bad", "bad-update", "bad-in-code"];
    for fixture in folders.into_iter().flat_map(fixtures).filter(|fixture| fixture.rule != "schema") {
        let mut rules = api::rules::ALL.iter().chain(api::rules::ONLY_IN_CODE);
        let (_, check) = rules.find(|(name, _)| *name == fixture.rule).unwrap();
        assert_eq!(fixture.message, check.message, "{}", fixture.name);
    }
}

#[test]
fn a_birth_goes_only_forwards() {
    for folder in ["good-update", "bad-update"] {
        for fixture in fixtures(folder) {
            let [old, new] = &fixture.documents[..] else { panic!("{} is no update", fixture.name) };
            let expected = match folder {
                "bad-update" => vec![(fixture.path.clone(), fixture.message.clone())],
                _ => vec![],
            };
            let refusals = server::admit(new, Some(old)).err().unwrap_or_default();
            assert_eq!(refusals, expected, "{}", fixture.name);
            assert_eq!(birth_in_code(old, new), expected, "{}", fixture.name);
        }
    }
}

fn birth_in_code(old: &Value, new: &Value) -> Vec<(String, String)> {
    let birth = |object: &Value| {
        let object: api::EtcdCluster = serde_json::from_value(object.clone()).unwrap();
        object.status.and_then(|status| status.birth)
    };
    let problems = api::validate::birth(birth(old).as_ref(), birth(new).as_ref());
    problems.into_iter().map(|problem| (problem.path, problem.message.to_owned())).collect()
}

#[test]
fn the_steps_of_a_birth_that_the_types_offer_are_allowed() {
    let first = api::Birth::first("one".to_owned());
    let formed = first.formed("cdf818194e3a8c32".to_owned());
    let next = first.next("two".to_owned());
    for (old, new) in
        [(None, &first), (Some(&first), &formed), (Some(&first), &next), (Some(&formed), &formed)]
    {
        assert_eq!(api::validate::birth(old, Some(new)), vec![]);
    }
}

#[test]
fn a_protected_cluster_is_not_deleted_and_every_other_is() {
    use serde_json::json;
    let table = [
        (json!({"spec": {"size": 3, "deletionProtection": true}}), false),
        (json!({"spec": {"size": 3, "deletionProtection": false}}), true),
        (json!({"spec": {"size": 3}}), true),
        (json!({"metadata": {"name": "stored before there was a schema"}}), true),
    ];
    for (object, allowed) in table {
        let request = kube_cel::AdmissionRequest { operation: "DELETE".into(), ..Default::default() };
        let evaluator = kube_cel::VapEvaluator::builder().old_object(object.clone()).request(request).build();
        let expression = kube_cel::VapExpression {
            expression: api::protection::ALLOWED.to_owned(),
            message: Some(api::protection::REFUSAL.to_owned()),
            message_expression: None,
        };
        let [result] = &evaluator.evaluate(&[expression])[..] else { panic!("not one result") };
        assert_eq!(result.passed, allowed, "{object}: {result:?}");
        assert_eq!(result.message.is_none(), allowed, "{result:?}");
    }
}
