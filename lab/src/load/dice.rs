//! Random numbers of one thread, from a seed.
//!
//! The same numbers as [`tidekv_io::SeededRandom`], without its atomic: a drive needs several
//! numbers per operation, whose cost must not dominate the measurement.

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finalizer of splitmix64: every bit of the result depends on every bit of `word`, and no two
/// words have the same result.
#[inline]
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The dice of one of several threads that share a seed.
    pub(crate) fn of_thread(seed: u64, thread: u64) -> Self {
        Self::new(mix(seed ^ mix(thread + 1)))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number below `bound`, which is at least 1.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of [0, 1).
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use tidekv_io::{Random, SeededRandom};

    use super::*;

    #[test]
    fn dice_give_the_numbers_of_the_product() {
        let (mut dice, reference) = (Dice::new(42), SeededRandom::new(42));
        for _ in 0..100 {
            assert_eq!(dice.next(), reference.next_u64());
        }
    }

    #[test]
    fn each_thread_has_its_own_dice() {
        let first = |thread| Dice::of_thread(1, thread).next();
        assert_ne!(first(0), first(1));
        let mut dice = Dice::new(3);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&dice.unit()) && dice.below(7) < 7));
    }
}
