//! Beside the loop: an image's name, taken apart as container runtimes do it.
use std::fmt;

/// Why a name is no image name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no name for an image: {why}")]
pub struct NameError {
    name: String,
    why: &'static str,
}

/// An image's name: a host where one is given, a repository, a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    host: Option<String>,
    repository: String,
    tag: String,
}

impl ImageName {
    /// The path of the repository, without the host.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag; `latest` where none is given.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

impl std::str::FromStr for ImageName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let wrong = |why| NameError { name: name.to_owned(), why };
        if name.contains('@') {
            return Err(wrong("a digest is the result of building it, not a part of its name"));
        }
        // A first part with a dot or a port is a host; so is localhost. Everything else belongs to the repository.
        let (host, rest) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
                (Some(first.to_owned()), rest)
            }
            _ => (None, name),
        };
        let (path, tag) = rest.split_once(':').unwrap_or((rest, "latest"));
        let part = |text: &str, extra: &[char]| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(&c))
        };
        if !path.split('/').all(|piece| part(piece, &['-', '_', '.'])) || path.contains(char::is_uppercase) {
            return Err(wrong("its repository has an empty part or a character that is not allowed"));
        }
        if !part(tag, &['-', '_', '.']) {
            return Err(wrong("its tag is empty or has a character that is not allowed"));
        }
        let repository =
            if host.is_none() && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
        Ok(Self { host, repository, tag: tag.to_owned() })
    }
}

impl fmt::Display for ImageName {
    /// The full name, as a container runtime stores it: a name without a host means Docker's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or("docker.io");
        write!(f, "{host}/{}:{}", self.repository, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_as_a_runtime_does_it() {
        let table = [
            ("quay.io/coreos/etcd:v3.6.14", "coreos/etcd", "v3.6.14", "quay.io/coreos/etcd:v3.6.14"),
            ("quay.io/coreos/etcd", "coreos/etcd", "latest", "quay.io/coreos/etcd:latest"),
            ("registry.k8s.io/pause:3.10", "pause", "3.10", "registry.k8s.io/pause:3.10"),
            (
                "registry.k8s.io/coredns/coredns:v1",
                "coredns/coredns",
                "v1",
                "registry.k8s.io/coredns/coredns:v1",
            ),
            ("localhost:5000/a/b:c", "a/b", "c", "localhost:5000/a/b:c"),
            ("localhost/a", "a", "latest", "localhost/a:latest"),
            ("busybox", "library/busybox", "latest", "docker.io/library/busybox:latest"),
            (
                "busybox:1.28.0-glibc",
                "library/busybox",
                "1.28.0-glibc",
                "docker.io/library/busybox:1.28.0-glibc",
            ),
            ("minio/minio:x", "minio/minio", "x", "docker.io/minio/minio:x"),
        ];
        for (name, repository, tag, full) in table {
            let parsed: ImageName = name.parse().unwrap();
            assert_eq!((parsed.repository(), parsed.tag()), (repository, tag), "{name}");
            assert_eq!(parsed.to_string(), full);
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        for name in
            ["", "quay.io/", "quay.io//etcd", "a b", "A", "etcd:", "quay.io/etcd:a/b", "etcd@sha256:00"]
        {
            let error = name.parse::<ImageName>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{name}` is no name")), "{error}");
        }
    }
}
