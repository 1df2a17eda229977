//! When a cache that runs changes its sizes, and to what: the loop of profiling, planning and resizing
//! (ElCached §6), made calm.
//!
//! ```text
//!                    ┌── a latency would not be kept ─────────────────────► more, at once
//!  a window ends ────┼── a tenth would be saved, for the second time ────► less: what both times would do
//!                    └── nothing keeps all that is asked ────────────────► what is as fast as can be,
//!                                                                          if that is a tenth faster
//! ```
//!
//! * **Aim.** Plans are made for [`AIM`] of what is asked, so that a small error breaks no promise.
//! * **Feedback.** A curve is that of a cache that evicts the least recently used, that has nothing twice
//!   and is not divided. How many times as large the real one has to be for what it misses is learnt for
//!   each tenant, and curves are drawn out by that ([`Elastic::window`]). At a cliff, where a little
//!   more is all the difference, nothing can be read off the curve: there a latency that is not kept makes it a
//!   tenth more. It is only learnt from windows that began with the sizes that they ended with, and
//!   in which something had to go: what is not full yet says nothing.
//! * **Flash before DRAM.** New flash is empty, and a window fills it. Where two windows say that less DRAM will do beside much
//!   more flash ([`ANOTHER`]), the flash is given and the DRAM stays, if both are within the bounds. The next window in which
//!   nobody was late whose DRAM is to go takes it, if it still says that less will do than there was before the flash.
//! * **Who stays as he is.** Who is fixed ([`Seen::is_fixed`]; whoever asks says why) keeps what he has,
//!   and the others share the rest. Of whom it is a guess what his misses take ([`Seen::is_guessed`]) keeps at least
//!   that. All together never have more than the bounds.
//!
//! Pure: it does nothing itself, and whoever resizes asks it once for each window.

use crate::curves::curve::Curve;
use crate::planner::choices::{self, Outcome};
use crate::planner::model::{Allotment, Prices, Tenant};
use crate::planner::question::{Bound, Bounds, Goal, Objective, Plan, Question};
use crate::planner::solver::{Infeasible, plan_exactly, plan_on_hull};

/// Of a latency that is asked, plans aim at so much.
pub const AIM: f64 = 0.95;
/// What saves less is not worth moving objects for.
const WORTH: f64 = 0.1;
/// A cache that is made smaller has so much more flash than was planned, as a part of all: at least,
/// and at most, where it is made much smaller.
const ROOM: (f64, f64) = (0.3, 1.0);
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
/// Plans of more tenants may take too long by points, and a server that ends waits for them.
const TENANTS_EXACTLY: usize = 3;
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
    /// Whether he keeps what he has, whatever that is.
    pub is_fixed: bool,
    /// Whether it is a guess what his misses take: by that he may get more, and nothing is taken from him.
    pub is_guessed: bool,
}

impl Seen {
    /// Whether the latency was later than asked for, by what was missed.
    fn was_late(&self) -> bool {
        let us = self.tenant.latencies.mean_us(self.missed.0, self.missed.1);
        self.tenant.sla_us.is_some_and(|sla_us| !self.is_fixed && us > sla_us)
    }
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
    /// Less DRAM would do beside more flash, which is given first, for it has to fill.
    FlashFirst,
    /// A latency would not be kept, or the money would not do.
    Broken,
    /// Less will do.
    Cheaper,
    /// As much money makes it faster.
    Faster,
    /// What is asked cannot be; who may change gets what is as fast as can be.
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

/// Less, which the next window has to say as well.
#[derive(Debug)]
struct Pending {
    /// Of all.
    sizes: Vec<Sizes>,
    /// What all had before flash was given first, where it has been.
    had: Option<Vec<Sizes>>,
}

/// The loop.
#[derive(Debug)]
pub struct Elastic {
    goal: Goal,
    prices: Prices,
    bounds: Bounds,
    /// By tenant.
    learnt: Vec<Learnt>,
    /// With what the window before would have been cheaper.
    pending: Option<Pending>,
    /// Whether sizes have changed since the window before ended.
    has_changed: bool,
}

impl Elastic {
    /// One that asks for `goal` within `bounds`.
    pub fn new(goal: Goal, prices: Prices, bounds: Bounds) -> Self {
        Self { goal, prices, bounds, learnt: Vec::new(), pending: None, has_changed: true }
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
            let now = Plan::of(&self.question(seen), &has);
            return Decision { sizes: None, then: now.clone(), now, why: Why::Idle };
        }
        if !std::mem::take(&mut self.has_changed) {
            self.learn(seen);
        }
        let asked = self.question(seen);
        let now = Plan::of(&asked, &has);
        let before = self.pending.take();
        let (sizes, why) = match self
            .planned(seen, self.goal, |number| seen[number].tenant.sla_us.map(|us| us * AIM))
        {
            Ok(planned) => self.weigh(seen, &now, planned, before),
            // It says nothing of what can be.
            Err(why @ Infeasible::Solver(_)) => (None, Why::Impossible(why)),
            Err(why) => {
                let is_faster = |sizes: &Vec<Sizes>| {
                    Plan::of(&asked, sizes).latency_us < now.latency_us * (1.0 - WORTH)
                };
                (self.as_fast_as_can_be(seen).filter(is_faster), Why::Impossible(why))
            }
        };
        let sizes = sizes.filter(|sizes| *sizes != has);
        self.has_changed = sizes.is_some();
        let then = Plan::of(&asked, sizes.as_ref().unwrap_or(&has));
        Decision { sizes, now, then, why }
    }

