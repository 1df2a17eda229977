//! Order, priorities, panics and shutdown of both executors.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn inline_jobs_have_run_when_execute_returns() {
    let executor = InlineExecutor::new();
    let ran = Arc::new(AtomicBool::new(false));
    let sign = Arc::clone(&ran);
    executor.execute(Priority::Low, Box::new(move || sign.store(true, Ordering::Relaxed)));
    assert!(ran.load(Ordering::Relaxed));
    assert!(executor.is_inline());
}

#[test]
fn inline_jobs_that_submit_jobs_do_not_grow_the_stack() {
    fn step(executor: &Arc<InlineExecutor>, left: usize, ran: &Arc<AtomicUsize>) {
        ran.fetch_add(1, Ordering::Relaxed);
        if left > 0 {
            let (next, count) = (Arc::clone(executor), Arc::clone(ran));
            executor.execute(Priority::Low, Box::new(move || step(&next, left - 1, &count)));
        }
    }
    let executor = Arc::new(InlineExecutor::new());
    let ran = Arc::new(AtomicUsize::new(0));
    let steps = if cfg!(miri) { 100 } else { 200_000 };
    step(&executor, steps, &ran);
    assert_eq!(ran.load(Ordering::Relaxed), steps + 1);
}

#[test]
fn inline_jobs_of_high_priority_go_first() {
    let executor = Arc::new(InlineExecutor::new());
    let order = Arc::new(Mutex::new(Vec::new()));
    let (inner, log) = (Arc::clone(&executor), Arc::clone(&order));
    executor.execute(
        Priority::Low,
        Box::new(move || {
            for (priority, name) in [(Priority::Low, "low"), (Priority::High, "high")] {
                let log = Arc::clone(&log);
                inner.execute(priority, Box::new(move || log.lock().push(name)));
            }
            assert!(log.lock().is_empty(), "both wait for the running job");
        }),
    );
    assert_eq!(*order.lock(), ["high", "low"]);
}

#[test]
fn an_inline_panic_reaches_the_caller_and_leaves_the_executor_usable() {
    let executor = InlineExecutor::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        executor.execute(Priority::Low, Box::new(|| panic!("on purpose")));
    }));
    assert!(outcome.is_err());
    let ran = Arc::new(AtomicBool::new(false));
    let sign = Arc::clone(&ran);
    executor.execute(Priority::Low, Box::new(move || sign.store(true, Ordering::Relaxed)));
    assert!(ran.load(Ordering::Relaxed));
}

#[test]
fn an_inline_job_may_shut_down_and_later_jobs_are_dropped() {
    let executor = Arc::new(InlineExecutor::new());
    let ran = Arc::new(AtomicUsize::new(0));
    let (inner, count) = (Arc::clone(&executor), Arc::clone(&ran));
    executor.execute(
        Priority::High,
        Box::new(move || {
            let waiting = Arc::clone(&count);
            inner.execute(
                Priority::Low,
                Box::new(move || _ = waiting.fetch_add(1, Ordering::Relaxed)),
            );
            inner.shutdown();
            inner.shutdown();
        }),
    );
    let late = Arc::clone(&ran);
    executor.execute(Priority::High, Box::new(move || _ = late.fetch_add(1, Ordering::Relaxed)));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[test]
fn inline_jobs_from_many_threads_all_run() {
    let executor = InlineExecutor::new();
    let ran = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let ran = Arc::clone(&ran);
                    executor.execute(
                        Priority::Low,
                        Box::new(move || _ = ran.fetch_add(1, Ordering::Relaxed)),
                    );
                }
            });
        }
    });
    assert_eq!(ran.load(Ordering::Relaxed), 200);
}

