//! When a cache that runs changes its sizes, and to what: the loop of profiling, planning and resizing
//! (ElCached §6), made calm.
//!
//! ```text
//!                    ┌── a latency would not be kept ─────────────────────► more, at once
//!  a window ends ────┤
//!                    └── a tenth would be saved, for the second time ────► less: what both times would do
//! ```
//!
//! * **Aim.** Plans are made for [`AIM`] of what is asked, so that a small error breaks no promise.
//! * **Feedback.** A curve is that of a cache that evicts the least recently used, that has nothing twice
//!   and is not divided. How many times as large the real one has to be for what it misses is learnt for
//!   each tenant, and curves are drawn out by that ([`Elastic::window`]). At a cliff, where a little
//!   more is all the difference, nothing can be read off the curve: there a latency that is not kept makes it a
//!   tenth more. It is only learnt from windows that began with the sizes that they ended with, and
//!   in which something had to go: what is not full yet says nothing.
//! * **What cannot be.** Where there is no plan, everybody gets what is as fast as can be, at the least cost.
//!
//! Pure: it does nothing itself, and whoever resizes asks it once for each window.

use crate::curve::Curve;
use crate::model::{Allotment, Prices, Tenant};
use crate::planner::{Bounds, Goal, Infeasible, Plan, Question, plan_exactly};

/// Of a latency that is asked, plans aim at so much.
pub const AIM: f64 = 0.95;
/// What saves less is not worth moving objects for.
const WORTH: f64 = 0.1;
/// How much of what is learnt counts anew with each window.
const LEARNT: f64 = 0.5;
/// A real cache is taken for no better and no worse than that.
const DRAWN: (f64, f64) = (0.7, 2.0);
/// Miss ratios that are no further apart than this part of them, and this, are the same.
const SAME: (f64, f64) = (0.03, 0.002);
/// By so much a curve is drawn out further where a latency is not kept though it should be.
const PUSH: f64 = 1.1;
/// What was pushed for one size is forgotten at another one, so many times as large or small.
const ANOTHER: f64 = 1.25;
/// Points of a curve that are looked at at a time.
const POINTS: usize = 100;
/// So much longer than the least is as good as the least.
const AS_GOOD: f64 = 1.02;
/// Fewer requests in a window say nothing.
const REQUESTS_MIN: u64 = 1_000;

/// Sizes of a tenant, in bytes: DRAM for objects, and flash.
pub type Sizes = (u64, u64);

/// What was seen of a tenant in a window.
#[derive(Debug, Clone)]
pub struct Seen {
    /// His curve in it, with his rate and his latencies; [`Tenant::sla_us`] is what is asked for.
    pub tenant: Tenant,
    /// What he has now.
    pub has: Sizes,
    /// The least that he may have; of flash, if he has any.
    pub least: Sizes,
    /// Requests of his in it.
    pub requests: u64,
    /// What DRAM missed of them, and what both missed.
    pub missed: (f64, f64),
    /// Whether something had to go for want of room.
    pub is_full: bool,
}

/// Why sizes change, or not.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// There were too few requests to say anything.
    Idle,
    /// What is asked is kept, and hardly anything would be saved.
    Good,
    /// Less would do, and has to say so once more.
    Waiting,
    /// A latency would not be kept, or the money would not do.
    Broken,
    /// Less will do.
    Cheaper,
    /// As much money makes it faster.
    Faster,
    /// What is asked cannot be; everybody gets what there is.
    Impossible(Infeasible),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// New sizes, where they change, in the order of what was seen.
    pub sizes: Option<Vec<Sizes>>,
    /// What the curves say of the sizes that there are.
    pub now: Plan,
    /// What they say of the new ones.
    pub then: Plan,
    /// Why.
    pub why: Why,
}

/// How a tenant's cache differs from his curve.
#[derive(Debug, Clone, Copy)]
struct Learnt {
    /// How many times as large it has to be for what the curve says.
    drawn: f64,
    /// The same once more, where that did not do.
    pushed: f64,
    /// How large it was when it was pushed.
    pushed_at: u64,
}

impl Default for Learnt {
    fn default() -> Self {
        Self { drawn: 1.0, pushed: 1.0, pushed_at: 0 }
    }
}

impl Learnt {
    fn factor(&self) -> f64 {
        self.drawn * self.pushed
    }
}

