//! Recent access frequencies: a count-min sketch with small counters that age (TinyLFU: Einziger,
//! Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", 2017).
//!
//! 1. A hash selects one line of 64 bytes, and four counters in it, one in each quarter.
//! 2. The count is the smallest of the four. An addition raises only those that are equal to it
//!    (conservative update).
//! 3. All counters are halved once in every period ([`Sketch::set_period`]).
//!
//! **What we changed.** The paper halves all counters at once; we halve one line at a time, so that
//! no operation takes long. The period can be changed while the sketch is in use, so that it
//! forgets old frequencies after the load changed.
//!
//! *Counts of two lines* cover different times: just before a line is halved it has counted for
//! twice as long as just after. So [`Sketch::rate`] divides a count by the time that its line has
//! counted, with halved time counted by half. Code that compares entries of about equal frequency
//! compares rates; by counts half of them would seem to be accessed nearly twice as often as the
//! others, and this would alternate.
//!
//! The paper's counters end at 15. Where a small part of the blocks takes nearly all lookups, all
//! of them count 15, and a block accessed four times as often as its neighbours (as those of small
//! levels are) is evicted as soon as they are. So here a counter first counts one by one, and
//! beyond that it rises by chance, the more rarely the higher it is (R. Morris, "Counting Large
//! Numbers of Events in Small Registers", 1978). [`Narrow`] counters have four bits and count up to
//! 52, to within a half; [`Wide`] ones have eight, and count up to 40 thousand to within an eighth.
//!
//! Guarantees: a count is never less than the number of additions since the line was last halved,
//! up to the limit of exact counts, while one thread adds. Concurrent additions may get lost:
//! counts are a hint.
//!
//! Thread-safe without locks.

use std::marker::PhantomData;

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words per line: a cache line of the processor.
const LINE_WORDS: usize = 8;
/// Counters per hash.
const ROWS: usize = 4;

/// A line that has counted for less than this part of a period is treated as if it had counted this
/// long, so that early rates are bounded.
const SPAN_MIN: f32 = 0.25;

/// The width of the counters and the counts that they represent.
pub trait Width: Copy + std::fmt::Debug + 'static {
    /// Bits of a counter, a divisor of 64.
    const BITS: u32;
    /// Up to here a counter counts every addition.
    const EXACT: u8;
    /// The number of additions for each counter value.
    const COUNTS: &'static [u16];
    /// The counter value for half as many additions, by counter value.
    const HALVES: &'static [u8];
}

/// Counters of four bits: for keys, which are many and mostly accessed rarely.
#[derive(Debug, Clone, Copy)]
pub enum Narrow {}

/// Counters of eight bits: for blocks, many of which are accessed hundreds of times.
#[derive(Debug, Clone, Copy)]
pub enum Wide {}

impl Width for Narrow {
    const BITS: u32 = 4;
    const EXACT: u8 = 8;
    /// Above the exact values: two more, twice; four more, twice; and so on.
    const COUNTS: &'static [u16] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 28, 36, 52];
    const HALVES: &'static [u8] = &halves::<16>(Self::COUNTS);
}

impl Width for Wide {
    const BITS: u32 = 8;
    const EXACT: u8 = 16;
    /// Above the exact values each step is about 3 % larger than the one before.
    const COUNTS: &'static [u16] = &growing::<256>(Self::EXACT, 1.03);
    const HALVES: &'static [u8] = &halves::<256>(Self::COUNTS);
}

/// Counts that grow by one up to `exact`, and then by steps that grow by `factor`.
const fn growing<const N: usize>(exact: u8, factor: f64) -> [u16; N] {
    let mut counts = [0; N];
    let (mut count, mut step) = (0.0, 1.0);
    let mut notch = 1;
    while notch < N {
        count += step;
        if notch >= exact as usize {
            step *= factor;
        }
        counts[notch] = count as u16;
        notch += 1;
    }
    counts
}

/// For each of `counts` the index of the one nearest to its half; the lower one on ties.
const fn halves<const N: usize>(counts: &[u16]) -> [u8; N] {
    let mut halves = [0; N];
    let (mut notch, mut half) = (0, 0);
    while notch < N {
        let count = counts[notch] as i32;
        while 2 * counts[half + 1] as i32 - count < count - 2 * counts[half] as i32 {
            half += 1;
        }
        halves[notch] = half as u8;
        notch += 1;
    }
    halves
}

