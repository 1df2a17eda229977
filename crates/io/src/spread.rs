//! Counters that every request raises.
//!
//! Threads that raise one number take its cache line from each other all the time. Here the first
//! threads of a process have a part for themselves.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Parts of a [`SpreadCounter`] that have a thread for themselves.
const OWN_PARTS: usize = 32;
/// Parts that later threads share.
const SHARED_PARTS: usize = 32;

/// A part of a counter on cache lines of its own (two, for the processor fetches pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(AtomicU64);

/// A number that only grows, and that many threads raise at once. The first threads of a process have
/// parts of their own, which nobody else writes to: they need no locked instruction.
#[derive(Debug)]
pub struct SpreadCounter(Box<[Part; OWN_PARTS + SHARED_PARTS]>);

impl Default for SpreadCounter {
    fn default() -> Self {
        Self(Box::new(std::array::from_fn(|_| Part::default())))
    }
}

/// This thread's number, which no other ever has: how many counted before it.
fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl SpreadCounter {
    /// Counts so many and returns how many there were before, of this thread's part.
    #[inline]
    pub fn add(&self, n: u64) -> u64 {
        self.add_as(thread_number(), n)
    }

    /// How many there are of this thread's part.
    pub fn of_this_thread(&self) -> u64 {
        self.part(thread_number()).load(Ordering::Relaxed)
    }

    /// The part of the thread of that number.
    #[inline]
    fn part(&self, number: usize) -> &AtomicU64 {
        let part = if number < OWN_PARTS { number } else { OWN_PARTS + number % SHARED_PARTS };
        &self.0[part].0
    }

    /// As the thread of that number.
    #[inline]
    fn add_as(&self, number: usize, n: u64) -> u64 {
        let part = self.part(number);
        if number >= OWN_PARTS {
            return part.fetch_add(n, Ordering::Relaxed);
        }
        let before = part.load(Ordering::Relaxed);
        part.store(before.wrapping_add(n), Ordering::Relaxed);
        before
    }

    /// How many there are.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_counter_has_what_all_threads_have_added() {
        let counter = SpreadCounter::default();
        let threads = OWN_PARTS + SHARED_PARTS + 3;
        std::thread::scope(|scope| {
            for number in 0..threads {
                let counter = &counter;
                // The first as sole owners of their parts.
                scope.spawn(move || (0..100).for_each(|_| _ = counter.add_as(number, 1)));
            }
        });
        assert_eq!(counter.get(), threads as u64 * 100);
        assert_eq!(counter.add_as(3, 5), 100);
        assert_eq!(counter.add_as(OWN_PARTS + SHARED_PARTS, 5), 200);
        let before = counter.of_this_thread();
        assert_eq!((counter.add(2), counter.of_this_thread()), (before, before + 2));
        assert_eq!(counter.get(), threads as u64 * 100 + 12);
    }
}
