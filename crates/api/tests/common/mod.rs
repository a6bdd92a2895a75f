//! For the tests of the API: the fixtures, and as much of an API server as judges them.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod server;

use std::{fs, path::PathBuf};

use serde_json::Value;

/// One file of `tests/fixtures`: an object, or an object before and after an update, and what should become of it.
pub(crate) struct Fixture {
    /// The file's name, with its folder.
    pub(crate) name: String,
    /// The rule that it is about, `schema` for the schema itself, `none` for an object that is good in all.
    pub(crate) rule: String,
    /// The field that a refusal names.
    pub(crate) path: String,
    /// What a refusal says.
    pub(crate) message: String,
    /// The objects.
    pub(crate) documents: Vec<Value>,
}

/// All fixtures of a folder.
pub(crate) fn fixtures(folder: &str) -> Vec<Fixture> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no fixtures in {folder}");
    files.into_iter().map(|file| read(folder, &file)).collect()
}

fn read(folder: &str, file: &PathBuf) -> Fixture {
    let text = fs::read_to_string(file).unwrap();
    let header = |key: &str| {
        let prefix = format!("# {key}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_default().trim().to_owned()
    };
    Fixture {
        name: format!("{folder}/{}", file.file_stem().unwrap().to_string_lossy()),
        rule: header("rule"),
        path: header("path"),
        message: header("message"),
        documents: text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect(),
    }
}

/// What the rules in code say of an object, as (path, message).
pub(crate) fn in_code(object: &Value) -> Vec<(String, String)> {
    let problems = match object["kind"].as_str().unwrap() {
        "EtcdCluster" => api::validate::cluster(&serde_json::from_value(object.clone()).unwrap()),
        "EtcdBackup" => api::validate::backup(&serde_json::from_value(object.clone()).unwrap()),
        "EtcdRestore" => api::validate::restore(&serde_json::from_value(object.clone()).unwrap()),
        other => panic!("{other}"),
    };
    problems.into_iter().map(|problem| (problem.path, problem.message.to_owned())).collect()
}
