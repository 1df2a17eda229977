//! Of many things those that are worth most, as far as there is room for them.
//!
//! What is offered is looked at once, in any order, and made only when it is taken: of a
//! large cache of which little is kept little is copied.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Those worth most of what was offered. Nobody leaves for what is worth as much; what does
/// not fit is passed over, and smaller ones that are worth less may still come in.
#[derive(Debug)]
pub(crate) struct Hottest<T> {
    /// Bytes that are free.
    room: usize,
    /// The one worth least on top.
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
    /// For so many bytes.
    pub(crate) fn new(room: usize) -> Self {
        Self { room, kept: BinaryHeap::new() }
    }

    /// Takes in what `make` makes, of so many bytes, if it is worth more than all that would
    /// have to leave; whether it is in, and what has left.
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

    /// What was taken in, in any order, and the bytes that are free.
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
    fn what_is_worth_most_is_kept() {
        assert_eq!(kept(30, &[(1.0, 10), (3.0, 10), (2.0, 10), (4.0, 10)]), (vec![1, 2, 3], 0));
        assert_eq!(kept(30, &[(1.0, 10), (3.0, 10), (2.0, 10), (0.5, 10)]), (vec![0, 1, 2], 0));
        // Two have to leave for one.
        assert_eq!(kept(30, &[(1.0, 10), (3.0, 10), (2.0, 10), (4.0, 15)]), (vec![1, 3], 5));
        // Who came first stays.
        assert_eq!(kept(10, &[(1.0, 10), (1.0, 10)]), (vec![0], 0));
    }

    #[test]
    fn nothing_leaves_for_what_does_not_come_in() {
        let offers = [(1.0, 10), (5.0, 10), (2.0, 10), (4.0, 25), (4.0, 31), (9.0, 31)];
        assert_eq!(kept(30, &offers), (vec![0, 1, 2], 0));
        // What is smaller fits still.
        assert_eq!(kept(30, &[(9.0, 31), (1.0, 20), (0.5, 20), (0.1, 10)]), (vec![1, 3], 0));
    }

    #[test]
    fn what_leaves_is_handed_out_and_nothing_is_made_in_vain() {
        let mut hottest = Hottest::new(20);
        assert_eq!(hottest.offer(1.0, 10, || "a"), (true, vec![]));
        assert_eq!(hottest.offer(2.0, 10, || "b"), (true, vec![]));
        assert_eq!(hottest.offer(0.5, 10, || unreachable!("it does not come in")), (false, vec![]));
        assert_eq!(hottest.offer(3.0, 20, || "c"), (true, vec!["a", "b"]));
    }
}