/// The loop.
#[derive(Debug)]
pub struct Elastic {
    goal: Goal,
    prices: Prices,
    bounds: Bounds,
    /// By tenant.
    learnt: Vec<Learnt>,
    /// Sizes for which a window before would have been cheaper.
    wanted: Option<Vec<Sizes>>,
    /// Whether sizes have changed since the window before ended.
    has_changed: bool,
}

impl Elastic {
    /// One that asks for `goal` within `bounds`.
    pub fn new(goal: Goal, prices: Prices, bounds: Bounds) -> Self {
        Self { goal, prices, bounds, learnt: Vec::new(), wanted: None, has_changed: true }
    }

    /// From now on that is what it costs, and what there is.
    pub fn set_terms(&mut self, prices: Prices, bounds: Bounds) {
        (self.prices, self.bounds) = (prices, bounds);
    }

    /// How many times as large the cache of a tenant has to be for what his curve says, as far as is known.
    pub fn drawn(&self, tenant: usize) -> f64 {
        self.learnt.get(tenant).map_or(1.0, Learnt::factor)
    }

    /// What is to be done after a window in which that was seen; always of the same tenants.
    pub fn window(&mut self, seen: &[Seen]) -> Decision {
        self.learnt.resize(seen.len(), Learnt::default());
        let has: Vec<Sizes> = seen.iter().map(|seen| seen.has).collect();
        if seen.iter().map(|seen| seen.requests).sum::<u64>() < REQUESTS_MIN {
            let now = Plan::of(&self.question(seen, 1.0), &has);
            return Decision { sizes: None, then: now.clone(), now, why: Why::Idle };
        }
        if !std::mem::take(&mut self.has_changed) {
            self.learn(seen);
        }
        let asked = self.question(seen, 1.0);
        let now = Plan::of(&asked, &has);
        let (sizes, why) = match plan_exactly(&self.question(seen, AIM), POINTS) {
            Ok(plan) => self.weigh(seen, &now, &plan),
            Err(why) => {
                self.wanted = None;
                let fast = self.as_fast_as_can_be(seen).map(|sizes| at_least(sizes, seen));
                let is_worth_it = |sizes: &Vec<Sizes>| {
                    let then = Plan::of(&asked, sizes);
                    then.latency_us < now.latency_us * (1.0 - WORTH)
                        || then.cost < now.cost * (1.0 - WORTH)
                };
                (fast.filter(is_worth_it), Why::Impossible(why))
            }
        };
        let sizes = sizes.map(|sizes| at_least(sizes, seen)).filter(|sizes| *sizes != has);
        self.has_changed = sizes.is_some();
        let then = Plan::of(&asked, sizes.as_ref().unwrap_or(&has));
        Decision { sizes, now, then, why }
    }

    /// What is asked for so large a part of each latency, of caches as they really are.
    fn question(&self, seen: &[Seen], part: f64) -> Question {
        let tenant = |(seen, learnt): (&Seen, &Learnt)| Tenant {
            sla_us: seen.tenant.sla_us.map(|sla_us| sla_us * part),
            curve: seen.tenant.curve.in_units(learnt.factor()),
            ..seen.tenant.clone()
        };
        let tenants = seen.iter().zip(&self.learnt).map(tenant).collect();
        Question { tenants, prices: self.prices, bounds: self.bounds, goal: self.goal }
    }

    /// Compares what was missed to what the curves say.
    fn learn(&mut self, seen: &[Seen]) {
        let is_told = |seen: &&Seen| seen.is_full && seen.requests >= REQUESTS_MIN;
        for (number, seen) in seen.iter().enumerate().filter(|(_, seen)| is_told(seen)) {
            let learnt = &mut self.learnt[number];
            let (memory, all) = (seen.has.0, seen.has.0 + seen.has.1);
            let curve = &seen.tenant.curve;
            let ratios = [(memory, seen.missed.0), (all, seen.missed.1)]
                .map(|(size, missed)| times_as_large(curve, size, missed));
            if let Some(most) = ratios.into_iter().flatten().reduce(f64::max) {
                learnt.drawn += LEARNT * (most.clamp(DRAWN.0, DRAWN.1) - learnt.drawn);
            }
            let is_another = |one: u64, other: u64| one as f64 > other as f64 * ANOTHER;
            if is_another(all, learnt.pushed_at) || is_another(learnt.pushed_at, all) {
                learnt.pushed = 1.0;
            }
            let real_us = seen.tenant.latencies.mean_us(seen.missed.0, seen.missed.1);
            let is_late = seen.tenant.sla_us.is_some_and(|sla_us| real_us > sla_us);
            let real = Tenant { curve: curve.in_units(learnt.factor()), ..seen.tenant.clone() };
            let told_us = real.allot(memory, seen.has.1, self.prices).latency_us;
            if is_late && seen.tenant.sla_us.is_some_and(|sla_us| told_us <= sla_us) {
                learnt.pushed = (learnt.pushed * PUSH).min(DRAWN.1);
                learnt.pushed_at = all;
            }
        }
    }

