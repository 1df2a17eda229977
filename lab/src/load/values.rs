//! The content of values: the number of their key, then bytes that compress to about half, so that
//! compression has an effect and a wrong value is detected.

use crate::load::dice::{Dice, mix};

/// Bytes from which values are cut.
const POOL_BYTES: usize = 1 << 20;

/// Every piece of this length is half random bytes and half their repetition.
const PIECE_BYTES: usize = 64;

/// The minimum content of a value: the number of its key.
pub const VALUE_BYTES_MIN: usize = 8;

/// Makes values of a fixed length.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    bytes: usize,
}

impl Values {
    /// Values of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.max(VALUE_BYTES_MIN);
        let mut dice = Dice::new(0x7A1D);
        let mut pool = Vec::with_capacity(POOL_BYTES + bytes + PIECE_BYTES);
        while pool.len() < POOL_BYTES + bytes {
            let random: Vec<u8> =
                (0..PIECE_BYTES / 16).flat_map(|_| dice.next().to_le_bytes()).collect();
            pool.extend_from_slice(&random);
            pool.extend_from_slice(&random);
        }
        Self { pool, bytes }
    }

    /// Writes the value of the key `number` to `value`; `version` distinguishes values of the same
    /// key.
    #[inline]
    pub fn fill(&self, value: &mut Vec<u8>, number: u64, version: u64) {
        self.fill_part(value, number, version, self.bytes);
    }

    /// The same with a specific length, at most that of all.
    #[inline]
    pub(crate) fn fill_part(&self, value: &mut Vec<u8>, number: u64, version: u64, bytes: usize) {
        let start = (mix(number ^ version << 40) % POOL_BYTES as u64) as usize;
        value.clear();
        value.extend_from_slice(&self.pool[start..start + bytes.min(self.bytes)]);
        if let Some(head) = value.first_chunk_mut() {
            *head = number.to_le_bytes();
        }
    }

    /// Whether `value` could be one of the key `number`.
    #[inline]
    pub fn is_of(&self, value: &[u8], number: u64) -> bool {
        value.len() == self.bytes && value.starts_with(&number.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_contains_its_key() {
        let values = Values::new(100);
        let mut value = Vec::new();
        for number in [0, 1, u64::MAX] {
            values.fill(&mut value, number, 3);
            assert_eq!(value.len(), 100);
            assert!(values.is_of(&value, number) && !values.is_of(&value, number ^ 1));
            assert!(!values.is_of(&value[..99], number));
        }
    }

    #[test]
    fn half_of_a_value_is_repetition() {
        let values = Values::new(1024);
        let mut value = Vec::new();
        values.fill(&mut value, 5, 0);
        let half = PIECE_BYTES / 2;
        let repeats =
            (VALUE_BYTES_MIN + half..value.len()).filter(|&i| value[i] == value[i - half]);
        let share = repeats.count() as f64 / (value.len() - half) as f64;
        assert!((0.45..0.55).contains(&share), "{share}");
    }

    #[test]
    fn versions_differ() {
        let values = Values::new(100);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        values.fill(&mut first, 5, 0);
        values.fill(&mut second, 5, 1);
        assert_ne!(first, second);
    }
}
