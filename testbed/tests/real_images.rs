//! The real parts: everything is built (once, into the cache), and every image is pushed to the real registry.
//!
//! Where nothing is in the cache yet, this takes some 15 minutes on two cores: `make cluster-up` has filled it before.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in test functions; what those call here is test code too"
)]
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testbed::cache::{Cache, Recipe};
use testbed::image::Image;
use testbed::images::{self, EtcdVersion};
use testbed::push::push;
use testbed::recipe::GoModule;

/// A registry that ends with the test.
struct Registry {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Registry {
    fn start(cache: &Cache) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // An address of this process's own: nobody else's connection takes the port before the registry does.
        let address = loopback::free_address().to_string();
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            folder.path().join("blobs").display()
        );
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let process = Command::new(built(cache, &GoModule::registry()).join("bin/registry"))
            .arg("serve")
            .arg(&file)
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let registry = Self { process, address, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&registry.address).is_err() {
            assert!(Instant::now() < deadline, "the registry does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        registry
    }

    /// Headers and body of a manifest, asked for without any library of ours.
    fn manifest(&self, repository: &str, tag: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "GET /v2/{repository}/manifests/{tag} HTTP/1.0\r\nHost: {}\r\nAccept: application/vnd.oci.image.manifest.v1+json\r\n\r\n",
            self.address
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end + 4..].to_vec())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn built(cache: &Cache, recipe: &dyn Recipe) -> std::path::PathBuf {
    let entry = cache.get(recipe).unwrap_or_else(|error| panic!("{:#}", anyhow::Error::from(error)));
    let took =
        entry.built.map_or("was there".to_owned(), |took| format!("built in {:.1} s", took.as_secs_f32()));
    println!("{} {}: {took}", recipe.name(), recipe.version());
    entry.path
}

fn printed(program: &Path, arguments: &[&str]) -> String {
    // Up to 3.3, etcdctl speaks the v2 API unless told otherwise, and has another way to say its version then.
    let output = Command::new(program).args(arguments).env("ETCDCTL_API", "3").output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", program.display());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_program_says_the_version_it_was_built_as() {
    let cache = Cache::for_this_user().unwrap();
    let bin = built(&cache, &GoModule::kubernetes()).join("bin");
    for program in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"] {
        assert_eq!(printed(&bin.join(program), &["--version"]).trim(), "Kubernetes v1.35.8", "{program}");
    }
    let kubectl = printed(&bin.join("kubectl"), &["version", "--client"]);
    assert!(kubectl.starts_with("Client Version: v1.35.8\n"), "{kubectl}");
    let coredns = built(&cache, &GoModule::coredns()).join("bin/coredns");
    assert!(printed(&coredns, &["-version"]).starts_with("CoreDNS-1.15.0\n"));
    for version in EtcdVersion::ALL {
        let bin = built(&cache, version.recipe().as_ref()).join("bin");
        let say = |program: &str, arguments: &[&str]| printed(&bin.join(program), arguments);
        assert!(say("etcd", &["--version"]).starts_with(&format!("etcd Version: {version}\n")));
        assert!(say("etcdctl", &["version"]).starts_with(&format!("etcdctl version: {version}\n")));
        if version > EtcdVersion::V3_4 {
            assert!(say("etcdutl", &["version"]).starts_with(&format!("etcdutl version: {version}\n")));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_image_is_in_the_registry_under_its_own_digest() {
    let cache = Cache::for_this_user().unwrap();
    let registry = Registry::start(&cache);
    let mut all: Vec<Image> = vec![
        images::pause(&cache).unwrap(),
        images::coredns(&cache).unwrap(),
        images::client(&cache).unwrap(),
        images::seeds_client(&cache).unwrap(),
    ];
    all.extend(EtcdVersion::ALL.map(|version| images::etcd(&cache, version).unwrap()));
    for image in all {
        let began = Instant::now();
        let built = image.build().unwrap();
        let took = began.elapsed();
        assert_eq!(built.digest(), image.build().unwrap().digest(), "{}", image.name());
        let began = Instant::now();
        let pushed = push(&built, &registry.address).await.unwrap();
        println!(
            "{} {}: built in {took:.1?}, {} bytes pushed in {:.1?}",
            image.name(),
            built.digest(),
            pushed.sent,
            began.elapsed()
        );
        assert!(pushed.sent > 0);
        let again = push(&built, &registry.address).await.unwrap();
        assert_eq!((again.sent, &again.digest), (0, built.digest()), "what is there is not sent again");

        let (headers, body) = registry.manifest(built.name().repository(), built.name().tag());
        assert!(headers.starts_with("HTTP/1.0 200") || headers.starts_with("HTTP/1.1 200"), "{headers}");
        let digest = format!("docker-content-digest: {}", built.digest());
        assert!(headers.to_lowercase().contains(&digest), "{headers}");
        assert!(!body.is_empty());
    }
}
