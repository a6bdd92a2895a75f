//! BEFORE ETCD: what is on the member's volumes, and the seals that the launcher leaves there.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::Path,
};

use launch::{
    LaunchOrder, Refusal, Seal,
    guard::{Found, FoundSeal, Start},
};

/// The seal's file, in the data directory as well as on the marker volume.
///
/// etcd warns about a file in its data directory that is not its own, and goes on. It has to lie there and not beside
/// it: it must not outlive the data.
const SEAL_FILE: &str = "launcher-seal.json";

/// What etcd calls its part of the data directory. It has no objection to a folder that is there, or to a file in it.
const MEMBER: &str = "member";

fn failed(attempted: &str, path: &Path, error: &io::Error) -> Refusal {
    Refusal::StorageFailed { attempted: format!("{attempted} {}", path.display()), why: error.to_string() }
}

/// What is there before etcd starts.
pub(crate) fn look(data: &Path, marker: &Path) -> Result<Found, Refusal> {
    Ok(Found {
        wal: has_wal(data)?,
        in_data: read_seal(data)?,
        in_member: read_seal(&data.join(MEMBER))?,
        on_marker: read_seal(marker)?,
    })
}

/// Whether etcd has begun its log. It makes the log's folder complete under another name first, so a file means a log.
fn has_wal(data: &Path) -> Result<bool, Refusal> {
    let folder = data.join(MEMBER).join("wal");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("reading", &folder, &error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| failed("reading", &folder, &error))?;
        if entry.path().extension().is_some_and(|extension| extension == "wal") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read_seal(folder: &Path) -> Result<FoundSeal, Refusal> {
    let path = folder.join(SEAL_FILE);
    match fs::read(&path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).map_or(FoundSeal::Unreadable, FoundSeal::Of)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(FoundSeal::Absent),
        Err(error) => Err(failed("reading", &path, &error)),
    }
}

/// Leaves the seals that are missing, the marker's last.
pub(crate) fn seal(order: &LaunchOrder, start: Start, data: &Path, marker: &Path) -> Result<(), Refusal> {
    let member = data.join(MEMBER);
    let places = [(data, start.seal_data), (&member, start.seal_member), (marker, start.seal_marker)];
    for (folder, missing) in places {
        if missing {
            write_seal(folder, &order.seal).map_err(|error| failed("sealing", folder, &error))?;
        }
    }
    Ok(())
}

/// Writes a seal so that after a crash it is there whole or not at all.
fn write_seal(folder: &Path, seal: &Seal) -> io::Result<()> {
    // The mode that etcd itself gives its data directory.
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let unfinished = folder.join(format!("{SEAL_FILE}.unfinished"));
    let mut file = File::create(&unfinished)?;
    file.write_all(&serde_json::to_vec(seal)?)?;
    file.sync_all()?;
    fs::rename(&unfinished, folder.join(SEAL_FILE))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Seal {
        Seal { member: "a-1".parse().unwrap(), token: "t-1".parse().unwrap() }
    }

    #[test]
    fn a_seal_comes_back_as_it_was_written_and_garbage_does_not_pass_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("deep/data");
        assert_eq!(read_seal(&data), Ok(FoundSeal::Absent));
        write_seal(&data, &own()).unwrap();
        assert_eq!(read_seal(&data), Ok(FoundSeal::Of(own())));
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1, "nothing unfinished is left");
        fs::write(data.join(SEAL_FILE), "{}").unwrap();
        assert_eq!(read_seal(&data), Ok(FoundSeal::Unreadable));
    }

    #[test]
    fn only_a_finished_log_counts_as_data() {
        let data = tempfile::tempdir().unwrap();
        let table = [
            ("member/snap/db", false),
            ("member/wal.tmp/0.wal", false),
            ("member/wal/0.tmp", false),
            ("member/wal/0-0.wal", true),
        ];
        assert_eq!(has_wal(data.path()), Ok(false));
        for (file, expected) in table {
            let path = data.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            assert_eq!(has_wal(data.path()), Ok(expected), "{file}");
        }
    }

    #[test]
    fn a_volume_that_cannot_be_read_is_not_taken_for_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        fs::write(&file, "not a folder").unwrap();
        assert!(matches!(look(&file, folder.path()), Err(Refusal::StorageFailed { .. })));
    }
}