    /// Whether a plan is worth it.
    fn weigh(&mut self, seen: &[Seen], now: &Plan, plan: &Plan) -> (Option<Vec<Sizes>>, Why) {
        let planned: Vec<Sizes> =
            plan.tenants.iter().map(|gets| (gets.memory_bytes, gets.flash_bytes)).collect();
        let before = self.wanted.take();
        let is_late = |(seen, gets): (&Seen, &Allotment)| {
            seen.tenant.sla_us.is_some_and(|sla_us| gets.latency_us > sla_us)
        };
        let is_too_dear = self.bounds.cost.is_some_and(|cost| now.cost > cost * (1.0 + 1e-9));
        if seen.iter().zip(&now.tenants).any(is_late) || is_too_dear {
            return (Some(planned), Why::Broken);
        }
        if self.goal == Goal::Latency {
            let is_worth_it = plan.latency_us < now.latency_us * (1.0 - WORTH);
            return if is_worth_it { (Some(planned), Why::Faster) } else { (None, Why::Good) };
        }
        let cost = Plan::of(&self.question(seen, 1.0), &at_least(planned.clone(), seen)).cost;
        if cost > now.cost * (1.0 - WORTH) {
            return (None, Why::Good);
        }
        let Some(before) = before else {
            self.wanted = Some(planned);
            return (None, Why::Waiting);
        };
        // Of DRAM the larger, and of both together the larger: what each of the two has planned is kept.
        let both = |(one, other): (&Sizes, &Sizes)| {
            let memory = one.0.max(other.0);
            (memory, (one.0 + one.1).max(other.0 + other.1) - memory)
        };
        (Some(planned.iter().zip(&before).map(both).collect()), Why::Cheaper)
    }

    /// What is as fast as can be within the bounds, and no dearer than that takes.
    fn as_fast_as_can_be(&self, seen: &[Seen]) -> Option<Vec<Sizes>> {
        let mut question = self.question(seen, 1.0);
        question.goal = Goal::Latency;
        question.tenants.iter_mut().for_each(|tenant| tenant.sla_us = None);
        let fastest = plan_exactly(&question, POINTS).ok()?;
        for (tenant, gets) in question.tenants.iter_mut().zip(&fastest.tenants) {
            tenant.sla_us = Some(gets.latency_us * AS_GOOD);
        }
        question.goal = Goal::Cost;
        let plan = plan_exactly(&question, POINTS).unwrap_or(fastest);
        Some(plan.tenants.iter().map(|gets| (gets.memory_bytes, gets.flash_bytes)).collect())
    }
}

/// How many times as large a cache is as one of the curve that misses as much; nothing where the curve
/// does not say, for it is flat there.
fn times_as_large(curve: &Curve, size: u64, missed: f64) -> Option<f64> {
    let told = curve.miss_ratio(size);
    let is_same = |one: f64| (one - told).abs() <= (told * SAME.0).max(SAME.1);
    if is_same(missed) {
        let smaller = curve.miss_ratio((size as f64 / ANOTHER) as u64);
        return (!is_same(smaller)).then_some(1.0);
    }
    let same = curve.size_for(missed).filter(|same| *same > 0 && size > 0)?;
    Some(size as f64 / same as f64)
}

/// The sizes, where they are not below the least that each may have. Who needs a little flash gets the
/// least of it: with none what was planned would not be kept.
fn at_least(mut sizes: Vec<Sizes>, seen: &[Seen]) -> Vec<Sizes> {
    for (sizes, seen) in sizes.iter_mut().zip(seen) {
        let all = sizes.0 + sizes.1;
        let memory = sizes.0.max(seen.least.0);
        let flash = all.saturating_sub(memory);
        *sizes = (memory, if flash == 0 { 0 } else { flash.max(seen.least.1) });
    }
    sizes
}

#[cfg(test)]
mod tests;
