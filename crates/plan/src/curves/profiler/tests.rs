//! Profiles compared with caches of every size that really evict, with every kind of request.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn access(key: u64, action: Action, at_ms: u64, ttl_ms: Option<u64>) -> Access {
    Access { at_ms, ttl_ms, ..Access::new(key, action) }
}

fn accesses(keys: u64) -> impl Strategy<Value = Vec<Access>> {
    let action = prop_oneof![
        6 => Just(Action::Get),
        2 => Just(Action::Load(1)),
        1 => Just(Action::LoadUnsized(0)),
        2 => Just(Action::Set(1)),
        1 => Just(Action::Delete),
        1 => Just(Action::Expire),
    ];
    let ttl = prop_oneof![1 => Just(None), 2 => (0..400_u64).prop_map(Some)];
    let step = (0..keys, action, ttl, 0..20_u64);
    prop::collection::vec(step, 1..1_500).prop_map(|steps| {
        let mut at_ms = 0;
        let mut all = Vec::new();
        for (key, action, ttl_ms, further) in steps {
            at_ms += further;
            // An object whose time is over at once is noticed with the next request.
            let at_least = u64::from(action == Action::Expire);
            let ttl_ms = ttl_ms.map(|ttl_ms: u64| ttl_ms.max(at_least));
            all.push(access(key, action, at_ms, ttl_ms));
        }
        all
    })
}

/// A cache with room for this many objects, whose clients set each missed object that exists.
struct Cache {
    room: usize,
    /// The most recent first.
    cached: VecDeque<u64>,
    hits: u64,
}

/// When existing objects expire.
type Alive = HashMap<u64, Option<u64>>;

impl Cache {
    fn record(&mut self, access: &Access, alive: &Alive) {
        self.cached.retain(|key| alive.contains_key(key));
        if access.action == Action::Expire {
            return;
        }
        let key = access.key;
        let is_request = access.action.is_request();
        self.hits += u64::from(is_request && self.cached.contains(&key));
        self.cached.retain(|cached| *cached != key);
        let comes = match access.action {
            Action::Get => alive.contains_key(&key),
            Action::Load(_) | Action::LoadUnsized(_) | Action::Set(_) => true,
            Action::Delete | Action::Expire => false,
        };
        if comes {
            self.cached.push_front(key);
            self.cached.truncate(self.room);
        }
    }
}

fn expire(alive: &mut Alive, now_ms: u64) {
    alive.retain(|_, deadline| deadline.is_none_or(|deadline| deadline > now_ms));
}

proptest! {
    #[test]
    fn curve_equals_misses_of_simulated_caches_of_all_sizes(accesses in accesses(50)) {
        let mut profiler = Profiler::new(Settings { unit: Unit::Objects, expiry: Expiry::AtOnce });
        let mut caches: Vec<Cache> =
            (1..=40).map(|room| Cache { room, cached: VecDeque::new(), hits: 0 }).collect();
        let mut alive = Alive::new();
        let mut requests = 0_u64;
        for access in &accesses {
            profiler.record(access);
            expire(&mut alive, access.at_ms);
            caches.iter_mut().for_each(|cache| cache.record(access, &alive));
            requests += u64::from(access.action.is_request());
            let deadline = access.ttl_ms.map(|ttl_ms| access.at_ms + ttl_ms);
            match access.action {
                Action::Get => {}
                Action::Load(_) | Action::LoadUnsized(_) => {
                    alive.entry(access.key).or_insert(deadline);
                }
                Action::Set(_) => drop(alive.insert(access.key, deadline)),
                Action::Delete => drop(alive.remove(&access.key)),
                Action::Expire => {
                    alive.entry(access.key).and_modify(|of_key| *of_key = deadline);
                }
            }
        }
        prop_assert_eq!(profiler.curve().requests(), requests as f64);
        for cache in caches.iter().filter(|_| requests > 0) {
            let missed = 1.0 - cache.hits as f64 / requests as f64;
            let estimated = profiler.curve().miss_ratio(cache.room as u64);
            prop_assert!((estimated - missed).abs() < 1e-9, "{} objects: {estimated}, and {missed}", cache.room);
        }
        expire(&mut alive, profiler.order.now_ms);
        prop_assert_eq!(profiler.objects(), alive.len() + never_over(&accesses, &alive));
    }
}

proptest! {
    /// Each request has another size; a cache measured in objects ignores it.
    #[test]
    fn byte_curve_equals_missed_bytes_of_simulated_caches(
        loads in prop::collection::vec((0..50_u64, 0..1_000_u64), 1..1_500)
    ) {
        let mut profiler = Profiler::new(Settings { unit: Unit::Objects, expiry: Expiry::AtOnce });
        let mut caches: Vec<(Cache, u64)> =
            (1..=40).map(|room| (Cache { room, cached: VecDeque::new(), hits: 0 }, 0)).collect();
        let alive = (0..50).map(|key| (key, None)).collect();
        for &(key, bytes) in &loads {
            let access = Access::new(key, Action::Load(bytes));
            profiler.record(&access);
            for (cache, hit_bytes) in &mut caches {
                let before = cache.hits;
                cache.record(&access, &alive);
                *hit_bytes += bytes * (cache.hits - before);
            }
        }
        let requested: u64 = loads.iter().map(|(_, bytes)| bytes).sum();
        let curve = profiler.byte_curve().expect("all say how large they are");
        prop_assert_eq!(curve.requests(), loads.len() as f64);
        for (cache, hit_bytes) in caches.iter().filter(|_| requested > 0) {
            let missed = 1.0 - *hit_bytes as f64 / requested as f64;
            let estimated = curve.miss_ratio(cache.room as u64);
            prop_assert!((estimated - missed).abs() < 1e-9, "{} objects: {estimated}, and {missed}", cache.room);
        }
        profiler.record(&Access::new(1, Action::Set(7)));
        prop_assert!(profiler.byte_curve().is_some(), "a set asks for nothing");
        profiler.record(&Access::new(1, Action::LoadUnsized(0)));
        prop_assert!(profiler.byte_curve().is_none());
    }
}

