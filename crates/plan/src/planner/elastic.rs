//! Decides when a running cache changes its sizes, and to what: the loop of profiling, planning and
//! resizing (ElCached §6), with damping.
//!
//! ```text
//!                    ┌── a latency would be missed ───────────────────────► more, at once
//!  a window ends ────┼── a tenth would be saved, for the second time ────► less: enough for both
//!                    └── no plan meets all targets ──────────────────────► the fastest possible,
//!                                                                          if that is a tenth faster
//! ```
//!
//! * **Target margin.** Plans aim at [`TARGET_FRACTION`] of each target latency, so that a small
//!   error does not miss it.
//! * **Feedback.** A curve describes an LRU cache without duplicates and without shards. For each
//!   tenant the loop learns by which factor the real cache has to be larger for the same misses,
//!   and stretches curves by that ([`Elastic::window`]). At a cliff, where a little more makes all
//!   the difference, the curve gives no factor: there a missed latency raises it by a tenth. Only
//!   windows count that began with the sizes that they ended with, and in which objects were
//!   evicted: a cache that is not full yet gives no evidence.
//! * **Flash before DRAM.** New flash is empty, and a window fills it. If two windows agree that
//!   less DRAM suffices with much more flash ([`SIZE_CHANGE`]), the flash is given and the DRAM stays,
//!   if both are within the bounds. The next window in which no tenant that loses DRAM missed its
//!   latency takes the DRAM, if it still finds that less suffices than there was before the flash.
//! * **Tenants that stay as they are.** A fixed tenant ([`Observation::is_fixed`]; the caller knows
//!   the reason) keeps its sizes, and the others share the rest. A tenant whose miss cost is a
//!   guess ([`Observation::is_guessed`]) keeps at least its sizes. All together never exceed the
//!   bounds.
//!
//! Pure: it only decides; call it once for each window and resize accordingly.

use crate::curves::curve::Curve;
use crate::planner::choices::{self, Outcome};
use crate::planner::model::{Allotment, Prices, Tenant};
use crate::planner::request::{Bound, Bounds, Goal, Objective, Plan, PlanRequest};
use crate::planner::solver::{Infeasible, plan_exactly, plan_on_hull};

/// The fraction of a target latency that plans aim at.
pub const TARGET_FRACTION: f64 = 0.95;
/// A smaller saving is not worth moving objects.
const SAVING_MIN: f64 = 0.1;
/// Extra flash for a cache that shrinks, as a fraction of the total: the least, and the most, for
/// one that shrinks a lot.
const EXTRA_FLASH: (f64, f64) = (0.3, 1.0);
/// The weight of a new window in the learned factor.
const LEARNING_RATE: f64 = 0.5;
/// The range of the learned factor.
const STRETCH_RANGE: (f64, f64) = (0.7, 2.0);
/// Miss ratios that differ by no more than this fraction of them, plus this constant, are equal.
const EQUAL: (f64, f64) = (0.03, 0.002);
/// The factor by which a curve is stretched further when a latency is missed unexpectedly.
const EXTRA_STRETCH: f64 = 1.1;
/// A push for one size is dropped at a size that differs by this factor.
const SIZE_CHANGE: f64 = 1.25;
/// Points of a curve per search step.
const POINTS: usize = 100;
/// Plans for more tenants may take too long over points, and a server that shuts down waits for
/// them.
const TENANTS_EXACTLY: usize = 3;
/// A latency within this factor of the least counts as the least.
const EQUIVALENT: f64 = 1.02;
/// Windows with fewer requests give no evidence.
const REQUESTS_MIN: u64 = 1_000;

/// Sizes of a tenant, in bytes: DRAM for objects, and flash.
pub type Sizes = (u64, u64);

