//! Beside the loop: OCI images made from files, without Docker and without a registry to start from.
//!
//! The same input gives the same digest on every machine, so a test can tell whether an image changed.
mod document;
mod layer;
mod name;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

pub use document::Digest;
pub(crate) use document::MANIFEST;
use document::{CONFIG, Config, Descriptor, EmptyObject, INDEX, Index, LAYER, Manifest, RootFs, Run};
use layer::{Layer, Node};
pub use name::{ImageName, NameError};

/// Why an image could not be built or written.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The image's name is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A path inside the image is not absolute, or leads out of it.
    #[error("`{path}` is no place in an image; it must be absolute and have no `.` or `..`")]
    Destination {
        /// The path.
        path: String,
    },
    /// A file that belongs into the image could not be read.
    #[error("could not read {} for an image", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// An entry of the layer could not be written.
    #[error("could not put `{path}` into an image's layer")]
    Layer {
        /// The path inside the image.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The temporary file of the layer failed.
    #[error("could not write an image's layer to a temporary file")]
    Scratch {
        /// Why it failed.
        source: io::Error,
    },
    /// A document could not be written as JSON.
    #[error("could not write an image's {document} as JSON")]
    Json {
        /// Which document.
        document: &'static str,
        /// Why it failed.
        source: serde_json::Error,
    },
    /// The archive could not be written.
    #[error("could not write the image archive {}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// What is to be in an image. Everything belongs to root; a program can be run by all, everything else read by all.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    nodes: BTreeMap<String, Node>,
    run: Run,
}

impl Image {
    /// An empty image of this name, such as `quay.io/coreos/etcd:v3.6.14`. A name that is none is refused by `build`.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), nodes: BTreeMap::new(), run: Run::default() }
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Copies a file of this machine.
    #[must_use]
    pub fn file(self, from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        self.node(to, Node::File(from.into()))
    }

    /// Writes a file with this content.
    #[must_use]
    pub fn text(self, content: impl Into<Vec<u8>>, to: impl Into<String>) -> Self {
        self.node(to, Node::Text(content.into()))
    }

    /// Makes a symbolic link at `at` that leads to `target`.
    #[must_use]
    pub fn symlink(self, target: impl Into<String>, at: impl Into<String>) -> Self {
        self.node(at, Node::Symlink(target.into()))
    }

    /// Makes a folder. Folders on the way to a file need no mention; they are 0755.
    #[must_use]
    pub fn dir(self, path: impl Into<String>, mode: u32) -> Self {
        self.node(path, Node::Dir(mode))
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.run.env.push(format!("{name}={value}"));
        self
    }

    /// Sets what is run whatever arguments are given.
    #[must_use]
    pub fn entrypoint<A: Into<String>>(mut self, argv: impl IntoIterator<Item = A>) -> Self {
        self.run.entrypoint = argv.into_iter().map(Into::into).collect();
        self
    }

    /// Sets what is run if nothing else is given.
    #[must_use]
    pub fn cmd<A: Into<String>>(mut self, argv: impl IntoIterator<Item = A>) -> Self {
        self.run.cmd = argv.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the user, by number, as `UID` or `UID:GID`.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.run.user = Some(user.into());
        self
    }

    /// Says that a TCP port is served.
    #[must_use]
    pub fn expose(mut self, port: u16) -> Self {
        self.run.exposed_ports.insert(format!("{port}/tcp"), EmptyObject::new());
        self
    }

    fn node(mut self, path: impl Into<String>, node: Node) -> Self {
        self.nodes.insert(path.into(), node);
        self
    }

