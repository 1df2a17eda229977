//! [`MemoryBudget`]: memory that the stores of a process share.
//!
//! Guarantees:
//! 1. The shares of all open stores add up to no more than the budget, apart from the least that each
//!    store needs ([`STORE_BYTES_MIN`]).
//! 2. A store that opens gets a share after the others have made room; a store that is gone leaves its
//!    share to them.
//! 3. A store that fills its share gets what others leave: each gets what it wants or as much as any
//!    other ([`divide`]).
//!
//! Relies on: a store says every few seconds what it wants ([`Share::review`]), and obeys when it is
//! told its share.
//!
//! All methods may be called from any thread. The lock of a budget comes before all locks of a store.

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock, Weak};

use tidekv_io::available_memory_bytes;

use crate::sync::Mutex;

/// The minimum that a store can work with.
pub(crate) const STORE_BYTES_MIN: u64 = 8 << 20;

/// The maximum of the default budget. A library must not take a part of a large machine unasked.
const DEFAULT_BYTES_MAX: u64 = 256 << 20;

/// The default budget is one part in this many of the memory that the process may use.
const DEFAULT_SHARE: u64 = 8;

/// A share is changed when it is off by more than one part in this many of the budget.
const CHANGE_SHARE: u64 = 32;

/// A budget in bytes of DRAM, which all stores that are opened with it share. Cheap to clone: the
/// clones are the same budget.
///
/// It is divided by use: a store that fills its share gets what the others leave free, and stores that
/// want more than there is get equal parts. A store gets at least 8 MiB, also where the budget has less
/// for each.
///
/// Stores that are opened without a budget of their own share [`MemoryBudget::of_process`].
///
/// ```
/// # let options = || {
/// #     let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// #     tidekv::Options::new().environment(tidekv::Environment::default().storage(disk))
/// # };
/// use tidekv::{Db, MemoryBudget};
///
/// let budget = MemoryBudget::new(64 << 20);
/// let users = Db::open("users", options().memory_budget(budget.clone()))?;
/// assert_eq!(users.memory_bytes(), 64 << 20);
/// let orders = Db::open("orders", options().memory_budget(budget.clone()))?;
/// assert_eq!(users.memory_bytes() + orders.memory_bytes(), budget.bytes());
///
/// drop(orders);
/// assert_eq!(users.memory_bytes(), 64 << 20);
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    state: Arc<Mutex<State>>,
}

/// A store that takes part in a budget.
pub(crate) trait Member: Send + Sync {
    /// The bytes that it would use if it had them; `u64::MAX`: all that it can get.
    fn wanted_bytes(&self) -> u64;

    /// Tells it its share.
    fn set_share(self: Arc<Self>, bytes: u64);
}

struct State {
    bytes: u64,
    members: Vec<Joined>,
    next_id: u64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

struct Joined {
    id: u64,
    /// None while its store is being opened.
    member: Option<Weak<dyn Member>>,
    /// The most that it may have.
    bytes_max: u64,
    share: u64,
}

/// Which budget a store takes part in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One of its own.
    Private,
    /// That of the process, because none was chosen.
    Default,
    /// One that was chosen, which others may share.
    Shared,
}

/// The part of a store in a budget; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    /// Replaced when a store leaves the budget of the process.
    membership: Mutex<Membership>,
}

#[derive(Debug, Clone)]
struct Membership {
    budget: MemoryBudget,
    id: u64,
    kind: Kind,
}

static OF_PROCESS: LazyLock<MemoryBudget> = LazyLock::new(|| {
    let bytes = MemoryBudget::available_bytes() / DEFAULT_SHARE;
    MemoryBudget::new(bytes.min(DEFAULT_BYTES_MAX))
});

impl MemoryBudget {
    /// A budget of `bytes` for the stores that are opened with it.
    pub fn new(bytes: u64) -> Self {
        let bytes = bytes.max(STORE_BYTES_MIN);
        Self { state: Arc::new(Mutex::new(State { bytes, members: Vec::new(), next_id: 0 })) }
    }

    /// The budget of all stores of this process that are opened without one: an eighth of the memory
    /// that the process may use, at most 256 MiB.
    pub fn of_process() -> Self {
        OF_PROCESS.clone()
    }

    /// The bytes of the budget.
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Changes the budget; less than 8 MiB is raised to 8 MiB. Caches shrink at once, memtables when
    /// they are flushed.
    pub fn set_bytes(&self, bytes: u64) {
        self.change(|state| state.bytes = bytes.max(STORE_BYTES_MIN), true);
    }

    /// The number of stores that share it.
    pub fn stores(&self) -> usize {
        self.state.lock().members.len()
    }

    /// The bytes of memory that this process may use: the minimum of the machine's memory and the
    /// limits of its control groups.
    pub fn available_bytes() -> u64 {
        available_memory_bytes()
    }

    /// Takes part in the budget with at most `bytes_max`, after the other stores have made room.
    fn join(&self, bytes_max: u64, kind: Kind, member: Option<Weak<dyn Member>>) -> Membership {
        let mut id = 0;
        let bytes_max = bytes_max.max(STORE_BYTES_MIN);
        self.change(
            |state| {
                id = state.next_id;
                state.next_id += 1;
                state.members.push(Joined { id, member, bytes_max, share: 0 });
            },
            true,
        );
        Membership { budget: self.clone(), id, kind }
    }

