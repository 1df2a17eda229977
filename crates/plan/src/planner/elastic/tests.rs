//! The loop with a cache whose clients change their working sets.

use super::*;
use crate::curves::curve::{Curve, Point};
use crate::planner::model::{Latencies, PercentileTarget};

const MIB: u64 = 1 << 20;
const PRICES: Prices = Prices { dram_per_gib: 13.0, flash_per_gib: 1.0 };

/// Requests for a working set of `mib` MiB, a tenth of which gets half of them.
fn curve(mib: u64) -> Curve {
    let points = (1..=40).map(|step| {
        let part = step as f64 / 40.0;
        let hot = (part * 10.0).min(1.0);
        let miss_ratio = 1.0 - 0.5 * hot - 0.49 * part;
        Point { size: (mib as f64 * MIB as f64 * part) as u64, miss_ratio }
    });
    Curve::new(points, 100_000.0).expect("ratios fall")
}

fn tenant(name: &str, mib: u64, sla_us: f64) -> Tenant {
    let latencies = Latencies { memory_us: 10.0, flash_us: 100.0, backend_us: 1_000.0 };
    Tenant { latencies, sla_us: Some(sla_us), ..Tenant::new(name, curve(mib)) }
}

/// A cache with the misses of its curve at a size smaller by a factor.
struct Cache {
    has: Sizes,
    factor: f64,
}

impl Cache {
    fn seen(&self, tenant: Tenant) -> Observation {
        let (memory, flash) = self.has;
        let miss = |bytes: u64| tenant.curve.miss_ratio((bytes as f64 / self.factor) as u64);
        let missed = (miss(memory), miss(memory + flash));
        let requests = tenant.curve.requests() as u64;
        Observation {
            tenant,
            has: self.has,
            least: (MIB, 0),
            requests,
            missed,
            is_full: true,
            is_fixed: false,
            is_guessed: false,
        }
    }

    fn latency_us(&self, tenant: Tenant) -> f64 {
        let Observation { tenant, missed, .. } = self.seen(tenant);
        tenant.latencies.mean_us(missed.0, missed.1)
    }

    fn window(&mut self, elastic: &mut Elastic, tenant: Tenant) -> Decision {
        let decision = elastic.window(&[self.seen(tenant)]);
        if let Some(sizes) = &decision.sizes {
            self.has = sizes[0];
        }
        decision
    }
}

fn bounds(dram_mib: u64, flash_mib: u64) -> Bounds {
    let (dram, flash) = (dram_mib * MIB, flash_mib * MIB);
    Bounds { dram_bytes: Some(dram), flash_bytes: Some(flash), ..Bounds::default() }
}

#[test]
fn shrinks_after_two_windows_and_grows_at_once() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (1_000 * MIB, 4_000 * MIB), factor: 1.0 };
    let small = || tenant("one", 100, 100.0);
    assert_eq!(cache.window(&mut elastic, small()).reason, Reason::Confirming);
    let decision = cache.window(&mut elastic, small());
    assert_eq!(decision.reason, Reason::Cheaper);
    assert!(decision.then.cost < decision.now.cost / 10.0, "{decision:?}");
    assert!(cache.latency_us(small()) <= 100.0);
    settle(&mut cache, &mut elastic, small());
    for _ in 0..5 {
        assert_eq!(cache.window(&mut elastic, small()).reason, Reason::NothingToGain);
    }
    // Ten times the working set: met again after one window.
    let large = || tenant("one", 1_000, 100.0);
    assert!(cache.latency_us(large()) > 100.0);
    assert_eq!(cache.window(&mut elastic, large()).reason, Reason::TargetMissed);
    assert!(cache.latency_us(large()) <= 100.0);
    assert_eq!(cache.window(&mut elastic, large()).reason, Reason::NothingToGain);
}