    /// Reads the files and makes the image.
    pub fn build(&self) -> Result<BuiltImage, ImageError> {
        let name: ImageName = self.name.parse()?;
        let layer = layer::write(&self.nodes)?;
        let config = Document::of(
            "configuration",
            &Config {
                architecture: document::architecture().to_owned(),
                os: "linux".to_owned(),
                run: self.run.clone(),
                rootfs: RootFs { r#type: "layers".to_owned(), diff_ids: vec![layer.digest.clone()] },
            },
        )?;
        let manifest = Document::of(
            "manifest",
            &Manifest {
                schema_version: 2,
                media_type: MANIFEST.to_owned(),
                config: config.described_as(CONFIG),
                layers: vec![Descriptor::new(LAYER, &layer.digest, layer.size)],
            },
        )?;
        Ok(BuiltImage { name, layer, config, manifest })
    }
}

/// A JSON document with the digest of exactly these bytes.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: Digest,
}

impl Document {
    fn of(document: &'static str, value: &impl serde::Serialize) -> Result<Self, ImageError> {
        let bytes = serde_json::to_vec(value).map_err(|source| ImageError::Json { document, source })?;
        Ok(Self { digest: Digest::of(&bytes), bytes })
    }

    fn described_as(&self, media_type: &str) -> Descriptor {
        Descriptor::new(media_type, &self.digest, self.bytes.len() as u64)
    }
}

/// An image with its layer on disk and its documents in memory.
#[derive(Debug)]
pub struct BuiltImage {
    name: ImageName,
    layer: Layer,
    config: Document,
    manifest: Document,
}

impl BuiltImage {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &ImageName {
        &self.name
    }

    /// The digest of its manifest, by which a registry and a container runtime know it.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.manifest.digest
    }

    pub(crate) fn config(&self) -> &Document {
        &self.config
    }

    pub(crate) fn manifest(&self) -> &Document {
        &self.manifest
    }

    pub(crate) fn layer_digest(&self) -> &Digest {
        &self.layer.digest
    }

    pub(crate) fn layer_size(&self) -> u64 {
        self.layer.size
    }

    /// The layer's file, to be read by position: clones of one open file share where they are.
    pub(crate) fn layer_file(&self) -> io::Result<File> {
        self.layer.file.try_clone()
    }

    /// Writes it as one file: a tar with the OCI image layout, which `ctr images import` and others read.
    pub fn write_archive(&self, path: &Path) -> Result<(), ImageError> {
        let failed = |source| ImageError::Archive { path: path.to_owned(), source };
        let mut entry = self.manifest.described_as(MANIFEST);
        // The first is what OCI says, the second what containerd takes the full name from.
        entry.annotations.insert("org.opencontainers.image.ref.name".to_owned(), self.name.tag().to_owned());
        entry.annotations.insert("io.containerd.image.name".to_owned(), self.name.to_string());
        let index = Document::of(
            "index",
            &Index { schema_version: 2, media_type: INDEX.to_owned(), manifests: vec![entry] },
        )?;
        let layer = Positioned { file: self.layer_file().map_err(failed)?, at: 0 };
        self.archive(path, &index.bytes, layer).map_err(failed)
    }

    fn archive(&self, path: &Path, index: &[u8], layer: impl Read) -> io::Result<()> {
        let mut tar = tar::Builder::new(BufWriter::new(File::create(path)?));
        let mut put = |name: &str, size: u64, content: &mut dyn Read| {
            let mut header = layer::header(tar::EntryType::Regular, 0o644, size);
            tar.append_data(&mut header, name, content)
        };
        let blob = |digest: &Digest| format!("blobs/sha256/{}", digest.digits());
        let mut document = |name: &str, mut bytes: &[u8]| put(name, bytes.len() as u64, &mut bytes);
        document("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        document("index.json", index)?;
        document(&blob(&self.manifest.digest), &self.manifest.bytes)?;
        document(&blob(&self.config.digest), &self.config.bytes)?;
        put(&blob(&self.layer.digest), self.layer.size, &mut { layer })?;
        tar.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(())
    }
}

/// Reads a file from its beginning, whatever others do with the same open file.
struct Positioned {
    file: File,
    at: u64,
}

impl Read for Positioned {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