    /// Removes a store, and returns it.
    fn leave(&self, id: u64) -> Option<Weak<dyn Member>> {
        let mut gone = None;
        let leave = |state: &mut State| {
            if let Some(at) = state.members.iter().position(|it| it.id == id) {
                gone = state.members.swap_remove(at).member;
            }
        };
        self.change(leave, true);
        gone
    }

    /// Changes the state, and divides the budget again; small differences only if `precisely`.
    fn change(&self, change: impl FnOnce(&mut State), precisely: bool) {
        // Dropped after the lock: the last reference to a store leaves the budget.
        let mut held: Vec<Option<Arc<dyn Member>>> = Vec::new();
        let mut state = self.state.lock();
        change(&mut state);
        held.extend(state.members.iter().map(|it| it.member.as_ref().and_then(Weak::upgrade)));
        let wants: Vec<u64> = state
            .members
            .iter()
            .zip(&held)
            .map(|(it, member)| match member {
                Some(member) => member.wanted_bytes().min(it.bytes_max),
                None => it.bytes_max,
            })
            .collect();
        let shares = divide(state.bytes, &wants);
        let limits = state.members.iter().map(|it| it.bytes_max);
        let shares: Vec<u64> = shares.into_iter().zip(limits).map(|(a, b)| a.min(b)).collect();
        let is_off = |(it, &share): (&Joined, &u64)| {
            let differs = it.share.abs_diff(share);
            differs > if precisely { 0 } else { state.bytes / CHANGE_SHARE }
        };
        if !state.members.iter().zip(&shares).any(is_off) {
            return;
        }
        // Those that shrink go first.
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.sort_by_key(|&at| shares[at] > state.members[at].share);
        for at in order {
            state.members[at].share = shares[at];
            if let Some(member) = &held[at] {
                Arc::clone(member).set_share(shares[at]);
            }
        }
        drop(state);
    }
}

impl Share {
    /// A part of `budget`, at most `bytes_max`; or a budget of `bytes_max` of its own; or a part of the
    /// budget of the process.
    pub(crate) fn take(budget: Option<&MemoryBudget>, bytes_max: Option<u64>) -> Self {
        let membership = match (budget, bytes_max) {
            (Some(budget), bytes_max) => {
                budget.join(bytes_max.unwrap_or(u64::MAX), Kind::Shared, None)
            }
            (None, Some(bytes)) => MemoryBudget::new(bytes).join(u64::MAX, Kind::Private, None),
            (None, None) => MemoryBudget::of_process().join(u64::MAX, Kind::Default, None),
        };
        Self { membership: Mutex::new(membership) }
    }

    fn membership(&self) -> Membership {
        self.membership.lock().clone()
    }

    /// The bytes of this part.
    pub(crate) fn bytes(&self) -> u64 {
        let Membership { budget, id, .. } = self.membership();
        let state = budget.state.lock();
        state.members.iter().find(|it| it.id == id).map_or(STORE_BYTES_MIN, |it| it.share)
    }

    /// Tells the budget who takes the part, and `member` what it gets.
    pub(crate) fn belongs_to(&self, member: Weak<dyn Member>) {
        let Membership { budget, id, .. } = self.membership();
        let told = |state: &mut State| {
            if let Some(it) = state.members.iter_mut().find(|it| it.id == id) {
                // It may have changed meanwhile.
                (it.member, it.share) = (Some(member), 0);
            }
        };
        budget.change(told, true);
    }

    /// Whether other stores can take part.
    pub(crate) fn is_of_several(&self) -> bool {
        self.membership().kind != Kind::Private
    }

    /// Divides the budget again, if there are others and their wants have changed much.
    pub(crate) fn review(&self) {
        let Membership { budget, kind, .. } = self.membership();
        if kind != Kind::Private && budget.stores() > 1 {
            budget.change(|_| (), false);
        }
    }

    /// Changes the budget of the store: one of its own, into which a store moves that takes part in that
    /// of the process; or the most that it may have of one that was chosen.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        // Of two callers the second one sees what the first one chose.
        let mut membership = self.membership.lock();
        let Membership { budget, id, kind } = membership.clone();
        match kind {
            Kind::Private => budget.set_bytes(bytes),
            Kind::Default => {
                let member = budget.leave(id);
                *membership = MemoryBudget::new(bytes).join(u64::MAX, Kind::Private, member);
            }
            Kind::Shared => {
                let limit = |state: &mut State| {
                    if let Some(it) = state.members.iter_mut().find(|it| it.id == id) {
                        it.bytes_max = bytes.max(STORE_BYTES_MIN);
                    }
                };
                budget.change(limit, true);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Membership { budget, id, .. } = self.membership();
        budget.leave(id);
    }
}

/// Divides `total` bytes among stores with these wants. Each gets what it wants, or as much as any
/// other (max-min fairness, Bertsekas and Gallager, Data Networks, 6.5.2); what nobody wants is divided
/// equally, so that nobody waits for memory that is free. Nobody gets less than [`STORE_BYTES_MIN`].
fn divide(total: u64, wants: &[u64]) -> Vec<u64> {
    let mut shares: Vec<u64> = vec![0; wants.len()];
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|&at| wants[at]);
    let mut left = total;
    for (done, &at) in order.iter().enumerate() {
        let fair = left / (wants.len() - done) as u64;
        shares[at] = wants[at].min(fair).max(STORE_BYTES_MIN);
        left = left.saturating_sub(shares[at]);
    }
    let more = left / wants.len().max(1) as u64;
    shares.iter_mut().for_each(|share| *share += more);
    shares
}
