//! Tests of the division of a budget.

use super::*;
use crate::sync::atomic::{AtomicU64, Ordering};

const MIB: u64 = 1 << 20;
const ALL: u64 = u64::MAX;

#[test]
fn shares_are_what_stores_want_or_equal() {
    assert!(divide(100 * MIB, &[]).is_empty());
    assert_eq!(divide(100 * MIB, &[ALL]), [100 * MIB]);
    assert_eq!(divide(100 * MIB, &[10 * MIB]), [100 * MIB], "nobody else wants it");
    assert_eq!(divide(100 * MIB, &[ALL, ALL]), [50 * MIB, 50 * MIB]);
    assert_eq!(divide(100 * MIB, &[ALL, 20 * MIB, ALL]), [40 * MIB, 20 * MIB, 40 * MIB]);
    assert_eq!(divide(100 * MIB, &[0, ALL]), [8 * MIB, 92 * MIB]);
    assert_eq!(divide(100 * MIB, &[20 * MIB, 40 * MIB]), [40 * MIB, 60 * MIB]);
    assert_eq!(divide(10 * MIB, &[ALL, ALL, 0]), [8 * MIB; 3], "the least that a store needs");
}

#[test]
fn shares_never_exceed_the_budget_where_it_suffices() {
    for total in [64 * MIB, 333 * MIB + 7, 10 << 30] {
        for wants in [vec![ALL; 8], vec![0; 8], vec![total; 3], vec![1, total / 2, ALL, 9 * MIB]] {
            let shares = divide(total, &wants);
            let sum: u64 = shares.iter().sum();
            assert!(sum <= total && total - sum < 8, "{shares:?} of {total}");
            assert!(shares.iter().all(|&share| share >= STORE_BYTES_MIN));
        }
    }
}

/// A store that wants this much.
struct Wants(AtomicU64, AtomicU64);

impl Member for Wants {
    fn wanted_bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set_share(self: Arc<Self>, bytes: u64) {
        self.1.store(bytes, Ordering::Relaxed);
    }
}

fn join(budget: &MemoryBudget, wants: u64) -> (Share, Arc<Wants>) {
    let share = Share::take(Some(budget), None);
    let member = Arc::new(Wants(AtomicU64::new(wants), AtomicU64::new(0)));
    share.belongs_to(Arc::downgrade(&(Arc::clone(&member) as Arc<dyn Member>)));
    (share, member)
}

#[test]
fn shares_follow_what_stores_want() {
    let budget = MemoryBudget::new(100 * MIB);
    let (one, first) = join(&budget, ALL);
    assert_eq!(one.bytes(), 100 * MIB);
    let (two, second) = join(&budget, ALL);
    assert_eq!((one.bytes(), two.bytes()), (50 * MIB, 50 * MIB));
    assert_eq!(first.1.load(Ordering::Relaxed), 50 * MIB, "it was told");

    second.0.store(30 * MIB, Ordering::Relaxed);
    assert_eq!(one.bytes(), 50 * MIB);
    one.review();
    assert_eq!((one.bytes(), two.bytes()), (70 * MIB, 30 * MIB));
    second.0.store(31 * MIB, Ordering::Relaxed);
    one.review();
    assert_eq!(two.bytes(), 30 * MIB, "not worth a change");

    one.set_bytes(20 * MIB);
    assert_eq!(one.bytes(), 20 * MIB, "the most that it may have");
    drop(one);
    assert_eq!((two.bytes(), budget.stores()), (100 * MIB, 1));
    budget.set_bytes(1);
    assert_eq!((two.bytes(), budget.bytes()), (8 * MIB, 8 * MIB));
}

/// A store whose last user lets go of it while it is told its share.
struct Leaving {
    user: Arc<Mutex<Option<Arc<Leaving>>>>,
    _share: Share,
}

impl Member for Leaving {
    fn wanted_bytes(&self) -> u64 {
        0
    }

    fn set_share(self: Arc<Self>, _: u64) {
        drop(self.user.lock().take());
    }
}

#[test]
fn store_may_leave_while_the_budget_is_divided() {
    let budget = MemoryBudget::new(100 * MIB);
    let share = Share::take(Some(&budget), None);
    let user = Arc::new(Mutex::default());
    let member = Arc::new_cyclic(|member: &Weak<Leaving>| {
        share.belongs_to(member.clone());
        Leaving { user: Arc::clone(&user), _share: share }
    });
    *user.lock() = Some(member);
    assert_eq!(budget.stores(), 1);
    budget.set_bytes(50 * MIB);
    assert_eq!(budget.stores(), 0);
}

#[test]
fn store_with_bytes_of_its_own_shares_nothing() {
    let own = Share::take(None, Some(20 * MIB));
    assert!(!own.is_of_several());
    own.set_bytes(30 * MIB);
    assert_eq!(own.bytes(), 30 * MIB);

    let default = Share::take(None, None);
    let member = Arc::new(Wants(AtomicU64::new(ALL), AtomicU64::new(0)));
    default.belongs_to(Arc::downgrade(&(Arc::clone(&member) as Arc<dyn Member>)));
    assert!(default.is_of_several() && default.bytes() <= DEFAULT_BYTES_MAX);
    default.set_bytes(900 * MIB);
    assert!(!default.is_of_several());
    assert_eq!((default.bytes(), member.1.load(Ordering::Relaxed)), (900 * MIB, 900 * MIB));
}

#[test]
fn default_budget_is_modest() {
    let default = MemoryBudget::of_process().bytes();
    assert!((STORE_BYTES_MIN..=DEFAULT_BYTES_MAX).contains(&default));
}
