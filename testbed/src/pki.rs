//! The cluster's own certificate authority, and who gets a certificate for what.

use std::{
    fs,
    io::{self, Write as _},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

/// What went wrong with the certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A certificate could not be made.
    #[error("the certificate {name} could not be made: {source}")]
    Make {
        /// Whose.
        name: String,
        /// Why.
        source: rcgen::Error,
    },
    /// A file could not be written.
    #[error("{path} could not be written: {source}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// An authority whose files lie in one folder.
pub struct Authority {
    dir: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate's subject, as Kubernetes reads it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The user.
    pub common_name: &'a str,
    /// The group.
    pub organization: Option<&'a str>,
}

impl<'a> Subject<'a> {
    /// A user without a group.
    #[must_use]
    pub fn user(common_name: &'a str) -> Self {
        Self { common_name, organization: None }
    }

    /// A user in a group.
    #[must_use]
    pub fn member_of(common_name: &'a str, organization: &'a str) -> Self {
        Self { common_name, organization: Some(organization) }
    }
}

impl Authority {
    /// A new authority; its certificate is `ca.crt` in `dir`.
    pub fn create(dir: &Path) -> Result<Self, PkiError> {
        let failed = |source| PkiError::Make { name: "ca".to_owned(), source };
        fs::create_dir_all(dir).map_err(|source| PkiError::Write { path: dir.to_owned(), source })?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "etcd-operator-testbed");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let issuer =
            CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(failed)?).map_err(failed)?;
        let authority = Self { dir: dir.to_owned(), issuer };
        authority.write("ca.crt", &authority.issuer.pem())?;
        authority.write("ca.key", &authority.issuer.key().serialize_pem())?;
        Ok(authority)
    }

    /// A certificate for somebody who asks: `NAME.crt` and `NAME.key`.
    pub fn client(&self, name: &str, subject: Subject<'_>) -> Result<(), PkiError> {
        self.issue(name, subject, &[ExtendedKeyUsagePurpose::ClientAuth], Vec::new())
    }

    /// A certificate for somebody who answers under these names and addresses, and may ask as well.
    pub fn server(
        &self,
        name: &str,
        subject: Subject<'_>,
        names: &[&str],
        addresses: &[IpAddr],
    ) -> Result<(), PkiError> {
        let failed = |source| PkiError::Make { name: name.to_owned(), source };
        let mut alternatives = Vec::new();
        for dns in names {
            alternatives.push(SanType::DnsName((*dns).try_into().map_err(failed)?));
        }
        alternatives.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        self.issue(
            name,
            subject,
            &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            alternatives,
        )
    }

    /// A key pair without a certificate: `NAME.key` and `NAME.pub`.
    pub fn key_pair(&self, name: &str) -> Result<(), PkiError> {
        let key = KeyPair::generate().map_err(|source| PkiError::Make { name: name.to_owned(), source })?;
        self.write(&format!("{name}.key"), &key.serialize_pem())?;
        self.write(&format!("{name}.pub"), &key.public_key_pem())
    }

    fn issue(
        &self,
        name: &str,
        subject: Subject<'_>,
        purposes: &[ExtendedKeyUsagePurpose],
        alternatives: Vec<SanType>,
    ) -> Result<(), PkiError> {
        let failed = |source| PkiError::Make { name: name.to_owned(), source };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, subject.common_name);
        if let Some(organization) = subject.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes.to_vec();
        params.subject_alt_names = alternatives;
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        self.write(&format!("{name}.crt"), &certificate.pem())?;
        self.write(&format!("{name}.key"), &key.serialize_pem())
    }

    fn write(&self, file: &str, pem: &str) -> Result<(), PkiError> {
        write_private(&self.dir.join(file), pem.as_bytes())
    }
}

/// Writes a kubeconfig for the holder of `NAME.crt` in `pki`. Certificates are embedded, so the file can be copied.
pub fn write_kubeconfig(path: &Path, server: &str, pki: &Path, name: &str) -> Result<(), PkiError> {
    let read = |file: &str| {
        let path = pki.join(file);
        fs::read(&path)
            .map(|bytes| BASE64_STANDARD.encode(bytes))
            .map_err(|source| PkiError::Write { path, source })
    };
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {
            "server": server,
            "certificate-authority-data": read("ca.crt")?,
        }}],
        "users": [{"name": name, "user": {
            "client-certificate-data": read(&format!("{name}.crt"))?,
            "client-key-data": read(&format!("{name}.key"))?,
        }}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": name}}],
        "current-context": "testbed",
    });
    write_private(path, format!("{config:#}\n").as_bytes())
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content))
        .map_err(|source| PkiError::Write { path: path.to_owned(), source })
}
