//! The operations on a store: a mix of operation kinds and a key distribution. The same seed gives
//! the same operations, thread by thread.

use serde::{Deserialize, Serialize};

use crate::load::dice::Dice;
use crate::load::keys::{Choice, KEY_BYTES, Picker, absent, present};

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Read one key.
    Get,
    /// Get an absent key.
    GetAbsent,
    /// Read [`Workload::keys_per_multi_get`] keys at once.
    MultiGet,
    /// Read [`Workload::scan_entries`] entries from a key on.
    Scan,
    /// Write one key.
    Put,
    /// Insert a new key: after all others, separate for each thread.
    Insert,
    /// Read one key, then write it.
    Modify,
    /// Delete one key.
    Delete,
    /// Get one key from a cache, and put it after a miss, as if fetched from a backend.
    Fetch,
}

impl Kind {
    /// The name in `--vary` and rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetAbsent => "get-absent",
            Self::MultiGet => "multi-get",
            Self::Scan => "scan",
            Self::Put => "put",
            Self::Insert => "insert",
            Self::Modify => "modify",
            Self::Delete => "delete",
            Self::Fetch => "fetch",
        }
    }

    /// Whether it modifies the store.
    pub(crate) fn changes(self) -> bool {
        matches!(self, Self::Put | Self::Insert | Self::Modify | Self::Delete | Self::Fetch)
    }
}

/// One operation, on the key with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub kind: Kind,
    /// The number of the key.
    pub number: u64,
}

/// The operations on a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Kinds with their weights.
    pub mix: Vec<(Kind, u32)>,
    /// The key distribution.
    pub choice: Choice,
    /// Entries of the store.
    pub entries: u64,
    /// Of each key: [`KEY_BYTES`], or [`crate::load::keys::SHORT_KEY_BYTES`].
    pub key_bytes: usize,
    /// Entries of a scan.
    pub scan_entries: u64,
    /// Keys of a `MultiGet`.
    pub keys_per_multi_get: usize,
    /// The latency of fetching a missed key from the backend, in microseconds.
    #[serde(default)]
    pub fetch_us: u64,
}

impl Workload {
    /// Only operations of `kind`.
    pub fn only(kind: Kind, choice: Choice, entries: u64) -> Self {
        Self {
            mix: vec![(kind, 1)],
            choice,
            entries,
            key_bytes: KEY_BYTES,
            scan_entries: 100,
            keys_per_multi_get: 100,
            fetch_us: 0,
        }
    }

    /// The percentage of writes.
    pub(crate) fn written_share(&self) -> f64 {
        let is_write = |kind| matches!(kind, Kind::Put | Kind::Insert | Kind::Modify);
        let written: u32 = self.mix.iter().filter(|m| is_write(m.0)).map(|m| m.1).sum();
        let total: u32 = self.mix.iter().map(|m| m.1).sum();
        f64::from(written) / f64::from(total)
    }

    /// The operations of one thread.
    pub fn stream(&self, seed: u64, thread: u64, threads: u64) -> Stream {
        self.stream_of_part(seed, 0, thread, threads)
    }

    /// The same for one of several parts of a run: the hot keys are the same, and the operations
    /// differ from those of other parts.
    pub(crate) fn stream_of_part(&self, seed: u64, part: u64, thread: u64, threads: u64) -> Stream {
        let total = self.mix.iter().map(|&(_, weight)| u64::from(weight)).sum();
        assert!(total > 0, "a mix has weights");
        // A scan finds all its entries.
        let scannable = self.entries.saturating_sub(self.scan_entries).max(1);
        let choosable = match self.mix[..] {
            [(Kind::Scan, _)] => scannable,
            _ => self.entries,
        };
        Stream {
            mix: self.mix.clone(),
            total,
            scannable,
            picker: Picker::new(&self.choice, choosable, seed, thread, threads),
            dice: Dice::of_thread(seed ^ part << 32, thread),
            next_insert: self.entries + thread,
            threads,
            inserted: 0,
            is_latest: matches!(self.choice, Choice::Latest { .. }),
            entries: self.entries,
        }
    }
}

/// The endless operations of one thread.
#[derive(Debug, Clone)]
pub struct Stream {
    mix: Vec<(Kind, u32)>,
    total: u64,
    /// The possible starts of scans.
    scannable: u64,
    picker: Picker,
    dice: Dice,
    /// The next inserted entry of this thread.
    next_insert: u64,
    threads: u64,
    inserted: u64,
    /// Picked numbers count newer entries.
    is_latest: bool,
    entries: u64,
}

