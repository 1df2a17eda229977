//! The warm-up curve of a cache: its cold misses as it fills from empty with room for everything,
//! counted for all keys.
//!
//! In a stationary trace, the fraction of requests that such a cache misses while it holds `s`
//! bytes equals the miss ratio of an LRU cache of `s` bytes: `fp(w + 1) - fp(w)` where `fp(w) = s`,
//! the footprint (Xiang et al., HOTL, ASPLOS 2013; Denning's working set). Sizes are in the unit of
//! the profile.
//!
//! 1. The cache begins with request `b`, is observed for `max(b / 4, 4096)` requests, and begins
//!    anew with request `2 b`: so each size is observed once whenever the time doubles, the largest
//!    is that of an eighth of a trace at least, and most requests cost nothing.
//! 2. Its keys are in a table of bits. A key that finds its bit clear stands for `slots / clear
//!    slots` keys, for the others find theirs taken: the slope of linear counting, `n = -m ln(clear
//!    / m)` (Whang, Vander-Zanden, Taylor, TODS 1990). Once three of four slots are taken,
//!    observation ends.
//! 3. Its requests are counted by the bytes that it holds, and those for the keys of a sample by
//!    its age in requests, to test whether the sample's statistics describe it.
//!
//! Pure; one thread's.

use crate::curves::histogram_scale::{number_of, place_of};

/// Sizes and ages are grouped in buckets, 128 for each factor of two, beyond the first 256.
const PRECISION_BITS: u32 = 8;
/// Slots of the table: 2^that, half a megabyte, for the six million objects that long traces have
/// in an eighth.
const SLOT_BITS: u32 = 22;
const SLOTS: usize = 1 << SLOT_BITS;
/// The cache is observed for one part in `PART` of the requests before it began, and for
/// `LENGTH_MIN` at least.
const PART: u64 = 4;
const LENGTH_MIN: u64 = 1 << 12;
/// Requests processed together, so that none waits for the previous one's cache miss on the table.
const AT_ONCE: usize = 64;
/// New bytes are accounted at least when there are this many.
const FRESH_MAX: usize = 1 << 12;
/// The table is full when this many of its slots are taken: three of four.
const FULL: usize = SLOTS / 4 * 3;

/// The requests while the cache held some number of bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Requests {
    /// The number of requests.
    pub(crate) seen: f64,
    /// The number of these that were new to it.
    pub(crate) new: f64,
    /// The sum of the squared weights of the new ones that were observed.
    pub(crate) new_squares: f64,
}

/// The requests at an age of the cache, counted in requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgeCounts {
    /// The age.
    pub(crate) age: u64,
    /// The number of requests, for all keys.
    pub(crate) seen: u64,
    /// The number of these that were new and for a key of the sample.
    pub(crate) sampled_new: u64,
}

impl Requests {
    fn add(&mut self, more: &Self) {
        self.seen += more.seen;
        self.new += more.new;
        self.new_squares += more.new_squares;
    }
}

/// The warm-up curve of a cache, as it is measured.
#[derive(Debug)]
pub(crate) struct WarmupCurve {
    /// A bit for each slot.
    words: Box<[u64]>,
    state: CacheState,
    /// By the bucket of the bytes that it held.
    by_bytes: Vec<Requests>,
    /// New requests for keys of the sample, by the bucket of the age.
    sampled_new: Vec<u64>,
    /// The length of each finished observation, in requests.
    lengths: Vec<u64>,
    /// Requests so far, and those before it began.
    requests: u64,
    began: u64,
    /// The request at which the observation ends; `None` while there is none.
    ends: Option<u64>,
}

/// The contents of the cache, and the counts since they were last accounted.
#[derive(Debug, Default)]
struct CacheState {
    taken: usize,
    bytes: f64,
    seen: u64,
    fresh: usize,
    fresh_bytes: u64,
    /// Once the new bytes exceed this, they are in another bucket.
    fresh_bytes_max: u64,
}

impl CacheState {
    /// The number of keys for which one that finds its slot free stands, on average over the new
    /// ones.
    fn weight(&self) -> f64 {
        SLOTS as f64 / ((SLOTS - self.taken) as f64 - self.fresh as f64 / 2.0)
    }

    fn requests(&self) -> Requests {
        let (fresh, weight) = (self.fresh as f64, self.weight());
        Requests {
            seen: self.seen as f64,
            new: weight * fresh,
            new_squares: weight * weight * fresh,
        }
    }

    fn place(&self) -> usize {
        place_of::<PRECISION_BITS>(self.bytes as u64)
    }
}

