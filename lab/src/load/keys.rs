//! The keys of a store, and the key of each operation.
//!
//! Entry *i* of a store has the key number 2*i*; odd numbers are absent keys, each between two
//! existing ones. A key is its number, big-endian in 8 bytes, and 8 bytes `0`: keys have the order
//! of their numbers, as in RocksDB's `db_bench`. Short keys ([`SHORT_KEY_BYTES`]) are the number
//! alone.
//!
//! A [`Picker`] chooses entries: one thread's part of a [`Choice`]. The same seed gives the same
//! choices.

use serde::{Deserialize, Serialize};

use crate::load::dice::{Dice, mix};

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// Bytes of a key that is its number alone.
pub const SHORT_KEY_BYTES: usize = 8;

/// Distinguishes the order of [`Choice::Shuffled`] from that of popular entries.
const FILL_ORDER: u64 = 0x6f72_6465_7200;

/// Bytes of this number of entries, whose values all have one length.
pub(crate) fn data_bytes(entries: u64, value_bytes: u64) -> u64 {
    entries * (KEY_BYTES as u64 + value_bytes)
}

/// The number of the key of entry `index`.
#[inline]
pub fn present(index: u64) -> u64 {
    2 * index
}

/// The number of an absent key, next to that of entry `index`.
#[inline]
pub fn absent(index: u64) -> u64 {
    2 * index + 1
}

/// The key with this number.
#[inline]
pub fn key_of(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of a key, long or short.
#[inline]
pub fn number_of(key: &[u8]) -> Option<u64> {
    let head = key.first_chunk::<SHORT_KEY_BYTES>()?;
    matches!(key.len(), SHORT_KEY_BYTES | KEY_BYTES).then(|| u64::from_be_bytes(*head))
}

/// The distribution of operations over the entries of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Every entry once, in order.
    Sequential,
    /// Every entry once, in random order.
    Shuffled,
    /// Any entry, uniformly.
    Uniform,
    /// The entry of rank *r* with a probability proportional to 1 / *r* ^ `alpha`.
    Zipf {
        /// Above 0; 0.99 is that of YCSB.
        alpha: f64,
        /// Popular entries are scattered over all keys, rather than at their beginning.
        is_scattered: bool,
    },
    /// The newest entries most often, by Zipf's law.
    Latest {
        /// Above 0; 0.99 is that of YCSB.
        alpha: f64,
    },
    /// A fraction of the entries gets a fraction of the operations, uniformly; the others share the
    /// rest.
    Hot {
        /// Their share of the entries.
        entries: f64,
        /// Their share of the operations.
        operations: f64,
        /// The length of runs of adjacent ones: 1 if they are scattered.
        run: u64,
    },
}

/// The choices of one thread of several.
#[derive(Debug, Clone)]
pub struct Picker {
    entries: u64,
    way: Way,
}

#[derive(Debug, Clone)]
enum Way {
    /// The next step, the distance between steps, and the entry of a step.
    Walk {
        step: u64,
        threads: u64,
        order: Option<Permutation>,
    },
    Uniform,
    Zipf {
        zipf: Zipf,
        order: Option<Permutation>,
    },
    Hot {
        hot: u64,
        operations: f64,
        run: u64,
        /// Of runs.
        order: Permutation,
    },
}

impl Picker {
    /// The part of `thread` (of `threads`) in a choice among `entries`.
    pub fn new(choice: &Choice, entries: u64, seed: u64, thread: u64, threads: u64) -> Self {
        assert!(entries > 0 && thread < threads, "{thread} of {threads}, {entries} entries");
        let order = || Permutation::new(entries, seed);
        // A different order, as stores would otherwise be filled with popular entries first.
        let fill_order = || Permutation::new(entries, mix(seed ^ FILL_ORDER));
        let way = match *choice {
            Choice::Sequential => Way::Walk { step: thread, threads, order: None },
            Choice::Shuffled => Way::Walk { step: thread, threads, order: Some(fill_order()) },
            Choice::Uniform => Way::Uniform,
            Choice::Zipf { alpha, is_scattered } => {
                Way::Zipf { zipf: Zipf::new(entries, alpha), order: is_scattered.then(order) }
            }
            // The number of newer entries, which the caller maps to an entry.
            Choice::Latest { alpha } => Way::Zipf { zipf: Zipf::new(entries, alpha), order: None },
            Choice::Hot { entries: share, operations, run } => {
                let runs = (entries / run).max(1);
                let hot = ((runs as f64 * share).round() as u64).clamp(1, runs) * run;
                Way::Hot { hot, operations, run, order: Permutation::new(runs, seed) }
            }
        };
        Self { entries, way }
    }

