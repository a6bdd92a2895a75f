//! Beside the loop: objects as YAML that reads like a person's and is the same in every run.

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

const HEADER: &str = "# Generated from the types by `cargo xtask generate`. Do not edit.\n";

/// A value as YAML, to be put into something else.
pub(crate) fn fragment<T: Serialize>(value: &T) -> Result<String> {
    let value: Value = serde_json::to_value(value).context("write a value as JSON")?;
    let mut text = serde_saphyr::to_string(&value).context("write a value as YAML")?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// The objects as one YAML stream. They pass through JSON first, whose maps are sorted.
pub(crate) fn documents<T: Serialize>(objects: &[T]) -> Result<String> {
    let mut text = HEADER.to_owned();
    for (index, object) in objects.iter().enumerate() {
        let value: Value = serde_json::to_value(object).context("write an object as JSON")?;
        if index > 0 {
            text.push_str("---\n");
        }
        text.push_str(&serde_saphyr::to_string(&value).context("write an object as YAML")?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}
