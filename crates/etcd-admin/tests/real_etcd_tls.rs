//! The client against a real etcd that asks for certificates.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's functions may panic too")]

use std::fs;

use etcd_admin::{Cause, Connect, Tls};
use loopback::{Cluster, VERSIONS, eventually, own_address};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, names: &[&str]) -> (String, String) {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

#[tokio::test]
async fn only_who_shows_a_certificate_and_trusts_the_right_authority_is_answered() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.issue(&[&own_address().to_string(), "localhost"]);
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let flags = [
        "--client-cert-auth=true".to_owned(),
        format!("--trusted-ca-file={}", file("ca.crt", &authority.certificate)),
        format!("--cert-file={}", file("server.crt", &certificate)),
        format!("--key-file={}", file("server.key", &key)),
    ];
    let (own, own_key) = authority.issue(&["operator"]);
    let tls = |authority: &Authority, shows: bool| Connect {
        tls: Some(Tls {
            ca: authority.certificate.clone().into_bytes(),
            identity: shows.then(|| (own.clone().into_bytes(), own_key.clone().into_bytes())),
            server_name: None,
        }),
        ..Connect::default()
    };
    for version in VERSIONS {
        let mut cluster = Cluster::prepare(version, 1, "https", &flags);
        cluster.run(0, "new");
        let process = &cluster.members[0];
        let trusted = process.handle_with(&tls(&authority, true));
        eventually(
            "a client with a certificate is answered",
            || process.log(),
            async || trusted.ping().await.ok(),
        )
        .await;
        assert_eq!(trusted.status().await.unwrap().version, version);
        let stranger = process.handle_with(&tls(&Authority::new(), true)).status().await.unwrap_err();
        assert_eq!(stranger.cause, Cause::Unreachable, "{version}: {stranger}");
        let nameless = process.handle_with(&tls(&authority, false)).status().await.unwrap_err();
        assert!(
            matches!(nameless.cause, Cause::Unreachable | Cause::ConnectionLost { maybe_done: false }),
            "{version}: {nameless}"
        );
    }
}
