//! Beside the loop: which images the testbed's registry has, under the names that manifests use for them.
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::cache::{Cache, CacheError, Recipe};
use crate::image::Image;
use crate::recipe::{DebianEtcd, DebianShell, GoModule, LIBRARIES, LOADER, Pause};

/// Where the official image has etcd's programs.
const BIN: &str = "/usr/local/bin";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const ETCD_REPOSITORY: &str = "quay.io/coreos/etcd";

/// The client of the tests: a shell, small tools, and etcd's programs of [`EtcdVersion::DEFAULT`].
pub const CLIENT: &str = "quay.io/etcd-operator/client:latest";

/// Why an image is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// One of its parts could not be built.
    #[error("a part of the image {image} is missing")]
    Part {
        /// The image.
        image: String,
        /// Why the part is missing.
        source: CacheError,
    },
    /// A part is there, but a file of it cannot be read.
    #[error("could not read {} for the image {image}", path.display())]
    Read {
        /// The image.
        image: String,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// A version of etcd that the testbed can run: one per minor since 3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EtcdVersion {
    /// 3.1, the one with which the seeds' upgrade begins.
    V3_1,
    /// 3.2, the one on the way of the seeds' upgrade.
    V3_2,
    /// 3.3, the one to which the seeds upgrade; the last whose etcdctl speaks the v2 API unless told otherwise.
    V3_3,
    /// 3.4, from Debian; without etcdutl.
    V3_4,
    /// 3.5.
    V3_5,
    /// 3.6.
    V3_6,
    /// 3.7.
    V3_7,
}

/// The version is not one that the testbed can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the testbed has no etcd {asked}; it has {}", known())]
pub struct UnknownVersion {
    asked: String,
}

fn known() -> String {
    EtcdVersion::ALL.map(|version| version.to_string()).join(", ")
}

impl EtcdVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 7] =
        [Self::V3_1, Self::V3_2, Self::V3_3, Self::V3_4, Self::V3_5, Self::V3_6, Self::V3_7];
    /// The one for everything that needs no particular version.
    pub const DEFAULT: Self = Self::V3_6;

    /// How its programs are obtained. They are in `bin/` of the entry.
    #[must_use]
    pub fn recipe(self) -> Box<dyn Recipe> {
        match self {
            Self::V3_1 => Box::new(GoModule::etcd_3_1()),
            Self::V3_2 => Box::new(GoModule::etcd_3_2()),
            Self::V3_3 => Box::new(GoModule::etcd_3_3()),
            Self::V3_4 => Box::new(DebianEtcd),
            Self::V3_5 => Box::new(GoModule::etcd_3_5()),
            Self::V3_6 => Box::new(GoModule::etcd_3_6()),
            Self::V3_7 => Box::new(GoModule::etcd_3_7()),
        }
    }

    /// The name of its image, as the operator's defaults spell it.
    #[must_use]
    pub fn image_name(self) -> String {
        format!("{ETCD_REPOSITORY}:v{self}")
    }

    /// Its programs: etcdutl was split from etcdctl in 3.5.
    fn programs(self) -> &'static [&'static str] {
        if self <= Self::V3_4 { &["etcd", "etcdctl"] } else { &["etcd", "etcdctl", "etcdutl"] }
    }
}

impl fmt::Display for EtcdVersion {
    /// The whole version without a `v`, such as `3.6.14`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.recipe().version())
    }
}

impl FromStr for EtcdVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL
            .into_iter()
            .find(|version| version.to_string() == text)
            .ok_or_else(|| UnknownVersion { asked: text.to_owned() })
    }
}

/// The name of the sandbox image.
#[must_use]
pub fn pause_name() -> String {
    format!("registry.k8s.io/pause:{}", Pause.version())
}

/// The name of the image of the cluster's DNS.
#[must_use]
pub fn coredns_name() -> String {
    format!("registry.k8s.io/coredns/coredns:v{}", GoModule::coredns().version())
}

/// The sandbox image: it holds a pod's namespaces.
pub fn pause(cache: &Cache) -> Result<Image, ImagesError> {
    let image = Image::named(pause_name());
    let parts = part(cache, &image, &Pause)?;
    Ok(image.file(parts.join("bin/pause"), "/pause").entrypoint(["/pause"]).user("65535:65535"))
}

/// The cluster's DNS.
pub fn coredns(cache: &Cache) -> Result<Image, ImagesError> {
    let recipe = GoModule::coredns();
    let image = Image::named(coredns_name());
    let parts = part(cache, &image, &recipe)?;
    Ok(image.file(parts.join("bin/coredns"), "/coredns").entrypoint(["/coredns"]).expose(53))
}