/// Objects with a time to live of zero are removed at the next request.
fn never_over(accesses: &[Access], alive: &Alive) -> usize {
    accesses.last().map_or(0, |last| {
        let is_stored =
            matches!(last.action, Action::Load(_) | Action::LoadUnsized(_) | Action::Set(_));
        usize::from(is_stored && last.ttl_ms == Some(0) && !alive.contains_key(&last.key))
    })
}

/// The hits of a cache of this size.
fn hits(settings: Settings, accesses: &[Access], size: u64) -> u64 {
    let mut profiler = Profiler::new(settings);
    accesses.iter().for_each(|access| profiler.record(access));
    let curve = profiler.curve();
    ((1.0 - curve.miss_ratio(size)) * curve.requests()).round() as u64
}

#[test]
fn the_example_of_the_paper() {
    // a b c d b a c: the second b is 3 away, the second a and c 4.
    let trace: Vec<Access> =
        b"abcdbac".iter().map(|key| Access::new(u64::from(*key), Action::Load(100))).collect();
    let settings = Settings { unit: Unit::Objects, expiry: Expiry::Ignored };
    assert_eq!([2, 3, 4].map(|size| hits(settings, &trace, size)), [0, 1, 3]);
    let settings = Settings { unit: Unit::Bytes, expiry: Expiry::Ignored };
    assert_eq!([299, 300, 399, 400].map(|size| hits(settings, &trace, size)), [0, 1, 1, 3]);
}

#[test]
fn expired_objects_free_room_at_once_or_on_access() {
    let set = |key, at_ms, ttl_ms| access(key, Action::Set(1), at_ms, ttl_ms);
    let get = |key, at_ms| access(key, Action::Get, at_ms, None);
    // Five expire before the next request for the first object.
    let mut trace = vec![set(0, 0, None)];
    trace.extend((1..6).map(|key| set(key, key, Some(10))));
    trace.extend([get(0, 100), get(3, 101)]);
    let with = |expiry, size| hits(Settings { unit: Unit::Objects, expiry }, &trace, size);
    // There was room, but an evicted object does not reappear.
    assert_eq!([5, 6].map(|size| with(Expiry::AtOnce, size)), [0, 1]);
    assert_eq!([5, 6].map(|size| with(Expiry::OnAccess, size)), [0, 1]);
    assert_eq!([4, 6].map(|size| with(Expiry::Ignored, size)), [1, 2]);
    // Five more need no room of their own once those five are gone.
    trace.truncate(6);
    trace.extend((11..16).map(|key| set(key, 100, None)));
    trace.push(get(0, 101));
    let with = |expiry, size| hits(Settings { unit: Unit::Objects, expiry }, &trace, size);
    assert_eq!([5, 6, 10, 11].map(|size| with(Expiry::AtOnce, size)), [0, 1, 1, 1]);
    assert_eq!([6, 10, 11].map(|size| with(Expiry::OnAccess, size)), [0, 0, 1]);
}

#[test]
fn backward_clock_counts_as_unchanged() {
    let mut profiler = Profiler::new(Settings::default());
    profiler.record(&access(1, Action::Set(10), 1_000, Some(50)));
    profiler.record(&access(2, Action::Set(10), 0, Some(50)));
    profiler.record(&access(2, Action::Get, 0, None));
    profiler.record(&access(2, Action::Get, 1_049, None));
    assert_eq!(profiler.objects(), 2);
    profiler.record(&access(2, Action::Get, 1_050, None));
    assert_eq!(profiler.objects(), 0);
}

#[test]
fn zero_and_terabyte_sizes_are_accepted() {
    let mut profiler = Profiler::new(Settings::default());
    for (key, bytes) in [(1, 0), (2, 1 << 42), (3, 5), (1, 0), (2, 1 << 42), (3, 5)] {
        profiler.record(&Access::new(key, Action::Load(bytes)));
    }
    let curve = profiler.curve();
    assert_eq!(curve.miss_ratio((1 << 42) + 4), 1.0);
    assert_eq!(curve.miss_ratio(1 << 43), 0.5);
}

#[test]
fn unsized_load_keeps_the_size() {
    let mut profiler = Profiler::new(Settings::default());
    let actions = [
        Action::Set(1_000),
        Action::LoadUnsized(0),
        Action::LoadUnsized(0),
        Action::LoadUnsized(0),
    ];
    actions.into_iter().for_each(|action| profiler.record(&Access::new(1, action)));
    let curve = profiler.curve();
    assert_eq!((curve.miss_ratio(999), curve.miss_ratio(1_000)), (1.0, 0.0));
}

#[test]
fn memory_does_not_grow_with_expired_objects() {
    let mut profiler = Profiler::new(Settings::default());
    for key in 0..1_000_000 {
        profiler.record(&access(key % 5_000, Action::Set(100), key, Some(1_000)));
    }
    assert!(profiler.memory_bytes() < 4 << 20, "{}", profiler.memory_bytes());
}