#[test]
fn a_high_job_runs_while_low_jobs_fill_the_pool() {
    let pool = ThreadPool::new("test", 2);
    assert_eq!(pool.parallelism(), 2);
    let (release, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let (started, starts) = mpsc::channel();
    for _ in 0..3 {
        let (gate, started) = (Arc::clone(&gate), started.clone());
        pool.execute(
            Priority::Low,
            Box::new(move || {
                started.send(()).unwrap();
                let _ = gate.lock().recv();
            }),
        );
    }
    for _ in 0..2 {
        starts.recv_timeout(PATIENCE).expect("both low threads work");
    }
    let (done, high) = mpsc::channel();
    pool.execute(
        Priority::High,
        Box::new(move || done.send(std::thread::current().name().map(str::to_owned)).unwrap()),
    );
    let name = high.recv_timeout(PATIENCE).expect("the reserved thread is free");
    assert_eq!(name.as_deref(), Some("test-high"));
    assert!(starts.try_recv().is_err(), "the reserved thread takes no low job");
    drop(release);
    starts.recv_timeout(PATIENCE).expect("the third low job gets its turn");
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no priorities")]
fn housekeeping_threads_have_lower_priority() {
    let nice = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
    let pool = ThreadPool::new("pool", 1);
    let (send, receive) = mpsc::channel();
    let own = send.clone();
    pool.execute(Priority::Low, Box::new(move || own.send(nice()).unwrap()));
    assert_eq!(receive.recv_timeout(PATIENCE).unwrap(), (nice() + NICE).min(19));
    // A flush on the reserved thread does not: the other one is busy.
    let (go_on, wait) = mpsc::channel::<()>();
    let (busy, is_busy) = mpsc::channel();
    let block = move || {
        busy.send(()).unwrap();
        wait.recv().unwrap();
    };
    pool.execute(Priority::Low, Box::new(block));
    is_busy.recv_timeout(PATIENCE).unwrap();
    let own = send.clone();
    pool.execute(Priority::High, Box::new(move || own.send(nice()).unwrap()));
    assert_eq!(receive.recv_timeout(PATIENCE).unwrap(), nice());
    go_on.send(()).unwrap();
    let own = send.clone();
    spawn_behind("behind", move || own.send(nice()).unwrap()).unwrap().join().unwrap();
    spawn("beside", move || send.send(nice()).unwrap()).unwrap().join().unwrap();
    assert_eq!(
        [receive.recv().unwrap(), receive.recv().unwrap()],
        [(nice() + NICE).min(19), nice()]
    );
}

#[test]
fn a_panic_is_counted_and_the_pool_goes_on() {
    let pool = ThreadPool::new("test", 1);
    let (done, ran) = mpsc::channel();
    pool.execute(Priority::Low, Box::new(|| panic!("on purpose")));
    pool.execute(Priority::Low, Box::new(move || done.send(()).unwrap()));
    ran.recv_timeout(PATIENCE).expect("the thread outlives the panic");
    assert_eq!(pool.panics(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "a pause of a second")]
fn work_that_panics_begins_again_until_it_returns() {
    let mut left = 1;
    let work = || {
        if left > 0 {
            left -= 1;
            panic!("on purpose");
        }
    };
    assert_eq!(restarting(work), 1);
}

#[test]
fn shutdown_waits_for_running_jobs_and_drops_waiting_ones() {
    let pool = ThreadPool::new("test", 1);
    let (started, starts) = mpsc::channel();
    let ended = Arc::new(AtomicBool::new(false));
    let sign = Arc::clone(&ended);
    pool.execute(
        Priority::Low,
        Box::new(move || {
            started.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            sign.store(true, Ordering::Relaxed);
        }),
    );
    starts.recv_timeout(PATIENCE).unwrap();
    let token = Arc::new(());
    let (waiting, held) = (Arc::downgrade(&token), token);
    pool.execute(Priority::Low, Box::new(move || drop(held)));
    pool.shutdown();
    assert!(ended.load(Ordering::Relaxed));
    assert!(waiting.upgrade().is_none(), "a waiting job is dropped");
    pool.shutdown();
    let late = Arc::new(AtomicBool::new(false));
    let sign = Arc::clone(&late);
    pool.execute(Priority::High, Box::new(move || sign.store(true, Ordering::Relaxed)));
    drop(pool);
    assert!(!late.load(Ordering::Relaxed));
}

#[test]
fn jobs_may_shut_their_own_pool_down_all_at_once() {
    let pool = Arc::new(ThreadPool::new("test", 2));
    let (done, ends) = mpsc::channel();
    for _ in 0..2 {
        let (weak, done): (Weak<ThreadPool>, _) = (Arc::downgrade(&pool), done.clone());
        pool.execute(
            Priority::Low,
            Box::new(move || {
                if let Some(pool) = weak.upgrade() {
                    pool.shutdown();
                }
                let _ = done.send(());
            }),
        );
    }
    ends.recv_timeout(PATIENCE).expect("a job does not wait for itself");
    pool.shutdown();
}

#[test]
fn the_last_handle_may_be_dropped_by_a_job() {
    let pool = Arc::new(ThreadPool::new("test", 1));
    let (go, gate) = mpsc::channel::<()>();
    let (done, ends) = mpsc::channel();
    let held = Arc::clone(&pool);
    pool.execute(
        Priority::Low,
        Box::new(move || {
            let _ = gate.recv();
            drop(held);
            done.send(()).unwrap();
        }),
    );
    drop(pool);
    drop(go);
    ends.recv_timeout(PATIENCE).expect("the drop does not wait for its own thread");
}

#[test]
fn delayed_job_runs_when_due_and_not_before() {
    // One thread: with two that each have a due job, either may run first.
    let pool = ThreadPool::new("later", 1);
    let (done, order) = mpsc::channel();
    let started = Instant::now();
    // Far enough apart that submitting them takes less, even by Miri's clock.
    for (name, delay_ms) in [("third", 300), ("first", 100), ("second", 200)] {
        let done = done.clone();
        let delay = Duration::from_millis(delay_ms);
        let job = move || done.send((name, delay, started.elapsed())).unwrap();
        pool.execute_later(delay, Box::new(job));
    }
    for expected in ["first", "second", "third"] {
        let (name, delay, ran_at) = order.recv_timeout(PATIENCE).unwrap();
        assert_eq!(name, expected);
        assert!(ran_at >= delay, "{name} ran after {ran_at:?}");
    }
}

#[test]
fn shutdown_drops_delayed_jobs() {
    let pool = ThreadPool::new("later", 1);
    let held = Arc::new(());
    for _ in 0..2 {
        let kept = Arc::clone(&held);
        pool.execute_later(PATIENCE, Box::new(move || drop(kept)));
        pool.shutdown();
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