    /// What is asked, of caches as they really are.
    fn question(&self, seen: &[Seen]) -> Question {
        let tenant = |(seen, learnt): (&Seen, &Learnt)| Tenant {
            curve: seen.tenant.curve.in_units(learnt.factor()),
            ..seen.tenant.clone()
        };
        let tenants = seen.iter().zip(&self.learnt).map(tenant).collect();
        Question { tenants, prices: self.prices, bounds: self.bounds, goal: self.goal }
    }

    /// The sizes of all by a plan for who may change, each with a latency by his place: none below the
    /// least, and all within the bounds.
    fn planned(
        &self,
        seen: &[Seen],
        goal: Goal,
        sla_us: impl Fn(usize) -> Option<f64>,
    ) -> Result<Vec<Sizes>, Infeasible> {
        let all = self.question(seen);
        let fixed = |number: &usize| seen[*number].is_fixed;
        let (stay, change): (Vec<usize>, Vec<usize>) = (0..seen.len()).partition(fixed);
        let mut question = Question { goal, tenants: Vec::new(), ..all.clone() };
        for &number in &change {
            let tenant = Tenant { sla_us: sla_us(number), ..all.tenants[number].clone() };
            question.tenants.push(tenant);
        }
        for &number in &stay {
            let (memory, flash) = seen[number].has;
            less(&mut question.bounds, memory, flash, self.prices);
        }
        let bounds = question.bounds;
        let (mut memory_over, mut flash_over) = (0, 0);
        // Who is given the least of something takes it from what the others can have.
        for _ in 0..=change.len() {
            let plan = plan_soon(&question).map_err(|why| of_all(why, &change))?;
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
            // Or from what they were given by rounding up.
            let over = |bound: Bound| {
                let most = self.bounds.get(bound).unwrap_or(f64::INFINITY);
                (plan.takes(&all, bound) - most).max(0.0) as u64
            };
            question.bounds = bounds;
            memory_over += over(Bound::Dram);
            flash_over += over(Bound::Flash);
            let (memory, flash) = (memory_more + memory_over, flash_more + flash_over);
            less(&mut question.bounds, memory, flash, self.prices);
        }
        Err(Infeasible::Bounds(Vec::new()))
    }

