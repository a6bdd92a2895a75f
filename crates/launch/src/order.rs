//! HOW A MEMBER STARTS: the order that the operator writes into a pod's annotation and the launcher reads.
//!
//! It travels as one annotation and reaches the container through env `fieldRef`, which the kubelet evaluates at
//! every start of the container. So image, command line and expected version change in one PATCH of the pod.

use serde::{Deserialize, Serialize};

use crate::{
    argv::{MemberLaunch, argv},
    intent::Intent,
    member::{ClusterToken, MemberName},
    version::EtcdVersion,
};

/// The pod annotation that holds the order.
pub const ORDER_ANNOTATION: &str = "etcd.database.coreos.com/launch-order";

/// The environment variable that carries the annotation into the container.
///
/// It does not begin with `ETCD_`, because etcd takes every such variable for one of its flags.
pub const ORDER_ENV: &str = "LAUNCH_ORDER";

/// The form of the order that this build writes and reads.
///
/// An operator may be newer than the launcher of a running pod, since upgrading the operator rolls nobody. So a
/// field that an older launcher may safely not know is added without a new number; one that it must obey needs one.
const FORMAT: u32 = 1;

/// Whose data a volume holds. The launcher leaves it in the data directory and on the marker volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seal {
    /// The member.
    pub member: MemberName,
    /// The incarnation of its cluster.
    pub token: ClusterToken,
}

/// How a member is to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOrder {
    /// Who starts, and in which incarnation of the cluster.
    #[serde(flatten)]
    pub seal: Seal,
    /// The version that `etcd --version` has to report.
    pub version: EtcdVersion,
    /// What the start is meant to be; it says whether it may find no data.
    pub intent: Intent,
    /// etcd's arguments.
    pub argv: Vec<String>,
}

/// Why an order cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// Not an order at all.
    #[error("the launch order cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Written by a newer operator, for a newer launcher.
    #[error("the launch order has form {found}; this launcher reads form {FORMAT}")]
    TooNew {
        /// The form that was found.
        found: u32,
    },
}

/// The part of an order that is read before all else.
#[derive(Deserialize)]
struct Envelope {
    format: u32,
}

impl LaunchOrder {
    /// The order to start this member with this version.
    #[must_use]
    pub fn new(launch: &MemberLaunch, version: EtcdVersion) -> Self {
        Self {
            seal: Seal { member: launch.name.clone(), token: launch.token.clone() },
            version,
            intent: launch.intent,
            argv: argv(launch, version),
        }
    }

    /// The members that etcd is told of, each with its peer address.
    pub fn initial_cluster(&self) -> impl Iterator<Item = (&str, &str)> {
        let lists = self.argv.iter().filter_map(|flag| flag.strip_prefix("--initial-cluster="));
        lists.flat_map(|list| list.split(',')).filter_map(|entry| entry.split_once('='))
    }

    /// The order as the text of an annotation. The same order always gives the same text.
    #[must_use]
    pub fn to_annotation(&self) -> String {
        serde_json::json!({
            "format": FORMAT,
            "member": self.seal.member,
            "token": self.seal.token,
            "version": self.version,
            "intent": self.intent,
            "argv": self.argv,
        })
        .to_string()
    }

    /// The order that an annotation holds.
    pub fn read(text: &str) -> Result<Self, OrderError> {
        let Envelope { format } = serde_json::from_str(text)?;
        if format != FORMAT {
            return Err(OrderError::TooNew { found: format });
        }
        Ok(serde_json::from_str(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: &str, intent: &str) -> String {
        format!(
            r#"{{"format":{format},"member":"a-bcdfghjk24","token":"t-1","version":"3.6.14","intent":"{intent}","argv":["--name=a"],"later":true}}"#
        )
    }

    #[test]
    fn the_form_on_the_wire_is_fixed() {
        let order = LaunchOrder::read(&text("1", "Join")).unwrap();
        assert_eq!(
            order.to_annotation(),
            r#"{"argv":["--name=a"],"format":1,"intent":"Join","member":"a-bcdfghjk24","token":"t-1","version":"3.6.14"}"#
        );
    }

    #[test]
    fn a_field_of_a_later_operator_is_passed_over_but_a_later_form_is_not_followed() {
        assert!(LaunchOrder::read(&text("1", "Restart")).is_ok());
        assert!(matches!(LaunchOrder::read(&text("2", "Restart")), Err(OrderError::TooNew { found: 2 })));
    }

    #[test]
    fn what_is_no_order_is_not_guessed_at() {
        for bad in ["", "{}", "null", &text("1", "Whatever"), &text("1", "Join").replace("3.6.14", "3.9.0")] {
            assert!(matches!(LaunchOrder::read(bad), Err(OrderError::Unreadable(_))), "{bad:?}");
        }
    }
}
