//! What holds for every image that is made here.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use super::*;

/// A folder with a program and a data file, last changed at the given time.
fn files(age: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("program", 0o700), ("data", 0o600)] {
        let path = folder.path().join(name);
        fs::write(&path, name).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(age);
        File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
    }
    folder
}

fn image(from: &Path) -> Image {
    Image::named("quay.io/coreos/etcd:v1")
        .file(from.join("program"), "/usr/local/bin/etcd")
        .file(from.join("data"), "/etc/data")
        .text("root\n", "/etc/passwd")
        .symlink("etcd", "/usr/local/bin/link")
        .dir("/tmp", 0o1777)
        .env("PATH", "/usr/local/bin")
        .cmd(["/usr/local/bin/etcd"])
        .user("65532:65532")
        .expose(2379)
}

/// What a layer holds: path → (kind, mode, link or content).
fn listed(tar: impl Read) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(tar);
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            assert_eq!((header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (0, 0, 0));
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let link = entry.link_name().unwrap().map(|link| format!(" -> {}", link.display()));
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            let kind = header.entry_type();
            let mode = header.mode().unwrap();
            (path, format!("{kind:?} {mode:o}{}{content}", link.unwrap_or_else(|| " ".to_owned())))
        })
        .collect()
}

fn layer_of(image: &BuiltImage) -> Positioned {
    Positioned { file: image.layer_file().unwrap(), at: 0 }
}

#[test]
fn the_same_input_gives_the_same_digest() {
    let (old, new) = (files(1_000_000), files(2_000_000));
    let first = image(old.path()).build().unwrap();
    let second = image(new.path()).build().unwrap();
    assert_eq!(first.digest(), second.digest(), "neither folder nor time of change matter");
    let digest = first.digest().as_str();
    assert!(digest.starts_with("sha256:") && digest.len() == 71, "{digest}");
}

#[test]
fn the_order_of_adding_does_not_matter() {
    let there = Image::named("a").text("1", "/x/one").text("2", "/y").dir("/x", 0o700);
    let back = Image::named("a").dir("/x", 0o700).text("2", "/y").text("1", "/x/one");
    assert_eq!(there.build().unwrap().digest(), back.build().unwrap().digest());
}

#[test]
fn a_different_file_gives_a_different_digest() {
    let base = Image::named("a").text("1", "/x");
    let digest = |image: &Image| image.build().unwrap().digest().clone();
    for other in [base.clone().text("2", "/x"), base.clone().env("A", "b"), base.clone().dir("/t", 0o755)] {
        assert_ne!(digest(&base), digest(&other));
    }
}

#[test]
fn a_layer_holds_files_links_and_folders_with_fixed_modes() {
    let folder = files(0);
    let built = image(folder.path()).build().unwrap();
    let expected = [
        ("etc/", "Directory 755 "),
        ("etc/data", "Regular 644 data"),
        ("etc/passwd", "Regular 644 root\n"),
        ("tmp/", "Directory 1777 "),
        ("usr/", "Directory 755 "),
        ("usr/local/", "Directory 755 "),
        ("usr/local/bin/", "Directory 755 "),
        ("usr/local/bin/etcd", "Regular 755 program"),
        ("usr/local/bin/link", "Symlink 777 -> etcd"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(path, what)| ((*path).to_owned(), (*what).to_owned())).collect();
    assert_eq!(listed(layer_of(&built)), expected);
}

#[test]
fn a_path_longer_than_a_tar_header_is_kept() {
    let path = format!("/{}", ["part"; 60].join("/"));
    let built = Image::named("a").text("1", path.clone()).symlink(path.clone(), "/link").build().unwrap();
    let found = listed(layer_of(&built));
    assert!(found.contains(&(path[1..].to_owned(), "Regular 644 1".to_owned())), "{found:?}");
    assert!(found.contains(&("link".to_owned(), format!("Symlink 777 -> {path}"))), "{found:?}");
}

#[test]
fn an_archive_has_the_oci_layout() {
    let folder = files(0);
    let built = image(folder.path()).build().unwrap();
    let path = folder.path().join("image.tar");
    // Twice: the first must not leave the layer's file at its end.
    built.write_archive(&path).unwrap();
    built.write_archive(&path).unwrap();

    let mut blobs = BTreeMap::new();
    for entry in tar::Archive::new(File::open(&path).unwrap()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if let Some(digits) = name.strip_prefix("blobs/sha256/") {
            assert_eq!(Digest::of(&bytes).digits(), digits);
        }
        blobs.insert(name, bytes);
    }
    assert_eq!(blobs["oci-layout"], br#"{"imageLayoutVersion":"1.0.0"}"#);
    let index: Index = serde_json::from_slice(&blobs["index.json"]).unwrap();
    let entry = &index.manifests[0];
    assert_eq!(&entry.digest, built.digest());
    assert_eq!(entry.annotations["org.opencontainers.image.ref.name"], "v1");
    assert_eq!(entry.annotations["io.containerd.image.name"], "quay.io/coreos/etcd:v1");
    let blob = |digest: &Digest| &blobs[&format!("blobs/sha256/{}", digest.digits())];
    let manifest: Manifest = serde_json::from_slice(blob(&entry.digest)).unwrap();
    assert_eq!(manifest.layers[0].size, blob(&manifest.layers[0].digest).len() as u64);
    let config: Config = serde_json::from_slice(blob(&manifest.config.digest)).unwrap();
    assert_eq!(config.rootfs.diff_ids, [manifest.layers[0].digest.clone()]);
    assert_eq!(config.run.user.as_deref(), Some("65532:65532"));
    assert_eq!(config.run.exposed_ports.keys().collect::<Vec<_>>(), ["2379/tcp"]);
    assert_eq!(config.run.cmd, ["/usr/local/bin/etcd"]);
    assert_eq!(blobs.len(), 5);
}

#[test]
fn a_place_outside_of_the_image_is_refused() {
    for path in ["relative", "/", "/../up", "/a//b", "/a/", "/./a", ""] {
        let error = Image::named("a").text("1", path).build().unwrap_err();
        assert!(matches!(error, ImageError::Destination { .. }), "{path}: {error}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = Image::named("a").file("/no/such/file", "/x").build().unwrap_err();
    assert_eq!(error.to_string(), "could not read /no/such/file for an image");
    let error = Image::named("a").file("/", "/x").build().unwrap_err();
    assert!(matches!(error, ImageError::Source { .. }), "a folder is no file: {error}");
    assert!(matches!(Image::named("A B").build().unwrap_err(), ImageError::Name(_)));
}
