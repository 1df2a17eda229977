//! The memory that requests and replies of all connections may use together.
//!
//! A connection holds a [`Reservation`] for the bytes that it buffers beyond the budget's free
//! bytes per connection.
//!
//! Guarantees:
//! 1. The sum of all reservations never exceeds the budget; dropping a reservation releases it.
//! 2. Reservations that must wait are granted in the order of arrival, and fail after
//!    ten seconds: two clients, each halfway through a value for which the other leaves no room,
//!    would otherwise wait for each other forever.
//! 3. The observer ([`Budget::observed_by`]) learns of growth before the memory is used, in steps.
//!    So an owner that shares the memory with the connections can make room first.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Bytes that each connection may buffer without a reservation, unless the budget is made
/// [with others](Budget::with_free_bytes).
pub const FREE_BYTES: usize = 64 << 10;

/// The time to wait for other connections to release memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// The observer learns of changes in steps of one part in this many of the budget, so that most
/// reservations do not concern it.
const STEPS: usize = 32;

type Observer = dyn Fn(usize) + Send + Sync;

/// The shared budget.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    free_bytes: usize,
    state: Mutex<State>,
    observer: Option<Box<Observer>>,
    /// Held while the observer is called, so that the later of two changes arrives later.
    observing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    bytes_max: usize,
    used_bytes: usize,
    waiting: VecDeque<Waiting>,
    next_ticket: u64,
    /// The bytes that the observer knows of.
    observed_bytes: usize,
}

/// A reservation that waits for `bytes` more.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    bytes: usize,
    granted: oneshot::Sender<()>,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("state", &self.shared.state).finish_non_exhaustive()
    }
}

impl State {
    /// What the observer must learn: the reserved bytes, rounded up to a step. They grow at once, and
    /// shrink a step late: connections around a step do not move them back and forth.
    fn news(&self) -> Option<usize> {
        let step = (self.bytes_max / STEPS).max(1);
        let bytes = self.used_bytes.next_multiple_of(step);
        let is_known = bytes <= self.observed_bytes && bytes + step >= self.observed_bytes;
        (!is_known).then_some(bytes)
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.used_bytes.saturating_add(bytes) <= self.bytes_max
    }

    /// Grants memory to waiting reservations, in order, while there is room.
    fn grant(&mut self) {
        while let Some(first) = self.waiting.front()
            && self.has_room_for(first.bytes)
            && let Some(first) = self.waiting.pop_front()
        {
            // The connection may have ended meanwhile.
            if first.granted.send(()).is_ok() {
                self.used_bytes += first.bytes;
            }
        }
    }
}

