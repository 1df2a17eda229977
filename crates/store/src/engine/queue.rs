//! Group commit: of the threads that write at the same time, one leads and does the work of all
//! that have queued up; the others wait for their outcome, at first without sleeping.
//!
//! Guarantees: items take effect in the order in which they were submitted; at any moment at most
//! one thread leads; [`Queue::exclusive`] leads a group of its own, so nothing is committed while
//! it runs. A leader always leads its own item. [`Queue::try_exclusive`] leads only if it can do so
//! without waiting.
//!
//! When a leader panics, every waiting and later call panics too: the state behind the queue cannot
//! be trusted any more.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};

/// The number of spins of a waiter before it yields: most leaders need a microsecond or two. Waking
/// a sleeper costs the leader more than the write does, and a new leader that is asleep keeps all
/// others waiting.
#[cfg(not(test))]
const SPINS: u32 = 50;
/// The number of yields before it sleeps: the leader may be descheduled.
#[cfg(not(test))]
const YIELDS: u32 = 20;
/// Once each in tests, because every check multiplies the schedules of the models.
#[cfg(test)]
const SPINS: u32 = 1;
#[cfg(test)]
const YIELDS: u32 = 1;

enum Slot<R> {
    Waiting,
    /// The owner must lead the next group.
    Lead,
    Done(R),
    /// A leader panicked.
    Broken,
}

struct Ticket<T, R> {
    /// `None`: exclusive; only its owner can do the work.
    item: Mutex<Option<T>>,
    is_exclusive: bool,
    weight: usize,
    slot: Mutex<Slot<R>>,
    /// Whether `slot` has an outcome, for waiters that do not sleep yet.
    has_outcome: AtomicBool,
    changed: Condvar,
}

type TicketRef<T, R> = Arc<Ticket<T, R>>;

struct State<T, R> {
    waiting: VecDeque<TicketRef<T, R>>,
    is_led: bool,
    is_broken: bool,
}

/// A queue of items of type `T` whose outcomes are of type `R`.
pub(crate) struct Queue<T, R> {
    state: Mutex<State<T, R>>,
    group_weight_max: usize,
}

impl<T, R> std::fmt::Debug for Queue<T, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("waiting", &self.state.lock().waiting.len())
            .finish_non_exhaustive()
    }
}

/// Passes the lead on, also when the leader panics.
struct Leadership<'a, T, R> {
    queue: &'a Queue<T, R>,
    group: Vec<TicketRef<T, R>>,
}

impl<T, R> Drop for Leadership<'_, T, R> {
    fn drop(&mut self) {
        let broken = std::thread::panicking();
        let mut state = self.queue.state.lock();
        if broken {
            state.is_broken = true;
            for ticket in self.group.drain(..).chain(std::mem::take(&mut state.waiting)) {
                ticket.set(Slot::Broken);
            }
        }
        match state.waiting.front() {
            Some(next) => next.set(Slot::Lead),
            None => state.is_led = false,
        }
    }
}

impl<T, R> Ticket<T, R> {
    fn set(&self, value: Slot<R>) {
        *self.slot.lock() = value;
        self.has_outcome.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Spins, then yields, until there is an outcome or the limit is reached.
    fn spin(&self) {
        for round in 0..SPINS + YIELDS {
            if self.has_outcome.load(Ordering::Acquire) {
                return;
            }
            if round < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Waits for an outcome; `None`: this thread leads.
    fn wait(&self) -> Option<R> {
        self.spin();
        let mut slot = self.slot.lock();
        loop {
            match std::mem::replace(&mut *slot, Slot::Waiting) {
                Slot::Waiting => self.changed.wait(&mut slot),
                Slot::Lead => return None,
                Slot::Done(outcome) => return Some(outcome),
                Slot::Broken => panic!("an earlier write panicked"),
            }
        }
    }
}

impl<T, R> Queue<T, R> {
    /// A queue whose groups close once their weight reaches `group_weight_max`.
    pub(crate) fn new(group_weight_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), is_led: false, is_broken: false };
        Self { state: Mutex::new(state), group_weight_max }
    }

    /// Submits `item` and returns its outcome. If this thread leads, it calls `lead` with a group
    /// of items, which returns their outcomes in order.
    pub(crate) fn submit(&self, item: T, weight: usize, lead: impl FnOnce(Vec<T>) -> Vec<R>) -> R {
        let ticket = self.enqueue(Some(item), weight);
        if let Some(outcome) = self.wait_for_lead(&ticket) {
            return outcome;
        }
        let mut leadership = Leadership { queue: self, group: self.take_group() };
        let items = leadership.group.iter().filter_map(|t| t.item.lock().take()).collect();
        let mut outcomes = lead(items).into_iter();
        let own = outcomes.next().expect("one outcome for each item");
        for (ticket, outcome) in leadership.group.drain(..).skip(1).zip(outcomes) {
            ticket.set(Slot::Done(outcome));
        }
        own
    }

    /// Runs `work` while no thread commits.
    pub(crate) fn exclusive<X>(&self, work: impl FnOnce() -> X) -> X {
        let ticket = self.enqueue(None, 0);
        let outcome = self.wait_for_lead(&ticket);
        assert!(outcome.is_none(), "only its owner can lead an exclusive item");
        let _leadership = Leadership { queue: self, group: self.take_group() };
        work()
    }

    /// Runs `work` while no thread commits, if no thread leads at this moment (then none waits
    /// either). Threads that arrive meanwhile wait for it.
    pub(crate) fn try_exclusive<X>(&self, work: impl FnOnce() -> X) -> Option<X> {
        {
            let mut state = self.state.lock();
            assert!(!state.is_broken, "an earlier write panicked");
            if state.is_led {
                return None;
            }
            state.is_led = true;
        }
        let _leadership = Leadership { queue: self, group: Vec::new() };
        Some(work())
    }

    /// Whether a thread leads at this moment.
    pub(crate) fn is_led(&self) -> bool {
        self.state.lock().is_led
    }

    /// Whether a leader has panicked.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.lock().is_broken
    }

