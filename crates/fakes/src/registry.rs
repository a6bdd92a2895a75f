//! FAKES: the registry that images are pulled from. It has every tag, with the version that the tag says, unless it is told otherwise.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use launch::{EtcdVersion, LaunchOrder};

/// What a registry has under a tag, where that is not what the tag says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Image {
    Missing,
    Holds(String),
}

/// The registry. All clones are one.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    tags: Arc<Mutex<BTreeMap<String, Image>>>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Image>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a tag away, such as `v3.6.14`.
    pub fn lose(&self, tag: &str) {
        self.lock().insert(tag.to_owned(), Image::Missing);
    }

    /// Puts another version of etcd under a tag than it says.
    pub fn mislabel(&self, tag: &str, version: &str) {
        self.lock().insert(tag.to_owned(), Image::Holds(version.to_owned()));
    }

    fn found(&self, image: &str) -> Option<Image> {
        let (_, tag) = image.rsplit_once(':')?;
        self.lock().get(tag).cloned()
    }

    /// Whether an image cannot be pulled.
    pub(crate) fn lacks(&self, image: &str) -> bool {
        self.found(image) == Some(Image::Missing)
    }

    /// Which version of etcd an image holds. A tag that says nothing is taken for the one that is ordered.
    pub(crate) fn held_by(&self, image: &str, order: &LaunchOrder) -> String {
        let tagged = image.rsplit_once(":v").and_then(|(_, tag)| tag.parse::<EtcdVersion>().ok());
        match self.found(image) {
            Some(Image::Holds(version)) => version,
            Some(Image::Missing) | None => tagged.unwrap_or(order.version).to_string(),
        }
    }
}