    /// Whether all together have no more than there is.
    fn is_within(&self, plan: &Plan, question: &Question) -> bool {
        let is_kept = |bound: Bound| {
            let most = self.bounds.get(bound);
            // Of bytes, one by rounding.
            let more = if bound == Bound::Cost { 0.0 } else { 1.0 };
            most.is_none_or(|most| plan.takes(question, bound) <= most * (1.0 + 1e-4) + more)
        };
        Bound::ALL.into_iter().all(is_kept)
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
            let is_late = seen.was_late();
            let real = Tenant { curve: curve.in_units(learnt.factor()), ..seen.tenant.clone() };
            let told_us = real.allot(memory, seen.has.1, self.prices).latency_us;
            if is_late && seen.tenant.sla_us.is_some_and(|sla_us| told_us <= sla_us) {
                learnt.pushed = (learnt.pushed * PUSH).min(DRAWN.1);
                learnt.pushed_at = all;
            }
        }
    }

    /// Whether a plan is worth it.
    fn weigh(
        &mut self,
        seen: &[Seen],
        now: &Plan,
        planned: Vec<Sizes>,
        before: Option<Pending>,
    ) -> (Option<Vec<Sizes>>, Why) {
        let question = self.question(seen);
        let plan = Plan::of(&question, &planned);
        let is_late = |(seen, gets): (&Seen, &Allotment)| {
            seen.tenant.sla_us.is_some_and(|sla_us| !seen.is_fixed && gets.latency_us > sla_us)
        };
        if seen.iter().zip(&now.tenants).any(is_late) || !self.is_within(now, &question) {
            return (Some(planned), Why::Broken);
        }
        if self.goal == Goal::Latency {
            let is_worth_it = plan.latency_us < now.latency_us * (1.0 - WORTH);
            return if is_worth_it { (Some(planned), Why::Faster) } else { (None, Why::Good) };
        }
        self.save(planned, before, seen, &question)
    }

    /// Less for less money, if two windows agree.
    fn save(
        &mut self,
        planned: Vec<Sizes>,
        before: Option<Pending>,
        seen: &[Seen],
        question: &Question,
    ) -> (Option<Vec<Sizes>>, Why) {
        let has: Vec<Sizes> = seen.iter().map(|seen| seen.has).collect();
        // Flash that was given first is not to be what is saved.
        let had = before.as_ref().and_then(|before| before.had.clone());
        let compared = had.as_ref().unwrap_or(&has);
        let planned = self.with_room(planned, compared, seen, question);
        let cost = |sizes: &[Sizes]| Plan::of(question, sizes).cost;
        if cost(&planned) > cost(compared) * (1.0 - WORTH) {
            return (None, Why::Good);
        }
        let Some(before) = before else {
            self.pending = Some(Pending { sizes: planned, had: None });
            return (None, Why::Waiting);
        };
        // It has not filled yet, or the cache is not what its curve says, which the next window tells.
        let is_late = |(seen, less): (&Seen, &Sizes)| less.0 < seen.has.0 && seen.was_late();
        if had.is_some() && seen.iter().zip(&before.sizes).any(is_late) {
            self.pending = Some(before);
            return (None, Why::Waiting);
        }
        // Of DRAM the larger, and of both together the larger: what each of the two has planned is kept.
        let both = |((one, other), seen): ((&Sizes, &Sizes), &Seen)| {
            let memory = one.0.max(other.0);
            let both = (memory, (one.0 + one.1).max(other.0 + other.1) - memory);
            if seen.is_fixed { seen.has } else { both }
        };
        let both: Vec<Sizes> = planned.iter().zip(&before.sizes).zip(seen).map(both).collect();
        // One may want what the other leaves.
        let has_room = self.is_within(&Plan::of(question, &both), question);
        let less = if has_room { both } else { planned };
        // Nor is it asked for once more where it could not be given.
        let was_given = had.as_ref() != Some(&has);
        match self.with_flash_first(&less, &has, question).filter(|_| was_given) {
            Some(first) => {
                self.pending = Some(Pending { sizes: less, had: had.or(Some(has)) });
                (Some(first), Why::FlashFirst)
            }
            None => (Some(less), Why::Cheaper),
        }
    }

    /// What all have, but that who is to have much more flash in the place of DRAM has that flash beside it, if there is
    /// room for both. None where nobody is.
    fn with_flash_first(
        &self,
        planned: &[Sizes],
        has: &[Sizes],
        question: &Question,
    ) -> Option<Vec<Sizes>> {
        let mut first = has.to_vec();
        for (number, (&(memory, flash), has)) in planned.iter().zip(has).enumerate() {
            if memory < has.0 && flash as f64 > has.1 as f64 * ANOTHER {
                first[number].1 = flash;
                if !self.is_within(&Plan::of(question, &first), question) {
                    first[number].1 = has.1;
                }
            }
        }
        (first != has).then_some(first)
    }

    /// The sizes with some flash more, where there is as much: how a cache does that has become smaller is
    /// not known before it is, and flash costs little. Half the way there comes first, or what is twice as
    /// much as was planned, if that is less.
    fn with_room(
        &self,
        planned: Vec<Sizes>,
        had: &[Sizes],
        seen: &[Seen],
        question: &Question,
    ) -> Vec<Sizes> {
        let more = |most_room: f64, (((memory, flash), had), seen): ((&Sizes, &Sizes), &Seen)| {
            let most = seen.tenant.flash_bytes_max.unwrap_or(u64::MAX);
            let (had, all) = ((had.0 + had.1) as f64, (memory + flash) as f64);
            let room = ((had - all) / 2.0).min(all * most_room).max(all * ROOM.0) as u64;
            let is_kept = seen.is_fixed || seen.is_guessed || *flash == 0;
            (*memory, if is_kept { *flash } else { (flash + room).min(most).max(*flash) })
        };
        // Somebody else may need the larger room.
        for most_room in [ROOM.1, ROOM.0] {
            let with_room: Vec<Sizes> =
                planned.iter().zip(had).zip(seen).map(|it| more(most_room, it)).collect();
            if self.is_within(&Plan::of(question, &with_room), question) {
                return with_room;
            }
        }
        planned
    }

    /// What is as fast as can be within the bounds, and no dearer than that takes.
    fn as_fast_as_can_be(&self, seen: &[Seen]) -> Option<Vec<Sizes>> {
        let fastest = self.planned(seen, Goal::Latency, |_| None).ok()?;
        let gets = Plan::of(&self.question(seen), &fastest).tenants;
        let as_good = |number: usize| Some(gets[number].latency_us * AS_GOOD);
        Some(self.planned(seen, Goal::Cost, as_good).unwrap_or(fastest))
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

/// A plan within seconds: of many tenants by points where one is found at once, else by the hulls of their curves, with
/// each size as large as the next corner of the hull, where the curve keeps what the hull says.
fn plan_soon(question: &Question) -> Result<Plan, Infeasible> {
    if question.tenants.len() <= TENANTS_EXACTLY {
        return plan_exactly(question, POINTS);
    }
    if question.goal == Goal::Cost
        && let Outcome::Found(plan) = choices::least(question, Objective::Goal(Goal::Cost))
    {
        return Ok(plan);
    }
    let plan = plan_on_hull(question)?;
    let corners = |(tenant, gets): (&Tenant, &Allotment)| {
        let hull = tenant.curve.hull();
        let up = |size: u64| {
            let corner = hull.iter().map(|point| point.size).find(|corner| *corner >= size);
            corner.unwrap_or(size)
        };
        let memory = up(gets.memory_bytes);
        (memory, up(gets.memory_bytes + gets.flash_bytes).max(memory) - memory)
    };
    let sizes = question.tenants.iter().zip(&plan.tenants).map(corners);
    Ok(Plan::of(question, &sizes.collect::<Vec<_>>()))
}

/// Why there is no plan for those tenants, said of all.
fn of_all(why: Infeasible, change: &[usize]) -> Infeasible {
    match why {
        Infeasible::Sla { tenant, least_us } => {
            Infeasible::Sla { tenant: change[tenant], least_us }
        }
        of_nobody => of_nobody,
    }
}

/// What is left of bounds when somebody has so much.
fn less(bounds: &mut Bounds, memory: u64, flash: u64, prices: Prices) {
    bounds.dram_bytes = bounds.dram_bytes.map(|bytes| bytes.saturating_sub(memory));
    bounds.flash_bytes = bounds.flash_bytes.map(|bytes| bytes.saturating_sub(flash));
    bounds.cost = bounds.cost.map(|cost| (cost - prices.cost(memory, flash)).max(0.0));
}

/// The sizes, where they are not below the least. Who needs a little flash gets the least of it: with
/// none what was planned would not be kept.
fn at_least((memory, flash): Sizes, least: Sizes) -> Sizes {
    let all = memory + flash;
    let memory = memory.max(least.0);
    let flash = all.saturating_sub(memory);
    (memory, if flash == 0 { 0 } else { flash.max(least.1) })
}

#[cfg(test)]
mod tests;
