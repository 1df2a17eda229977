//! Merges sorted cursors into one, in internal order.
//!
//! Guarantees: every entry of every child is returned once, in order, in either direction, and the
//! direction may change at any entry. Relies on: no two children have an entry with the same user
//! key and trailer.
//!
//! A binary heap of child numbers keeps the next entry on top. Runs from one child, the usual case,
//! cost one or two comparisons per entry.

use bytes::Bytes;

use crate::error::{ErrorKind, Result};
use crate::format::entry_location::EntryLocation;
use crate::format::key::{Trailer, compare};
use crate::sst::blocks::{Blocks, Purpose};
use crate::sst::cursor::{Cursor, Target};

/// A child of a merge.
pub(crate) type Child = Box<dyn Cursor + Send>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The merge of its children.
pub(crate) struct MergingCursor {
    children: Vec<Child>,
    /// Numbers of the valid children; the one whose entry comes next is first.
    heap: Vec<usize>,
    direction: Direction,
}

impl MergingCursor {
    pub(crate) fn new(children: Vec<Child>) -> Self {
        let heap = Vec::with_capacity(children.len());
        Self { children, heap, direction: Direction::Forward }
    }

    /// Reads the blocks that a seek to `target` needs, those of all children in one batch: one
    /// round for index blocks, one for data blocks. A damaged block after the first one of a child
    /// is reported by the move that needs it.
    pub(crate) fn prefetch(&mut self, target: Target<'_>, blocks: &Blocks) -> Result<()> {
        loop {
            let (mut askers, mut wanted) = (Vec::new(), Vec::new());
            for (number, child) in self.children.iter_mut().enumerate() {
                let run = child.want(target);
                askers.extend(std::iter::repeat_n(number, run.len()));
                wanted.extend(run);
            }
            // Blocks of only one child need no batch: its seek will read them.
            if askers.first() == askers.last() {
                return Ok(());
            }
            let firsts: Vec<bool> =
                (0..askers.len()).map(|at| at == 0 || askers[at - 1] != askers[at]).collect();
            let purpose = |at: usize| if firsts[at] { Purpose::Seek } else { Purpose::Any };
            let blocks = blocks.try_read_many_as(&wanted, purpose);
            let mut is_whole = true;
            let read = firsts.into_iter().zip(blocks);
            for (asker, (is_first, block)) in askers.into_iter().zip(read) {
                match block {
                    Ok(block) => self.children[asker].supply(block),
                    Err(error) if !is_first && error.kind() == ErrorKind::Corrupt => {
                        is_whole = false;
                    }
                    Err(error) => return Err(error),
                }
            }
            if !is_whole {
                return Ok(());
            }
        }
    }

    fn goes_first(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.children[a], &self.children[b]);
        let order = compare((a.user_key(), a.trailer()), (b.user_key(), b.trailer()));
        match self.direction {
            Direction::Forward => order.is_lt(),
            Direction::Backward => order.is_gt(),
        }
    }

    fn rebuild(&mut self, direction: Direction) {
        self.direction = direction;
        self.heap.clear();
        self.heap.extend((0..self.children.len()).filter(|&i| self.children[i].valid()));
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut first = at;
            for below in [2 * at + 1, 2 * at + 2] {
                if below < self.heap.len() && self.goes_first(self.heap[below], self.heap[first]) {
                    first = below;
                }
            }
            if first == at {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }

    /// Restores the heap after the child on top has moved.
    fn settle_top(&mut self) {
        if !self.children[self.heap[0]].valid() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
    }

    fn top(&self) -> &Child {
        &self.children[self.heap[0]]
    }

    /// Moves every child but the top one to the other side of the current entry.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let top = self.heap[0];
        let key = self.children[top].user_key().to_vec();
        let trailer = self.children[top].trailer();
        let target = match direction {
            Direction::Forward => Target::AtOrAfter(&key, trailer),
            Direction::Backward => Target::Before(&key, trailer),
        };
        for (number, child) in self.children.iter_mut().enumerate() {
            if number != top {
                child.seek(target)?;
            }
        }
        self.rebuild(direction);
        // The top child is still at the current entry, which stays first.
        debug_assert_eq!(self.heap[0], top);
        Ok(())
    }
}

impl Cursor for MergingCursor {
    fn seek(&mut self, target: Target<'_>) -> Result<()> {
        self.heap.clear();
        for child in &mut self.children {
            child.seek(target)?;
        }
        self.rebuild(match target {
            Target::First | Target::AtOrAfter(..) => Direction::Forward,
            Target::Last | Target::Before(..) => Direction::Backward,
        });
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            self.turn(Direction::Forward)?;
        }
        self.children[self.heap[0]].next().inspect_err(|_| self.heap.clear())?;
        self.settle_top();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.turn(Direction::Backward)?;
        }
        self.children[self.heap[0]].prev().inspect_err(|_| self.heap.clear())?;
        self.settle_top();
        Ok(())
    }

    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn user_key(&self) -> &[u8] {
        self.top().user_key()
    }

    fn trailer(&self) -> Trailer {
        self.top().trailer()
    }

    fn value(&self) -> &[u8] {
        self.top().value()
    }

    fn value_bytes(&self) -> Bytes {
        self.top().value_bytes()
    }

    fn location(&self) -> Option<EntryLocation> {
        self.top().location()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::key::Kind;
    use crate::memtable::sorted_list::Splice;
    use crate::memtable::{Memtable, MemtableCursor};
    use std::sync::Arc;

    #[test]
    fn walks_like_one_sorted_list_in_any_direction() {
        let tables: Vec<_> = (0..4).map(|_| Arc::new(Memtable::new(1 << 12, 0))).collect();
        let mut all = Vec::new();
        let mut x = 12345u64;
        for sequence in 1..200u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (table, key) = ((x >> 60) as usize % 4, [(x >> 33) as u8 % 40]);
            let trailer = Trailer::new(sequence, Kind::Value);
            tables[table].insert(&key, trailer, &sequence.to_le_bytes(), 1, &mut Splice::default());
            all.push((key, trailer));
        }
        all.sort_by(|a, b| compare((&a.0, a.1), (&b.0, b.1)));
        let children =
            tables.iter().map(|t| Box::new(MemtableCursor::new(Arc::clone(t))) as Child).collect();
        let mut cursor = MergingCursor::new(children);
        cursor.seek(Target::First).unwrap();
        for entry in &all {
            assert_eq!((cursor.user_key(), cursor.trailer()), (&entry.0[..], entry.1));
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        // Walks with many changes of direction.
        cursor.seek(Target::AtOrAfter(&[20], Trailer::seek(1000))).unwrap();
        let mut at = all.partition_point(|e| e.0 < [20]);
        for step in 0..2000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            if x >> 62 == 0 && at > 0 {
                cursor.prev().unwrap();
                at -= 1;
            } else if at + 1 < all.len() {
                cursor.next().unwrap();
                at += 1;
            } else {
                cursor.seek(Target::Before(&all[5].0, all[5].1)).unwrap();
                at = 4;
            }
            assert_eq!((cursor.user_key(), cursor.trailer()), (&all[at].0[..], all[at].1));
        }
    }
}
