//! A walk over entries, in both directions, that can start again.

use bytes::Bytes;
use tidekv::{Entry, Iter, NextWithin};

use crate::protocol::reply::CommandError;

/// An iterator over entries.
#[derive(Debug)]
pub(crate) enum Walk {
    /// Over the store.
    Store(Box<Iter>),
    /// Over entries in memory, of which those from `front` to `back` are left.
    List { entries: Vec<(Bytes, Entry)>, front: usize, back: usize },
}

impl Walk {
    /// A walk over the store.
    pub(crate) fn of(iter: Iter) -> Self {
        Self::Store(Box::new(iter))
    }

    /// A walk over `entries`.
    pub(crate) fn over(entries: Vec<(Bytes, Entry)>) -> Self {
        Self::List { front: 0, back: entries.len(), entries }
    }

    /// Starts again: the same entries follow.
    pub(crate) fn rewind(&mut self) {
        match self {
            Self::Store(iter) => iter.rewind(),
            Self::List { entries, front, back } => (*front, *back) = (0, entries.len()),
        }
    }

    /// The next entry in ascending order, if it is within `skips_left` deleted or expired ones.
    pub(crate) fn next_within(&mut self, skips_left: &mut u64) -> Result<NextWithin, CommandError> {
        if let Self::Store(iter) = self {
            return Ok(iter.next_within(skips_left)?);
        }
        Ok(match self.next().transpose()? {
            Some((key, entry)) => NextWithin::Entry(key, entry),
            None => NextWithin::End,
        })
    }
}

impl Iterator for Walk {
    type Item = Result<(Bytes, Entry), CommandError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Store(iter) => Some(iter.next()?.map_err(CommandError::from)),
            Self::List { front, back, .. } if front == back => None,
            Self::List { entries, front, .. } => {
                *front += 1;
                Some(Ok(entries[*front - 1].clone()))
            }
        }
    }
}

impl DoubleEndedIterator for Walk {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Self::Store(iter) => Some(iter.next_back()?.map_err(CommandError::from)),
            Self::List { front, back, .. } if front == back => None,
            Self::List { entries, back, .. } => {
                *back -= 1;
                Some(Ok(entries[*back].clone()))
            }
        }
    }
}