    fn enqueue(&self, item: Option<T>, weight: usize) -> TicketRef<T, R> {
        Arc::new(Ticket {
            is_exclusive: item.is_none(),
            item: Mutex::new(item),
            weight,
            slot: Mutex::new(Slot::Waiting),
            has_outcome: AtomicBool::new(false),
            changed: Condvar::new(),
        })
    }

    fn wait_for_lead(&self, ticket: &TicketRef<T, R>) -> Option<R> {
        {
            let mut state = self.state.lock();
            assert!(!state.is_broken, "an earlier write panicked");
            state.waiting.push_back(Arc::clone(ticket));
            if !state.is_led {
                state.is_led = true;
                return None;
            }
        }
        ticket.wait()
    }

    /// The leader's own ticket, which is first, and the tickets of its group.
    fn take_group(&self) -> Vec<TicketRef<T, R>> {
        let mut state = self.state.lock();
        let first = state.waiting.pop_front().expect("the leader's own ticket");
        let mut weight = first.weight;
        let alone = first.is_exclusive;
        let mut group = vec![first];
        while !alone
            && weight < self.group_weight_max
            && state.waiting.front().is_some_and(|next| !next.is_exclusive)
            && let Some(next) = state.waiting.pop_front()
        {
            weight += next.weight;
            group.push(next);
        }
        group
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(miri))]
    mod models;

    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_item_is_done_once_and_exclusively() {
        let queue: Queue<u64, u64> = Queue::new(8);
        let (inside, sum, exclusive) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (tried, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let alone = |work: &dyn Fn()| {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two leaders at once");
            work();
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for t in 0..4u64 {
                let (queue, sum, exclusive, alone) = (&queue, &sum, &exclusive, &alone);
                let (tried, refused) = (&tried, &refused);
                scope.spawn(move || {
                    for i in 0..500 {
                        let item = t * 1000 + i;
                        let outcome = queue.submit(item, 1, |items| {
                            assert!(items.len() <= 8);
                            alone(&|| {
                                sum.fetch_add(items.iter().sum(), Ordering::SeqCst);
                            });
                            items.iter().map(|i| i * 2).collect()
                        });
                        assert_eq!(outcome, item * 2);
                        if i % 50 == 0 {
                            queue.exclusive(|| {
                                alone(&|| {
                                    exclusive.fetch_add(1, Ordering::SeqCst);
                                })
                            });
                        }
                        let outcome = queue.try_exclusive(|| alone(&|| ()));
                        if outcome.is_some() { tried } else { refused }
                            .fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(
            sum.into_inner(),
            (0..4).map(|t| (0..500).map(|i| t * 1000 + i).sum::<u64>()).sum::<u64>()
        );
        assert_eq!(exclusive.into_inner(), 40);
        assert_eq!(tried.into_inner() + refused.into_inner(), 4 * 500);
    }

    #[test]
    fn try_exclusive_does_not_wait_and_is_waited_for() {
        let queue: Queue<u64, u64> = Queue::new(8);
        // While a thread leads, a try is refused.
        queue.exclusive(|| assert_eq!(queue.try_exclusive(|| ()), None));
        queue.submit(1, 1, |items| {
            assert_eq!(queue.try_exclusive(|| ()), None);
            items
        });
        // A thread that arrives during a try is passed the lead afterwards.
        let is_over = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let outcome = queue.try_exclusive(|| {
                let (queue, is_over) = (&queue, &is_over);
                scope.spawn(move || {
                    queue.submit(2, 1, |items| {
                        assert_eq!(is_over.load(Ordering::SeqCst), 1);
                        items
                    })
                });
                while queue.state.lock().waiting.is_empty() {
                    std::thread::yield_now();
                }
                is_over.store(1, Ordering::SeqCst);
            });
            assert_eq!(outcome, Some(()));
        });
        assert_eq!(queue.try_exclusive(|| 7), Some(7));
    }

    #[test]
    fn a_panic_of_the_leader_reaches_everybody() {
        let queue: Queue<u64, u64> = Queue::new(8);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            queue.submit(1, 1, |_| panic!("a bug"))
        }));
        assert!(outcome.is_err());
        let later = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            queue.submit(2, 1, |items| items)
        }));
        assert!(later.is_err());
    }
}
