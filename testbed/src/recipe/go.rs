//! Beside the loop: parts that are built from Go modules of ours, which only pin versions and name packages.
use std::fs;
use std::time::Duration;

use super::{BuildError, Tool, create_dir, file, write};
use crate::cache::{Bench, Fingerprint, Recipe};

const GO: Tool = Tool {
    program: "go",
    install: "install Go 1.26 or later and put it on PATH",
    remote: "the Go module proxy",
};

/// Flags that every module is built with. No C library, so that the result runs in an empty image.
const FLAGS: &[&str] = &["build", "-mod=readonly", "-trimpath"];
const ENVIRONMENT: &[(&str, &str)] =
    &[("CGO_ENABLED", "0"), ("GOFLAGS", "-buildvcs=false"), ("GOWORK", "off")];

/// A package to build, and under which name its binary is wanted.
#[derive(Debug)]
struct Package {
    path: &'static str,
    /// Go names a binary after the last part of the path.
    built_as: &'static str,
    binary: &'static str,
}

/// One Go module of the testbed. Its binaries are in `bin/` of the entry.
#[derive(Debug)]
pub struct GoModule {
    name: &'static str,
    /// The requirement in go.mod that carries the version of the whole.
    requires: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
    /// Its only source file.
    source: (&'static str, &'static str),
    packages: &'static [Package],
    /// Packages with the variables `gitVersion`, `gitMajor` and `gitMinor`.
    version_packages: &'static [&'static str],
    /// The release of Go that builds it, where the installed one does not: the Go command fetches it as it fetches modules.
    toolchain: Option<&'static str>,
    usual: Duration,
}

/// A binary that keeps the name of its package.
const fn same(path: &'static str, name: &'static str) -> Package {
    Package { path, built_as: name, binary: name }
}

/// The three programs of etcd since 3.5. The server's package is called `server`, its program `etcd`.
const ETCD: &[Package] = &[
    Package { path: "go.etcd.io/etcd/server/v3", built_as: "server", binary: "etcd" },
    same("go.etcd.io/etcd/etcdctl/v3", "etcdctl"),
    same("go.etcd.io/etcd/etcdutl/v3", "etcdutl"),
];

/// The two programs of etcd up to 3.3.
const OLD_ETCD: &[Package] =
    &[same("github.com/coreos/etcd", "etcd"), same("github.com/coreos/etcd/etcdctl", "etcdctl")];

