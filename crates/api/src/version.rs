//! What users write: an etcd version as text. What a version can do, and which path leads to it, is `launch`'s to say.

use thiserror::Error;

/// Text that is no full etcd version.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text:?} is no full etcd version such as 3.6.14")]
pub struct NotAVersion {
    /// What was written.
    pub text: String,
}

/// The version without its leading `v`, which image tags have and status has not.
pub fn normalise(text: &str) -> Result<&str, NotAVersion> {
    let bare = text.strip_prefix('v').unwrap_or(text);
    if is_full_version(bare) { Ok(bare) } else { Err(NotAVersion { text: text.chars().take(64).collect() }) }
}

fn is_full_version(bare: &str) -> bool {
    let (numbers, pre_release) = match bare.split_once('-') {
        Some((numbers, pre)) => (numbers, Some(pre)),
        None => (bare, None),
    };
    let parts: Vec<&str> = numbers.split('.').collect();
    parts.len() == 3 && parts.into_iter().all(is_number) && pre_release.is_none_or(is_pre_release)
}

fn is_number(part: &str) -> bool {
    let digits = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    digits && (part.len() == 1 || !part.starts_with('0'))
}

fn is_pre_release(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_alphanumeric())
        && part.len() <= 32
        && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_version_loses_only_its_v() {
        for (text, bare) in
            [("3.6.14", "3.6.14"), ("v3.1.10", "3.1.10"), ("3.7.0-rc.1", "3.7.0-rc.1"), ("v3.10.0", "3.10.0")]
        {
            assert_eq!(normalise(text), Ok(bare));
        }
    }

    #[test]
    fn anything_else_is_no_version() {
        let long = format!("3.6.14-{}", "a".repeat(10_000));
        for text in [
            "",
            "v",
            "latest",
            "3.6",
            "v3.6",
            "3",
            "vv3.6.14",
            "3.6.14 ",
            "3.6.14; rm -rf /",
            "3.6.014",
            "3..14",
            "3.6.14-",
            "3.6.14+git",
            "3.6.14-x\n",
            "٣.6.14",
            &long,
        ] {
            assert!(normalise(text).is_err(), "{text:?}");
        }
    }
}
