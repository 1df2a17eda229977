//! Plans compared with an exhaustive search, and the errors when there is none.

use proptest::prelude::*;

use super::*;
use crate::planner::model::Prices;

const MIB: u64 = 1 << 20;

fn curve(points: &[(u64, f64)]) -> Curve {
    let points = points.iter().map(|&(mib, miss_ratio)| Point { size: mib * MIB, miss_ratio });
    Curve::new(points, 1_000.0).expect("it is a curve")
}

fn request(tenants: Vec<Tenant>, bounds: Bounds, goal: Goal) -> PlanRequest {
    PlanRequest { tenants, prices: Prices { dram_per_gib: 13.0, flash_per_gib: 1.0 }, bounds, goal }
}

/// All sizes that a tenant can have with a sum that is a point: DRAM of a point, and as much more as
/// its own limit of flash needs.
fn pairs(tenant: &Tenant) -> Vec<(u64, u64)> {
    let points = tenant.curve.points();
    let flash_max = tenant.flash_bytes_max.unwrap_or(u64::MAX);
    let from = |(place, memory): (usize, &Point)| {
        let memory = memory.size;
        let pairs = points[place..].iter().map(move |all| {
            let memory = memory.max(all.size.saturating_sub(flash_max));
            (memory, all.size - memory)
        });
        pairs.collect::<Vec<_>>()
    };
    points.iter().enumerate().flat_map(from).collect()
}

/// The same sizes; flash beyond the bound of all is DRAM instead, of the tenants in each order.
fn exchanged(sizes: &[(u64, u64)], bounds: Bounds) -> Vec<Vec<(u64, u64)>> {
    let flash = sizes.iter().map(|(_, flash)| flash).sum::<u64>();
    let excess = flash.saturating_sub(bounds.flash_bytes.unwrap_or(u64::MAX));
    if excess == 0 {
        return vec![sizes.to_vec()];
    }
    let exchange = |order: Vec<usize>| {
        let (mut sizes, mut left) = (sizes.to_vec(), excess);
        for at in order {
            let bytes = left.min(sizes[at].1);
            sizes[at] = (sizes[at].0 + bytes, sizes[at].1 - bytes);
            left -= bytes;
        }
        sizes
    };
    permutations(sizes.len()).into_iter().map(exchange).collect()
}

/// All permutations of the numbers below `count`.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else { return vec![Vec::new()] };
    let with_last = |order: Vec<usize>| {
        (0..count).map(move |at| [&order[..at], &[last], &order[at..]].concat())
    };
    permutations(last).into_iter().flat_map(with_last).collect()
}

/// The part of a tenant's requests that take at most `us`: the sum over the levels that answer.
fn share_within(tenant: &Tenant, gets: &Allotment, us: f64) -> f64 {
    let Latencies { memory_us, flash_us, backend_us } = tenant.latencies;
    let (in_memory, in_both) = (1.0 - gets.memory_miss_ratio, 1.0 - gets.miss_ratio);
    let flash_us = if gets.flash_bytes > 0 { flash_us } else { 0.0 };
    let levels = [
        (memory_us, in_memory),
        (memory_us + flash_us, in_both - in_memory),
        (memory_us + flash_us + backend_us, gets.miss_ratio),
    ];
    levels.into_iter().filter(|(time, _)| *time <= us).map(|(_, part)| part).sum()
}

/// The least objective, by exhaustive search.
fn searched(request: &PlanRequest) -> Option<f64> {
    let mut choices: Vec<Vec<(u64, u64)>> = vec![Vec::new()];
    for tenant in &request.tenants {
        let longer = |before: &Vec<(u64, u64)>| {
            let before = before.clone();
            pairs(tenant).into_iter().map(move |pair| [before.as_slice(), &[pair]].concat())
        };
        choices = choices.iter().flat_map(longer).collect();
    }
    let all = choices.iter().flat_map(|sizes| exchanged(sizes, request.bounds));
    let plans = all.map(|sizes| Plan::of(request, &sizes));
    let fits = |plan: &Plan| {
        let keeps = |(tenant, gets): (&Tenant, &Allotment)| {
            tenant.sla_us.is_none_or(|sla_us| gets.latency_us <= sla_us)
                && tenant.percentiles.iter().all(|target| {
                    share_within(tenant, gets, target.within_us) * 100.0 >= target.percent
                })
        };
        let bounds = Bound::ALL.into_iter().all(|bound| {
            request.bounds.get(bound).is_none_or(|most| plan.takes(request, bound) <= most)
        });
        bounds && request.tenants.iter().zip(&plan.tenants).all(keeps)
    };
    let least = |plan: Plan| match request.goal {
        Goal::Cost => plan.cost,
        Goal::Latency => plan.latency_us,
    };
    plans.filter(fits).map(least).min_by(f64::total_cmp)
}

