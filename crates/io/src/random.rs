//! Sources of randomness: repeatable from a seed ([`SeededRandom`]) or from the system
//! ([`SystemRandom`]).
//!
//! Both are thread-safe. The seeded one is not for secrets.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers.
pub trait Random: Send + Sync + Debug {
    /// A number from the whole range, each equally likely.
    fn next_u64(&self) -> u64;
}

/// The increment of splitmix64's state: the golden ratio, odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014): the same seed gives the same numbers on every machine.
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// The generator of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// A number below `bound`, which is at least 1; the bias is below
    /// `bound / 2^64`.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        (wide >> 64) as u64
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        let state = self.state.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// The system's generator, fit for secrets.
#[derive(Debug, Default)]
pub struct SystemRandom;

impl SystemRandom {
    /// The system's generator.
    pub const fn new() -> Self {
        Self
    }

    /// Fills `bytes`.
    ///
    /// # Panics
    ///
    /// When the system has no generator; Linux has one since 3.17.
    pub fn fill(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(
                &mut bytes[filled..],
                rustix::rand::GetRandomFlags::empty(),
            ) {
                Ok(got) => filled += got,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("the system gives no random bytes: {error}"),
            }
        }
    }
}

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers() {
        let random = SeededRandom::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn below_reaches_every_number_under_the_bound() {
        let random = SeededRandom::new(7);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[usize::try_from(random.below(10)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 10]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a system call")]
    fn the_system_does_not_repeat_itself() {
        assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
    }
}