    /// The index of the next entry.
    #[inline]
    pub(crate) fn next(&mut self, dice: &mut Dice) -> u64 {
        match &mut self.way {
            Way::Walk { step, threads, order } => {
                let here = *step % self.entries;
                *step += *threads;
                order.as_ref().map_or(here, |order| order.of(here))
            }
            Way::Uniform => dice.below(self.entries),
            Way::Zipf { zipf, order } => {
                let rank = zipf.next(dice);
                order.as_ref().map_or(rank, |order| order.of(rank))
            }
            Way::Hot { hot, operations, run, order } => {
                let (first, below) = match dice.unit() < *operations {
                    true => (0, *hot),
                    false => (*hot, order.len * *run - *hot),
                };
                let chosen = first + dice.below(below.max(1));
                Self::in_runs(order, *run, chosen).min(self.entries - 1)
            }
        }
    }
}

impl Picker {
    /// The probability of each entry to be the next, by index.
    ///
    /// # Panics
    ///
    /// If entries have a fixed order, without randomness.
    pub(crate) fn likelihoods(&self) -> Vec<f64> {
        let mut likelihoods = vec![0.0; self.entries as usize];
        match &self.way {
            Way::Walk { .. } => panic!("an order leaves nothing to chance"),
            Way::Uniform => likelihoods.fill(1.0 / self.entries as f64),
            Way::Zipf { zipf, order } => {
                let all: f64 = (1..=self.entries).map(|rank| zipf.density(rank as f64)).sum();
                for rank in 0..self.entries {
                    let index = order.as_ref().map_or(rank, |order| order.of(rank));
                    likelihoods[index as usize] = zipf.density(rank as f64 + 1.0) / all;
                }
            }
            Way::Hot { hot, operations, run, order } => {
                let of_hot = operations / *hot as f64;
                let cold = order.len * run - hot;
                let of_cold = (1.0 - operations) / cold.max(1) as f64;
                for chosen in 0..hot + cold {
                    let index = Self::in_runs(order, *run, chosen).min(self.entries - 1);
                    likelihoods[index as usize] += if chosen < *hot { of_hot } else { of_cold };
                }
            }
        }
        likelihoods
    }

    /// The position of the entry with number `chosen` of those in runs.
    fn in_runs(order: &Permutation, run: u64, chosen: u64) -> u64 {
        order.of(chosen / run) * run + chosen % run
    }
}

/// A bijection of the numbers below `len` onto themselves, without a table.
///
/// Three rounds of xor-shift and odd multiplication permute the next power of two; a result out of
/// range is permuted again (at most two rounds on average).
#[derive(Debug, Clone)]
struct Permutation {
    len: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    fn new(len: u64, seed: u64) -> Self {
        let bits = (64 - (len - 1).leading_zeros()).max(2);
        let keys = [1, 2, 3].map(|round| mix(seed ^ mix(round)) | 1);
        Self { len, mask: u64::MAX >> (64 - bits), shift: bits.div_ceil(2), keys }
    }

    #[inline]
    fn of(&self, index: u64) -> u64 {
        let mut word = index;
        loop {
            for key in self.keys {
                word = word.wrapping_add(key >> 7) & self.mask;
                word = word.wrapping_mul(key) & self.mask;
                word ^= word >> self.shift;
            }
            if word < self.len {
                return word;
            }
        }
    }
}

/// Ranks by Zipf's law, for any exponent above 0 and without a table.
///
/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", 1996): a rank is drawn by
/// inverting the integral of the density's hat, and kept if it falls below the
/// histogram; more than 9 of 10 are.
#[derive(Debug, Clone)]
struct Zipf {
    alpha: f64,
    /// Integral of the hat up to rank 1 and up to the last rank.
    low: f64,
    high: f64,
    /// Ranks within this distance of the drawn number are accepted immediately.
    slack: f64,
    ranks: u64,
}

impl Zipf {
    fn new(ranks: u64, alpha: f64) -> Self {
        assert!(alpha > 0.0, "an exponent of {alpha} is no Zipf's law");
        let mut zipf = Self { alpha, low: 0.0, high: 0.0, slack: 0.0, ranks };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(ranks as f64 + 0.5);
        zipf.slack = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.alpha)
    }

    fn integral(&self, x: f64) -> f64 {
        let exponent = 1.0 - self.alpha;
        let log = x.ln();
        if (exponent * log).abs() < 1e-9 { log } else { (exponent * log).exp_m1() / exponent }
    }

    fn inverse(&self, area: f64) -> f64 {
        let exponent = 1.0 - self.alpha;
        let t = (area * exponent).max(-1.0);
        if t.abs() < 1e-9 { area.exp() } else { (t.ln_1p() / exponent).exp() }
    }

    /// A rank, from 0.
    fn next(&self, dice: &mut Dice) -> u64 {
        loop {
            let area = self.high + dice.unit() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.ranks as f64);
            if rank - x <= self.slack || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