/// Every program of a Kubernetes node and control plane, and kubectl.
const KUBERNETES: &[Package] = &[
    same("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
    same("k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
    same("k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"),
    same("k8s.io/kubernetes/cmd/kubelet", "kubelet"),
    same("k8s.io/kubernetes/cmd/kube-proxy", "kube-proxy"),
    same("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
];

macro_rules! module {
    ($folder:literal, $source:literal) => {
        (
            include_str!(concat!("../../go/", $folder, "/go.mod")),
            include_str!(concat!("../../go/", $folder, "/go.sum")),
            ($source, include_str!(concat!("../../go/", $folder, "/", $source))),
        )
    };
}

impl GoModule {
    /// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy and kubectl.
    #[must_use]
    pub fn kubernetes() -> Self {
        Self {
            packages: KUBERNETES,
            // Both, as Kubernetes' own build sets them; without them everything says v0.0.0.
            version_packages: &["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"],
            ..Self::of("kubernetes", "k8s.io/kubernetes", module!("kube", "tools.go"), 480)
        }
    }

    /// CoreDNS with the four plugins that a cluster's DNS needs.
    #[must_use]
    pub fn coredns() -> Self {
        Self {
            packages: &[Package { path: ".", built_as: "dns", binary: "coredns" }],
            ..Self::of("coredns", "github.com/coredns/coredns", module!("coredns", "main.go"), 115)
        }
    }

    /// An image registry that keeps its blobs in a folder.
    #[must_use]
    pub fn registry() -> Self {
        Self {
            packages: &[Package { path: ".", built_as: "reg", binary: "registry" }],
            ..Self::of(
                "registry",
                "github.com/distribution/distribution/v3",
                module!("registry", "main.go"),
                55,
            )
        }
    }

    /// etcd 3.1: `etcd` and `etcdctl`.
    #[must_use]
    pub fn etcd_3_1() -> Self {
        Self::old_etcd(module!("etcd-3.1", "tools.go"))
    }

    /// etcd 3.2: `etcd` and `etcdctl`.
    #[must_use]
    pub fn etcd_3_2() -> Self {
        Self::old_etcd(module!("etcd-3.2", "tools.go"))
    }

    /// etcd 3.3: `etcd` and `etcdctl`.
    #[must_use]
    pub fn etcd_3_3() -> Self {
        Self::old_etcd(module!("etcd-3.3", "tools.go"))
    }

    /// etcd 3.5: `etcd`, `etcdctl` and `etcdutl`.
    #[must_use]
    pub fn etcd_3_5() -> Self {
        Self::etcd(module!("etcd-3.5", "tools.go"))
    }

    /// etcd 3.6: `etcd`, `etcdctl` and `etcdutl`.
    #[must_use]
    pub fn etcd_3_6() -> Self {
        Self::etcd(module!("etcd-3.6", "tools.go"))
    }

    /// etcd 3.7: `etcd`, `etcdctl` and `etcdutl`.
    #[must_use]
    pub fn etcd_3_7() -> Self {
        Self::etcd(module!("etcd-3.7", "tools.go"))
    }

    fn etcd(files: Embedded) -> Self {
        Self { packages: ETCD, ..Self::of("etcd", "go.etcd.io/etcd/server/v3", files, 60) }
    }

    /// The dependencies of that time need Go before 1.22: with later ones these programs do not build.
    fn old_etcd(files: Embedded) -> Self {
        Self {
            packages: OLD_ETCD,
            toolchain: Some("go1.21.13"),
            ..Self::of("etcd", "github.com/coreos/etcd", files, 60)
        }
    }

    fn of(name: &'static str, requires: &'static str, files: Embedded, usual: u64) -> Self {
        let (go_mod, go_sum, source) = files;
        Self {
            name,
            requires,
            go_mod,
            go_sum,
            source,
            packages: &[],
            version_packages: &[],
            toolchain: None,
            usual: Duration::from_secs(usual),
        }
    }

    /// What the binaries are linked with: no debug information, and the version where the program wants to be told.
    fn linker_flags(&self) -> String {
        let version = self.version();
        let mut numbers = version.split('.');
        let major = numbers.next().unwrap_or_default();
        let minor = numbers.next().unwrap_or_default();
        let mut flags = vec!["-s -w".to_owned()];
        for package in self.version_packages {
            flags.push(format!("-X {package}.gitVersion=v{version}"));
            flags.push(format!("-X {package}.gitMajor={major}"));
            flags.push(format!("-X {package}.gitMinor={minor}"));
        }
        flags.join(" ")
    }
}

type Embedded = (&'static str, &'static str, (&'static str, &'static str));

/// The version that a go.mod requires of a module, without its `v`.
fn required(go_mod: &'static str, module: &str) -> Option<&'static str> {
    let found = go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word == "require");
        (words.next() == Some(module)).then(|| words.next()?.strip_prefix('v')).flatten()
    });
    // How Go marks a release from before there were modules.
    found.map(|version| version.strip_suffix("+incompatible").unwrap_or(version))
}

impl Recipe for GoModule {
    fn name(&self) -> &str {
        self.name
    }

    fn version(&self) -> &str {
        // go.mod is the one place that says the version; a test says that each can be read.
        required(self.go_mod, self.requires).unwrap_or("unknown")
    }

    fn fingerprint(&self) -> Fingerprint {
        let (source_name, source) = self.source;
        let linker_flags = self.linker_flags();
        let mut parts = vec![self.go_mod, self.go_sum, source_name, source, &linker_flags];
        parts.extend(FLAGS);
        parts.extend(ENVIRONMENT.iter().flat_map(|(name, value)| [*name, *value]));
        parts.extend(self.packages.iter().flat_map(|package| [package.path, package.binary]));
        parts.extend(self.toolchain);
        Fingerprint::of(parts)
    }

    fn usual(&self) -> Duration {
        self.usual
    }

    fn build(&self, bench: &Bench) -> Result<(), BuildError> {
        let module = bench.scratch.join("module");
        create_dir(&module)?;
        let (source_name, source) = self.source;
        for (name, content) in [("go.mod", self.go_mod), ("go.sum", self.go_sum), (source_name, source)] {
            write(&module.join(name), content)?;
        }
        let bin = bench.into.join("bin");
        create_dir(&bin)?;
        let mut go = GO.command();
        go.current_dir(&module)
            // Another platform's binaries would be of no use here.
            .env_remove("GOOS")
            .env_remove("GOARCH")
            .envs(ENVIRONMENT.iter().copied())
            .envs(self.toolchain.map(|release| ("GOTOOLCHAIN", release)))
            .args(FLAGS)
            .arg("-ldflags")
            .arg(self.linker_flags())
            .arg("-o")
            .arg(&bin)
            .args(self.packages.iter().map(|package| package.path));
        GO.run(bench, &mut go)?;
        for package in self.packages {
            let built = bin.join(package.built_as);
            fs::rename(&built, bin.join(package.binary)).map_err(file("find the built binary", &built))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_go_mod_requires() {
        let table = [
            (GoModule::kubernetes(), "kubernetes", "1.35.8"),
            (GoModule::coredns(), "coredns", "1.15.0"),
            (GoModule::registry(), "registry", "3.0.0"),
            (GoModule::etcd_3_1(), "etcd", "3.1.10"),
            (GoModule::etcd_3_2(), "etcd", "3.2.13"),
            (GoModule::etcd_3_3(), "etcd", "3.3.12"),
            (GoModule::etcd_3_5(), "etcd", "3.5.33"),
            (GoModule::etcd_3_6(), "etcd", "3.6.14"),
            (GoModule::etcd_3_7(), "etcd", "3.7.1"),
        ];
        for (module, name, version) in table {
            assert_eq!((module.name(), module.version()), (name, version));
        }
    }

    #[test]
    fn all_three_programs_of_etcd_have_one_version() {
        for module in [GoModule::etcd_3_5(), GoModule::etcd_3_6(), GoModule::etcd_3_7()] {
            for package in module.packages {
                assert_eq!(required(module.go_mod, package.path), Some(module.version()), "{package:?}");
            }
        }
    }

    #[test]
    fn a_requirement_is_read_from_a_line_and_from_a_block() {
        let go_mod = "module m\n\nrequire a/b v1.2.3\n\nrequire (\n\ta/b/c v0.1.0\n\ta v2.0.0 // indirect\n\
                      \ta/old v3.1.10+incompatible\n)\n";
        let table = [
            ("a/b", Some("1.2.3")),
            ("a/b/c", Some("0.1.0")),
            ("a", Some("2.0.0")),
            ("a/old", Some("3.1.10")),
            ("b", None),
        ];
        for (module, version) in table {
            assert_eq!(required(go_mod, module), version, "{module}");
        }
    }

    #[test]
    fn kubernetes_is_told_its_version_and_its_numbers() {
        let flags = GoModule::kubernetes().linker_flags();
        for flag in ["gitVersion=v1.35.8", "gitMajor=1", "gitMinor=35"] {
            assert!(flags.contains(&format!("-X k8s.io/component-base/version.{flag}")), "{flags}");
        }
        assert_eq!(GoModule::coredns().linker_flags(), "-s -w");
    }

    #[test]
    fn modules_have_different_fingerprints() {
        assert_ne!(GoModule::etcd_3_5().fingerprint(), GoModule::etcd_3_6().fingerprint());
        assert_eq!(GoModule::etcd_3_5().fingerprint(), GoModule::etcd_3_5().fingerprint());
    }
}
