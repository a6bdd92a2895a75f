//! HOW A MEMBER STARTS: the names and addresses that a command line is made of, valid by construction.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The port on which members talk to each other.
const PEER_PORT: u16 = 2380;
/// The port on which clients talk to members.
const CLIENT_PORT: u16 = 2379;

/// Why a text cannot be part of a member's command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMember {
    /// Not a DNS label.
    #[error(
        "\"{0}\" cannot name a member: it takes 1 to 63 lower-case letters, digits and dashes, no dash at either end"
    )]
    Name(String),
    /// Not an address of a member.
    #[error(
        "\"{0}\" is not the address of a member: it takes http or https, a host name and a port, and nothing else"
    )]
    Url(String),
    /// Not usable as a token.
    #[error(
        "\"{0}\" cannot be a cluster token: it takes 1 to 128 letters, digits, dots, dashes and underscores"
    )]
    Token(String),
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Text of untrusted length, short enough for a message.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

/// A member's name: also its pod's and its claim's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemberName(String);

impl MemberName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MemberName {
    type Err = InvalidMember;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_label(text) { Ok(Self(text.to_owned())) } else { Err(InvalidMember::Name(shown(text))) }
    }
}

/// What keeps two clusters apart that meet on the network: one per incarnation of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterToken(String);

impl ClusterToken {
    /// The token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterToken {
    type Err = InvalidMember;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if (1..=128).contains(&text.len()) && text.chars().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidMember::Token(shown(text)))
        }
    }
}

/// Scheme, host and port, and nothing that could end an element of a comma-separated list.
fn parse_url(text: &str) -> Result<Scheme, InvalidMember> {
    let refused = || InvalidMember::Url(shown(text));
    let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err(refused()),
    };
    let (host, port) = rest.rsplit_once(':').ok_or_else(refused)?;
    let good_port = port.parse::<u16>().is_ok_and(|number| number.to_string() == port && number > 0);
    let good_host = host.len() <= 253 && host.split('.').all(is_label);
    if good_port && good_host { Ok(scheme) } else { Err(refused()) }
}

macro_rules! url {
    ($(#[$doc:meta])* $name:ident, $port:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name {
            scheme: Scheme,
            text: String,
        }

        impl $name {
            /// The address on this host, on etcd's usual port.
            pub fn on(scheme: Scheme, host: &str) -> Result<Self, InvalidMember> {
                format!("{scheme}://{host}:{}", $port).parse()
            }

            /// Whether the connection is encrypted.
            #[must_use]
            pub const fn scheme(&self) -> Scheme {
                self.scheme
            }

            /// The address as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.text
            }

            /// The address on which the member listens for this kind of traffic: every interface, the usual port.
            #[must_use]
            pub fn listen_url(&self) -> String {
                format!("{}://0.0.0.0:{}", self.scheme, $port)
            }
        }

        impl FromStr for $name {
            type Err = InvalidMember;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                parse_url(text).map(|scheme| Self { scheme, text: text.to_owned() })
            }
        }

        impl From<$name> for String {
            fn from(url: $name) -> Self {
                url.text
            }
        }
    };
}

url!(
    /// Where the other members reach a member.
    PeerUrl,
    PEER_PORT
);
url!(
    /// Where clients reach a member.
    ClientUrl,
    CLIENT_PORT
);

macro_rules! text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidMember;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    )*};
}
text!(MemberName, ClusterToken, PeerUrl, ClientUrl);

impl From<MemberName> for String {
    fn from(name: MemberName) -> Self {
        name.0
    }
}

impl From<ClusterToken> for String {
    fn from(token: ClusterToken) -> Self {
        token.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_name_is_a_dns_label() {
        let longest = "a".repeat(63);
        for good in ["a", "example-etcd-cluster-bcdfghjk24", "0", longest.as_str()] {
            assert_eq!(good.parse::<MemberName>().unwrap().as_str(), good);
        }
        let too_long = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a.b", "a,b", "a=b", "a b", "ä", "$(HOSTNAME)", too_long.as_str()] {
            assert!(bad.parse::<MemberName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_url_is_scheme_host_and_port_and_nothing_else() {
        let host = "a-bcdfghjk24.a.default.svc.cluster.local";
        let url = PeerUrl::on(Scheme::Https, host).unwrap();
        assert_eq!(url.as_str(), "https://a-bcdfghjk24.a.default.svc.cluster.local:2380");
        assert_eq!(url.listen_url(), "https://0.0.0.0:2380");
        assert_eq!(
            "http://127.0.0.1:12379".parse::<ClientUrl>().unwrap().listen_url(),
            "http://0.0.0.0:2379"
        );
        let bad = [
            "",
            "a:2380",
            "ftp://a:2380",
            "http://a",
            "http://a:0",
            "http://a:02380",
            "http://a:65536",
            "http://a:2380/",
            "http://a:2380,b=http://c:2380",
            "http://a b:2380",
            "http://user@a:2380",
            "http://:2380",
            "http://a..b:2380",
        ];
        for text in bad {
            assert!(text.parse::<PeerUrl>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_token_cannot_smuggle_anything() {
        assert!("3f8a2b54-0d1e.2".parse::<ClusterToken>().is_ok());
        for bad in ["", "a b", "a,b", "a\n", "$(X)", &"a".repeat(129)] {
            assert!(bad.parse::<ClusterToken>().is_err(), "{bad:?}");
        }
    }
}
