//! The eviction order of a shard: one of four orders behind one interface.

use std::fmt;

use crate::eviction::clock::Clock;
use crate::eviction::greedy_dual::GreedyDual;
use crate::eviction::lists::{Evicted, Key, Lists};
use crate::eviction::lru::{Inserted, Lru};
use crate::eviction::s3_fifo::S3Fifo;

/// The eviction order of blocks or objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Eviction {
    /// Least recently used first.
    #[default]
    Lru,
    /// `crate::eviction::clock`.
    Clock,
    /// `crate::eviction::s3_fifo`.
    S3Fifo,
    /// Lowest benefit per byte first: `crate::eviction::greedy_dual`.
    GreedyDual,
}

/// Entries in one of the orders. The methods are those of [`Lru`].
pub(crate) enum Ordered<K, V> {
    Lru(Lru<K, V>),
    Clock(Clock<K, V>),
    S3Fifo(Box<S3Fifo<K, V>>),
    GreedyDual(Box<GreedyDual<K, V>>),
}

/// Calls a method of the current order, with a separate expression for the last one if given.
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

    /// The overhead of an entry in this order, in bytes, besides its charge.
    pub(crate) const fn overhead_bytes(eviction: Eviction) -> usize {
        match eviction {
            Eviction::Lru => Lru::<K, V>::ENTRY_OVERHEAD_BYTES,
            Eviction::Clock => Lists::<K, V, 1>::OVERHEAD_BYTES,
            Eviction::S3Fifo => Lists::<K, V, 2>::OVERHEAD_BYTES,
            Eviction::GreedyDual => GreedyDual::<K, V>::OVERHEAD_BYTES,
        }
    }

    /// The memory of the order itself, in bytes: nodes, tables and the ghost, without the memory
    /// that values own.
    pub(crate) fn allocated_bytes(&self) -> usize {
        match self {
            Self::Lru(order) => order.entries.allocated_bytes(),
            Self::Clock(order) => order.entries.allocated_bytes(),
            Self::S3Fifo(order) => order.entries.allocated_bytes() + order.ghost_bytes(),
            Self::GreedyDual(order) => order.allocated_bytes(),
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

    /// Like [`Lru::get_lazily`]; in other orders, like [`Ordered::get`].
    #[inline]
    pub(crate) fn get_lazily(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        match self {
            Self::Lru(order) => order.get_lazily(hash, key),
            _ => self.get_of_others(hash, key),
        }
    }

    /// Separate, so that the code of the default order stays compact.
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

    pub(crate) fn scan(&self, first: usize, count: usize, mut see: impl FnMut(&K, &V)) {
        of_any!(
            self,
            order => order.entries.scan(first, count).for_each(|(key, value)| see(key, value)),
            order.scan(first, count).for_each(|(key, value)| see(key, value))
        );
    }

    /// The next entry to evict, if the order is LRU.
    pub(crate) fn oldest(&mut self) -> Option<(&K, &mut V)> {
        match self {
            Self::Lru(order) => order.oldest(),
            _ => None,
        }
    }

    /// Makes the next entry to evict the most recently used one, if the order is LRU.
    pub(crate) fn renew_oldest(&mut self) {
        if let Self::Lru(order) = self {
            order.renew_oldest();
        }
    }

    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V, charge: usize) -> Inserted<V> {
        self.insert_for(hash, key, value, charge, 1)
    }

    /// Like [`Ordered::insert`]; each access of the value saves `benefit`, for the order that uses
    /// it.
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

    pub(crate) fn set_capacity(&mut self, capacity: usize) -> Evicted<V> {
        of_any!(self, order => order.set_capacity(capacity))
    }

    /// See [`Lists::take_where`](crate::eviction::lists::Lists::take_where).
    pub(crate) fn take_where(
        &mut self,
        first: usize,
        count: usize,
        matches: impl Fn(&K, &V) -> bool,
    ) -> Evicted<V> {
        of_any!(
            self,
            order => order.entries.take_where(first, count, matches),
            order.take_where(first, count, matches)
        )
    }
}

impl<K: Key, V> fmt::Debug for Ordered<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.eviction(), self.capacity())
    }
}