/// They are no target of the loop, which compares means: also one that nothing can meet.
#[test]
fn percentiles_do_not_change_decisions() {
    let decide = |percentiles: Vec<PercentileTarget>| {
        let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
        let mut cache = Cache { has: (1_000 * MIB, 4_000 * MIB), factor: 1.0 };
        let one = || Tenant { percentiles: percentiles.clone(), ..tenant("one", 100, 100.0) };
        [(); 3].map(|()| cache.window(&mut elastic, one()))
    };
    let unreachable = PercentileTarget { percent: 99.0, within_us: 1.0 };
    assert_eq!(decide(vec![unreachable]), decide(Vec::new()));
}

/// Flash holds at most what it had room for when the window began.
#[test]
fn flash_replacing_dram_fills_before_dram_is_taken() {
    let one = || tenant("one", 400, 250.0);
    for has in [(300 * MIB, 0), (300 * MIB, 20 * MIB), (360 * MIB, 0)] {
        let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
        let mut cache = Cache { has, factor: 1.0 };
        let (mut filled, mut was_kept, mut whys) = (has.1, false, Vec::new());
        for _ in 0..8 {
            let in_it = Cache { has: (cache.has.0, cache.has.1.min(filled)), ..cache };
            let is_kept = in_it.latency_us(one()) <= 250.0;
            assert!(is_kept || !was_kept, "{whys:?}");
            was_kept |= is_kept;
            filled = cache.has.1;
            let seen = Observation { missed: in_it.seen(one()).missed, ..cache.seen(one()) };
            let decision = elastic.window(&[seen]);
            whys.push(decision.reason);
            cache.has = decision.sizes.map_or(cache.has, |sizes| sizes[0]);
        }
        assert!(was_kept && whys.last() == Some(&Reason::NothingToGain), "{whys:?}");
        assert!(
            PRICES.cost(cache.has.0, cache.has.1) < PRICES.cost(100 * MIB, 400 * MIB),
            "{whys:?}"
        );
        let fills_once = whys.iter().filter(|reason| **reason == Reason::FlashFirst).count() <= 1;
        assert!(fills_once && whys.contains(&Reason::Cheaper), "{whys:?}");
    }
}

/// One tenant needs flash in place of DRAM, the other DRAM alone.
#[test]
fn alternating_workloads_do_not_make_flash_oscillate() {
    let of = |points: &[(u64, f64)]| {
        let points = points.iter().map(|&(mib, miss_ratio)| Point { size: mib * MIB, miss_ratio });
        let curve = Curve::new(points, 100_000.0).expect("ratios fall");
        Tenant { curve, ..tenant("one", 1, 100.0) }
    };
    let flat = of(&[(20, 0.5), (100, 0.08), (160, 0.03)]);
    let cliff = of(&[(100, 0.0)]);
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (100 * MIB, 0), factor: 1.0 };
    for _ in 0..6 {
        assert_eq!(cache.window(&mut elastic, flat.clone()).reason, Reason::Confirming);
        assert_eq!(cache.window(&mut elastic, cliff.clone()).reason, Reason::NothingToGain);
    }
    // If flash has been given and is not needed any more, the DRAM stays.
    let whys = [&flat, &flat, &cliff].map(|one| cache.window(&mut elastic, one.clone()).reason);
    assert_eq!(whys, [Reason::Confirming, Reason::FlashFirst, Reason::NothingToGain]);
    assert_eq!(cache.has.0, 100 * MIB);
    // And is taken with the next two windows that agree.
    let whys = [&flat, &flat].map(|one| cache.window(&mut elastic, one.clone()).reason);
    assert_eq!(whys, [Reason::Confirming, Reason::Cheaper]);
    assert_eq!(cache.has.0, 20 * MIB);
}

#[test]
fn dram_stays_while_a_latency_is_missed_despite_the_curve() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (300 * MIB, 0), factor: 1.0 };
    let one = || tenant("one", 400, 250.0);
    cache.window(&mut elastic, one());
    assert_eq!(cache.window(&mut elastic, one()).reason, Reason::FlashFirst);
    // A file on a slow disk, say, that has hardly filled yet.
    let late = Observation { missed: (0.3, 0.3), ..cache.seen(one()) };
    let decision = elastic.window(&[late]);
    assert_eq!((decision.reason, decision.sizes), (Reason::Confirming, None));
    assert_eq!(cache.window(&mut elastic, one()).reason, Reason::Cheaper);
    assert!(cache.has.0 < 100 * MIB && cache.latency_us(one()) <= 250.0, "{:?}", cache.has);
}

