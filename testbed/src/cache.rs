//! Beside the loop: what the testbed had to build, kept outside the checkout so that it is built once.
//!
//! An entry is a folder `NAME-VERSION-FINGERPRINT` that appears by one rename, so whoever sees it may use it. There is no fsync:
//! after a power cut the worst case is a missing entry, or one that is removed by hand.
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::recipe::BuildError;

/// What a recipe's result depends on, as one hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Hashes the parts. Each is preceded by its length, so that moving bytes from one part to the next changes the result.
    pub fn of<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            let bytes = part.as_ref();
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        Self(hex(&hash.finalize()))
    }

    /// The part of the hash that is in a folder's name: enough to tell recipes apart, short enough to read.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lower-case hexadecimal digits of some bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Where one build takes place.
#[derive(Debug)]
pub struct Bench {
    /// The folder that becomes the entry if the build succeeds.
    pub into: PathBuf,
    /// A folder for what is needed only while building. It is removed afterwards.
    pub scratch: PathBuf,
    /// The file that takes everything the build's programs print. It is kept.
    pub log: PathBuf,
    /// The entry's lock. Programs get it as their (empty) input: if this process is killed, a `go build` lives on and writes into
    /// its folder; sharing the lock keeps the next builder waiting until it is done, instead of sweeping under its feet.
    pub lock: File,
}

/// How one thing is built.
pub trait Recipe {
    /// What it is, as the first part of the entry's name.
    fn name(&self) -> &str;
    /// Its version, as the second part of the entry's name.
    fn version(&self) -> &str;
    /// Everything that decides the result: embedded sources, flags, package names.
    fn fingerprint(&self) -> Fingerprint;
    /// How long it usually takes on two cores with nothing prepared. Shown to a person who waits, never enforced.
    fn usual(&self) -> Duration;
    /// Builds it.
    fn build(&self, bench: &Bench) -> Result<(), BuildError>;
}

/// Something that is in the cache now.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The entry's folder.
    pub path: PathBuf,
    /// How long it took to build, or nothing if it was there already.
    pub built: Option<Duration>,
}

/// What can go wrong with the cache itself, or with a build in it.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// None of the variables that could name a folder is set.
    #[error("cannot choose a folder for the cache: set TESTBED_CACHE, XDG_CACHE_HOME or HOME")]
    NoHome,
    /// A file or folder of the cache could not be handled.
    #[error("could not {attempt} {}", path.display())]
    Folder {
        /// What was attempted.
        attempt: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The recipe failed.
    #[error("could not build {key}")]
    Build {
        /// The entry that was to be built.
        key: String,
        /// Why it failed.
        source: BuildError,
    },
}