impl Stream {
    /// The next operation.
    #[inline]
    pub fn next_operation(&mut self) -> Operation {
        let kind = self.kind();
        if kind == Kind::Insert {
            let number = present(self.next_insert);
            self.next_insert += self.threads;
            self.inserted += 1;
            return Operation { kind, number };
        }
        let index = self.index();
        let number = match kind {
            Kind::GetAbsent => absent(index),
            Kind::Scan => present(index.min(self.scannable - 1)),
            _ => present(index),
        };
        Operation { kind, number }
    }

    /// One more key for the same operation.
    #[inline]
    pub fn next_number(&mut self) -> u64 {
        present(self.index())
    }

    #[inline]
    fn index(&mut self) -> u64 {
        let picked = self.picker.next(&mut self.dice);
        match self.is_latest {
            false => picked,
            // A thread knows only its own inserts.
            true if picked < self.inserted => self.next_insert - (picked + 1) * self.threads,
            true => self.entries - 1 - (picked - self.inserted).min(self.entries - 1),
        }
    }

    #[inline]
    fn kind(&mut self) -> Kind {
        if let [(kind, _)] = self.mix[..] {
            return kind;
        }
        let mut left = self.dice.below(self.total);
        for &(kind, weight) in &self.mix {
            match left.checked_sub(u64::from(weight)) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        unreachable!("the weights sum up to the total")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed() -> Workload {
        let mut workload = Workload::only(Kind::Get, Choice::Uniform, 1000);
        workload.mix = vec![(Kind::Get, 50), (Kind::Put, 30), (Kind::GetAbsent, 20)];
        workload
    }

    fn operations(workload: &Workload, seed: u64, thread: u64) -> Vec<Operation> {
        let mut stream = workload.stream(seed, thread, 2);
        (0..1000).map(|_| stream.next_operation()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_operations() {
        for choice in [
            Choice::Sequential,
            Choice::Shuffled,
            Choice::Uniform,
            Choice::Zipf { alpha: 0.99, is_scattered: true },
        ] {
            let workload = Workload { choice, ..mixed() };
            assert_eq!(operations(&workload, 1, 0), operations(&workload, 1, 0));
            assert_ne!(operations(&workload, 1, 0), operations(&workload, 2, 0));
            assert_ne!(operations(&workload, 1, 0), operations(&workload, 1, 1));
        }
    }

    #[test]
    fn weights_hold_and_absent_keys_are_odd() {
        let operations = operations(&mixed(), 5, 0);
        let share = |kind| operations.iter().filter(|o| o.kind == kind).count();
        assert!((450..550).contains(&share(Kind::Get)), "{}", share(Kind::Get));
        assert!((250..350).contains(&share(Kind::Put)), "{}", share(Kind::Put));
        assert!(operations.iter().all(|o| (o.kind == Kind::GetAbsent) == (o.number % 2 == 1)));
    }

    #[test]
    fn inserts_are_new_and_the_latest_are_read_most() {
        let choice = Choice::Latest { alpha: 0.99 };
        let workload = Workload { mix: vec![(Kind::Get, 1), (Kind::Insert, 1)], choice, ..mixed() };
        let mut known: Vec<u64> = (0..1000).map(present).collect();
        let mut newest = 0;
        for Operation { kind, number } in operations(&workload, 3, 1) {
            match kind {
                Kind::Insert => {
                    assert!(!known.contains(&number) && number / 2 % 2 == 1);
                    known.push(number);
                }
                _ => {
                    assert!(known.contains(&number), "{number}");
                    newest += u64::from(known.iter().rev().take(10).any(|n| *n == number));
                }
            }
        }
        assert!(newest > 100, "{newest}");
    }

    #[test]
    fn scans_start_where_enough_entries_follow() {
        let workload = Workload::only(Kind::Scan, Choice::Uniform, 150);
        let mut stream = workload.stream(1, 0, 1);
        assert!((0..1000).all(|_| stream.next_operation().number < 2 * 50));
        let mix = vec![(Kind::Get, 1), (Kind::Scan, 1)];
        let mut stream = Workload { mix, ..workload }.stream(1, 0, 1);
        let operations: Vec<Operation> = (0..1000).map(|_| stream.next_operation()).collect();
        assert!(operations.iter().all(|o| o.kind == Kind::Get || o.number < 2 * 50));
        assert!(operations.iter().any(|o| o.number >= 2 * 50));
    }
}