/// The observations of a tenant in a window.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Its curve in the window, with its rate and its latencies; [`Tenant::sla_us`] is the target.
    /// Percentiles are not: the loop plans for means, which it can compare with a window's misses.
    pub tenant: Tenant,
    /// Its current sizes.
    pub has: Sizes,
    /// Its least sizes; for flash, if it has any.
    pub least: Sizes,
    /// Its requests in the window.
    pub requests: u64,
    /// Miss ratio of its DRAM, and of both together.
    pub missed: (f64, f64),
    /// Whether objects were evicted.
    pub is_full: bool,
    /// Whether its sizes are fixed, whatever they are.
    pub is_fixed: bool,
    /// Whether its miss cost is a guess: then it may get more, and never loses any.
    pub is_guessed: bool,
}

impl Observation {
    /// Whether the latency missed its target, by the actual misses.
    fn was_late(&self) -> bool {
        let us = self.tenant.latencies.mean_us(self.missed.0, self.missed.1);
        self.tenant.sla_us.is_some_and(|sla_us| !self.is_fixed && us > sla_us)
    }
}

/// The reason for a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Too few requests for any evidence.
    Idle,
    /// The targets are met, and hardly anything could be saved.
    NothingToGain,
    /// Less would suffice; one more window must confirm it.
    Confirming,
    /// Less DRAM would suffice with more flash, which is given first, for it has to fill.
    FlashFirst,
    /// A latency would be missed, or the budget exceeded.
    TargetMissed,
    /// Less suffices.
    Cheaper,
    /// The same budget allows a lower latency.
    Faster,
    /// The targets cannot be met; tenants that may change get the fastest sizes possible.
    Impossible(Infeasible),
}

/// The decision of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// New sizes, if they change, in the order of the observations.
    pub sizes: Option<Vec<Sizes>>,
    /// The curves' prediction for the current sizes.
    pub now: Plan,
    /// Their prediction for the new ones.
    pub then: Plan,
    /// The reason.
    pub reason: Reason,
}

/// How a tenant's cache differs from its curve.
#[derive(Debug, Clone, Copy)]
struct Learned {
    /// The factor by which it has to be larger than by the curve.
    stretch: f64,
    /// An additional factor, where that did not suffice.
    extra_stretch: f64,
    /// Its size when it was pushed.
    extra_stretch_at: u64,
}

impl Default for Learned {
    fn default() -> Self {
        Self { stretch: 1.0, extra_stretch: 1.0, extra_stretch_at: 0 }
    }
}

impl Learned {
    fn factor(&self) -> f64 {
        self.stretch * self.extra_stretch
    }
}

/// A smaller plan, which the next window has to confirm.
#[derive(Debug)]
struct Pending {
    /// Of all tenants.
    sizes: Vec<Sizes>,
    /// The sizes before flash was given first, if it was.
    had: Option<Vec<Sizes>>,
}

/// The control loop.
#[derive(Debug)]
pub struct Elastic {
    goal: Goal,
    prices: Prices,
    bounds: Bounds,
    /// By tenant.
    learned: Vec<Learned>,
    /// The cheaper plan of the previous window.
    pending: Option<Pending>,
    /// Whether sizes have changed since the previous window ended.
    has_changed: bool,
}

impl Elastic {
    /// A loop for `goal` within `bounds`.
    pub fn new(goal: Goal, prices: Prices, bounds: Bounds) -> Self {
        Self { goal, prices, bounds, learned: Vec::new(), pending: None, has_changed: true }
    }

    /// Sets new prices and bounds.
    pub fn set_terms(&mut self, prices: Prices, bounds: Bounds) {
        (self.prices, self.bounds) = (prices, bounds);
    }

    /// The factor by which a tenant's cache has to be larger than by its curve, as far as it is
    /// known.
    pub fn stretch(&self, tenant: usize) -> f64 {
        self.learned.get(tenant).map_or(1.0, Learned::factor)
    }

