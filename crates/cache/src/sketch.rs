//! How often things were asked for lately: a count-min sketch of four-bit counters
//! that ages (TinyLFU: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache
//! Admission Policy", 2017).
//!
//! 1. A hash leads to one line of 64 bytes, 128 counters, and to four counters in it,
//!    one in each quarter.
//! 2. The estimate is the least of the four. An addition raises only those that are
//!    equal to it (conservative update), up to 15.
//! 3. All counters are halved once in every [`Sketch::period`] additions.
//!
//! **What we changed.** The paper halves all counters at once; we halve a line now and
//! then, so no addition takes longer than another. The period can be changed while the
//! sketch is in use: what was frequent before the load changed is to be forgotten.
//!
//! Guarantees: an estimate is never less than the number of additions since the line
//! was last halved, up to 15, while one thread adds. Additions of several threads at
//! once may get lost: counts are a hint.
//!
//! Safe to use from all threads, without locks.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of a line: a cache line of the processor.
const LINE_WORDS: usize = 8;
/// Counters that a hash leads to.
const ROWS: usize = 4;
/// The largest count.
pub const COUNT_MAX: u8 = 15;

/// Keys of which each gets as many counters as it raises.
const KEYS_PER_LINE: usize = LINE_WORDS * 16 / ROWS;

/// Counts by hash.
#[derive(Debug)]
pub struct Sketch {
    words: Box<[AtomicU64]>,
    lines_mask: u64,
    /// Additions until the next line is halved, and which one that is.
    countdown: AtomicU32,
    hand: AtomicU64,
    /// Additions from one line to the next.
    pace: AtomicU32,
}

