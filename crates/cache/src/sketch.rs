//! How often things were asked for lately: a count-min sketch of four-bit counters
//! that ages (TinyLFU: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache
//! Admission Policy", 2017).
//!
//! 1. A hash leads to one line of 64 bytes, 128 counters, and to four counters in it,
//!    one in each quarter.
//! 2. The estimate is the least of the four. An addition raises only those that are
//!    equal to it (conservative update).
//! 3. All counters are halved once in every [`Sketch::period`] additions.
//!
//! **What we changed.** The paper halves all counters at once; we halve a line now and
//! then, so no addition takes longer than another. The period can be changed while the
//! sketch is in use: what was frequent before the load changed is to be forgotten.
//!
//! The paper's counters end at 15. Where a small part of the blocks takes nearly all
//! lookups all of them count 15, and a block that is asked for four times as often as
//! its neighbours (those of small levels are) goes as soon as they do. So here a counter
//! counts up to eight, and beyond that it rises by chance, the more seldom the
//! higher it is (R. Morris, "Counting Large Numbers of Events in Small Registers", 1978):
//! four bits tell up to 52 times, to within a half.
//!
//! Guarantees: an estimate is never less than the number of additions since the line
//! was last halved, up to eight, while one thread adds. Additions of several threads at
//! once may get lost: counts are a hint.
//!
//! Safe to use from all threads, without locks.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of a line: a cache line of the processor.
const LINE_WORDS: usize = 8;
/// Counters that a hash leads to.
const ROWS: usize = 4;
/// The largest count.
pub const COUNT_MAX: u8 = 52;

/// Up to here a counter counts every addition.
const EXACT: u8 = 8;
/// What a counter can hold.
const NOTCH_MAX: u8 = 15;
/// How many additions a counter stands for, by what it holds: above [`EXACT`] for two
/// more, twice; for four more, twice; and so on.
const COUNTS: [u8; NOTCH_MAX as usize + 1] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 28, 36, COUNT_MAX];
/// What a counter holds that stands for half as many.
const HALVES: [u8; NOTCH_MAX as usize + 1] = [0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 9, 10, 11, 13];

/// Keys of which each gets as many counters as it raises.
const KEYS_PER_LINE: usize = LINE_WORDS * 16 / ROWS;

/// Counters that share a cache line: those of one hash are never in two.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

/// Counts by hash.
#[derive(Debug)]
pub struct Sketch {
    /// A power of two of them, or none.
    lines: Box<[Line]>,
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
        let sketch = Self {
            lines: (0..lines).map(|_| Line::default()).collect(),
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
        size_of_val(&*self.lines)
    }

    /// In how many additions every counter is halved once.
    pub fn period(&self) -> u64 {
        u64::from(self.pace.load(Ordering::Relaxed)) * self.lines.len().max(1) as u64
    }

    /// Sets the period, rounded up to a multiple of the number of lines.
    pub fn set_period(&self, additions: u64) {
        let lines = self.lines.len().max(1) as u64;
        let pace = additions.div_ceil(lines).clamp(1, u64::from(u32::MAX));
        self.pace.store(pace as u32, Ordering::Relaxed);
        self.countdown.fetch_min(pace as u32, Ordering::Relaxed);
    }

    /// Counts `hash` once more; the estimate with it.
    pub fn add(&self, hash: u64) -> u8 {
        self.add_times(hash, 1)
    }

    /// Counts `hash` so many times more; the estimate with them.
    pub fn add_times(&self, hash: u64, times: u8) -> u8 {
        let Some(line) = self.line(hash) else { return 0 };
        let counters = Self::counters(hash);
        let least = Self::least(line, counters);
        let mut notch = least;
        for nth in 0..times {
            let is_exact = notch < EXACT;
            let rises = is_exact || (notch < NOTCH_MAX && self.lot(hash, nth, notch - EXACT));
            notch += u8::from(rises);
        }
        if notch > least {
            for (word, shift) in counters {
                let before = line[word].load(Ordering::Relaxed);
                let now = (before >> shift) as u8 & NOTCH_MAX;
                if now < notch {
                    line[word].store(before + (u64::from(notch - now) << shift), Ordering::Relaxed);
                }
            }
        }
        self.age(u32::from(times));
        COUNTS[usize::from(notch)]
    }

