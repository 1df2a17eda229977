//! Every request seen: the exact reuse distances of a trace, and its miss-ratio curve.
//!
//! | request | what it counts as | what it does to the stack |
//! |---|---|---|
//! | get | a request: its distance, or a miss of every cache | what is there comes to the top |
//! | load | the same | comes to the top, there or not; where its size is not known it keeps that it has |
//! | set | nothing | comes to the top with its size of now |
//! | delete, expiry | nothing | goes, and leaves a hole ([`crate::curves::stack`]) |
//!
//! A get that a cache of some size misses is thought to be followed by a set of the same object at
//! once (ElCached §3): so one walk over the trace is right for all sizes.
//!
//! Guarantees: with objects of one size, and [`Expiry::AtOnce`] or no times to live, the curve is what
//! caches of each size miss that evict the least recently used; `tests` hold it against such caches.
//! Memory is some 60 bytes for each object that is there.
//!
//! Pure; one thread's.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;

use hashbrown::HashMap;

use crate::curves::access::{Access, Action, BYTES_MAX};
use crate::curves::curve::Curve;
use crate::curves::distances::{Distances, Lack};
use crate::curves::stack::{Found, LastAccess, Stack};

/// In what a cache is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// As many objects as it has room for: slots of one size, such as those of a slab class.
    Objects,
    /// The bytes that its objects take.
    #[default]
    Bytes,
}

/// What becomes of an object when its time to live is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expiry {
    /// It lives on, as if it had none.
    Ignored,
    /// It takes no room from then on.
    #[default]
    AtOnce,
    /// It takes room until it is asked for, which misses it, or until it is evicted.
    WhenAsked,
}

/// How a trace is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// In what a cache is measured.
    pub unit: Unit,
    /// What times to live do.
    pub expiry: Expiry,
}

/// What a request has been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No request that can be a hit or a miss.
    Nothing,
    /// Caches answer it that have the object where it has been.
    Reuse(Found),
    /// No cache does.
    Miss,
}

impl Seen {
    /// The access before of this object, where it is known.
    pub(crate) fn before(self) -> Option<LastAccess> {
        match self {
            Self::Reuse(place) => Some(place.last),
            Self::Nothing | Self::Miss => None,
        }
    }
}

/// The objects of a trace in the order of their use.
#[derive(Debug, Default)]
pub(crate) struct Order {
    settings: Settings,
    stack: Stack,
    /// When objects expire, those that do.
    deadlines: HashMap<u64, u64>,
    /// The same, the soonest first; with some that count no more.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    now_ms: u64,
}

