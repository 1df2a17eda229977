//! Exact reuse distances of a trace, from all requests, and its miss-ratio curve.
//!
//! | request | counts as | effect on the stack |
//! |---|---|---|
//! | get | a request: its distance, or a miss of every cache | a present object moves to the top |
//! | load | the same | moves to the top, present or not; an unknown size is unchanged |
//! | set | nothing | moves to the top with its new size |
//! | delete, expiry | nothing | is removed, and leaves a hole ([`crate::curves::stack`]) |
//!
//! A get that misses in a cache of some size is assumed to be followed at once by a set of the same
//! object (ElCached §3): so one pass over the trace is right for all sizes.
//!
//! Guarantees: with objects of one size, and [`Expiry::AtOnce`] or no times to live, the curve
//! equals the miss ratios of LRU caches of each size; `tests` compare it with such caches. Memory
//! is about 60 bytes for each live object.
//!
//! Pure; one thread's.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;

use hashbrown::HashMap;

use crate::curves::access::{Access, Action, BYTES_MAX};
use crate::curves::curve::Curve;
use crate::curves::distances::{Deficit, Distances};
use crate::curves::stack::{Found, LastAccess, Stack};

/// The unit of cache sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Objects: slots of one size, such as those of a slab class.
    Objects,
    /// Bytes of objects.
    #[default]
    Bytes,
}

/// The treatment of expired objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expiry {
    /// Times to live are ignored.
    Ignored,
    /// It takes no room from then on.
    #[default]
    AtOnce,
    /// It takes room until the next access, which misses, or until it is evicted.
    OnAccess,
}

/// The settings of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// The unit of cache sizes.
    pub unit: Unit,
    /// The treatment of times to live.
    pub expiry: Expiry,
}

/// The classification of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// Not a hit or a miss.
    Nothing,
    /// A hit in caches that have the object at this position.
    Reuse(Found),
    /// A miss in every cache.
    Miss,
}

impl RequestClass {
    /// The previous access of this object, if known.
    pub(crate) fn before(self) -> Option<LastAccess> {
        match self {
            Self::Reuse(place) => Some(place.last),
            Self::Nothing | Self::Miss => None,
        }
    }
}

/// The objects of a trace in the order of their last use.
#[derive(Debug, Default)]
pub(crate) struct Order {
    settings: Settings,
    stack: Stack,
    /// The expiry times of objects, if any.
    deadlines: HashMap<u64, u64>,
    /// The same, the soonest first; including stale ones.
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

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        self.stack.len()
    }

    /// Whether an object is present.
    pub(crate) fn has(&self, key: u64) -> bool {
        self.stack.bytes_of(key).is_some()
    }

    /// The last access of each object, by the numbers of [`Self::record_numbered`].
    pub(crate) fn last_accesses(&self) -> impl Iterator<Item = LastAccess> + Clone {
        self.stack.last_accesses()
    }

    /// Records a request without a number.
    pub(crate) fn record(&mut self, access: &Access) -> RequestClass {
        self.record_numbered(access, NonZeroU64::MIN)
    }

    /// Records a request, and stores its number with its object.
    #[inline]
    pub(crate) fn record_numbered(&mut self, access: &Access, number: NonZeroU64) -> RequestClass {
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
            Action::Load(bytes) | Action::LoadUnsized(bytes) => {
                let seen = self.ask(key);
                let is_known = matches!(access.action, Action::Load(_));
                let before = if is_known { None } else { self.stack.bytes_of(key) };
                let bytes = before.unwrap_or_else(|| self.size(bytes));
                self.stack.push(key, bytes, number);
                if seen == RequestClass::Miss {
                    self.set_deadline(key, access.ttl_ms);
                }
                seen
            }
            Action::Set(bytes) => {
                self.stack.push(key, self.size(bytes), number);
                self.set_deadline(key, access.ttl_ms);
                RequestClass::Nothing
            }
            Action::Delete => {
                self.forget(key);
                RequestClass::Nothing
            }
            Action::Expire => {
                self.forget_if_over(key);
                if self.has(key) {
                    self.set_deadline(key, access.ttl_ms);
                }
                RequestClass::Nothing
            }
        }
    }

    /// Removes an object and leaves its hole.
    pub(crate) fn forget(&mut self, key: u64) {
        self.stack.remove(key);
        self.deadlines.remove(&key);
    }

    /// Removes an object as if it had never been requested.
    pub(crate) fn drop_out(&mut self, key: u64) {
        self.stack.drop_out(key);
        self.deadlines.remove(&key);
    }

    /// Removes all objects that caches of `bytes` bytes do not have, as if they had never been
    /// requested.
    pub(crate) fn truncate(&mut self, bytes: u64) {
        while let Some(key) = self.stack.below(bytes) {
            self.drop_out(key);
        }
    }

    /// The mean size of an object.
    pub(crate) fn mean_bytes(&self) -> Option<f64> {
        self.stack.mean_bytes()
    }

    /// Advances the time.
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

    /// Classifies a request for `key`.
    #[inline]
    fn ask(&mut self, key: u64) -> RequestClass {
        if !self.deadlines.is_empty() {
            self.forget_if_over(key);
        }
        self.stack.find(key).map_or(RequestClass::Miss, RequestClass::Reuse)
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

    /// Drops stale deadlines, if they are the majority.
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

/// An exact profile of all requests.
#[derive(Debug, Default)]
pub struct Profiler {
    order: Order,
    distances: Distances,
}

impl Profiler {
    /// An empty profile.
    pub fn new(settings: Settings) -> Self {
        Self { order: Order::new(settings), ..Self::default() }
    }

    /// Records a request.
    pub fn record(&mut self, access: &Access) {
        match self.order.record(access) {
            RequestClass::Nothing => {}
            RequestClass::Reuse(place) => {
                self.distances.reuse(place.depth, access.requested_bytes())
            }
            RequestClass::Miss => self.distances.miss(access.requested_bytes()),
        }
    }

    /// The miss-ratio curve of the requests so far.
    pub fn curve(&self) -> Curve {
        self.distances.curve(0.0)
    }

    /// The byte miss ratio by cache size, in the unit of the profile. `None` if the size of some
    /// request is unknown.
    pub fn byte_curve(&self) -> Option<Curve> {
        self.distances.byte_curve(Deficit::default())
    }

    /// The number of live objects.
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
