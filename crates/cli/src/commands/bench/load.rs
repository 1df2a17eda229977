//! Keys, values and random numbers of a benchmark.
//!
//! A key is the hash of its number, then the number: entries written in the order of
//! their numbers have keys in random order, and keys are unique. A value contains
//! the number of its key and a version, then bytes that both determine, so a reader can verify every
//! byte of a value without a copy of the data.

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// A value contains at least the number of its key and its version.
pub const VALUE_BYTES_MIN: usize = 16;

/// Bytes from which values are cut.
const POOL_BYTES: usize = 1 << 20;

/// Every piece of this length is half random bytes and half their repetition, so that values
/// compress to about half.
const PIECE_BYTES: usize = 64;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finalizer of splitmix64: a permutation of the words.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The random numbers of one thread (splitmix64).
#[derive(Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Seeds of different phases and threads give different numbers.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed.wrapping_add(GOLDEN)) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// The key of the entry `number`.
pub fn key_of(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of the entry whose key this is.
pub fn number_of(key: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(*key.last_chunk()?);
    (key == key_of(number)).then_some(number)
}

/// Makes and checks values of one length.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    bytes: usize,
}

impl Values {
    /// Values of `bytes` bytes, at least [`VALUE_BYTES_MIN`].
    pub fn new(bytes: usize) -> Self {
        let mut random = Random::new(0);
        let mut pool = Vec::with_capacity(POOL_BYTES + bytes + PIECE_BYTES);
        while pool.len() < POOL_BYTES + bytes {
            let half: Vec<u8> =
                (0..PIECE_BYTES / 16).flat_map(|_| random.next().to_le_bytes()).collect();
            pool.extend_from_slice(&half);
            pool.extend_from_slice(&half);
        }
        Self { pool, bytes }
    }

    /// Bytes of a value.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes `value` that of the entry `number` in this version.
    pub fn fill(&self, value: &mut Vec<u8>, number: u64, version: u64) {
        value.clear();
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&version.to_le_bytes());
        value.extend_from_slice(self.rest(number, version));
    }

    /// Whether `value` is one of the entry `number`, in any version.
    pub fn is_of(&self, value: &[u8], number: u64) -> bool {
        let Some((head, rest)) = value.split_first_chunk::<VALUE_BYTES_MIN>() else { return false };
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        word(0) == number && rest == self.rest(number, word(8))
    }

    fn rest(&self, number: u64, version: u64) -> &[u8] {
        let start = (mix(number ^ mix(version)) % POOL_BYTES as u64) as usize;
        &self.pool[start..start + self.bytes - VALUE_BYTES_MIN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_contain_their_numbers_and_are_in_random_order() {
        let keys: Vec<_> = (0..1000).map(key_of).collect();
        assert!((0..1000).all(|number| number_of(&keys[number as usize]) == Some(number)));
        let ascending = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&ascending), "{ascending}");
        let mut other = keys[0];
        other[0] ^= 1;
        assert_eq!(number_of(&other), None);
        assert_eq!(number_of(b"short"), None);
    }

    #[test]
    fn every_wrong_byte_of_a_value_is_detected() {
        for bytes in [VALUE_BYTES_MIN, 100] {
            let values = Values::new(bytes);
            let mut value = Vec::new();
            values.fill(&mut value, 7, 3);
            assert!(value.len() == bytes && values.is_of(&value, 7) && !values.is_of(&value, 8));
            assert!(!values.is_of(&value[..bytes - 1], 7) && !values.is_of(b"", 7));
        }
        let values = Values::new(100);
        let mut value = Vec::new();
        values.fill(&mut value, 7, 3);
        for at in (0..8).chain(16..100) {
            value[at] ^= 0x40;
            assert!(!values.is_of(&value, 7), "{at}");
            value[at] ^= 0x40;
        }
    }

    #[test]
    fn random_numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(1);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[random.below(10) as usize] = true);
        assert_eq!(seen, [true; 10]);
        assert_ne!(Random::new(1).next(), Random::new(2).next());
    }
}