    /// Has `hash` count as added about `times` times at the least.
    pub fn raise(&self, hash: u64, times: u8) {
        let notch = COUNTS.partition_point(|&count| count <= times) as u8 - 1;
        let Some(line) = self.line(hash) else { return };
        for (word, shift) in Self::counters(hash) {
            let before = line[word].load(Ordering::Relaxed);
            let now = (before >> shift) as u8 & NOTCH_MAX;
            if now < notch {
                line[word].store(before + (u64::from(notch - now) << shift), Ordering::Relaxed);
            }
        }
    }

    /// How often `hash` was added lately, as far as is known.
    pub fn estimate(&self, hash: u64) -> u8 {
        let line = self.line(hash);
        line.map_or(0, |line| COUNTS[usize::from(Self::least(line, Self::counters(hash)))])
    }

    /// The estimate without the last addition of `hash`, as far as that can be told: where
    /// additions count by chance, so does taking one away.
    pub fn estimate_before(&self, hash: u64) -> u8 {
        let Some(line) = self.line(hash) else { return 0 };
        let notch = Self::least(line, Self::counters(hash));
        let has_risen = notch <= EXACT || self.lot(hash, 0, notch - 1 - EXACT);
        COUNTS[usize::from(notch.saturating_sub(u8::from(has_risen)))]
    }

    #[inline]
    fn line(&self, hash: u64) -> Option<&[AtomicU64; LINE_WORDS]> {
        let mask = self.lines.len().wrapping_sub(1);
        self.lines.get((hash >> 32) as usize & mask).map(|Line(words)| words)
    }

    /// Word and bit of each counter of `hash`: five bits of it for each row.
    #[inline]
    fn counters(hash: u64) -> [(usize, u32); ROWS] {
        let counter = |row: usize| {
            let place = hash >> (5 * row) & 31;
            (2 * row + (place >> 4) as usize, (place & 15) as u32 * 4)
        };
        [counter(0), counter(1), counter(2), counter(3)]
    }

    /// Whether a counter that is so many levels above [`EXACT`] rises with this addition.
    fn lot(&self, hash: u64, nth: u8, above: u8) -> bool {
        let left = u64::from(self.countdown.load(Ordering::Relaxed)) + u64::from(nth);
        let mixed = (left ^ hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed >> (63 - above / 2) == 0
    }

    #[inline]
    fn least(line: &[AtomicU64; LINE_WORDS], counters: [(usize, u32); ROWS]) -> u8 {
        // A fold, which is unrolled, where the compiler calls a `map` of an array.
        counters.iter().fold(NOTCH_MAX, |least, &(word, shift)| {
            least.min((line[word].load(Ordering::Relaxed) >> shift) as u8 & NOTCH_MAX)
        })
    }

    /// Halves the next line, if so many additions make it time.
    fn age(&self, additions: u32) {
        let left = self.countdown.load(Ordering::Relaxed);
        if left > additions {
            self.countdown.store(left - additions, Ordering::Relaxed);
            return;
        }
        let late = additions - left;
        let next = self.pace.load(Ordering::Relaxed).saturating_sub(late).max(1);
        self.countdown.store(next, Ordering::Relaxed);
        let hand = self.hand.fetch_add(1, Ordering::Relaxed) as usize;
        let Line(words) = &self.lines[hand & (self.lines.len() - 1)];
        for word in words {
            let before = word.load(Ordering::Relaxed);
            let half = |shift| HALVES[(before >> shift) as usize & usize::from(NOTCH_MAX)];
            let halved =
                (0..64).step_by(4).fold(0, |all, shift| all | u64::from(half(shift)) << shift);
            word.store(halved, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
