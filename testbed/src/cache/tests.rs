//! What holds for the cache, with a recipe that counts how often it is used.
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Writes one file, and counts how often it was asked to.
struct Counted {
    source: &'static str,
    fails: bool,
    builds: AtomicUsize,
}

impl Counted {
    fn new(source: &'static str) -> Self {
        Self { source, fails: false, builds: AtomicUsize::new(0) }
    }

    fn builds(&self) -> usize {
        self.builds.load(Ordering::SeqCst)
    }
}

impl Recipe for Counted {
    fn name(&self) -> &'static str {
        "thing"
    }
    fn version(&self) -> &'static str {
        "1.2.3"
    }
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of([self.source])
    }
    fn usual(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn build(&self, bench: &Bench) -> Result<(), BuildError> {
        self.builds.fetch_add(1, Ordering::SeqCst);
        fs::write(bench.into.join("half"), self.source).unwrap();
        fs::write(&bench.log, "it was\nnot to be\n").unwrap();
        // Long enough that a second builder would be seen.
        std::thread::sleep(Duration::from_millis(50));
        if self.fails {
            return Err(BuildError::failed("make thing", &bench.log));
        }
        Ok(())
    }
}

fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("not yet there"));
    (folder, cache)
}

#[test]
fn what_is_there_is_not_built_again() {
    let (_folder, cache) = cache();
    let recipe = Counted::new("a");
    assert!(!cache.has(&recipe));
    let first = cache.get(&recipe).unwrap();
    assert!(first.built.is_some());
    assert!(cache.has(&recipe));
    let second = cache.get(&recipe).unwrap();
    assert_eq!((second.path, second.built, recipe.builds()), (first.path.clone(), None, 1));
    let name = first.path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("thing-1.2.3-") && name.len() == "thing-1.2.3-".len() + 12, "{name}");
}

#[test]
fn a_failed_build_leaves_no_entry_and_names_its_log() {
    let (_folder, cache) = cache();
    let recipe = Counted { fails: true, ..Counted::new("a") };
    let CacheError::Build { key, source } = cache.get(&recipe).unwrap_err() else {
        panic!("not a build error");
    };
    assert!(!cache.has(&recipe));
    let log = cache.root().join("logs").join(format!("{key}.log"));
    assert!(source.to_string().contains(&log.display().to_string()), "{source}");
    assert!(source.to_string().contains("not to be"), "{source}");
    assert_eq!(fs::read_dir(cache.root().join("building")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(log).unwrap(), "it was\nnot to be\n");
}

#[test]
fn what_a_dead_builder_left_is_neither_used_nor_kept() {
    let (_folder, cache) = cache();
    let recipe = Counted::new("a");
    let leftover = cache.root().join("building").join(format!("{}.dead", key(&recipe)));
    let other = cache.root().join("building").join("thing-1.2.3-ffffffffffff.alive");
    fs::create_dir_all(leftover.join("entry")).unwrap();
    fs::write(leftover.join("entry/half"), "wrong").unwrap();
    fs::create_dir_all(&other).unwrap();
    assert!(!cache.has(&recipe));
    let entry = cache.get(&recipe).unwrap();
    assert_eq!(fs::read_to_string(entry.path.join("half")).unwrap(), "a");
    assert!(!leftover.exists());
    assert!(other.exists(), "another key's builder may be alive");
}

#[test]
fn builders_at_the_same_time_build_once() {
    let (_folder, cache) = cache();
    let recipe = Counted::new("a");
    let built: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| Cache::at(cache.root()).get(&recipe).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().built).collect()
    });
    assert_eq!(recipe.builds(), 1);
    assert_eq!(built.iter().flatten().count(), 1);
}

#[test]
fn another_recipe_for_the_same_version_is_another_entry() {
    let (_folder, cache) = cache();
    let first = cache.get(&Counted::new("a")).unwrap();
    let second = cache.get(&Counted::new("b")).unwrap();
    assert_ne!(first.path, second.path);
    assert!(first.path.exists() && second.path.exists());
    assert_ne!(Fingerprint::of(["ab", "c"]), Fingerprint::of(["a", "bc"]));
}

#[test]
fn of_what_is_pruned_the_last_used_stay() {
    let (_folder, cache) = cache();
    let entries = ["a", "b", "c"].map(|source| cache.get(&Counted::new(source)).unwrap().path);
    let other = cache.root().join("things-1-0");
    fs::create_dir(&other).unwrap();
    // The oldest is used once more.
    let used = std::time::SystemTime::now() + Duration::from_mins(1);
    File::open(&entries[0]).unwrap().set_modified(used).unwrap();
    cache.prune("thing", 2).unwrap();
    assert_eq!(entries.each_ref().map(|entry| entry.exists()), [true, false, true]);
    assert!(other.exists(), "another name");
    assert_eq!(fs::read_dir(cache.root().join("building")).unwrap().count(), 0);
}

#[test]
fn the_folder_is_chosen_by_the_most_specific_variable() {
    let chosen = |set: &[(&str, &str)]| {
        Cache::chosen_by(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into()))
            .map(|cache| cache.root)
    };
    let (own, xdg, home) = (("TESTBED_CACHE", "/t"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h"));
    assert_eq!(chosen(&[own, xdg, home]).unwrap(), Path::new("/t"));
    assert_eq!(chosen(&[xdg, home]).unwrap(), Path::new("/x/etcd-operator-testbed"));
    assert_eq!(chosen(&[home]).unwrap(), Path::new("/h/.cache/etcd-operator-testbed"));
    assert!(matches!(chosen(&[]), Err(CacheError::NoHome)));
}
