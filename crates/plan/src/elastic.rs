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
//! * **Feedback.** A curve is that of a cache that evicts the least recently used, and of one that has nothing
//!   twice. How far a latency really was from what the curve says is remembered for each tenant, and
//!   what is planned for is as much shorter ([`Elastic::window`]). It is only learnt from windows that
//!   began with the sizes that they ended with, for a cache that has grown takes time to fill.
//! * **What cannot be.** Where there is no plan, everybody gets what is as fast as can be, at the least cost.
//!
//! Pure: it does nothing itself, and whoever resizes asks it once for each window.

use crate::model::{Prices, Tenant};
use crate::planner::{Bounds, Goal, Infeasible, Plan, Question, plan_exactly};

/// Of a latency that is asked, plans aim at so much.
pub const AIM: f64 = 0.95;
/// What saves less is not worth moving objects for.
const WORTH: f64 = 0.1;
/// How much of what is learnt counts anew with each window.
const LEARNT: f64 = 0.5;
/// What was measured is taken for no further off than that.
const OFF: (f64, f64) = (0.5, 3.0);
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
    /// The least that he may have.
    pub least: Sizes,
    /// Requests of his in it.
    pub requests: u64,
    /// What DRAM missed of them, and what both missed.
    pub missed: (f64, f64),
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

/// The loop.
#[derive(Debug)]
pub struct Elastic {
    goal: Goal,
    prices: Prices,
    bounds: Bounds,
    /// By tenant, how many times as long requests really take as the curves say.
    off: Vec<f64>,
    /// Sizes for which a window before would have been cheaper.
    wanted: Option<Vec<Sizes>>,
    /// Whether sizes have changed since the window before ended.
    has_changed: bool,
}

impl Elastic {
    /// One that asks for `goal` within `bounds`.
    pub fn new(goal: Goal, prices: Prices, bounds: Bounds) -> Self {
        Self { goal, prices, bounds, off: Vec::new(), wanted: None, has_changed: true }
    }

    /// How many times as long the requests of a tenant take as his curve says, as far as is known.
    pub fn off(&self, tenant: usize) -> f64 {
        self.off.get(tenant).copied().unwrap_or(1.0)
    }

    /// What is to be done after a window in which that was seen; always of the same tenants.
    pub fn window(&mut self, seen: &[Seen]) -> Decision {
        self.off.resize(seen.len(), 1.0);
        let has: Vec<Sizes> = seen.iter().map(|seen| seen.has).collect();
        let asked = self.question(seen, |_, sla_us| sla_us);
        let now = Plan::of(&asked, &has);
        if seen.iter().map(|seen| seen.requests).sum::<u64>() < REQUESTS_MIN {
            return Decision { sizes: None, then: now.clone(), now, why: Why::Idle };
        }
        if !std::mem::take(&mut self.has_changed) {
            self.learn(seen, &now);
        }
        let off = self.off.clone();
        let aimed = self.question(seen, |tenant, sla_us| sla_us * AIM / off[tenant]);
        let (sizes, why) = match plan_exactly(&aimed, POINTS) {
            Ok(plan) => self.weigh(seen, &has, &plan),
            Err(why) => (self.as_fast_as_can_be(seen), Why::Impossible(why)),
        };
        let sizes = sizes.map(|sizes| at_least(sizes, seen)).filter(|sizes| *sizes != has);
        self.has_changed = sizes.is_some();
        let then = Plan::of(&asked, sizes.as_ref().unwrap_or(&has));
        Decision { sizes, now, then, why }
    }

    fn question(&self, seen: &[Seen], sla_us: impl Fn(usize, f64) -> f64) -> Question {
        let tenant = |(number, seen): (usize, &Seen)| {
            let asked = seen.tenant.sla_us.map(|asked| sla_us(number, asked));
            Tenant { sla_us: asked, ..seen.tenant.clone() }
        };
        let tenants = seen.iter().enumerate().map(tenant).collect();
        Question { tenants, prices: self.prices, bounds: self.bounds, goal: self.goal }
    }

    /// Compares what was measured to what the curves say.
    fn learn(&mut self, seen: &[Seen], now: &Plan) {
        for ((off, seen), gets) in self.off.iter_mut().zip(seen).zip(&now.tenants) {
            let really = seen.tenant.latencies.mean_us(seen.missed.0, seen.missed.1);
            let ratio = really / gets.latency_us;
            if ratio.is_finite() && seen.requests >= REQUESTS_MIN {
                *off += LEARNT * (ratio.clamp(OFF.0, OFF.1) - *off);
            }
        }
    }

    /// Whether a plan is worth it.
    fn weigh(&mut self, seen: &[Seen], has: &[Sizes], plan: &Plan) -> (Option<Vec<Sizes>>, Why) {
        let asked = self.question(seen, |_, sla_us| sla_us);
        let now = Plan::of(&asked, has);
        let planned: Vec<Sizes> =
            plan.tenants.iter().map(|gets| (gets.memory_bytes, gets.flash_bytes)).collect();
        let before = self.wanted.take();
        let is_too_slow = |(number, seen): (usize, &Seen)| {
            let real_us = now.tenants[number].latency_us * self.off(number);
            seen.tenant.sla_us.is_some_and(|sla_us| real_us > sla_us)
        };
        let is_too_dear = self.bounds.cost.is_some_and(|cost| now.cost > cost * (1.0 + 1e-9));
        if seen.iter().enumerate().any(is_too_slow) || is_too_dear {
            return (Some(planned), Why::Broken);
        }
        if self.goal == Goal::Latency {
            let is_worth_it = plan.latency_us < now.latency_us * (1.0 - WORTH);
            return if is_worth_it { (Some(planned), Why::Faster) } else { (None, Why::Good) };
        }
        let cost = Plan::of(&asked, &at_least(planned.clone(), seen)).cost;
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
        let mut question = self.question(seen, |_, sla_us| sla_us);
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

/// The sizes, where they are not below the least that each may have.
fn at_least(mut sizes: Vec<Sizes>, seen: &[Seen]) -> Vec<Sizes> {
    for (sizes, seen) in sizes.iter_mut().zip(seen) {
        let all = sizes.0 + sizes.1;
        let memory = sizes.0.max(seen.least.0);
        *sizes = (memory, all.saturating_sub(memory).max(seen.least.1));
    }
    sizes
}

#[cfg(test)]
mod tests;