    /// The decision after a window with these observations; always of the same tenants.
    pub fn window(&mut self, seen: &[Observation]) -> Decision {
        self.learned.resize(seen.len(), Learned::default());
        let has: Vec<Sizes> = seen.iter().map(|seen| seen.has).collect();
        if seen.iter().map(|seen| seen.requests).sum::<u64>() < REQUESTS_MIN {
            let now = Plan::of(&self.request(seen), &has);
            return Decision { sizes: None, then: now.clone(), now, reason: Reason::Idle };
        }
        if !std::mem::take(&mut self.has_changed) {
            self.learn(seen);
        }
        let request = self.request(seen);
        let now = Plan::of(&request, &has);
        let before = self.pending.take();
        let (sizes, reason) = match self.planned(seen, self.goal, |number| {
            seen[number].tenant.sla_us.map(|us| us * TARGET_FRACTION)
        }) {
            Ok(planned) => self.choose(seen, &now, planned, before),
            // This is no evidence of what is feasible.
            Err(reason @ Infeasible::Solver(_)) => (None, Reason::Impossible(reason)),
            Err(reason) => {
                let is_faster = |sizes: &Vec<Sizes>| {
                    Plan::of(&request, sizes).latency_us < now.latency_us * (1.0 - SAVING_MIN)
                };
                (self.as_fast_as_can_be(seen).filter(is_faster), Reason::Impossible(reason))
            }
        };
        let sizes = sizes.filter(|sizes| *sizes != has);
        self.has_changed = sizes.is_some();
        let then = Plan::of(&request, sizes.as_ref().unwrap_or(&has));
        Decision { sizes, now, then, reason }
    }

    /// The plan request, with the curves of the real caches.
    fn request(&self, seen: &[Observation]) -> PlanRequest {
        let tenant = |(seen, learned): (&Observation, &Learned)| Tenant {
            curve: seen.tenant.curve.in_units(learned.factor()),
            percentiles: Vec::new(),
            ..seen.tenant.clone()
        };
        let tenants = seen.iter().zip(&self.learned).map(tenant).collect();
        PlanRequest { tenants, prices: self.prices, bounds: self.bounds, goal: self.goal }
    }

    /// The sizes of all tenants by a plan for those that may change, each with a latency by its
    /// index: none below the least, and all within the bounds.
    fn planned(
        &self,
        seen: &[Observation],
        goal: Goal,
        sla_us: impl Fn(usize) -> Option<f64>,
    ) -> Result<Vec<Sizes>, Infeasible> {
        let all = self.request(seen);
        let fixed = |number: &usize| seen[*number].is_fixed;
        let (stay, change): (Vec<usize>, Vec<usize>) = (0..seen.len()).partition(fixed);
        let mut request = PlanRequest { goal, tenants: Vec::new(), ..all.clone() };
        for &number in &change {
            let tenant = Tenant { sla_us: sla_us(number), ..all.tenants[number].clone() };
            request.tenants.push(tenant);
        }
        for &number in &stay {
            let (memory, flash) = seen[number].has;
            less(&mut request.bounds, memory, flash, self.prices);
        }
        let bounds = request.bounds;
        let (mut memory_over, mut flash_over) = (0, 0);
        // A tenant raised to its least size takes it from the others' share.
        for _ in 0..=change.len() {
            let plan = plan_soon(&request).map_err(|reason| of_all(reason, &change))?;
            let mut sizes: Vec<Sizes> = seen.iter().map(|seen| seen.has).collect();
            let (mut memory_more, mut flash_more) = (0, 0);
            for (&number, gets) in change.iter().zip(&plan.tenants) {
                let (memory, flash) =
                    at_least((gets.memory_bytes, gets.flash_bytes), seen[number].least);
                let (has_memory, has_flash) =
                    if seen[number].is_guessed { sizes[number] } else { (0, 0) };
                sizes[number] = (memory.max(has_memory), flash.max(has_flash));
                memory_more += sizes[number].0 - gets.memory_bytes;
                flash_more += sizes[number].1.saturating_sub(gets.flash_bytes);
            }
            let plan = Plan::of(&all, &sizes);
            if self.is_within(&plan, &all) {
                return Ok(sizes);
            }
            // Or from an excess by rounding up.
            let over = |bound: Bound| {
                let most = self.bounds.get(bound).unwrap_or(f64::INFINITY);
                (plan.takes(&all, bound) - most).max(0.0) as u64
            };
            request.bounds = bounds;
            memory_over += over(Bound::Dram);
            flash_over += over(Bound::Flash);
            let (memory, flash) = (memory_more + memory_over, flash_more + flash_over);
            less(&mut request.bounds, memory, flash, self.prices);
        }
        Err(Infeasible::Bounds(Vec::new()))
    }

