//! What users write that works, and that they may not have meant: told as advice, never refused.

use crate::{cluster::EtcdClusterSpec, reasons::Reason};

/// What a person who wrote this spec may want to know.
#[must_use]
pub fn advice(spec: &EtcdClusterSpec) -> Vec<Reason> {
    spec.size.filter(|size| size % 2 == 0).map(|size| Reason::EvenSize { size }).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_size_is_advised_against() {
        for (size, advised) in [(1, false), (2, true), (3, false), (4, true), (7, false)] {
            let spec = EtcdClusterSpec { size: Some(size), ..Default::default() };
            assert_eq!(!advice(&spec).is_empty(), advised, "{size}");
        }
    }
}
