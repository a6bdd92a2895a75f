//! Beside the loop: the one layer of an image, a tar whose bytes depend on nothing but what is in it.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::{Digest, ImageError};

/// What is at one path of an image.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A copy of a file of this machine.
    File(PathBuf),
    /// A file with this content.
    Text(Vec<u8>),
    /// A symbolic link to this path.
    Symlink(String),
    /// A folder with this mode.
    Dir(u32),
}

const DIR_MODE: u32 = 0o755;
const PROGRAM_MODE: u32 = 0o755;
const DATA_MODE: u32 = 0o644;

/// A finished layer. The file has no name any more, so it is gone when nobody holds it, however this process ends.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) file: File,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

/// Writes the layer, in the order of the paths.
pub(super) fn write(nodes: &BTreeMap<String, Node>) -> Result<Layer, ImageError> {
    let scratch = |source| ImageError::Scratch { source };
    let file = tempfile::tempfile().map_err(scratch)?;
    let hashed = Hashed { inner: BufWriter::with_capacity(1 << 20, file), hash: Sha256::new(), size: 0 };
    let mut tar = Builder::new(hashed);
    for (path, node) in &with_parents(nodes)? {
        append(&mut tar, path, node)?;
    }
    let hashed = tar.into_inner().map_err(scratch)?;
    let file = hashed.inner.into_inner().map_err(|error| scratch(error.into_error()))?;
    Ok(Layer { file, digest: Digest::finished(hashed.hash), size: hashed.size })
}

/// Adds the folders that nobody mentioned. Keys become relative, as a layer has them; a folder sorts before what is in it.
fn with_parents(nodes: &BTreeMap<String, Node>) -> Result<BTreeMap<String, Node>, ImageError> {
    let mut all = BTreeMap::new();
    for (path, node) in nodes {
        let inside = path.strip_prefix('/').filter(|inside| {
            !inside.is_empty() && inside.split('/').all(|part| !matches!(part, "" | "." | ".."))
        });
        let inside = inside.ok_or_else(|| ImageError::Destination { path: path.clone() })?;
        all.insert(inside.to_owned(), node.clone());
    }
    let mentioned: Vec<String> = all.keys().cloned().collect();
    for path in mentioned {
        for (end, _) in path.match_indices('/') {
            let parent = path.get(..end).unwrap_or_default();
            all.entry(parent.to_owned()).or_insert(Node::Dir(DIR_MODE));
        }
    }
    Ok(all)
}

fn append(tar: &mut Builder<impl Write>, path: &str, node: &Node) -> Result<(), ImageError> {
    let failed = |source| ImageError::Layer { path: format!("/{path}"), source };
    match node {
        Node::Dir(mode) => {
            let mut header = header(EntryType::Directory, *mode, 0);
            tar.append_data(&mut header, format!("{path}/"), io::empty()).map_err(failed)
        }
        Node::Symlink(target) => {
            let mut header = header(EntryType::Symlink, 0o777, 0);
            tar.append_link(&mut header, path, target).map_err(failed)
        }
        Node::Text(content) => {
            let mut header = header(EntryType::Regular, DATA_MODE, content.len() as u64);
            tar.append_data(&mut header, path, content.as_slice()).map_err(failed)
        }
        Node::File(from) => {
            let (file, mode, size) = open(from)?;
            let mut header = header(EntryType::Regular, mode, size);
            tar.append_data(&mut header, path, file).map_err(failed)
        }
    }
}

/// A file with the mode that it gets: whether it can be run is kept, everything else is the same for all.
fn open(from: &Path) -> Result<(File, u32, u64), ImageError> {
    let failed = |source| ImageError::Source { path: from.to_owned(), source };
    let file = File::open(from).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")));
    }
    let mode = if metadata.permissions().mode() & 0o111 == 0 { DATA_MODE } else { PROGRAM_MODE };
    Ok((file, mode, metadata.len()))
}

pub(super) fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Counts and hashes what passes, so that a layer of hundreds of megabytes is read once and never held in memory.
struct Hashed<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or(bytes));
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
