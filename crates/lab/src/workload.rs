//! What is done to a store: a mix of operations and a choice of keys. The same
//! seed gives the same operations, thread by thread.

use serde::{Deserialize, Serialize};

use crate::dice::Dice;
use crate::keys::{Choice, Picker, absent, present};

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Read one key.
    Get,
    /// Ask for a key that is not there.
    GetAbsent,
    /// Read [`Workload::keys_per_multi_get`] keys at once.
    MultiGet,
    /// Read [`Workload::scan_entries`] entries from a key on.
    Scan,
    /// Write one key.
    Put,
    /// Remove one key.
    Delete,
}

/// One operation, on the key with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What is done.
    pub kind: Kind,
    /// The number of the key.
    pub number: u64,
}

/// What is done to a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Kinds with their weights.
    pub mix: Vec<(Kind, u32)>,
    /// Which keys.
    pub choice: Choice,
    /// Entries of the store.
    pub entries: u64,
    /// Entries of a scan.
    pub scan_entries: u64,
    /// Keys of a `MultiGet`.
    pub keys_per_multi_get: usize,
}

impl Workload {
    /// Only operations of `kind`.
    pub fn only(kind: Kind, choice: Choice, entries: u64) -> Self {
        Self { mix: vec![(kind, 1)], choice, entries, scan_entries: 100, keys_per_multi_get: 100 }
    }

    /// The operations of one thread.
    pub fn stream(&self, seed: u64, thread: u64, threads: u64) -> Stream {
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
            dice: Dice::of_thread(seed, thread),
        }
    }
}

/// The operations of one thread, without end.
#[derive(Debug, Clone)]
pub struct Stream {
    mix: Vec<(Kind, u32)>,
    total: u64,
    /// Where scans may begin.
    scannable: u64,
    picker: Picker,
    dice: Dice,
}

impl Stream {
    /// The next operation.
    #[inline]
    pub fn next_operation(&mut self) -> Operation {
        let kind = self.kind();
        let index = self.picker.next(&mut self.dice);
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
        present(self.picker.next(&mut self.dice))
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
