//! Leaders and followers under many schedules. A lost wake-up leaves a thread waiting forever,
//! which the explorers report.

use std::sync::Arc;

use tidekv_testkit::models::{explore, loom, shuttle};

use super::*;
use crate::sync::atomic::AtomicU64;

/// A queue and the state that its leaders change: as in the product, they publish a number that
/// covers all items of the group before any waiter learns of it.
struct Scene {
    queue: Queue<u64, u64>,
    /// The number of threads that lead or are exclusive now.
    inside: AtomicU64,
    /// Items in the order in which they took effect.
    done: Mutex<Vec<u64>>,
    published: AtomicU64,
}

impl Scene {
    fn new(group_weight_max: usize) -> Arc<Self> {
        Arc::new(Self {
            queue: Queue::new(group_weight_max),
            inside: AtomicU64::new(0),
            done: Mutex::new(Vec::new()),
            published: AtomicU64::new(0),
        })
    }

    fn alone<X>(&self, work: impl FnOnce() -> X) -> X {
        assert_eq!(self.inside.fetch_add(1, Ordering::AcqRel), 0, "two leaders at once");
        let outcome = work();
        self.inside.fetch_sub(1, Ordering::AcqRel);
        outcome
    }

    /// Submits `item`; its outcome is how many items took effect up to it.
    fn submit(&self, item: u64) {
        let place = self.queue.submit(item, 1, |items| {
            self.alone(|| {
                assert!(items.len() <= self.queue.group_weight_max);
                let mut done = self.done.lock();
                let before = done.len() as u64;
                done.extend_from_slice(&items);
                self.published.store(done.len() as u64, Ordering::Release);
                (1..=items.len() as u64).map(|n| before + n).collect()
            })
        });
        assert!(self.published.load(Ordering::Acquire) >= place, "told before it was published");
        assert_eq!(self.done.lock()[place as usize - 1], item);
    }

    /// Nothing takes effect meanwhile.
    fn exclusive(&self) {
        self.queue.exclusive(|| self.stand_still());
    }

    /// The same, if no thread leads.
    fn try_exclusive(&self) {
        self.queue.try_exclusive(|| self.stand_still());
    }

    fn stand_still(&self) {
        self.alone(|| {
            let before = self.published.load(Ordering::Acquire);
            assert_eq!(self.done.lock().len() as u64, before);
        });
    }

    /// All of `items` took effect, once each; those of one thread, which are
    /// neighbours in number, in order.
    fn end(&self, items: u64) {
        let done = self.done.lock().clone();
        let place = |item: u64| done.iter().position(|&d| d == item).unwrap();
        assert_eq!(done.len() as u64, items);
        (0..items).step_by(2).for_each(|first| assert!(place(first) < place(first + 1)));
        assert!(!self.queue.state.lock().is_led && !self.queue.is_broken());
    }
}

#[test]
fn groups_form_end_and_hand_the_lead_on() {
    explore::shuttle("queue: three writers of two items, one exclusive and one try", || {
        let scene = Scene::new(2);
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let scene = Arc::clone(&scene);
                shuttle::thread::spawn(move || {
                    scene.submit(2 * thread);
                    scene.submit(2 * thread + 1);
                })
            })
            .collect();
        scene.exclusive();
        scene.try_exclusive();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        scene.end(6);
    });
}

#[test]
fn no_wake_up_is_lost_between_two_threads() {
    explore::loom("queue: a writer of two items, one exclusive", 3, None, || {
        let scene = Scene::new(2);
        let writer = {
            let scene = Arc::clone(&scene);
            loom::thread::spawn(move || {
                scene.submit(0);
                scene.submit(1);
            })
        };
        scene.exclusive();
        writer.join().unwrap();
        scene.end(2);
    });
}

#[test]
fn try_exclusive_passes_the_lead_on() {
    explore::loom("queue: a writer of two items, two tries", 3, Some(6), || {
        let scene = Scene::new(2);
        let writer = {
            let scene = Arc::clone(&scene);
            loom::thread::spawn(move || {
                scene.submit(0);
                scene.submit(1);
            })
        };
        scene.try_exclusive();
        scene.try_exclusive();
        writer.join().unwrap();
        scene.end(2);
    });
}
