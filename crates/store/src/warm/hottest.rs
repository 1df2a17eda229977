//! Selects the most valuable items that fit into a given size.
//!
//! Candidates are considered once, in any order, and built only when they are selected: selecting a
//! small part of a large cache copies only that part.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The most valuable of the candidates. A candidate replaces only items of lower value; a candidate
/// that does not fit is skipped, and smaller ones of lower value may still be selected.
#[derive(Debug)]
pub(crate) struct Hottest<T> {
    /// Free bytes.
    room: usize,
    /// The least valuable on top.
    kept: BinaryHeap<Reverse<Ranked<T>>>,
}

#[derive(Debug)]
struct Ranked<T> {
    worth: f32,
    bytes: usize,
    it: T,
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.total_cmp(&other.worth)
    }
}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> Hottest<T> {
    /// With room for `room` bytes.
    pub(crate) fn new(room: usize) -> Self {
        Self { room, kept: BinaryHeap::new() }
    }

    /// Selects the result of `make`, of `bytes` bytes, if it is worth more than all items that it
    /// would replace; returns whether it was selected, and the replaced items.
    pub(crate) fn offer(
        &mut self,
        worth: f32,
        bytes: usize,
        make: impl FnOnce() -> T,
    ) -> (bool, Vec<T>) {
        let mut leaving: Vec<Ranked<T>> = Vec::new();
        let is_worth_more = |Reverse(least): &Reverse<Ranked<T>>| least.worth < worth;
        if self.room < bytes && !self.kept.peek().is_some_and(is_worth_more) {
            return (false, Vec::new());
        }
        while self.room < bytes {
            match self.kept.pop() {
                Some(Reverse(least)) if least.worth < worth => {
                    self.room += least.bytes;
                    leaving.push(least);
                }
                too_good => {
                    self.kept.extend(too_good);
                    for one in leaving {
                        self.room -= one.bytes;
                        self.kept.push(Reverse(one));
                    }
                    return (false, Vec::new());
                }
            }
        }
        self.room -= bytes;
        self.kept.push(Reverse(Ranked { worth, bytes, it: make() }));
        (true, leaving.into_iter().map(|one| one.it).collect())
    }

    /// The selected items, in any order, and the number of free bytes.
    pub(crate) fn finish(self) -> (Vec<T>, usize) {
        (self.kept.into_iter().map(|Reverse(one)| one.it).collect(), self.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(room: usize, offers: &[(f32, usize)]) -> (Vec<usize>, usize) {
        let mut hottest = Hottest::new(room);
        for (number, &(worth, bytes)) in offers.iter().enumerate() {
            hottest.offer(worth, bytes, || number);
        }
        let (mut kept, left) = hottest.finish();
        kept.sort_unstable();
        (kept, left)
    }

    #[test]
    fn most_valuable_items_are_kept() {
        assert_eq!(kept(30, &[(1.0, 10), (3.0, 10), (2.0, 10), (4.0, 10)]), (vec![1, 2, 3], 0));
        assert_eq!(kept(30, &[(1.0, 10), (3.0, 10), (2.0, 10), (0.5, 10)]), (vec![0, 1, 2], 0));
        // Two are replaced by one.
        assert_eq!(kept(30, &[(1.0, 10), (3.0, 10), (2.0, 10), (4.0, 15)]), (vec![1, 3], 5));
        // The earlier one stays.
        assert_eq!(kept(10, &[(1.0, 10), (1.0, 10)]), (vec![0], 0));
    }

    #[test]
    fn rejected_item_replaces_nothing() {
        let offers = [(1.0, 10), (5.0, 10), (2.0, 10), (4.0, 25), (4.0, 31), (9.0, 31)];
        assert_eq!(kept(30, &offers), (vec![0, 1, 2], 0));
        // A smaller one still fits.
        assert_eq!(kept(30, &[(9.0, 31), (1.0, 20), (0.5, 20), (0.1, 10)]), (vec![1, 3], 0));
    }

    #[test]
    fn replaced_items_are_returned_and_rejected_ones_are_not_built() {
        let mut hottest = Hottest::new(20);
        assert_eq!(hottest.offer(1.0, 10, || "a"), (true, vec![]));
        assert_eq!(hottest.offer(2.0, 10, || "b"), (true, vec![]));
        assert_eq!(hottest.offer(0.5, 10, || unreachable!("it is not selected")), (false, vec![]));
        assert_eq!(hottest.offer(3.0, 20, || "c"), (true, vec!["a", "b"]));
    }
}