/// Counters that share a cache line: the counters of one hash are never in two.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

/// Counters by hash.
#[derive(Debug)]
pub struct Sketch<W> {
    /// A power of two, or none.
    lines: Box<[Line]>,
    /// Additions until the next line is halved, and the number of halved lines.
    countdown: AtomicU32,
    hand: AtomicU64,
    /// Additions between two halvings.
    pace: AtomicU32,
    width: PhantomData<W>,
}

impl<W: Width> Sketch<W> {
    const NOTCH_MAX: u8 = (W::COUNTS.len() - 1) as u8;
    /// Counters per word, and per row of a line.
    const IN_WORD: u64 = (u64::BITS / W::BITS) as u64;
    const IN_ROW: u64 = (LINE_WORDS / ROWS) as u64 * Self::IN_WORD;

    /// A sketch of at most `bytes`: the largest power of two of lines. Without lines, all counts
    /// are 0.
    pub fn new(bytes: usize) -> Self {
        let lines = (bytes / (LINE_WORDS * 8)).checked_ilog2().map_or(0, |log| 1usize << log);
        let sketch = Self {
            lines: (0..lines).map(|_| Line::default()).collect(),
            countdown: AtomicU32::new(0),
            hand: AtomicU64::new(0),
            pace: AtomicU32::new(1),
            width: PhantomData,
        };
        // As in the paper: ten times as many additions as keys, with as many counters per key as a
        // key raises.
        sketch.set_period(10 * lines as u64 * Self::IN_ROW);
        sketch
    }

    /// Memory in bytes.
    pub fn charged_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Sets the number of additions in which every counter is halved once, rounded up to a multiple
    /// of the number of lines.
    pub fn set_period(&self, additions: u64) {
        let lines = self.lines.len().max(1) as u64;
        let pace = additions.div_ceil(lines).clamp(1, u64::from(u32::MAX));
        self.pace.store(pace as u32, Ordering::Relaxed);
        self.countdown.fetch_min(pace as u32, Ordering::Relaxed);
    }

    /// Counts one access of `hash`.
    #[inline]
    pub fn add(&self, hash: u64) {
        let Some(line) = self.line(hash) else { return };
        let notch = Self::least(line, hash);
        if notch < W::EXACT || self.rises(hash, notch, 1) {
            Self::lift(line, hash, notch + 1);
        }
        self.age(1);
    }

    /// Counts `times` accesses of `hash`.
    pub fn add_times(&self, hash: u64, times: u16) {
        let Some(line) = self.line(hash) else { return };
        let least = Self::least(line, hash);
        let wanted = W::COUNTS[usize::from(least)].saturating_add(times);
        let mut notch = least;
        while notch < Self::NOTCH_MAX && W::COUNTS[usize::from(notch) + 1] <= wanted {
            notch += 1;
        }
        let rest = wanted - W::COUNTS[usize::from(notch)];
        notch += u8::from(rest > 0 && self.rises(hash, notch, rest));
        if notch > least {
            Self::lift(line, hash, notch);
        }
        self.age(u32::from(times));
    }

    /// Raises the count of `hash` to about `times`, if it is lower.
    pub fn raise(&self, hash: u64, times: u8) {
        let notch = W::COUNTS.partition_point(|&count| count <= u16::from(times)) - 1;
        if let Some(line) = self.line(hash) {
            Self::lift(line, hash, notch as u8);
        }
    }

    /// The additions of `hash` since its line was halved, plus half of the count before that.
    pub fn count(&self, hash: u64) -> u16 {
        let line = self.line(hash);
        line.map_or(0, |line| W::COUNTS[usize::from(Self::least(line, hash))])
    }

    fn count_before(&self, hash: u64) -> u16 {
        let Some(line) = self.line(hash) else { return 0 };
        let notch = Self::least(line, hash);
        let has_risen = notch <= W::EXACT || self.rises(hash, notch - 1, 1);
        W::COUNTS[usize::from(notch.saturating_sub(u8::from(has_risen)))]
    }

    /// The recent additions of `hash` per period, comparable between all hashes.
    pub fn rate(&self, hash: u64) -> f32 {
        self.rate_of(self.count(hash), hash)
    }

    /// The rate without the last addition of `hash`, as far as it can be determined: where
    /// additions count by chance, so does their removal.
    pub fn rate_before(&self, hash: u64) -> f32 {
        self.rate_of(self.count_before(hash), hash)
    }

