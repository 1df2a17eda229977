//! Counters that every request increments.
//!
//! Threads that increment one number contend for its cache line. Here the first threads of a
//! process have their own parts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Parts of a [`SpreadCounter`] with a single owner thread.
const OWN_PARTS: usize = 32;
/// Parts shared by later threads.
const SHARED_PARTS: usize = 32;

/// A part of a counter on its own cache lines (two, because the processor fetches pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(AtomicU64);

/// A number that only grows, and that many threads increment at once. The first threads of a
/// process have their own parts, which no other thread writes: they need no locked instruction.
#[derive(Debug)]
pub struct SpreadCounter(Box<[Part; OWN_PARTS + SHARED_PARTS]>);

impl Default for SpreadCounter {
    fn default() -> Self {
        Self(Box::new(std::array::from_fn(|_| Part::default())))
    }
}

/// This thread's number, unique in the process: the number of threads that counted before it.
fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl SpreadCounter {
    /// Adds `n` and returns the previous count of this thread's part.
    #[inline]
    pub fn add(&self, n: u64) -> u64 {
        self.add_as(thread_number(), n)
    }

    /// The count of this thread's part.
    pub fn of_this_thread(&self) -> u64 {
        self.part(thread_number()).load(Ordering::Relaxed)
    }

    /// The part of thread `number`.
    #[inline]
    fn part(&self, number: usize) -> &AtomicU64 {
        let part = if number < OWN_PARTS { number } else { OWN_PARTS + number % SHARED_PARTS };
        &self.0[part].0
    }

    /// Adds as thread `number`.
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

    /// The total count.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_counter_sums_all_threads() {
        let counter = SpreadCounter::default();
        let threads = OWN_PARTS + SHARED_PARTS + 3;
        std::thread::scope(|scope| {
            for number in 0..threads {
                let counter = &counter;
                // The first threads as sole owners of their parts.
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