fn curves(points: usize) -> impl Strategy<Value = Curve> {
    let step = (1..400_u64, 0.0..0.6_f64);
    prop::collection::vec(step, 1..points).prop_map(|steps| {
        let (mut size, mut miss_ratio) = (0, 1.0);
        let mut next = |(further, part): (u64, f64)| {
            size += further;
            miss_ratio *= 1.0 - part;
            (size, miss_ratio)
        };
        curve(&steps.into_iter().map(&mut next).collect::<Vec<_>>())
    })
}

/// Up to two, between all levels of the default latencies.
fn percentiles() -> impl Strategy<Value = Vec<PercentileTarget>> {
    let within_us = prop_oneof![
        1 => 10.0..110.0_f64,
        3 => 110.0..1_010.0_f64,
        1 => 1_010.0..1_110.0_f64,
        1 => 1_110.0..1_300.0_f64,
    ];
    let target = (5.0..90.0_f64, within_us)
        .prop_map(|(percent, within_us)| PercentileTarget { percent, within_us });
    prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(target, 1..3)]
}

/// The default, and flash that is slower than the backend.
fn latencies() -> impl Strategy<Value = Latencies> {
    let any = (1.0..20.0_f64, 0.0..800.0_f64, 0.0..800.0_f64).prop_map(
        |(memory_us, flash_us, backend_us)| Latencies { memory_us, flash_us, backend_us },
    );
    prop_oneof![2 => Just(Latencies::DEFAULT), 1 => any]
}

fn tenants(points: usize) -> impl Strategy<Value = Tenant> {
    let sla = prop_oneof![1 => Just(None), 3 => (150.0..900.0_f64).prop_map(Some)];
    let flash = prop_oneof![3 => Just(None), 1 => (0..1_000_u64).prop_map(|mib| Some(mib * MIB))];
    let numbers = (1.0..50.0_f64, 0.0..0.02_f64);
    let slas = (sla, percentiles(), latencies());
    (curves(points), slas, flash, numbers).prop_map(
        |(curve, (sla_us, percentiles, latencies), flash_bytes_max, (requests, index))| Tenant {
            sla_us,
            percentiles,
            latencies,
            flash_bytes_max,
            requests_per_s: requests,
            index_bytes_per_byte: index,
            demoted_bytes: 400.0,
            ..Tenant::new("one", curve)
        },
    )
}

fn requests() -> impl Strategy<Value = PlanRequest> {
    requests_of(1..3, 9)
}

/// Requests with up to this many tenants, whose curves have fewer points than that.
fn requests_of(count: std::ops::Range<usize>, points: usize) -> impl Strategy<Value = PlanRequest> {
    let bound =
        |most: u64| prop_oneof![4 => Just(None), 8 => (1..most).prop_map(Some), 1 => Just(Some(0))];
    let goal = prop_oneof![Just(Goal::Cost), Just(Goal::Latency)];
    let bounds = (bound(2_000), bound(4_000), bound(40), bound(30_000));
    (prop::collection::vec(tenants(points), count), bounds, goal).prop_map(
        |(tenants, bounds, goal)| {
            let (dram, flash, cost, writes) = bounds;
            let bounds = Bounds {
                dram_bytes: dram.map(|mib| mib * MIB),
                flash_bytes: flash.map(|mib| mib * MIB),
                cost: cost.map(|cost| cost as f64),
                flash_writes_bytes_per_s: writes.map(|writes| writes as f64),
            };
            request(tenants, bounds, goal)
        },
    )
}