impl Order {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.stack.len()
    }

    /// Whether there is an object.
    pub(crate) fn has(&self, key: u64) -> bool {
        self.stack.bytes_of(key).is_some()
    }

    /// The last access of each object, by the numbers of [`Self::see_numbered`].
    pub(crate) fn last_accesses(&self) -> impl Iterator<Item = LastAccess> + Clone {
        self.stack.last_accesses()
    }

    /// Takes a request in whose number nobody will ask for.
    pub(crate) fn see(&mut self, access: &Access) -> Seen {
        self.see_numbered(access, NonZeroU64::MIN)
    }

    /// Takes a request in, and remembers its number with its object.
    #[inline]
    pub(crate) fn see_numbered(&mut self, access: &Access, number: NonZeroU64) -> Seen {
        self.advance(access.at_ms);
        let key = access.key;
        match access.action {
            Action::Get => {
                let seen = self.ask(key);
                if let Some(bytes) = self.stack.bytes_of(key) {
                    self.stack.push(key, bytes, number);
                }
                seen
            }
            Action::Load(_) | Action::LoadUnsized => {
                let seen = self.ask(key);
                let bytes = match access.action {
                    Action::Load(bytes) => self.size(bytes),
                    _ => self.stack.bytes_of(key).unwrap_or_else(|| self.size(0)),
                };
                self.stack.push(key, bytes, number);
                if seen == Seen::Miss {
                    self.set_deadline(key, access.ttl_ms);
                }
                seen
            }
            Action::Set(bytes) => {
                self.stack.push(key, self.size(bytes), number);
                self.set_deadline(key, access.ttl_ms);
                Seen::Nothing
            }
            Action::Delete => {
                self.forget(key);
                Seen::Nothing
            }
        }
    }

    /// Takes an object out, as if it had never been there but for its hole.
    pub(crate) fn forget(&mut self, key: u64) {
        self.stack.remove(key);
        self.deadlines.remove(&key);
    }

    /// Takes an object out as if there had never been any request for it.
    pub(crate) fn drop_out(&mut self, key: u64) {
        self.stack.drop_out(key);
        self.deadlines.remove(&key);
    }

    /// Takes out, as if there had never been any request for it, whatever caches of so many bytes do
    /// not have.
    pub(crate) fn cut_off(&mut self, bytes: u64) {
        while let Some(key) = self.stack.below(bytes) {
            self.drop_out(key);
        }
    }

    /// The mean size of an object.
    pub(crate) fn mean_bytes(&self) -> Option<f64> {
        self.stack.mean_bytes()
    }

    /// Time has gone on to there.
    #[inline]
    pub(crate) fn advance(&mut self, at_ms: u64) {
        self.now_ms = self.now_ms.max(at_ms);
        if self.settings.expiry == Expiry::AtOnce {
            self.expire();
        }
    }

    fn size(&self, bytes: u64) -> u64 {
        match self.settings.unit {
            Unit::Objects => 1,
            Unit::Bytes => bytes.min(BYTES_MAX),
        }
    }

    /// What a request for `key` is.
    #[inline]
    fn ask(&mut self, key: u64) -> Seen {
        if !self.deadlines.is_empty() {
            self.forget_if_over(key);
        }
        self.stack.find(key).map_or(Seen::Miss, Seen::Reuse)
    }

    fn forget_if_over(&mut self, key: u64) {
        let is_over = self.deadlines.get(&key).is_some_and(|deadline| *deadline <= self.now_ms);
        if is_over && self.settings.expiry != Expiry::Ignored {
            self.forget(key);
        }
    }

    fn set_deadline(&mut self, key: u64, ttl_ms: Option<u64>) {
        let Some(ttl_ms) = ttl_ms.filter(|_| self.settings.expiry != Expiry::Ignored) else {
            self.deadlines.remove(&key);
            return;
        };
        let deadline = self.now_ms.saturating_add(ttl_ms);
        self.deadlines.insert(key, deadline);
        if self.settings.expiry == Expiry::AtOnce {
            self.due.push(Reverse((deadline, key)));
            self.tidy();
        }
    }

    /// Forgets what counts no more, where that is most of it.
    fn tidy(&mut self) {
        if self.due.len() > 2 * self.deadlines.len() + 64 {
            let deadlines = &self.deadlines;
            self.due.retain(|Reverse((deadline, key))| deadlines.get(key) == Some(deadline));
        }
    }

    fn expire(&mut self) {
        while let Some(Reverse((deadline, key))) = self.due.peek().copied()
            && deadline <= self.now_ms
        {
            self.due.pop();
            if self.deadlines.get(&key) == Some(&deadline) {
                self.forget(key);
            }
        }
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let due = self.due.capacity() * size_of::<Reverse<(u64, u64)>>();
        self.stack.memory_bytes() + self.deadlines.allocation_size() + due
    }
}

/// A profile of all requests.
#[derive(Debug, Default)]
pub struct Profiler {
    order: Order,
    distances: Distances,
}

impl Profiler {
    /// One that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        Self { order: Order::new(settings), ..Self::default() }
    }

    /// Takes a request in.
    pub fn see(&mut self, access: &Access) {
        match self.order.see(access) {
            Seen::Nothing => {}
            Seen::Reuse(place) => self.distances.reuse(place.depth, access.action.asked_bytes()),
            Seen::Miss => self.distances.miss(access.action.asked_bytes()),
        }
    }

    /// What caches miss of the requests so far.
    pub fn curve(&self) -> Curve {
        self.distances.curve(0.0)
    }

    /// The share of the bytes asked for that is missed, by the size of the cache, which is in the unit of the profile. `None`
    /// where a request did not say how many it asks for.
    pub fn byte_curve(&self) -> Option<Curve> {
        self.distances.byte_curve(Lack::default())
    }

    /// How many objects there are.
    pub fn objects(&self) -> usize {
        self.order.len()
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.order.memory_bytes() + self.distances.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