impl Budget {
    /// A budget of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self::with_free_bytes(bytes_max, FREE_BYTES)
    }

    /// A budget of `bytes_max` bytes, of which the first `free_bytes` of each connection do not
    /// count.
    pub fn with_free_bytes(bytes_max: usize, free_bytes: usize) -> Self {
        let state = Mutex::new(State { bytes_max, ..State::default() });
        Self {
            shared: Arc::new(Shared {
                free_bytes,
                state,
                observer: None,
                observing: Mutex::new(()),
            }),
        }
    }

    /// Calls `observer` with the reserved bytes, rounded up to a step, whenever they change by
    /// about a step: before a reservation is granted, and after one is released. Must be called
    /// before the budget is shared; otherwise there is no observer.
    #[must_use]
    pub fn observed_by(mut self, observer: impl Fn(usize) + Send + Sync + 'static) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.observer = Some(Box::new(observer));
        }
        self
    }

    /// An empty reservation.
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), held_bytes: 0 }
    }

    /// The maximum.
    pub fn bytes_max(&self) -> usize {
        self.shared.state.lock().bytes_max
    }

    /// Changes the maximum. Reservations beyond it remain until they are released.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        let mut state = self.shared.state.lock();
        state.bytes_max = bytes_max;
        state.grant();
        drop(state);
        self.observe();
    }

    /// Bytes reserved by all connections.
    pub fn used_bytes(&self) -> usize {
        self.shared.state.lock().used_bytes
    }

    /// Whether `bytes` could be reserved at once.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let state = self.shared.state.lock();
        state.waiting.is_empty() && state.has_room_for(bytes)
    }

    /// Whether a connection waits for memory.
    pub fn is_exhausted(&self) -> bool {
        !self.shared.state.lock().waiting.is_empty()
    }

    fn try_acquire(&self, bytes: usize) -> bool {
        let mut state = self.shared.state.lock();
        let has_room = state.waiting.is_empty() && state.has_room_for(bytes);
        if has_room {
            state.used_bytes += bytes;
            drop(state);
            self.observe();
        }
        has_room
    }

    async fn acquire(&self, bytes: usize) -> bool {
        if self.try_acquire(bytes) {
            return true;
        }
        let (ticket, granted) = {
            let mut state = self.shared.state.lock();
            if bytes > state.bytes_max {
                return false;
            }
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back(Waiting { ticket, bytes, granted: sender });
            // Something may have been released since the attempt.
            state.grant();
            (ticket, receiver)
        };
        // If this future is dropped, the reservation is not granted, or given back.
        let mut waiter = Waiter { budget: self, ticket, bytes, granted };
        let is_granted = timeout(PATIENCE, &mut waiter.granted).await.is_ok();
        let is_granted = is_granted || waiter.granted.try_recv().is_ok();
        if is_granted {
            waiter.bytes = 0;
            self.observe();
        }
        is_granted
    }

    fn release(&self, bytes: usize) {
        if bytes > 0 {
            let mut state = self.shared.state.lock();
            state.used_bytes -= bytes;
            state.grant();
            drop(state);
            self.observe();
        }
    }

    /// Tells the observer if the use has changed by a step.
    fn observe(&self) {
        let Some(observer) = &self.shared.observer else { return };
        // Without the second lock, which most calls do not need.
        if self.shared.state.lock().news().is_none() {
            return;
        }
        let _observing = self.shared.observing.lock();
        let news = {
            let mut state = self.shared.state.lock();
            let news = state.news();
            state.observed_bytes = news.unwrap_or(state.observed_bytes);
            news
        };
        if let Some(bytes) = news {
            observer(bytes);
        }
    }
}

/// Withdraws a waiting reservation when it is dropped.
struct Waiter<'a> {
    budget: &'a Budget,
    ticket: u64,
    /// 0: it is granted, and belongs to the caller.
    bytes: usize,
    granted: oneshot::Receiver<()>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.budget.shared.state.lock();
        let waiting = state.waiting.iter().position(|waiting| waiting.ticket == self.ticket);
        match waiting {
            Some(at) => drop(state.waiting.remove(at)),
            // It was granted before it could be withdrawn. (Not if it was granted and received:
            // `bytes` is 0 then.)
            None => state.used_bytes -= self.bytes,
        }
        state.grant();
        drop(state);
        self.budget.observe();
    }
}

/// The part of the budget that one connection holds.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    held_bytes: usize,
}

impl Reservation {
    /// Grows the reservation to `bytes`, less the free bytes. Returns false if the budget has no
    /// room in time, or if `bytes` exceed the whole budget. Cancellation leaves it unchanged.
    pub async fn grow_to(&mut self, bytes: usize) -> bool {
        let wanted = self.counted(bytes);
        if wanted > self.held_bytes {
            // A connection that holds a part already would wait for itself beyond this.
            if wanted > self.budget.bytes_max()
                || !self.budget.acquire(wanted - self.held_bytes).await
            {
                return false;
            }
            self.held_bytes = wanted;
        }
        true
    }

    /// Like [`Reservation::grow_to`], but returns false instead of waiting.
    pub fn try_grow_to(&mut self, bytes: usize) -> bool {
        let wanted = self.counted(bytes);
        if wanted > self.held_bytes {
            if !self.budget.try_acquire(wanted - self.held_bytes) {
                return false;
            }
            self.held_bytes = wanted;
        }
        true
    }

    /// Shrinks the reservation to `bytes`, less the free bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.held_bytes.saturating_sub(self.counted(bytes));
        self.held_bytes -= excess;
        self.budget.release(excess);
    }

    /// The budget that it is a part of.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    fn counted(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.budget.shared.free_bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.held_bytes);
    }
}

#[cfg(test)]
mod tests;