#[test]
fn unavailable_flash_is_not_waited_for() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let cache = Cache { has: (300 * MIB, 0), factor: 1.0 };
    let whys = [(); 3].map(|()| elastic.window(&[cache.seen(tenant("one", 400, 250.0))]).reason);
    assert_eq!(whys, [Reason::Confirming, Reason::FlashFirst, Reason::Cheaper]);
}

/// The bound is money, of which a unit is nearly all that there is.
#[test]
fn rounding_does_not_exceed_the_budget() {
    let has = (100 * MIB, 0);
    let cost = PRICES.cost(has.0, has.1);
    let most = cost / 1.5;
    assert!(cost < most + 1.0);
    let bounds = Bounds { cost: Some(most), ..bounds(1_000, 4_000) };
    let one = Tenant { sla_us: None, ..tenant("one", 200, 0.0) };
    let decision =
        Elastic::new(Goal::Latency, PRICES, bounds).window(&[seen_of(one, has, (MIB, MIB))]);
    assert_eq!(decision.reason, Reason::TargetMissed);
    assert!(decision.then.cost <= most * 1.001, "{decision:?}");
}

/// It has stopped sending requests after the first of two windows that find less sufficient.
#[test]
fn tenant_fixed_by_the_second_window_keeps_its_sizes() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let has = [(300 * MIB, 300 * MIB), (400 * MIB, 400 * MIB)];
    let seen = |is_fixed| {
        let one = seen_of(tenant("one", 100, 100.0), has[0], (MIB, MIB));
        let requests = if is_fixed { 0 } else { one.requests };
        let other = seen_of(tenant("other", 50, 100.0), has[1], (MIB, MIB));
        [Observation { is_fixed, requests, ..one }, other]
    };
    assert_eq!(elastic.window(&seen(false)).reason, Reason::Confirming);
    // For it that was much more flash than it has.
    if let Some(pending) = &mut elastic.pending {
        pending.sizes[0] = (20 * MIB, 900 * MIB);
    }
    let decision = elastic.window(&seen(true));
    let sizes = decision.sizes.expect("the other is to have less");
    assert_eq!((decision.reason, sizes[0]), (Reason::Cheaper, has[0]));
    assert!(sizes[1].0 < has[1].0, "{sizes:?}");
}

/// A cache that shrank a lot shrinks further once its behaviour is known; the latency is met.
fn settle(cache: &mut Cache, elastic: &mut Elastic, of: Tenant) {
    for _ in 0..2 {
        let decision = cache.window(elastic, of.clone());
        let is_calm =
            matches!(decision.reason, Reason::Confirming | Reason::Cheaper | Reason::NothingToGain);
        assert!(is_calm && Some(cache.latency_us(of.clone())) <= of.sla_us, "{decision:?}");
    }
}

#[test]
fn large_shrink_meets_the_latency_at_every_step() {
    // Four tenths more than its curve says are needed, which is unknown while all fits.
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (1_000 * MIB, 4_000 * MIB), factor: 1.4 };
    let first = cache.has;
    let mut had = vec![first];
    for _ in 0..12 {
        let seen = Observation { is_full: had.len() > 1, ..cache.seen(tenant("one", 100, 300.0)) };
        if let Some(sizes) = elastic.window(&[seen]).sizes {
            cache.has = sizes[0];
            had.push(cache.has);
        }
        assert!(cache.latency_us(tenant("one", 100, 300.0)) <= 300.0, "{had:?}");
    }
    let cost = |(memory, flash): Sizes| PRICES.cost(memory, flash);
    assert!(cost(cache.has) < cost(first) / 10.0, "{had:?}");
}