impl Sketch {
    /// A sketch of at most `bytes`: the largest power of two of lines. One without lines
    /// knows of nothing.
    pub fn new(bytes: usize) -> Self {
        let lines = (bytes / (LINE_WORDS * 8)).checked_ilog2().map_or(0, |log| 1usize << log);
        let words = (0..lines * LINE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let sketch = Self {
            words,
            lines_mask: (lines as u64).saturating_sub(1),
            countdown: AtomicU32::new(0),
            hand: AtomicU64::new(0),
            pace: AtomicU32::new(1),
        };
        // As the paper: ten times as many additions as there are keys.
        sketch.set_period(10 * lines as u64 * KEYS_PER_LINE as u64);
        sketch
    }

    /// The memory that it takes.
    pub fn charged_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// In how many additions every counter is halved once.
    pub fn period(&self) -> u64 {
        u64::from(self.pace.load(Ordering::Relaxed)) * (self.lines_mask + 1)
    }

    /// Sets the period, rounded up to a multiple of the number of lines.
    pub fn set_period(&self, additions: u64) {
        let pace = additions.div_ceil(self.lines_mask + 1).clamp(1, u64::from(u32::MAX));
        self.pace.store(pace as u32, Ordering::Relaxed);
        self.countdown.fetch_min(pace as u32, Ordering::Relaxed);
    }

    /// Counts `hash` once more; the estimate with it.
    pub fn add(&self, hash: u64) -> u8 {
        if self.words.is_empty() {
            return 0;
        }
        let line = self.line(hash);
        let counters = Self::counters(hash);
        let least = Self::least(line, counters);
        if least < COUNT_MAX {
            for (word, shift) in counters {
                let before = line[word].load(Ordering::Relaxed);
                if (before >> shift) as u8 & COUNT_MAX == least {
                    line[word].store(before + (1 << shift), Ordering::Relaxed);
                }
            }
        }
        self.age();
        (least + 1).min(COUNT_MAX)
    }

    /// Has `hash` count as added `times` times at the least, up to 15.
    pub fn raise(&self, hash: u64, times: u8) {
        let times = times.min(COUNT_MAX);
        if self.words.is_empty() {
            return;
        }
        let line = self.line(hash);
        for (word, shift) in Self::counters(hash) {
            let before = line[word].load(Ordering::Relaxed);
            let count = (before >> shift) as u8 & COUNT_MAX;
            if count < times {
                line[word].store(before + (u64::from(times - count) << shift), Ordering::Relaxed);
            }
        }
    }

    /// How often `hash` was added lately, as far as is known: 0 to 15.
    pub fn estimate(&self, hash: u64) -> u8 {
        if self.words.is_empty() {
            return 0;
        }
        Self::least(self.line(hash), Self::counters(hash))
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn line(&self, hash: u64) -> &[AtomicU64] {
        let first = (hash >> 32 & self.lines_mask) as usize * LINE_WORDS;
        &self.words[first..first + LINE_WORDS]
    }

    /// Word and bit of each counter of `hash`: five bits of it for each row.
    fn counters(hash: u64) -> [(usize, u32); ROWS] {
        std::array::from_fn(|row| {
            let place = hash >> (5 * row) & 31;
            (2 * row + (place >> 4) as usize, (place & 15) as u32 * 4)
        })
    }

    fn least(line: &[AtomicU64], counters: [(usize, u32); ROWS]) -> u8 {
        let count = |(word, shift): (usize, u32)| {
            (line[word].load(Ordering::Relaxed) >> shift) as u8 & COUNT_MAX
        };
        counters.map(count).into_iter().min().unwrap_or(0)
    }

    /// Halves the next line, if it is time.
    fn age(&self) {
        let left = self.countdown.load(Ordering::Relaxed);
        if left > 1 {
            self.countdown.store(left - 1, Ordering::Relaxed);
            return;
        }
        self.countdown.store(self.pace.load(Ordering::Relaxed), Ordering::Relaxed);
        let hand = self.hand.fetch_add(1, Ordering::Relaxed) & self.lines_mask;
        let first = hand as usize * LINE_WORDS;
        for word in &self.words[first..first + LINE_WORDS] {
            let halved = word.load(Ordering::Relaxed) >> 1 & 0x7777_7777_7777_7777;
            word.store(halved, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        let n = (n ^ n >> 31).wrapping_mul(0x7FB5_D329_728E_A185);
        (n ^ n >> 27).wrapping_mul(0x81DA_DEF4_BC2D_D44D) ^ n >> 33
    }

    #[test]
    fn what_was_asked_for_more_often_counts_more() {
        let sketch = Sketch::new(64 << 10);
        sketch.set_period(1 << 30);
        for round in 0..12 {
            for key in 0..1000 {
                if round < key % 12 {
                    sketch.add(hash(key));
                }
            }
        }
        for key in 0..1000 {
            let (estimate, added) = (u64::from(sketch.estimate(hash(key))), key % 12);
            assert!(estimate >= added, "{key}: {estimate} of {added}");
        }
        let right = (0..1000).filter(|&key| u64::from(sketch.estimate(hash(key))) == key % 12);
        assert!(right.count() > 950);
    }

    #[test]
    fn counts_end_at_fifteen_and_are_halved_once_in_a_period() {
        let sketch = Sketch::new(4 << 10);
        sketch.set_period(6_400);
        assert_eq!(sketch.period(), 6_400);
        for _ in 0..100 {
            sketch.add(hash(1));
        }
        assert_eq!(sketch.estimate(hash(1)), COUNT_MAX);
        for n in 0..6_400 {
            sketch.add(hash(1_000_000 + n % 5));
        }
        assert_eq!(sketch.estimate(hash(1)), COUNT_MAX / 2);
        sketch.clear();
        assert_eq!(sketch.estimate(hash(1)), 0);
        sketch.raise(hash(1), 5);
        sketch.raise(hash(1), 3);
        assert_eq!((sketch.estimate(hash(1)), sketch.add(hash(1))), (5, 6));
        sketch.raise(hash(1), 200);
        assert_eq!(sketch.estimate(hash(1)), COUNT_MAX);
    }

    #[test]
    fn it_takes_no_more_than_it_may() {
        for bytes in [0, 63, 64, 1000, 4096, 5000] {
            let sketch = Sketch::new(bytes);
            assert!(sketch.charged_bytes() <= bytes, "{bytes}");
            assert!(bytes < 64 || sketch.charged_bytes() * 2 > bytes, "{bytes}");
        }
        let none = Sketch::new(63);
        assert_eq!((none.add(5), none.estimate(5)), (0, 0));
    }
}