    /// Whether all together are within the bounds.
    fn is_within(&self, plan: &Plan, request: &PlanRequest) -> bool {
        let is_kept = |bound: Bound| {
            let most = self.bounds.get(bound);
            // Of bytes, one by rounding.
            let more = if bound == Bound::Cost { 0.0 } else { 1.0 };
            most.is_none_or(|most| plan.takes(request, bound) <= most * (1.0 + 1e-4) + more)
        };
        Bound::ALL.into_iter().all(is_kept)
    }

    /// Compares the actual misses with the curves.
    fn learn(&mut self, seen: &[Observation]) {
        let has_evidence = |seen: &&Observation| seen.is_full && seen.requests >= REQUESTS_MIN;
        for (number, seen) in seen.iter().enumerate().filter(|(_, seen)| has_evidence(seen)) {
            let learned = &mut self.learned[number];
            let (memory, all) = (seen.has.0, seen.has.0 + seen.has.1);
            let curve = &seen.tenant.curve;
            let ratios = [(memory, seen.missed.0), (all, seen.missed.1)]
                .map(|(size, missed)| times_as_large(curve, size, missed));
            if let Some(most) = ratios.into_iter().flatten().reduce(f64::max) {
                learned.stretch += LEARNING_RATE
                    * (most.clamp(STRETCH_RANGE.0, STRETCH_RANGE.1) - learned.stretch);
            }
            let is_other_size = |one: u64, other: u64| one as f64 > other as f64 * SIZE_CHANGE;
            if is_other_size(all, learned.extra_stretch_at)
                || is_other_size(learned.extra_stretch_at, all)
            {
                learned.extra_stretch = 1.0;
            }
            let is_late = seen.was_late();
            let real = Tenant { curve: curve.in_units(learned.factor()), ..seen.tenant.clone() };
            let told_us = real.allot(memory, seen.has.1, self.prices).latency_us;
            if is_late && seen.tenant.sla_us.is_some_and(|sla_us| told_us <= sla_us) {
                learned.extra_stretch =
                    (learned.extra_stretch * EXTRA_STRETCH).min(STRETCH_RANGE.1);
                learned.extra_stretch_at = all;
            }
        }
    }

    /// Whether a plan is worth applying.
    fn choose(
        &mut self,
        seen: &[Observation],
        now: &Plan,
        planned: Vec<Sizes>,
        before: Option<Pending>,
    ) -> (Option<Vec<Sizes>>, Reason) {
        let request = self.request(seen);
        let plan = Plan::of(&request, &planned);
        let is_late = |(seen, gets): (&Observation, &Allotment)| {
            seen.tenant.sla_us.is_some_and(|sla_us| !seen.is_fixed && gets.latency_us > sla_us)
        };
        if seen.iter().zip(&now.tenants).any(is_late) || !self.is_within(now, &request) {
            return (Some(planned), Reason::TargetMissed);
        }
        if self.goal == Goal::Latency {
            let is_worth_it = plan.latency_us < now.latency_us * (1.0 - SAVING_MIN);
            return if is_worth_it {
                (Some(planned), Reason::Faster)
            } else {
                (None, Reason::NothingToGain)
            };
        }
        self.confirm_saving(planned, before, seen, &request)
    }

