//! FOR PROOF: a quick hash for millions of small states, which nobody chooses to make trouble.

use std::hash::Hasher;

/// Multiply and rotate, as rustc's own hash does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quick(u64);

impl Quick {
    const fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            self.mix(chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(u64::from_ne_bytes(value.to_ne_bytes()));
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(u64::from_ne_bytes(value.to_ne_bytes()));
    }
}