/// etcd as its official image is: its own programs and no shell.
pub fn etcd(cache: &Cache, version: EtcdVersion) -> Result<Image, ImagesError> {
    with_etcd(Image::named(version.image_name()), cache, version)
}

/// What `kubectl run … --image quay.io/coreos/etcd … -- /bin/sh` gets: the etcd of the seeds' days, whose etcdctl knows `cluster-health`
/// and, where `ETCDCTL_API=3` is set, `put` and `get`.
pub fn seeds_client(cache: &Cache) -> Result<Image, ImagesError> {
    with_shell(Image::named(format!("{ETCD_REPOSITORY}:latest")), cache, EtcdVersion::V3_3)
}

/// What tests run etcdctl in: today's, which knows learners.
pub fn client(cache: &Cache) -> Result<Image, ImagesError> {
    with_shell(Image::named(CLIENT), cache, EtcdVersion::DEFAULT)
}

/// etcd's programs with a shell and small tools around them.
fn with_shell(image: Image, cache: &Cache, version: EtcdVersion) -> Result<Image, ImagesError> {
    let image = with_etcd(image, cache, version)?;
    let parts = part(cache, &image, &DebianShell)?;
    let applets = parts.join("applets");
    let list = std::fs::read_to_string(&applets).map_err(|source| ImagesError::Read {
        image: image.name().to_owned(),
        path: applets,
        source,
    })?;
    let mut image = with_c_library(image, &parts)
        .file(parts.join("bin/busybox"), "/bin/busybox")
        // Not busybox's own: its shell runs applets instead of files of the same name.
        .file(parts.join("bin/dash"), "/bin/sh")
        .file(parts.join("bin/getent"), "/usr/bin/getent")
        .text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", "/etc/passwd")
        .text("root:x:0:\nnogroup:x:65534:\n", "/etc/group")
        .text("hosts: files dns\n", "/etc/nsswitch.conf")
        .dir("/root", 0o700);
    for applet in list.lines().filter(|applet| !matches!(*applet, "" | "sh" | "ash" | "busybox")) {
        image = image.symlink("busybox", format!("/bin/{applet}"));
    }
    Ok(image)
}

fn with_etcd(image: Image, cache: &Cache, version: EtcdVersion) -> Result<Image, ImagesError> {
    let parts = part(cache, &image, version.recipe().as_ref())?;
    let mut image = image
        .dir("/var/etcd", 0o755)
        .dir("/var/lib/etcd", 0o755)
        .dir("/tmp", 0o1777)
        .env("PATH", PATH)
        .cmd([format!("{BIN}/etcd")])
        .expose(2379)
        .expose(2380);
    for program in version.programs() {
        image = image.file(parts.join("bin").join(program), format!("{BIN}/{program}"));
    }
    // Debian's programs are not static.
    Ok(if version == EtcdVersion::V3_4 { with_c_library(image, &parts) } else { image })
}

/// Adds the loader and the libraries of an entry that came from Debian.
fn with_c_library(image: Image, parts: &Path) -> Image {
    let lib = parts.join("lib");
    LIBRARIES
        .iter()
        .fold(image, |image, name| image.file(lib.join(name), format!("/lib/x86_64-linux-gnu/{name}")))
        .file(lib.join(LOADER), format!("/lib64/{LOADER}"))
}

fn part(cache: &Cache, image: &Image, recipe: &dyn Recipe) -> Result<PathBuf, ImagesError> {
    match cache.get(recipe) {
        Ok(entry) => Ok(entry.path),
        Err(source) => Err(ImagesError::Part { image: image.name().to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_parsed_from_what_it_prints() {
        let texts = ["3.1.10", "3.2.13", "3.3.12", "3.4.23", "3.5.33", "3.6.14", "3.7.1"];
        for (version, text) in EtcdVersion::ALL.into_iter().zip(texts) {
            assert_eq!((version.to_string().as_str(), text.parse()), (text, Ok(version)));
            assert_eq!(version.image_name(), format!("quay.io/coreos/etcd:v{text}"));
        }
        assert_eq!(EtcdVersion::DEFAULT.to_string(), "3.6.14");
    }

    #[test]
    fn an_unknown_version_is_answered_with_the_known_ones() {
        for text in ["3.6", "v3.6.14", "", "2.3.8"] {
            let error = text.parse::<EtcdVersion>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "the testbed has no etcd {text}; it has 3.1.10, 3.2.13, 3.3.12, 3.4.23, \
                     3.5.33, 3.6.14, 3.7.1"
                )
            );
        }
    }
}