    /// Shrinks to save money, if two windows agree.
    fn confirm_saving(
        &mut self,
        planned: Vec<Sizes>,
        before: Option<Pending>,
        seen: &[Observation],
        request: &PlanRequest,
    ) -> (Option<Vec<Sizes>>, Reason) {
        let has: Vec<Sizes> = seen.iter().map(|seen| seen.has).collect();
        // Flash that was given first must not count as the saving.
        let had = before.as_ref().and_then(|before| before.had.clone());
        let compared = had.as_ref().unwrap_or(&has);
        let planned = self.with_extra_flash(planned, compared, seen, request);
        let cost = |sizes: &[Sizes]| Plan::of(request, sizes).cost;
        if cost(&planned) > cost(compared) * (1.0 - SAVING_MIN) {
            return (None, Reason::NothingToGain);
        }
        let Some(before) = before else {
            self.pending = Some(Pending { sizes: planned, had: None });
            return (None, Reason::Confirming);
        };
        // It has not filled yet, or the cache differs from its curve, which the next window shows.
        let is_late = |(seen, less): (&Observation, &Sizes)| less.0 < seen.has.0 && seen.was_late();
        if had.is_some() && seen.iter().zip(&before.sizes).any(is_late) {
            self.pending = Some(before);
            return (None, Reason::Confirming);
        }
        // The larger DRAM, and the larger total: both plans are met.
        let both = |((one, other), seen): ((&Sizes, &Sizes), &Observation)| {
            let memory = one.0.max(other.0);
            let both = (memory, (one.0 + one.1).max(other.0 + other.1) - memory);
            if seen.is_fixed { seen.has } else { both }
        };
        let both: Vec<Sizes> = planned.iter().zip(&before.sizes).zip(seen).map(both).collect();
        // One tenant may need the other's share.
        let has_room = self.is_within(&Plan::of(request, &both), request);
        let less = if has_room { both } else { planned };
        // Nor is it requested again if it could not be given.
        let was_given = had.as_ref() != Some(&has);
        match self.with_flash_first(&less, &has, request).filter(|_| was_given) {
            Some(first) => {
                self.pending = Some(Pending { sizes: less, had: had.or(Some(has)) });
                (Some(first), Reason::FlashFirst)
            }
            None => (Some(less), Reason::Cheaper),
        }
    }

    /// The current sizes, but a tenant that is to get much more flash in place of DRAM has that
    /// flash in addition, if there is room for both. `None` if there is no such tenant.
    fn with_flash_first(
        &self,
        planned: &[Sizes],
        has: &[Sizes],
        request: &PlanRequest,
    ) -> Option<Vec<Sizes>> {
        let mut first = has.to_vec();
        for (number, (&(memory, flash), has)) in planned.iter().zip(has).enumerate() {
            if memory < has.0 && flash as f64 > has.1 as f64 * SIZE_CHANGE {
                first[number].1 = flash;
                if !self.is_within(&Plan::of(request, &first), request) {
                    first[number].1 = has.1;
                }
            }
        }
        (first != has).then_some(first)
    }

    /// The sizes with some extra flash, where there is as much: the behaviour of a shrunk cache is
    /// unknown until it shrinks, and flash costs little. The first step goes half the way, or to
    /// twice the planned size, if that is less.
    fn with_extra_flash(
        &self,
        planned: Vec<Sizes>,
        had: &[Sizes],
        seen: &[Observation],
        request: &PlanRequest,
    ) -> Vec<Sizes> {
        let more =
            |extra_max: f64, (((memory, flash), had), seen): ((&Sizes, &Sizes), &Observation)| {
                let most = seen.tenant.flash_bytes_max.unwrap_or(u64::MAX);
                let (had, all) = ((had.0 + had.1) as f64, (memory + flash) as f64);
                let room = ((had - all) / 2.0).min(all * extra_max).max(all * EXTRA_FLASH.0) as u64;
                let is_kept = seen.is_fixed || seen.is_guessed || *flash == 0;
                (*memory, if is_kept { *flash } else { (flash + room).min(most).max(*flash) })
            };
        // Another tenant may need the larger room.
        for extra_max in [EXTRA_FLASH.1, EXTRA_FLASH.0] {
            let with_extra_flash: Vec<Sizes> =
                planned.iter().zip(had).zip(seen).map(|it| more(extra_max, it)).collect();
            if self.is_within(&Plan::of(request, &with_extra_flash), request) {
                return with_extra_flash;
            }
        }
        planned
    }