/// A folder of built things.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache in this folder. Nothing is created before something is built.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The cache of whoever runs this: `TESTBED_CACHE`, or a folder among the user's other caches.
    pub fn for_this_user() -> Result<Self, CacheError> {
        Self::chosen_by(|variable| std::env::var_os(variable).filter(|value| !value.is_empty()))
    }

    fn chosen_by(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<Self, CacheError> {
        const FOLDER: &str = "etcd-operator-testbed";
        let root = variable("TESTBED_CACHE")
            .map(PathBuf::from)
            .or_else(|| variable("XDG_CACHE_HOME").map(|home| Path::new(&home).join(FOLDER)))
            .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache").join(FOLDER)))
            .ok_or(CacheError::NoHome)?;
        // Builds run in other folders, so a relative path would mean something else there.
        let root = std::path::absolute(&root).map_err(folder("find", &root))?;
        Ok(Self { root })
    }

    /// The folder of this cache.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the recipe's result is there, so that `get` will take no time.
    #[must_use]
    pub fn has(&self, recipe: &dyn Recipe) -> bool {
        self.root.join(key(recipe)).is_dir()
    }

    /// The recipe's result, built now if it is not there. Blocks; if another process builds it, waits for that one.
    pub fn get(&self, recipe: &dyn Recipe) -> Result<Entry, CacheError> {
        let key = key(recipe);
        let path = self.root.join(&key);
        if path.is_dir() {
            return Ok(Entry { path, built: None });
        }
        let lock = self.lock(&key)?;
        // Whoever had the lock before us may have built it.
        if path.is_dir() {
            return Ok(Entry { path, built: None });
        }
        self.sweep(&key)?;
        let began = Instant::now();
        self.build(recipe, &key, &path, lock)?;
        Ok(Entry { path, built: Some(began.elapsed()) })
    }

    /// Removes all entries of this name but the last used: as many as are to be kept. Used is what was built, or touched, last.
    pub fn prune(&self, name: &str, keep: usize) -> Result<(), CacheError> {
        let mut entries = Vec::new();
        for found in fs::read_dir(&self.root).map_err(folder("list", &self.root))? {
            let path = found.map_err(folder("list", &self.root))?.path();
            let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if key.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')) && path.is_dir() {
                let used = path.metadata().and_then(|entry| entry.modified());
                entries.push((used.map_err(folder("look at", &path))?, key, path));
            }
        }
        entries.sort();
        let old = entries.len().saturating_sub(keep);
        for (_, key, path) in entries.into_iter().take(old) {
            // By one rename too, so that nobody finds half of it. What a crash leaves there, the key's next builder sweeps away.
            let going = self.folder("building")?.join(format!("{key}.pruned"));
            let _ = fs::remove_dir_all(&going);
            fs::rename(&path, &going).map_err(folder("take away", &path))?;
            fs::remove_dir_all(&going).map_err(folder("remove", &going))?;
            let _ = fs::remove_file(self.folder("logs")?.join(format!("{key}.log")));
        }
        Ok(())
    }

    fn build(&self, recipe: &dyn Recipe, key: &str, path: &Path, lock: File) -> Result<(), CacheError> {
        let building = self.folder("building")?;
        let temporary = tempfile::Builder::new()
            .prefix(&format!("{key}."))
            .tempdir_in(&building)
            .map_err(folder("create a folder in", &building))?;
        let bench = Bench {
            into: temporary.path().join("entry"),
            scratch: temporary.path().join("scratch"),
            log: self.folder("logs")?.join(format!("{key}.log")),
            lock,
        };
        for part in [&bench.into, &bench.scratch] {
            fs::create_dir(part).map_err(folder("create", part))?;
        }
        File::create(&bench.log).map_err(folder("create", &bench.log))?;
        recipe.build(&bench).map_err(|source| CacheError::Build { key: key.to_owned(), source })?;
        fs::rename(&bench.into, path).map_err(folder("put the built entry at", path))
    }

    /// One builder per key. The lock goes away with its process and what that started, however they end.
    fn lock(&self, key: &str) -> Result<File, CacheError> {
        let path = self.folder("locks")?.join(format!("{key}.lock"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(folder("open", &path))?;
        file.lock().map_err(folder("lock", &path))?;
        Ok(file)
    }

    /// Removes what a builder of this key left behind. Called with the lock held, so that builder and its programs are dead.
    fn sweep(&self, key: &str) -> Result<(), CacheError> {
        let building = self.folder("building")?;
        let prefix = format!("{key}.");
        for found in fs::read_dir(&building).map_err(folder("list", &building))? {
            let found = found.map_err(folder("list", &building))?;
            if found.file_name().to_string_lossy().starts_with(&prefix) {
                let path = found.path();
                fs::remove_dir_all(&path).map_err(folder("remove the leftover", &path))?;
            }
        }
        Ok(())
    }

    fn folder(&self, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(folder("create", &path))?;
        Ok(path)
    }
}

fn key(recipe: &dyn Recipe) -> String {
    format!("{}-{}-{}", recipe.name(), recipe.version(), recipe.fingerprint().short())
}

fn folder(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError + use<> {
    let path = path.to_owned();
    move |source| CacheError::Folder { attempt, path, source }
}

#[cfg(test)]
mod tests;