fn least(plan: &Plan, goal: Goal) -> f64 {
    match goal {
        Goal::Cost => plan.cost,
        Goal::Latency => plan.latency_us,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn exact_plan_is_optimal(request in requests()) {
        match (plan_exactly(&request, DEFAULT_POINTS), searched(&request)) {
            (Ok(plan), Some(best)) => {
                let found = least(&plan, request.goal);
                prop_assert!((found - best).abs() <= best.abs() * 1e-4 + 1e-9, "{found} of {best}");
            }
            (Err(Infeasible::Solver(error)), _) => prop_assert!(false, "{error}"),
            (Err(_), None) => {}
            (plan, best) => prop_assert!(false, "{plan:?}, and {best:?}"),
        }
    }

    #[test]
    fn exact_plan_is_optimal_for_more_tenants(request in requests_of(3..5, 4)) {
        match (plan_exactly(&request, DEFAULT_POINTS), searched(&request)) {
            (Ok(plan), Some(best)) => {
                let found = least(&plan, request.goal);
                prop_assert!((found - best).abs() <= best.abs() * 1e-5 + 1e-9, "{found} of {best}");
            }
            (Err(Infeasible::Solver(error)), _) => prop_assert!(false, "{error}"),
            (Err(_), None) => {}
            (plan, best) => prop_assert!(false, "{plan:?}, and {best:?}"),
        }
    }

    /// The hull includes all plans over the points, and more, but counts the time of flash also where
    /// there is none.
    #[test]
    fn plan_on_hull_costs_no_more(mut request in requests()) {
        request.goal = Goal::Cost;
        if let Ok(exact) = plan_exactly(&request, DEFAULT_POINTS)
            && exact.tenants.iter().all(|gets| gets.flash_bytes > 0)
        {
            let hull = plan_on_hull(&request).expect("there is more on it");
            prop_assert!(hull.cost <= exact.cost * (1.0 + 1e-6) + 1e-9);
        }
    }

    #[test]
    fn raising_a_bound_to_the_reported_value_makes_a_plan_possible(request in requests()) {
        let widened = |bound: Bound, least: f64| {
            let mut request = request.clone();
            let bounds = &mut request.bounds;
            let bytes = Some(least.ceil() as u64 + 1);
            let more = Some(least * (1.0 + 1e-6) + 1e-9);
            match bound {
                Bound::Dram => bounds.dram_bytes = bytes,
                Bound::Flash => bounds.flash_bytes = bytes,
                Bound::Cost => bounds.cost = more,
                Bound::FlashWrites => bounds.flash_writes_bytes_per_s = more,
            }
            request
        };
        match plan_exactly(&request, DEFAULT_POINTS) {
            Err(Infeasible::Bound(each)) => {
                for (bound, least) in each {
                    let before = request.bounds.get(bound).expect("it is one of them");
                    prop_assert!(least > before * (1.0 - 1e-6), "{bound:?}: {least} and {before}");
                    prop_assert!(plan_exactly(&widened(bound, least), DEFAULT_POINTS).is_ok(), "{bound:?}");
                    let less = least * 0.999 - if bound == Bound::Cost { 0.0 } else { 2.0 };
                    let less = plan_exactly(&widened(bound, less), DEFAULT_POINTS);
                    prop_assert!(less.is_err(), "{bound:?}: less than {least} would do");
                }
            }
            Err(Infeasible::Bounds(takes)) => {
                let mut wider = request.clone();
                for (bound, takes) in takes {
                    prop_assert!(request.bounds.get(bound).is_some_and(|most| takes > most));
                    wider.bounds = wider.bounds.without(bound);
                }
                prop_assert!(plan_exactly(&wider, DEFAULT_POINTS).is_ok());
            }
            _ => {}
        }
    }
}

/// Two tenants, computed by hand: one has a small working set, the other a large one.
#[test]
fn plan_for_two_tenants_matches_hand_computation() {
    let small =
        Tenant { sla_us: Some(200.0), ..Tenant::new("small", curve(&[(100, 0.2), (200, 0.1)])) };
    let large = Tenant {
        sla_us: Some(320.0),
        ..Tenant::new("large", curve(&[(1_024, 0.5), (10_240, 0.2)]))
    };
    let request = request(vec![small, large], Bounds::default(), Goal::Cost);
    let plan = plan_exactly(&request, DEFAULT_POINTS).expect("there is one");
    // 10 + 100 · 0.2 + 1000 · 0.1 = 130: 100 MiB of each. With no DRAM, 10 + 100 + 100 = 210.
    let [small, large] = plan.tenants[..] else { panic!("two tenants") };
    assert_eq!((small.memory_bytes / MIB, small.flash_bytes / MIB), (100, 100));
    assert!((small.latency_us - 130.0).abs() < 1e-9);
    // 10 + 100 + 1000 · 0.2 = 310 with no DRAM at all.
    assert_eq!((large.memory_bytes / MIB, large.flash_bytes / MIB), (0, 10_240));
    assert!((plan.cost - (1.3 / 1.024 + 0.1 / 1.024 + 10.0)).abs() < 1e-9, "{}", plan.cost);
}

#[test]
fn unreachable_latency_is_reported_with_the_least_possible() {
    let slow = Tenant { sla_us: Some(100.0), ..Tenant::new("slow", curve(&[(100, 0.2)])) };
    let request = request(vec![slow], Bounds::default(), Goal::Cost);
    // 10 + 1000 · 0.2, without flash.
    assert_eq!(
        plan_exactly(&request, DEFAULT_POINTS),
        Err(Infeasible::Sla { tenant: 0, least_us: 210.0 })
    );
    assert_eq!(plan_on_hull(&request), Err(Infeasible::Sla { tenant: 0, least_us: 210.0 }));
}

/// 90 % within the time of flash is a miss ratio of both; within the time of DRAM, one of DRAM.
#[test]
fn percentile_is_met_at_the_least_cost() {
    let one = |percentiles: &[(f64, f64)]| {
        let percentiles = percentiles
            .iter()
            .map(|&(percent, within_us)| PercentileTarget { percent, within_us })
            .collect();
        let curve = curve(&[(100, 0.4), (400, 0.1), (800, 0.05)]);
        let request = request(
            vec![Tenant { percentiles, ..Tenant::new("one", curve) }],
            Bounds::default(),
            Goal::Cost,
        );
        let gets = plan_exactly(&request, DEFAULT_POINTS).map(|plan| plan.tenants[0]);
        gets.map(|gets| (gets.memory_bytes / MIB, gets.flash_bytes / MIB))
    };
    assert_eq!(one(&[(90.0, 110.0)]), Ok((0, 400)));
    assert_eq!(one(&[(90.0, 109.0)]), Ok((400, 0)));
    // Both: DRAM answers 60 % in time, and flash the others.
    assert_eq!(one(&[(60.0, 10.0), (95.0, 500.0)]), Ok((100, 700)));
    // The backend answers all in 1010 µs, but behind flash in 1110.
    assert_eq!(one(&[(99.0, 1_010.0)]), Ok((0, 0)));
    assert_eq!(one(&[(60.0, 110.0), (99.0, 1_010.0)]), Ok((100, 0)));
    assert_eq!(one(&[(60.0, 110.0), (99.0, 1_110.0)]), Ok((0, 100)));
    // The hull is a line from one point to the next, so a little less suffices.
    let target = PercentileTarget { percent: 99.0, within_us: 500.0 };
    let impossible = |most_share, least_us| {
        Err(Infeasible::Percentile { tenant: 0, target, most_share, least_us })
    };
    assert_eq!(one(&[(50.0, 110.0), (99.0, 500.0)]), impossible(0.95, 1_010.0));
    let target = PercentileTarget { percent: 50.0, within_us: 9.0 };
    let refused =
        Err(Infeasible::Percentile { tenant: 0, target, most_share: 0.0, least_us: 10.0 });
    assert_eq!(one(&[(50.0, 9.0)]), refused);
}

/// The linear program knows percentiles too: of hulls, where a little less suffices.
#[test]
fn plan_on_hull_meets_percentiles_of_the_hull() {
    let one = |percent: f64, within_us: f64| {
        let percentiles = vec![PercentileTarget { percent, within_us }];
        let curve = curve(&[(100, 0.4), (400, 0.1)]);
        let tenant = Tenant { percentiles, ..Tenant::new("one", curve) };
        let plan = plan_on_hull(&request(vec![tenant], Bounds::default(), Goal::Cost));
        let gets = plan.expect("there is one").tenants[0];
        (gets.memory_bytes.div_ceil(MIB), gets.flash_bytes.div_ceil(MIB))
    };
    assert_eq!(one(80.0, 110.0), (0, 300));
    assert_eq!(one(80.0, 50.0), (300, 0));
    assert_eq!(one(95.0, 1_010.0), (0, 0));
}

#[test]
fn without_flash_nothing_is_written_to_it() {
    let tenant = Tenant {
        sla_us: Some(500.0),
        requests_per_s: 100.0,
        demoted_bytes: 400.0,
        ..Tenant::new("one", curve(&[(100, 0.4)]))
    };
    let bounds = Bounds { flash_writes_bytes_per_s: Some(1.0), ..Bounds::default() };
    let request = request(vec![tenant], bounds, Goal::Cost);
    let plan = plan_exactly(&request, DEFAULT_POINTS).expect("DRAM alone suffices");
    assert_eq!((plan.tenants[0].memory_bytes / MIB, plan.tenants[0].flash_bytes), (100, 0));
    assert_eq!(plan.takes(&request, Bound::FlashWrites), 0.0);
}

#[test]
fn too_narrow_bound_is_reported_with_the_value_needed() {
    let tenant =
        Tenant { sla_us: Some(130.0), ..Tenant::new("one", curve(&[(100, 0.2), (200, 0.1)])) };
    let bounds = Bounds { dram_bytes: Some(50 * MIB), ..Bounds::default() };
    let request = request(vec![tenant], bounds, Goal::Cost);
    let narrow = Infeasible::Bound(vec![(Bound::Dram, (100 * MIB) as f64)]);
    assert_eq!(plan_exactly(&request, DEFAULT_POINTS), Err(narrow));
}

/// Flash does not become DRAM where the bound of DRAM is zero.
#[test]
fn least_flash_without_dram_is_that_of_the_whole_cache() {
    let tenant = Tenant { sla_us: Some(310.0), ..Tenant::new("one", curve(&[(100, 0.2)])) };
    let bounds = Bounds { dram_bytes: Some(0), flash_bytes: Some(MIB), ..Bounds::default() };
    let request = request(vec![tenant], bounds, Goal::Cost);
    let mib = MIB as f64;
    // Flash alone needs all; a MiB of it may stay where DRAM has the rest.
    let narrow = vec![(Bound::Dram, 99.0 * mib), (Bound::Flash, 100.0 * mib)];
    assert_eq!(plan_exactly(&request, DEFAULT_POINTS), Err(Infeasible::Bound(narrow)));
}

#[test]
fn zero_prices_and_empty_curves_have_plans() {
    let tenant = Tenant { sla_us: Some(900.0), ..Tenant::new("one", curve(&[(100, 0.2)])) };
    let nothing = Tenant::new("nothing", curve(&[]));
    let mut request = request(vec![tenant, nothing], Bounds::default(), Goal::Cost);
    request.prices = Prices { dram_per_gib: 0.0, flash_per_gib: 0.0 };
    for plan in [plan_exactly(&request, DEFAULT_POINTS), plan_on_hull(&request)] {
        let plan = plan.expect("there is one");
        assert_eq!(plan.cost, 0.0);
        assert!(plan.tenants[0].latency_us <= 900.0 * (1.0 + TOLERANCE));
        assert_eq!((plan.tenants[1].memory_bytes, plan.tenants[1].flash_bytes), (0, 0));
    }
}

#[test]
fn another_gib_is_worth_what_it_saves() {
    let tenant =
        Tenant { sla_us: Some(320.0), ..Tenant::new("one", curve(&[(1_024, 0.5), (10_240, 0.2)])) };
    let bounds = Bounds { flash_bytes: Some(9 << 30), ..Bounds::default() };
    let request = request(vec![tenant], bounds, Goal::Cost);
    let plan = plan_exactly(&request, DEFAULT_POINTS).expect("there is one");
    // A GiB of DRAM is there for lack of flash.
    assert_eq!(plan.tenants[0].memory_bytes, 1 << 30);
    let worth = marginal_value(&request, &plan, Bound::Flash, (1_u64 << 30) as f64);
    assert!((worth.expect("there is a bound") - 12.0).abs() < 1e-6, "{worth:?}");
    assert_eq!(marginal_value(&request, &plan, Bound::Dram, 1.0), None);
}

#[test]
fn curves_with_thousands_of_points_have_plans() {
    let points = (1..=5_000_u64).map(|mib| (mib, 1.0 / (1.0 + mib as f64 / 100.0)));
    let curve = curve(&points.collect::<Vec<_>>());
    let tenants = [200.0, 250.0, 300.0].map(|sla_us| Tenant {
        sla_us: Some(sla_us),
        latencies: Latencies { memory_us: 10.0, flash_us: 100.0, backend_us: 1_000.0 },
        ..Tenant::new("one", curve.clone())
    });
    let request = request(tenants.to_vec(), Bounds::default(), Goal::Cost);
    let (exact, hull) =
        (plan_exactly(&request, DEFAULT_POINTS).unwrap(), plan_on_hull(&request).unwrap());
    assert!(
        hull.cost <= exact.cost && exact.cost < hull.cost * 1.05,
        "{} {}",
        hull.cost,
        exact.cost
    );
}

/// Curves with thousands of points that are not convex: each has a cliff somewhere.
fn with_cliffs(count: u64) -> Vec<Tenant> {
    let of = |number: u64| {
        let cliff = 300 + 170 * number;
        let points = (1..=2_000_u64).map(|mib| {
            let part = mib as f64 / 2_000.0;
            let fallen = if mib >= cliff { 0.25 } else { 0.0 };
            (mib, ((1.0 - part).powf(1.5 + 0.1 * number as f64) * 0.9 + 0.05 - fallen).max(0.01))
        });
        let mut least = 1.0_f64;
        let points = points.map(|(mib, ratio)| {
            least = least.min(ratio);
            (mib, least)
        });
        let curve = curve(&points.collect::<Vec<_>>());
        Tenant { sla_us: Some(300.0), ..Tenant::new("one", curve) }
    };
    (0..count).map(of).collect()
}

#[test]
fn ten_tenants_with_thousands_of_points_share_the_bounds() {
    let free = request(with_cliffs(10), Bounds::default(), Goal::Cost);
    let cheapest = plan_exactly(&free, DEFAULT_POINTS).expect("there is one");
    let [dram, flash] = [Bound::Dram, Bound::Flash].map(|bound| cheapest.takes(&free, bound));
    let gib = f64::from(1 << 30);
    // Less DRAM, and less flash with more DRAM.
    for (dram, flash) in [(dram * 0.9, flash * 2.0), (dram + 4.0 * gib, flash * 0.8)] {
        let bounds = Bounds {
            dram_bytes: Some(dram as u64),
            flash_bytes: Some(flash as u64),
            ..Bounds::default()
        };
        let request = request(with_cliffs(10), bounds, Goal::Cost);
        let plan = plan_exactly(&request, DEFAULT_POINTS).expect("there is one");
        let hull = plan_on_hull(&request).expect("there is more on it");
        assert!(keeps(&request, &plan), "{plan:?}");
        assert!(plan.cost > cheapest.cost && plan.cost > hull.cost * (1.0 - 1e-6), "{}", plan.cost);
    }
    // And an infeasible request is reported.
    let bounds =
        Bounds { dram_bytes: Some(1 << 20), flash_bytes: Some(1 << 30), ..Bounds::default() };
    let narrow = request(with_cliffs(10), bounds, Goal::Cost);
    let refused = plan_exactly(&narrow, DEFAULT_POINTS).expect_err("there is too little of both");
    assert!(matches!(refused, Infeasible::Bound(_) | Infeasible::Bounds(_)), "{refused:?}");
}

/// A byte of flash that becomes DRAM takes less DRAM where the index of flash is large. So with
/// bounded DRAM the least flash is that of the tenant with the smaller index.
#[test]
fn least_flash_within_bounded_dram_exchanges_where_the_index_is_large() {
    let of = |index_bytes_per_byte: f64| Tenant {
        index_bytes_per_byte,
        sla_us: Some(310.0),
        ..Tenant::new("one", curve(&[(100, 0.2)]))
    };
    let bounds = Bounds { dram_bytes: Some(50 * MIB), flash_bytes: Some(MIB), ..Bounds::default() };
    for indexes in [[0.01, 0.2], [0.2, 0.01]] {
        let request = request(indexes.into_iter().map(of).collect(), bounds, Goal::Cost);
        let Err(Infeasible::Bound(each)) = plan_exactly(&request, DEFAULT_POINTS) else {
            panic!("two tenants need 200 MiB");
        };
        // The indexes of 200 MiB of flash take 21 MiB; 29 MiB are left, at 0.8 for each of flash.
        let least = (200.0 - 29.0 / 0.8) * MIB as f64;
        let flash = each.iter().find(|(bound, _)| *bound == Bound::Flash).map(|(_, least)| *least);
        assert!(flash.is_some_and(|flash| (flash - least).abs() < 10.0), "{flash:?} of {least}");
    }
}