#[test]
fn window_between_two_smaller_plans_restarts_confirmation() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (1_000 * MIB, 4_000 * MIB), factor: 1.0 };
    (0..4).for_each(|_| drop(cache.window(&mut elastic, tenant("one", 1_200, 100.0))));
    let had = cache.has;
    for _ in 0..4 {
        assert_eq!(
            cache.window(&mut elastic, tenant("one", 100, 100.0)).reason,
            Reason::Confirming
        );
        assert_eq!(
            cache.window(&mut elastic, tenant("one", 1_200, 100.0)).reason,
            Reason::NothingToGain
        );
    }
    // Two that differ: enough for both.
    cache.window(&mut elastic, tenant("one", 100, 100.0));
    cache.window(&mut elastic, tenant("one", 300, 100.0));
    assert!(cache.has.0 < had.0 / 2);
    for mib in [100, 300] {
        assert!(cache.latency_us(tenant("one", mib, 100.0)) <= 100.0);
    }
}

#[test]
fn cache_worse_than_its_curve_gets_more() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (20 * MIB, 80 * MIB), factor: 1.3 };
    let one = || tenant("one", 400, 250.0);
    for _ in 0..8 {
        cache.window(&mut elastic, one());
    }
    assert!((1.2..1.4).contains(&elastic.stretch(0)), "{}", elastic.stretch(0));
    assert!(cache.latency_us(one()) <= 250.0, "{}", cache.latency_us(one()));
    let had = cache.has;
    for _ in 0..5 {
        cache.window(&mut elastic, one());
    }
    assert_eq!(cache.has, had, "it does not swing");
}

#[test]
fn cache_better_than_its_curve_needs_less() {
    let cost_after = |factor| {
        let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
        let mut cache = Cache { has: (200 * MIB, 800 * MIB), factor };
        let one = || tenant("one", 400, 450.0);
        let last = (0..20).map(|_| cache.window(&mut elastic, one())).last().expect("some");
        assert!(cache.latency_us(one()) <= 450.0);
        last.then.cost
    };
    assert!(cost_after(0.8) < cost_after(1.0) * 0.9);
}

#[test]
fn slightly_displaced_cliff_is_found() {
    let cliff = || {
        let curve = Curve::new([Point { size: 100 * MIB, miss_ratio: 0.0 }], 100_000.0);
        Tenant { curve: curve.expect("it is one"), ..tenant("one", 1, 50.0) }
    };
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (100 * MIB, 0), factor: 1.15 };
    let mut changes = 0;
    for _ in 0..20 {
        changes += usize::from(cache.window(&mut elastic, cliff()).sizes.is_some());
    }
    assert!(cache.latency_us(cliff()) <= 50.0, "{:?}", cache.has);
    assert!(changes <= 4 && cache.has.0 < 135 * MIB, "{changes} {:?}", cache.has);
    // A cache that is not full yet gives no evidence.
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    for _ in 0..5 {
        let empty = Observation { missed: (1.0, 1.0), is_full: false, ..cache.seen(cliff()) };
        elastic.window(&[empty]);
    }
    assert_eq!(elastic.stretch(0), 1.0);
}

#[test]
fn infeasible_target_gets_the_fastest_sizes_and_is_reported() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (MIB, 0), factor: 1.0 };
    let decision = cache.window(&mut elastic, tenant("one", 100, 15.0));
    assert!(matches!(decision.reason, Reason::Impossible(Infeasible::Sla { .. })), "{decision:?}");
    let least = 10.0 + 100.0 * 0.01 + 1_000.0 * 0.01;
    assert!((decision.then.latency_us / least) < 1.03, "{decision:?}");
    assert!(cache.has.0 <= 100 * MIB, "more is of no use");
    // Bounds that are too narrow.
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(10, 40));
    let mut cache = Cache { has: (MIB, 0), factor: 1.0 };
    let decision = cache.window(&mut elastic, tenant("one", 100, 100.0));
    assert!(matches!(decision.reason, Reason::Impossible(Infeasible::Bound(_))), "{decision:?}");
    assert!(cache.has.0 + cache.has.1 > 45 * MIB && cache.has.0 <= 10 * MIB, "{:?}", cache.has);
}

