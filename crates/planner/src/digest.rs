//! Short, stable names for long things: what names and labels are made from.

use sha2::{Digest as _, Sha256};

/// Letters and digits of generated Kubernetes names: no vowels, so that no word comes out, and nothing that looks like another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A text of this length (at most 24) that stands for the parts. Parts are kept apart, so that `ab`, `c` is not `a`, `bc`.
pub(crate) fn short(parts: &[&str], length: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let bytes: [u8; 32] = hash.finalize().into();
    // Two bytes for a character: with one, some characters would be a tenth more frequent than others.
    bytes
        .chunks_exact(2)
        .chain(bytes.get(1..).unwrap_or_default().chunks_exact(2))
        .map(|pair| pair.iter().fold(0_usize, |sum, byte| sum * 256 + usize::from(*byte)))
        .filter_map(|number| ALPHABET.get(number % ALPHABET.len()))
        .take(length)
        .map(|byte| char::from(*byte))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_parts_always_give_the_same_text_and_others_another() {
        assert_eq!(short(&["a", "b"], 10), short(&["a", "b"], 10));
        let others = [vec!["a", "c"], vec!["ab"], vec!["ab", ""], vec!["", "ab"], vec!["a", "b", ""], vec![]];
        for other in others {
            assert_ne!(short(&["a", "b"], 10), short(&other, 10), "{other:?}");
        }
    }

    #[test]
    fn a_text_has_the_length_that_was_asked_for_and_fits_into_a_dns_label() {
        for length in [1, 8, 10, 16, 24] {
            let text = short(&["x"], length);
            assert_eq!(text.len(), length);
            assert!(text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
        }
    }
}
