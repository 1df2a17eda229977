//! Which of the entries of a shard leaves: one of four orders behind one face.

use std::fmt;

use crate::eviction::clock::Clock;
use crate::eviction::greedy_dual::GreedyDual;
use crate::eviction::lists::{Key, Removed};
use crate::eviction::lru::{Inserted, Lru};
use crate::eviction::s3_fifo::S3Fifo;

/// In which order blocks or objects leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Eviction {
    /// The least recently used one first.
    #[default]
    Lru,
    /// [`crate::eviction::clock`].
    Clock,
    /// [`crate::eviction::s3_fifo`].
    S3Fifo,
    /// What saves the least for each of its bytes first: [`crate::eviction::greedy_dual`].
    GreedyDual,
}

/// Entries in one of the orders. Methods are those of [`Lru`].
pub(crate) enum Ordered<K, V> {
    Lru(Lru<K, V>),
    Clock(Clock<K, V>),
    S3Fifo(Box<S3Fifo<K, V>>),
    GreedyDual(Box<GreedyDual<K, V>>),
}

/// Calls a method of whatever order it is, or of the last one another.
macro_rules! of_any {
    ($ordered:expr, $order:ident => $call:expr) => {
        of_any!($ordered, $order => $call, $call)
    };
    ($ordered:expr, $order:ident => $call:expr, $call_of_greedy_dual:expr) => {
        match $ordered {
            Ordered::Lru($order) => $call,
            Ordered::Clock($order) => $call,
            Ordered::S3Fifo($order) => $call,
            Ordered::GreedyDual($order) => $call_of_greedy_dual,
        }
    };
}

impl<K: Key, V> Ordered<K, V> {
    pub(crate) fn new(eviction: Eviction, capacity: usize) -> Self {
        match eviction {
            Eviction::Lru => Self::Lru(Lru::new(capacity)),
            Eviction::Clock => Self::Clock(Clock::new(capacity)),
            Eviction::S3Fifo => Self::S3Fifo(Box::new(S3Fifo::new(capacity))),
            Eviction::GreedyDual => Self::GreedyDual(Box::new(GreedyDual::new(capacity))),
        }
    }

    pub(crate) fn eviction(&self) -> Eviction {
        match self {
            Self::Lru(_) => Eviction::Lru,
            Self::Clock(_) => Eviction::Clock,
            Self::S3Fifo(_) => Eviction::S3Fifo,
            Self::GreedyDual(_) => Eviction::GreedyDual,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        of_any!(self, order => order.capacity())
    }

    pub(crate) fn charged(&self) -> usize {
        of_any!(self, order => order.charged())
    }

    pub(crate) fn len(&self) -> usize {
        of_any!(self, order => order.entries.len(), order.len())
    }

    pub(crate) fn nodes(&self) -> usize {
        of_any!(self, order => order.entries.nodes(), order.nodes())
    }

    #[inline]
    pub(crate) fn get(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        match self {
            Self::Lru(order) => order.get(hash, key),
            _ => self.get_of_others(hash, key),
        }
    }

    /// As [`Lru::get_lazily`]; in other orders, as [`Ordered::get`].
    #[inline]
    pub(crate) fn get_lazily(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        match self {
            Self::Lru(order) => order.get_lazily(hash, key),
            _ => self.get_of_others(hash, key),
        }
    }

    /// Apart, so that the usual order has its code to itself.
    #[inline(never)]
    fn get_of_others(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        of_any!(self, order => order.get(hash, key))
    }

    pub(crate) fn contains(&self, hash: u64, key: &K) -> bool {
        of_any!(self, order => order.entries.contains(hash, key), order.contains(hash, key))
    }

    pub(crate) fn peek(&self, hash: u64, key: &K) -> Option<&V> {
        of_any!(self, order => order.entries.peek(hash, key), order.peek(hash, key))
    }

    pub(crate) fn look_at(&self, first: usize, count: usize, mut see: impl FnMut(&K, &V)) {
        of_any!(
            self,
            order => order.entries.look_at(first, count).for_each(|(key, value)| see(key, value)),
            order.look_at(first, count).for_each(|(key, value)| see(key, value))
        );
    }

    /// The entry that leaves next, where that is the least recently used one.
    pub(crate) fn oldest(&mut self) -> Option<(&K, &mut V)> {
        match self {
            Self::Lru(order) => order.oldest(),
            _ => None,
        }
    }

    /// The entry that would leave next becomes the most recently used one, where there is
    /// such an order.
    pub(crate) fn renew_oldest(&mut self) {
        if let Self::Lru(order) = self {
            order.renew_oldest();
        }
    }

    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
        self.insert_for(hash, key, value, charge, 1)
    }

    /// As [`Ordered::insert`], of a value that spares so much when it is asked for: in the
    /// order that weighs that.
    pub(crate) fn insert_for(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        charge: usize,
        benefit: u32,
    ) -> Inserted<V> {
        of_any!(
            self,
            order => order.insert(hash, key, value, charge),
            order.insert_for(hash, key, value, charge, benefit)
        )
    }

    pub(crate) fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        of_any!(
            self,
            order => {
                let index = order.entries.find(hash, key)?;
                Some(order.entries.take(index))
            },
            order.remove(hash, key)
        )
    }

    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Removed<V> {
        of_any!(self, order => order.set_capacity(capacity))
    }

    /// As [`Lists::take_where`](crate::eviction::lists::Lists::take_where).
    pub(crate) fn take_where(
        &mut self,
        first: usize,
        count: usize,
        is_it: impl Fn(&K, &V) -> bool,
    ) -> Removed<V> {
        of_any!(
            self,
            order => order.entries.take_where(first, count, is_it),
            order.take_where(first, count, is_it)
        )
    }
}

impl<K: Key, V> fmt::Debug for Ordered<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.eviction(), self.capacity())
    }
}