#[test]
fn budget_buys_the_least_latency() {
    let cost = 1.0;
    let bounds = Bounds { cost: Some(cost), ..bounds(1_000, 4_000) };
    let mut elastic = Elastic::new(Goal::Latency, PRICES, bounds);
    let mut cache = Cache { has: (1_000 * MIB, 4_000 * MIB), factor: 1.0 };
    let one = |mib| Tenant { sla_us: None, ..tenant("one", mib, 0.0) };
    let decision = cache.window(&mut elastic, one(40));
    assert_eq!(decision.reason, Reason::TargetMissed);
    assert!(decision.then.cost <= cost * (1.0 + 1e-6), "{decision:?}");
    assert_eq!(cache.window(&mut elastic, one(40)).reason, Reason::NothingToGain);
    assert_eq!(cache.window(&mut elastic, one(400)).reason, Reason::Faster);
    assert_eq!(cache.window(&mut elastic, one(400)).reason, Reason::NothingToGain);
}

#[test]
fn small_flash_is_raised_to_the_minimum() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (1_000 * MIB, 4_000 * MIB), factor: 1.0 };
    for _ in 0..6 {
        let seen = Observation { least: (MIB, 300 * MIB), ..cache.seen(tenant("one", 100, 100.0)) };
        if let Some(sizes) = elastic.window(&[seen]).sizes {
            cache.has = sizes[0];
        }
    }
    assert!((300 * MIB..420 * MIB).contains(&cache.has.1), "{:?}", cache.has);
    assert!(cache.latency_us(tenant("one", 100, 100.0)) <= 100.0);
}

/// A tenant with those sizes, with the misses of its curve.
fn seen_of(tenant: Tenant, has: Sizes, least: Sizes) -> Observation {
    Observation { least, ..Cache { has, factor: 1.0 }.seen(tenant) }
}

#[test]
fn all_tenants_together_stay_within_the_bounds() {
    let total = |sizes: &[Sizes]| sizes.iter().fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1));
    // One tenant that could use everything, with seven that have to have something each.
    for least_mib in [1, 30, 60] {
        let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(500, 400));
        let mut has = vec![(60 * MIB, 50 * MIB); 8];
        for window in 0..6 {
            let seen: Vec<Observation> = (0..8)
                .map(|number| {
                    let mib = if number == window % 2 { 900 } else { 10 };
                    let one = tenant(&format!("t{number}"), mib, 60.0);
                    seen_of(one, has[number], (least_mib * MIB, MIB))
                })
                .collect();
            let decision = elastic.window(&seen);
            if let Some(sizes) = decision.sizes {
                let (memory, flash) = total(&sizes);
                assert!(memory <= 501 * MIB && flash <= 401 * MIB, "{least_mib} {sizes:?}");
                assert!(sizes.iter().all(|sizes| sizes.0 >= least_mib * MIB), "{sizes:?}");
                has = sizes;
            }
        }
    }
}

#[test]
fn fixed_tenant_keeps_its_sizes() {
    for goal in [Goal::Cost, Goal::Latency] {
        let cost = (goal == Goal::Latency).then_some(8.0);
        let mut elastic = Elastic::new(goal, PRICES, Bounds { cost, ..bounds(500, 400) });
        let has = (300 * MIB, 300 * MIB);
        let mut other = (200 * MIB, 100 * MIB);
        for _ in 0..4 {
            let idle = Tenant { requests_per_s: 0.0, ..tenant("idle", 900, 100.0) };
            let idle =
                Observation { is_fixed: true, requests: 0, ..seen_of(idle, has, (MIB, MIB)) };
            let busy = seen_of(tenant("busy", 400, 60.0), other, (MIB, MIB));
            if let Some(sizes) = elastic.window(&[idle, busy]).sizes {
                assert_eq!(sizes[0], has, "{goal:?}");
                assert!(sizes[1].0 <= 200 * MIB && sizes[1].1 <= 101 * MIB, "{goal:?} {sizes:?}");
                other = sizes[1];
            }
        }
    }
}

