//! Waiting, withdrawal, changes of the maximum, and the observer.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_connection_waits_for_the_budget_and_is_then_rejected() {
    let budget = Budget::new(1 << 20);
    let mut one = budget.reservation();
    let mut other = budget.reservation();
    assert!(one.grow_to(FREE_BYTES).await);
    assert_eq!(budget.used_bytes(), 0);
    assert!(one.grow_to(FREE_BYTES + (1000 << 10)).await);
    assert!(!other.grow_to(FREE_BYTES + (100 << 10)).await);
    assert!(!budget.is_exhausted(), "nobody waits any more");
    one.shrink_to(FREE_BYTES + 1);
    assert_eq!(budget.used_bytes(), 1);
    assert!(other.grow_to(FREE_BYTES + (100 << 10)).await);
    drop(other);
    drop(one);
    assert_eq!(budget.used_bytes(), 0);
    assert!(!budget.reservation().grow_to(FREE_BYTES + (1 << 20) + 1).await);
}

#[tokio::test(start_paused = true)]
async fn waiting_connections_are_served_in_order() {
    let budget = Budget::with_free_bytes(100, 0);
    let mut first = budget.reservation();
    assert!(first.grow_to(90).await);
    let wait = |bytes| {
        let mut reservation = budget.reservation();
        tokio::spawn(async move { reservation.grow_to(bytes).await.then_some(reservation) })
    };
    let large = wait(60);
    tokio::task::yield_now().await;
    assert!(budget.is_exhausted());
    let small = wait(5);
    tokio::task::yield_now().await;
    assert!(!budget.reservation().try_grow_to(5), "the small one may not overtake either");
    assert_eq!(budget.used_bytes(), 90);
    drop(first);
    let (large, small) = (large.await.unwrap().unwrap(), small.await.unwrap().unwrap());
    assert_eq!(budget.used_bytes(), 65);
    drop((large, small));
    assert_eq!(budget.used_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_while_it_waits_leaves_nothing_behind() {
    let budget = Budget::with_free_bytes(100, 0);
    let mut first = budget.reservation();
    assert!(first.grow_to(90).await);
    for is_granted_before in [false, true] {
        let mut waiting = budget.reservation();
        let mut growth = Box::pin(waiting.grow_to(50));
        assert!(futures_poll(growth.as_mut()).is_none());
        if is_granted_before {
            first.shrink_to(0);
            assert_eq!(budget.used_bytes(), 50);
        }
        drop(growth);
        drop(waiting);
        assert_eq!(budget.used_bytes(), if is_granted_before { 0 } else { 90 });
        assert!(!budget.is_exhausted());
    }
}

#[tokio::test(start_paused = true)]
async fn the_maximum_can_change() {
    let budget = Budget::with_free_bytes(100, 0);
    let mut first = budget.reservation();
    assert!(first.grow_to(90).await);
    budget.set_bytes_max(50);
    assert!(!budget.reservation().try_grow_to(1));
    let mut other = budget.reservation();
    let mut growth = Box::pin(other.grow_to(40));
    assert!(futures_poll(growth.as_mut()).is_none());
    budget.set_bytes_max(130);
    assert!(growth.await);
    assert_eq!(budget.used_bytes(), 130);
    first.shrink_to(10);
    assert_eq!(budget.used_bytes(), 50);
}

#[tokio::test]
async fn the_observer_learns_of_growth_before_it_is_granted_and_of_release_in_steps() {
    let seen = Arc::new(AtomicUsize::new(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let (seen_by, called) = (Arc::clone(&seen), Arc::clone(&calls));
    let budget = Budget::with_free_bytes(3200, 0).observed_by(move |bytes| {
        seen_by.store(bytes, Ordering::Relaxed);
        called.fetch_add(1, Ordering::Relaxed);
    });
    let mut reservation = budget.reservation();
    for bytes in [1, 99, 100, 101, 950, 1000] {
        assert!(reservation.grow_to(bytes).await);
        assert!(seen.load(Ordering::Relaxed) >= bytes, "{bytes}");
    }
    let before = calls.load(Ordering::Relaxed);
    for _ in 0..100 {
        reservation.shrink_to(950);
        assert!(reservation.grow_to(1001).await);
        reservation.shrink_to(1000);
    }
    assert!(calls.load(Ordering::Relaxed) <= before + 1, "around a step it is not called");
    drop(reservation);
    assert!(seen.load(Ordering::Relaxed) <= 100);
}

/// Polls once, without a waker.
fn futures_poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}