/// The slot of a key; similar keys are not neighbours.
#[inline]
fn slot_of(key: u64) -> u32 {
    let scattered = (key ^ (key >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (scattered >> (u64::BITS - SLOT_BITS)) as u32
}

#[inline]
fn word_of(slot: u32) -> usize {
    (slot / u64::BITS) as usize
}

#[inline]
fn bit_of(slot: u32) -> u64 {
    1 << (slot % u64::BITS)
}

impl WarmupCurve {
    pub(crate) fn new() -> Self {
        Self {
            words: vec![0; SLOTS / u64::BITS as usize].into(),
            state: CacheState::default(),
            by_bytes: Vec::new(),
            sampled_new: Vec::new(),
            lengths: Vec::new(),
            requests: 0,
            began: 0,
            ends: Some(LENGTH_MIN),
        }
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Records a request for a key of the sample: its number, from 1, and that of the previous one
    /// for this key. Call this before [`Self::record`] with the same requests.
    pub(crate) fn record_sampled(&mut self, number: u64, before: Option<u64>) {
        let is_new = before.is_none_or(|before| before <= self.began);
        if is_new && self.ends.is_some() {
            let place = place_of::<PRECISION_BITS>(number - 1 - self.began);
            if place >= self.sampled_new.len() {
                self.sampled_new.resize(place + 1, 0);
            }
            self.sampled_new[place] += 1;
        }
    }

    /// The number of requests until an observation begins or ends: at least one.
    pub(crate) fn batch_max(&self) -> usize {
        let until = self.ends.unwrap_or(2 * self.began).saturating_sub(self.requests);
        usize::try_from(until).unwrap_or(usize::MAX).max(1)
    }

    /// Records requests: their keys, and the bytes of their objects. No more than
    /// [`Self::batch_max`].
    #[inline]
    pub(crate) fn record(&mut self, mut requests: impl ExactSizeIterator<Item = (u64, u64)>) {
        while self.ends.is_some() && requests.len() > 0 {
            self.look(requests.by_ref().take(AT_ONCE));
        }
        // Not observed.
        self.requests += requests.len() as u64;
        if self.ends.is_some_and(|ends| self.requests >= ends) {
            self.end();
        }
        if self.ends.is_none() && self.requests >= 2 * self.began {
            self.begin();
        }
    }

    fn look(&mut self, requests: impl ExactSizeIterator<Item = (u64, u64)>) {
        let len = requests.len();
        self.requests += len as u64;
        // Compute all slots before any is taken: no load depends on another one.
        let mut slots = [(0, 0, false); AT_ONCE];
        for ((key, bytes), slot) in requests.zip(&mut slots) {
            let at = slot_of(key);
            *slot = (at, bytes, self.words[word_of(at)] & bit_of(at) == 0);
        }
        for (slot, bytes, is_free) in slots.into_iter().take(len) {
            self.state.seen += 1;
            if is_free {
                self.fill(slot, bytes);
            }
        }
        if self.state.taken + self.state.fresh >= FULL {
            self.end();
        }
    }

    /// Inserts an absent object.
    #[inline]
    fn fill(&mut self, slot: u32, bytes: u64) {
        let (word, bit) = (&mut self.words[word_of(slot)], bit_of(slot));
        let state = &mut self.state;
        // Unless a request of the same batch has taken it.
        if *word & bit == 0 {
            *word |= bit;
            state.fresh += 1;
            state.fresh_bytes = state.fresh_bytes.saturating_add(bytes);
            if state.fresh_bytes > state.fresh_bytes_max || state.fresh == FRESH_MAX {
                self.account();
            }
        }
    }

    /// Accounts the counts so far in the bucket of the cache's size, and moves on to the bucket of
    /// its size now.
    fn account(&mut self) {
        let state = &self.state;
        let place = state.place();
        if place >= self.by_bytes.len() {
            self.by_bytes.resize(place + 1, Requests::default());
        }
        self.by_bytes[place].add(&state.requests());
        let bytes = state.bytes + state.weight() * state.fresh_bytes as f64;
        let mut state =
            CacheState { taken: state.taken + state.fresh, bytes, ..CacheState::default() };
        let left = number_of::<PRECISION_BITS>(state.place()) as f64 - bytes;
        state.fresh_bytes_max = (left / state.weight()) as u64;
        self.state = state;
    }

    /// Ends the observation.
    fn end(&mut self) {
        self.account();
        self.lengths.push(self.requests - self.began);
        self.ends = None;
    }

    /// Empties the cache, and begins to observe it.
    fn begin(&mut self) {
        self.words.fill(0);
        self.state = CacheState::default();
        self.began = self.requests;
        self.ends = Some(self.began + (self.began / PART).max(LENGTH_MIN));
    }

    /// Requests by the bytes that the cache held, in rising order.
    pub(crate) fn by_bytes(&self) -> Vec<(f64, Requests)> {
        let mut by_bytes = self.by_bytes.clone();
        if self.ends.is_some() {
            let place = self.state.place();
            by_bytes.resize(by_bytes.len().max(place + 1), Requests::default());
            by_bytes[place].add(&self.state.requests());
        }
        let bytes = |place: usize| number_of::<PRECISION_BITS>(place) as f64;
        let middle = |place: usize| (bytes(place.saturating_sub(1)) + bytes(place)) / 2.0;
        let counted = by_bytes.into_iter().enumerate().filter(|(_, requests)| requests.seen > 0.0);
        counted.map(|(place, requests)| (middle(place), requests)).collect()
    }

    /// Requests by age, in rising order.
    pub(crate) fn by_age(&self) -> Vec<AgeCounts> {
        let last = self.ends.map(|_| self.requests - self.began);
        let lengths = || self.lengths.iter().chain(&last).copied();
        let seen =
            |from: u64, until: u64| lengths().map(|length| length.clamp(from, until) - from).sum();
        let of_place = |place: usize| {
            let last = number_of::<PRECISION_BITS>(place);
            let first =
                place.checked_sub(1).map_or(0, |before| number_of::<PRECISION_BITS>(before) + 1);
            let sampled_new = self.sampled_new.get(place).copied().unwrap_or(0);
            AgeCounts { age: first + (last - first) / 2, seen: seen(first, last + 1), sampled_new }
        };
        // Ages without new requests as well.
        let oldest = lengths().max().unwrap_or(0);
        (0..=place_of::<PRECISION_BITS>(oldest)).map(of_place).filter(|it| it.seen > 0).collect()
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_sample = self.sampled_new.capacity() * size_of::<u64>();
        size_of_val(&*self.words) + self.by_bytes.capacity() * size_of::<Requests>() + of_sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> u64 {
        (number + 1).wrapping_mul(0x9FB2_1C65_1E98_DF25).rotate_left(31) ^ number
    }

    fn totals(warmup: &WarmupCurve) -> Requests {
        let mut totals = Requests::default();
        warmup.by_bytes().iter().for_each(|(_, requests)| totals.add(requests));
        totals
    }

    #[test]
    fn warmup_counts_requests_and_new_objects() {
        let mut warmup = WarmupCurve::new();
        // A hundred objects of ten bytes, again and again.
        for number in 0..32 * LENGTH_MIN {
            let before = number.checked_sub(100).map(|before| before + 1);
            warmup.record_sampled(number + 1, before);
            warmup.record([(key(number % 100), 10)].into_iter());
        }
        // It began at 0, 1, 2, 4, 8, and 16 times the least, and just now; and went on for a quarter of that, but for the
        // least at least.
        let totals = totals(&warmup);
        assert_eq!(totals.seen, ((1 + 1 + 1 + 1 + 2 + 4) * LENGTH_MIN) as f64);
        assert!((totals.new - 6.0 * 100.0).abs() < 0.1, "{}", totals.new);
        let by_age = warmup.by_age();
        let new = by_age.iter().filter(|it| it.sampled_new > 0);
        assert_eq!(new.clone().count(), 100);
        for (age, at) in (0..).zip(new) {
            assert_eq!((at.age, at.seen, at.sampled_new), (age, 6, 6));
        }
        assert_eq!(by_age.iter().map(|at| at.seen).sum::<u64>() as f64, totals.seen);
        // Each request before the hundredth was new, and none after it.
        for (bytes, requests) in warmup.by_bytes() {
            let part = requests.new / requests.seen;
            if bytes < 950.0 {
                assert!((part - 1.0).abs() < 0.001, "{bytes}: {part}");
            } else if bytes > 1_005.0 {
                assert!(part < 0.01, "{bytes}: {part}");
            }
        }
    }

    #[test]
    fn colliding_keys_are_estimated_until_the_table_is_full() {
        let mut warmup = WarmupCurve::new();
        let mut some = [(0, 7); AT_ONCE];
        // Until it has begun with as many requests as would fill it several times.
        for from in (0..8 * SLOTS as u64).step_by(AT_ONCE) {
            some.iter_mut().zip(from..).for_each(|(request, number)| request.0 = key(number));
            warmup.record(some.into_iter());
        }
        assert_eq!(warmup.lengths.last(), Some(&(SLOTS as u64)));
        let totals = totals(&warmup);
        assert!((totals.new / totals.seen - 1.0).abs() < 0.001, "{totals:?}");
        let (largest, _) = warmup.by_bytes()[warmup.by_bytes().len() - 1];
        assert!((largest / (7 * SLOTS) as f64 - 1.0).abs() < 0.01, "{largest}");
        for from in (8 * SLOTS as u64..11 * SLOTS as u64).step_by(AT_ONCE) {
            some.iter_mut().zip(from..).for_each(|(request, number)| request.0 = key(number));
            warmup.record(some.into_iter());
        }
        // Three of four slots are taken by ln 4 times as many objects as there are slots.
        assert_eq!(warmup.ends, None);
        let length = *warmup.lengths.last().expect("it has ended") as f64;
        assert!((length / SLOTS as f64 / 4_f64.ln() - 1.0).abs() < 0.001, "{length}");
        assert!(warmup.memory_bytes() < 1 << 20);
    }

    #[test]
    fn zero_and_overflowing_sizes_are_accepted() {
        let mut warmup = WarmupCurve::new();
        for number in 0..3 * LENGTH_MIN {
            let bytes = if number % 2 == 0 { 0 } else { u64::MAX };
            warmup.record([(key(number), bytes)].into_iter());
        }
        assert_eq!(totals(&warmup).seen, (3 * LENGTH_MIN) as f64);
        assert!((totals(&warmup).new / (3 * LENGTH_MIN) as f64 - 1.0).abs() < 0.001);
    }
}