    fn rate_of(&self, count: u16, hash: u64) -> f32 {
        match count {
            0 => 0.0,
            _ => f32::from(count) / self.span(hash),
        }
    }

    /// The periods that the line of `hash` has counted, halved time by half: between one and two,
    /// except in the beginning.
    ///
    /// Halved first at p (in periods), then n - 1 times more, and f ago: 1 + f - (2 - p) / 2ⁿ.
    fn span(&self, hash: u64) -> f32 {
        let lines = self.lines.len() as u64;
        let index = self.index(hash) as u64;
        let turned = self.hand.load(Ordering::Relaxed) + (lines - 1) - index;
        let (times, since) = (turned >> lines.trailing_zeros(), turned & (lines - 1));
        let [since, first] = [since, index + 1].map(|part| part as f32 / lines as f32);
        let kept = 1.0 / (1u64 << times.min(32)) as f32;
        (1.0 + since - (2.0 - first) * kept).max(SPAN_MIN)
    }

    #[inline]
    fn index(&self, hash: u64) -> usize {
        (hash >> 32) as usize & self.lines.len().wrapping_sub(1)
    }

    #[inline]
    fn line(&self, hash: u64) -> Option<&[AtomicU64; LINE_WORDS]> {
        self.lines.get(self.index(hash)).map(|Line(words)| words)
    }

    /// Word and bit of each counter of `hash`: five bits of the hash for each row.
    #[inline]
    fn counters(hash: u64) -> [(usize, u32); ROWS] {
        let counter = |row: usize| {
            let place = hash >> (5 * row) & (Self::IN_ROW - 1);
            let word = LINE_WORDS / ROWS * row + (place / Self::IN_WORD) as usize;
            (word, (place % Self::IN_WORD) as u32 * W::BITS)
        };
        [counter(0), counter(1), counter(2), counter(3)]
    }

    /// Whether a counter rises by chance for `more` additions.
    fn rises(&self, hash: u64, notch: u8, more: u16) -> bool {
        if notch == Self::NOTCH_MAX {
            return false;
        }
        let step = W::COUNTS[usize::from(notch) + 1] - W::COUNTS[usize::from(notch)];
        let countdown = u64::from(self.countdown.load(Ordering::Relaxed));
        let sample_id = countdown | self.hand.load(Ordering::Relaxed) << 32;
        let mixed = (sample_id ^ hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed >> 32) * u64::from(step)) >> 32 < u64::from(more)
    }

    #[inline]
    fn least(line: &[AtomicU64; LINE_WORDS], hash: u64) -> u8 {
        // A fold, because the compiler unrolls it; it calls a `map` of an array.
        Self::counters(hash).iter().fold(Self::NOTCH_MAX, |least, &(word, shift)| {
            least.min((line[word].load(Ordering::Relaxed) >> shift) as u8 & Self::NOTCH_MAX)
        })
    }

    /// Raises the counters of `hash` to at least `notch`.
    #[inline]
    fn lift(line: &[AtomicU64; LINE_WORDS], hash: u64, notch: u8) {
        for (word, shift) in Self::counters(hash) {
            let before = line[word].load(Ordering::Relaxed);
            let now = (before >> shift) as u8 & Self::NOTCH_MAX;
            if now < notch {
                line[word].store(before + (u64::from(notch - now) << shift), Ordering::Relaxed);
            }
        }
    }

    /// Halves the next lines, if it is time after `additions` more.
    fn age(&self, additions: u32) {
        let mut left = self.countdown.load(Ordering::Relaxed);
        let mut late = additions;
        while left <= late {
            late -= left;
            left = self.pace.load(Ordering::Relaxed);
            self.halve_next();
        }
        self.countdown.store(left - late, Ordering::Relaxed);
    }

    fn halve_next(&self) {
        let hand = self.hand.fetch_add(1, Ordering::Relaxed) as usize;
        let Line(words) = &self.lines[hand & (self.lines.len() - 1)];
        for word in words {
            let before = word.load(Ordering::Relaxed);
            let half = |shift| W::HALVES[(before >> shift) as usize & usize::from(Self::NOTCH_MAX)];
            let halved = (0..u64::BITS)
                .step_by(W::BITS as usize)
                .fold(0, |all, shift| all | u64::from(half(shift)) << shift);
            word.store(halved, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
