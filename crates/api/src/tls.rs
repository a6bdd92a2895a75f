//! What users write: `spec.TLS` of an `EtcdCluster`, in the classic layout of Secrets.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// TLS of an etcd cluster.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsPolicy {
    /// Certificates that you make yourself and keep in Secrets.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticTls>,
}

/// Certificates in Secrets, made by the user.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::TLS_SERVER_MISSING, validation = rules::TLS_OPERATOR_MISSING)]
pub struct StaticTls {
    /// The Secrets that the members use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberSecret>,

    /// The Secret with the operator's client certificate: etcd-client.crt, etcd-client.key and etcd-client-ca.crt. With it, and
    /// member.serverSecret, clients must use TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SECRET_NAME)]
    pub operator_secret: Option<String>,
}

/// The Secrets that members use.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberSecret {
    /// The Secret for traffic between members: peer.crt, peer.key and peer-ca.crt. With it, members use TLS among themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SECRET_NAME)]
    pub peer_secret: Option<String>,

    /// The Secret for traffic with clients: server.crt, server.key and server-ca.crt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SECRET_NAME)]
    pub server_secret: Option<String>,
}

fn named(secret: Option<&String>) -> Option<&str> {
    secret.map(String::as_str).filter(|name| !name.is_empty())
}

impl TlsPolicy {
    /// The Secret of TLS between members, where that is on.
    #[must_use]
    pub fn peer_secret(&self) -> Option<&str> {
        named(self.static_.as_ref()?.member.as_ref()?.peer_secret.as_ref())
    }

    /// The Secret of the server side of TLS to clients, where one is named.
    #[must_use]
    pub fn server_secret(&self) -> Option<&str> {
        named(self.static_.as_ref()?.member.as_ref()?.server_secret.as_ref())
    }

    /// The Secret of the operator's own certificate; its presence is what turns on TLS to clients.
    #[must_use]
    pub fn operator_secret(&self) -> Option<&str> {
        named(self.static_.as_ref()?.operator_secret.as_ref())
    }

    /// Whether any TLS is asked for. Old tools wrote empty blocks, and those ask for none.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        self.peer_secret().or(self.server_secret()).or(self.operator_secret()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_blocks_ask_for_no_tls() {
        for (text, asked) in [
            ("{}", false),
            (r#"{"static":null}"#, false),
            (r#"{"static":{}}"#, false),
            (r#"{"static":{"member":{"peerSecret":"","serverSecret":""},"operatorSecret":""}}"#, false),
            (r#"{"static":{"member":{"peerSecret":"p"}}}"#, true),
            (r#"{"static":{"operatorSecret":"o"}}"#, true),
        ] {
            let policy: TlsPolicy = serde_json::from_str(text).unwrap();
            assert_eq!(policy.is_asked_for(), asked, "{text}");
        }
    }
}