#[test]
fn one_infeasible_window_does_not_shrink_a_cache() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (500 * MIB, 2_000 * MIB), factor: 1.0 };
    // Nothing has been requested twice.
    let all_new = Curve::new([Point { size: MIB, miss_ratio: 0.95 }], 100_000.0);
    let all_new = Tenant { curve: all_new.expect("it is one"), ..tenant("one", 1, 100.0) };
    for _ in 0..3 {
        let decision = cache.window(&mut elastic, all_new.clone());
        assert!(matches!(decision.reason, Reason::Impossible(_)) && decision.sizes.is_none());
    }
}

#[test]
fn few_requests_change_nothing() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let mut cache = Cache { has: (1_000 * MIB, 0), factor: 1.0 };
    let idle = Curve::new([Point { size: 1, miss_ratio: 0.0 }], 10.0).expect("it is one");
    for _ in 0..3 {
        let idle = Tenant { curve: idle.clone(), ..tenant("one", 1, 100.0) };
        let decision = cache.window(&mut elastic, idle);
        assert_eq!((decision.reason, decision.sizes), (Reason::Idle, None));
    }
}

/// By the default miss cost, which may be wrong.
#[test]
fn guessed_miss_cost_never_shrinks_a_tenant() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let guessed = |has: Sizes, mib: u64, sla_us: f64| Observation {
        is_guessed: true,
        ..Cache { has, factor: 1.0 }.seen(tenant("guessed", mib, sla_us))
    };
    let known = |has: Sizes| Cache { has, factor: 1.0 }.seen(tenant("known", 100, 100.0));
    // Next to nothing would suffice for each of them.
    let (one, other) = ((300 * MIB, 1_000 * MIB), (500 * MIB, 3_000 * MIB));
    let seen = [guessed(one, 10, 900.0), known(other)];
    assert_eq!(elastic.window(&seen).reason, Reason::Confirming);
    let decision = elastic.window(&seen);
    assert_eq!(decision.reason, Reason::Cheaper);
    let sizes = decision.sizes.expect("they change");
    assert_eq!(sizes[0], one);
    assert!(sizes[1].0 < other.0 / 2 && sizes[1].1 < other.1 / 2, "{sizes:?}");
    // It may have more, and no more than there is.
    let small = (MIB, 10 * MIB);
    let decision = elastic.window(&[guessed(small, 500, 60.0), known(sizes[1])]);
    assert_eq!(decision.reason, Reason::TargetMissed);
    let more = decision.sizes.expect("they change");
    assert!(more[0].0 > 100 * MIB && more[0].1 >= small.1, "{more:?}");
    assert!(more[0].0 + more[1].0 <= 1_000 * MIB, "{more:?}");
    // If it has all there is, the others have the rest.
    let all = (990 * MIB, 3_990 * MIB);
    let rest = (10 * MIB, 10 * MIB);
    let decision = elastic.window(&[guessed(all, 10, 900.0), known(rest)]);
    let sizes = decision.sizes.unwrap_or(vec![all, rest]);
    assert_eq!(sizes[0], all);
    assert!(sizes[1].0 <= rest.0 && sizes[1].1 <= rest.1, "{sizes:?}");
}

#[test]
fn infeasible_tenant_is_reported_by_its_index_among_all() {
    let mut elastic = Elastic::new(Goal::Cost, PRICES, bounds(1_000, 4_000));
    let has = (MIB, 10 * MIB);
    let seen = |name: &str, sla_us| Cache { has, factor: 1.0 }.seen(tenant(name, 100, sla_us));
    let fixed = Observation { is_fixed: true, ..seen("fixed", 100.0) };
    let decision = elastic.window(&[fixed, seen("early", 1.0)]);
    let Reason::Impossible(Infeasible::Sla { tenant, .. }) = decision.reason else {
        panic!("{decision:?}");
    };
    assert_eq!(tenant, 1);
}
