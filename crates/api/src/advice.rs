//! What users write that works, and that they may not have meant: told as advice, never refused.

use crate::{cluster::EtcdClusterSpec, reasons::Reason};

/// What a person who wrote this spec may want to know.
#[must_use]
pub fn advice(spec: &EtcdClusterSpec) -> Vec<Reason> {
    let even = spec.size.filter(|size| size % 2 == 0).map(|size| Reason::EvenSize { size });
    let small = spec.size.filter(|size| (1..=2).contains(size)).map(|size| Reason::NoEviction { size });
    even.into_iter().chain(small).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_size_and_one_that_can_lose_nobody_are_advised_against() {
        let table: [(i64, &[&str]); 5] =
            [(1, &["NoEviction"]), (2, &["EvenSize", "NoEviction"]), (3, &[]), (4, &["EvenSize"]), (7, &[])];
        for (size, advised) in table {
            let spec = EtcdClusterSpec { size: Some(size), ..Default::default() };
            let words: Vec<&str> = advice(&spec).iter().map(Reason::as_str).collect();
            assert_eq!(words, advised, "{size}");
        }
    }
}
