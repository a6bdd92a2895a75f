//! `cargo xtask generate`: writes every file that is generated from the types, and says which are stale.

mod files;
mod install;
mod protection;
mod roles;
mod yaml;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context, Result, bail};

use self::files::Generated;
use crate::image;

/// Writes what is not current; with `check`, writes nothing and fails where something is not.
pub(crate) fn run(check: bool) -> Result<()> {
    let (root, files) = (image::repository()?, files::all()?);
    if check { check_all(&root, &files) } else { write_all(&root, &files) }
}

fn write_all(root: &Path, files: &[Generated]) -> Result<()> {
    for file in files {
        let path = root.join(file.path);
        if fs::read_to_string(&path).is_ok_and(|present| present == file.content) {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make the folder of {}", file.path))?;
        }
        fs::write(&path, &file.content).with_context(|| format!("write {}", file.path))?;
        if path.extension().is_some_and(|extension| extension == "sh") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .with_context(|| format!("make {} executable", file.path))?;
        }
        println!("wrote {}", file.path);
    }
    Ok(())
}

fn check_all(root: &Path, files: &[Generated]) -> Result<()> {
    let stale: Vec<&str> = files
        .iter()
        .filter(|file| !fs::read_to_string(root.join(file.path)).is_ok_and(|present| present == file.content))
        .map(|file| file.path)
        .collect();
    if stale.is_empty() {
        return Ok(());
    }
    bail!("not what the types say: {}; run `cargo xtask generate` and commit", stale.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_or_missing_file_is_named() {
        let root = std::env::temp_dir().join(format!("xtask-{}", std::process::id()));
        let file = |content: &str| Generated { path: "deploy/a.yaml", content: content.to_owned() };
        assert!(check_all(&root, &[file("a")]).unwrap_err().to_string().contains("deploy/a.yaml"));
        write_all(&root, &[file("a")]).unwrap();
        check_all(&root, &[file("a")]).unwrap();
        assert!(check_all(&root, &[file("b")]).unwrap_err().to_string().contains("deploy/a.yaml"));
        fs::remove_dir_all(&root).unwrap();
    }
}