    /// The fastest sizes within the bounds, and no more expensive than necessary for that.
    fn as_fast_as_can_be(&self, seen: &[Observation]) -> Option<Vec<Sizes>> {
        let fastest = self.planned(seen, Goal::Latency, |_| None).ok()?;
        let gets = Plan::of(&self.request(seen), &fastest).tenants;
        let as_good = |number: usize| Some(gets[number].latency_us * EQUIVALENT);
        Some(self.planned(seen, Goal::Cost, as_good).unwrap_or(fastest))
    }
}

/// The factor between a cache's size and the curve's size with the same misses; `None` where the
/// curve is flat.
fn times_as_large(curve: &Curve, size: u64, missed: f64) -> Option<f64> {
    let told = curve.miss_ratio(size);
    let is_same = |one: f64| (one - told).abs() <= (told * EQUAL.0).max(EQUAL.1);
    if is_same(missed) {
        let smaller = curve.miss_ratio((size as f64 / SIZE_CHANGE) as u64);
        return (!is_same(smaller)).then_some(1.0);
    }
    let same = curve.size_for(missed).filter(|same| *same > 0 && size > 0)?;
    Some(size as f64 / same as f64)
}

/// A plan within seconds: for many tenants over points if one is found at once, else over the hulls
/// of their curves, with each size raised to the next corner of the hull, where the curve meets the
/// hull.
fn plan_soon(request: &PlanRequest) -> Result<Plan, Infeasible> {
    if request.tenants.len() <= TENANTS_EXACTLY {
        return plan_exactly(request, POINTS);
    }
    if request.goal == Goal::Cost
        && let Outcome::Found(plan) = choices::least(request, Objective::Goal(Goal::Cost))
    {
        return Ok(plan);
    }
    let plan = plan_on_hull(request)?;
    let corners = |(tenant, gets): (&Tenant, &Allotment)| {
        let hull = tenant.curve.hull();
        let up = |size: u64| {
            let corner = hull.iter().map(|point| point.size).find(|corner| *corner >= size);
            corner.unwrap_or(size)
        };
        let memory = up(gets.memory_bytes);
        (memory, up(gets.memory_bytes + gets.flash_bytes).max(memory) - memory)
    };
    let sizes = request.tenants.iter().zip(&plan.tenants).map(corners);
    Ok(Plan::of(request, &sizes.collect::<Vec<_>>()))
}

/// The reason why there is no plan for those tenants, with indices among all.
fn of_all(reason: Infeasible, change: &[usize]) -> Infeasible {
    match reason {
        Infeasible::Sla { tenant, least_us } => {
            Infeasible::Sla { tenant: change[tenant], least_us }
        }
        Infeasible::Percentile { tenant, target, most_share, least_us } => {
            Infeasible::Percentile { tenant: change[tenant], target, most_share, least_us }
        }
        of_nobody => of_nobody,
    }
}

/// The bounds that remain when a tenant has these sizes.
fn less(bounds: &mut Bounds, memory: u64, flash: u64, prices: Prices) {
    bounds.dram_bytes = bounds.dram_bytes.map(|bytes| bytes.saturating_sub(memory));
    bounds.flash_bytes = bounds.flash_bytes.map(|bytes| bytes.saturating_sub(flash));
    bounds.cost = bounds.cost.map(|cost| (cost - prices.cost(memory, flash)).max(0.0));
}

/// The sizes, raised to the least. A tenant that needs a little flash gets the least of it: without
/// any, the plan would not be met.
fn at_least((memory, flash): Sizes, least: Sizes) -> Sizes {
    let all = memory + flash;
    let memory = memory.max(least.0);
    let flash = all.saturating_sub(memory);
    (memory, if flash == 0 { 0 } else { flash.max(least.1) })
}

#[cfg(test)]
mod tests;
