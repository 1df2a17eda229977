//! The least cost that meets every tenant's targets, over all points of all curves; the least value
//! that a bound must have; and the least latency for a cost, over some points.
//!
//! With targets to meet, a tenant has one *choice* for each size of DRAM: the least flash that
//! suffices with it. So thousands of points make thousands of choices, and not their square; and
//! without common bounds each tenant takes its cheapest. A target for a percentile is a limit of a
//! miss ratio: of DRAM, or of DRAM and flash together ([`Tenant::miss_limits`]). It is another one
//! with flash than without, for a request that misses both then waits for both; so flash that is too
//! slow for a target is in no choice.
//!
//! The other way round a choice is a pair of sizes; if only cost is bounded, or no other bound is
//! active, only those count that are faster than all that cost no more.
//!
//! With active bounds this is a multiple-choice knapsack. Each bound has a *price* (a Lagrange
//! multiplier), at which each tenant chooses for itself; prices rise until all fit. The cost of any
//! plan is at least
//!
//! ```text
//! Σ tenants  min over choices (cost + Σ bounds price · use)  −  Σ bounds price · bound
//! ```
//!
//! and, with each choice that is not a tenant's first by that, higher by as much as the choice is
//! worse there. So a search by branch and bound visits only the few choices so little worse that
//! they may be in a better plan than the best known one.
//!
//! A size of DRAM between two points is a waste, unless flash is bounded: then each byte of flash
//! too many can be a byte of DRAM instead, with the same misses. Such an *exchange* costs the
//! difference of the prices, so a choice is a line from its least DRAM to all of it in DRAM; the sum
//! above takes the lower of its ends, and a plan exchanges where that costs least.
//!
//! Guarantees: a plan that is found keeps all targets and bounds, and costs as little as any plan
//! does, up to [`NEAR`], or to [`NODES_MAX`] with very many similar choices; where two bounds limit
//! exchanges and the indexes of tenants differ in size, it exchanges as is best for one of them.
//! Infeasibility is reported only if no choices fit, or if by the sum above a plan would cost more
//! than the most expensive one possible.
//!
//! Pure.

use crate::curves::curve::{Curve, Point};
use crate::planner::model::{Allotment, ROUNDING, Tenant};
use crate::planner::request::{Bound, Objective, Plan, PlanRequest};

/// Plans that are cheaper by less than this part are not searched.
const NEAR: f64 = 1e-6;
/// The most combinations that are visited.
const NODES_MAX: u64 = 2_000_000;
/// More pairs of sizes would take too much memory, about 130 bytes each.
const PAIRS_MAX: usize = 2_000_000;
/// How often the price of each bound is recomputed.
const ROUNDS: u32 = 12;
/// How often the interval of a price is halved.
const HALVINGS: u32 = 60;
/// The outcome of a search.
#[derive(Debug)]
pub(crate) enum Outcome {
    Found(Plan),
    /// There is no plan.
    Nothing,
    /// There may be a plan.
    Unknown,
}

/// A choice that meets a tenant's targets.
#[derive(Debug, Clone, Copy)]
struct Choice {
    gets: Allotment,
    /// The objective, to be minimised.
    cost: f64,
    /// Its use of each bound, as a fraction of the bound.
    uses: PriceOf,
    /// Bytes of flash that may be DRAM instead, and what each of them changes: the objective, and
    /// the uses.
    exchangeable: u64,
    exchange_cost: f64,
    exchange_uses: PriceOf,
}

/// All choices that meet a tenant's targets with the least flash, one for each point of the curve
/// that DRAM may reach; none with more DRAM than the targets take without flash.
fn allotments(tenant: &Tenant, request: &PlanRequest) -> Vec<Allotment> {
    let latencies = tenant.latencies;
    let most_us = tenant.sla_us.unwrap_or(f64::INFINITY) * (1.0 + ROUNDING);
    let limits = tenant.miss_limits(true);
    let points = tenant.curve.points();
    let mut all = Vec::new();
    for (place, point) in points.iter().enumerate() {
        let without_flash = tenant.allot(point.size, 0, request.prices);
        if tenant.is_met(&without_flash, ROUNDING) {
            all.push(without_flash);
            break;
        }
        let most = |ratio: f64| ratio * (1.0 + ROUNDING);
        let Some(limits) = limits.filter(|it| point.miss_ratio <= most(it.memory)) else {
            continue;
        };
        let left_us = most_us - latencies.memory_us - latencies.flash_us * point.miss_ratio;
        let misses = if latencies.backend_us > 0.0 { left_us / latencies.backend_us } else { 1.0 };
        let misses = misses.min(most(limits.all));
        let size = if left_us < 0.0 { None } else { tenant.curve.size_for(misses) };
        if let Some(size) = size.filter(|size| *size > point.size) {
            let next = points.get(place + 1).map(|next| next.size);
            all.extend(sized(tenant, request, (point.size, next), size));
        }
    }
    all
}

/// The allotment of this much DRAM and flash together that has the least DRAM from `memory` on, if
/// that is less than the next point of the curve.
fn sized(
    tenant: &Tenant,
    request: &PlanRequest,
    (memory, next): (u64, Option<u64>),
    all: u64,
) -> Option<Allotment> {
    let flash_max = tenant.flash_bytes_max.unwrap_or(u64::MAX);
    let memory = memory.max(all.saturating_sub(flash_max));
    let is_before_next = next.is_none_or(|next| memory < next);
    is_before_next.then(|| tenant.allot(memory, all - memory, request.prices))
}

/// All sizes of these points that meet a tenant's targets.
fn pairs(tenant: &Tenant, curve: &Curve, request: &PlanRequest) -> Vec<Allotment> {
    let points = curve.points();
    let from = |(place, memory): (usize, &Point)| {
        let from = (memory.size, points.get(place + 1).map(|next| next.size));
        points[place..].iter().filter_map(move |all| sized(tenant, request, from, all.size))
    };
    let all = points.iter().enumerate().flat_map(from);
    all.filter(|gets| tenant.is_met(gets, ROUNDING)).collect()
}

/// Keeps those that are faster than all that cost no more.
fn keep_trade_offs(all: &mut Vec<Allotment>) {
    all.sort_by(|one, other| {
        one.cost.total_cmp(&other.cost).then(one.latency_us.total_cmp(&other.latency_us))
    });
    let mut least_us = f64::INFINITY;
    all.retain(|gets| {
        let is_faster = gets.latency_us < least_us;
        least_us = least_us.min(gets.latency_us);
        is_faster
    });
}

/// An upper bound of the cost of a plan.
fn dearest(choices: &[Vec<Choice>]) -> f64 {
    choices.iter().map(|all| all.iter().map(Choice::dearest).fold(0.0, f64::max)).sum()
}

/// A tenant's use of the bounds, as a fraction of each.
fn uses_of(
    request: &PlanRequest,
    tenant: usize,
    gets: &Allotment,
    most: [Option<f64>; Bound::ALL.len()],
) -> PriceOf {
    let part = |(bound, most): (Bound, Option<f64>)| {
        let taken = request.use_of(tenant, gets, bound);
        // Of a bound of zero any use is too much.
        most.filter(|_| taken > 0.0).map_or(0.0, |most| taken / most)
    };
    let mut uses = Bound::ALL.into_iter().zip(most).map(part);
    std::array::from_fn(|_| uses.next().unwrap_or_default())
}

/// What a byte of flash that becomes DRAM changes: the value of `of`, and the uses; nothing if a bound
/// excludes it.
fn exchange_of(
    request: &PlanRequest,
    tenant: usize,
    most: [Option<f64>; Bound::ALL.len()],
    of: Option<Bound>,
) -> (f64, PriceOf) {
    let index = request.tenants[tenant].index_bytes_per_byte;
    let prices = request.prices;
    let gib = (1_u64 << 30) as f64;
    let change = |bound: Bound| match bound {
        Bound::Dram => 1.0 - index,
        Bound::Flash => -1.0,
        Bound::Cost => (prices.dram_per_gib * (1.0 - index) - prices.flash_per_gib) / gib,
        Bound::FlashWrites => 0.0,
    };
    // Of a bound of zero nothing can be exchanged for.
    let is_excluded =
        |(bound, most): (Bound, Option<f64>)| most == Some(0.0) && change(bound) > 0.0;
    if Bound::ALL.into_iter().zip(most).any(is_excluded) {
        return (0.0, [0.0; Bound::ALL.len()]);
    }
    let part = |(bound, most): (Bound, Option<f64>)| {
        most.filter(|most| *most > 0.0).map_or(0.0, |most| change(bound) / most)
    };
    let mut uses = Bound::ALL.into_iter().zip(most).map(part);
    (of.map_or(0.0, change), std::array::from_fn(|_| uses.next().unwrap_or_default()))
}

/// A number for each of [`Bound::ALL`].
type PriceOf = [f64; Bound::ALL.len()];

/// A multiple-choice knapsack.
struct Knapsack {
    /// By tenant.
    choices: Vec<Vec<Choice>>,
    /// The bounds that exist.
    is_bounded: [bool; Bound::ALL.len()],
    /// An upper bound of the cost of a plan within the bounds.
    dearest: f64,
}

impl Knapsack {
    /// The knapsack that minimises this objective, with all targets met.
    fn of(request: &PlanRequest, objective: Objective) -> Self {
        let least = match objective {
            Objective::Goal(_) => Bound::Cost,
            Objective::Use(bound) => bound,
        };
        let most = Bound::ALL.map(|bound| request.bounds.get(bound));
        let of = |(number, tenant): (usize, &Tenant)| {
            let exchange = exchange_of(request, number, most, Some(least));
            let choice = |gets: Allotment| {
                let cost = request.use_of(number, &gets, least);
                Choice::new(gets, cost, uses_of(request, number, &gets, most), exchange)
            };
            let all = allotments(tenant, request).into_iter().map(choice);
            all.filter(Choice::is_possible).collect()
        };
        let choices: Vec<Vec<Choice>> = request.tenants.iter().enumerate().map(of).collect();
        let bounds = request.bounds;
        let all = bounds.dram_bytes.zip(bounds.flash_bytes);
        let all = all.map(|(dram, flash)| request.prices.cost(dram, flash));
        let of_bounds = [all.filter(|_| least == Bound::Cost), request.bounds.get(least)];
        let dearest = of_bounds.into_iter().flatten().fold(dearest(&choices), f64::min);
        Self { choices, is_bounded: most.map(|most| most.is_some()), dearest }
    }

    /// The knapsack that minimises latencies within a cost, with sizes of these curves; ignoring
    /// other bounds if `is_cost_all`.
    fn of_pairs(request: &PlanRequest, curves: &[Curve], is_cost_all: bool) -> Self {
        let most = Bound::ALL.map(|bound| {
            request.bounds.get(bound).filter(|_| !is_cost_all || bound == Bound::Cost)
        });
        let of = |(number, curve): (usize, &Curve)| {
            let tenant = &request.tenants[number];
            let exchange = exchange_of(request, number, most, None);
            let choice = |gets: Allotment| {
                let cost = gets.latency_us * tenant.requests_per_s;
                Choice::new(gets, cost, uses_of(request, number, &gets, most), exchange)
            };
            let mut all = pairs(tenant, curve, request);
            if is_cost_all {
                keep_trade_offs(&mut all);
            }
            let all = all.into_iter().map(choice);
            all.filter(Choice::is_possible).collect()
        };
        let choices: Vec<Vec<Choice>> = curves.iter().enumerate().map(of).collect();
        let dearest = dearest(&choices);
        Self { choices, is_bounded: most.map(|most| most.is_some()), dearest }
    }

    fn bounds(&self) -> impl Iterator<Item = usize> + use<> {
        let is_bounded = self.is_bounded;
        (0..Bound::ALL.len()).filter(move |at| is_bounded[*at])
    }

    /// The choice of each tenant at these prices, by its index.
    fn chosen(&self, prices: &PriceOf) -> Vec<usize> {
        let of = |choices: &Vec<Choice>| {
            let worth = |choice: &Choice| (choice.priced(prices), choice.gets.dram_bytes());
            let order = |one: &Choice, other: &Choice| {
                let (one, other) = (worth(one), worth(other));
                one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
            };
            let places = choices.iter().enumerate();
            places.min_by(|one, other| order(one.1, other.1)).map_or(0, |(place, _)| place)
        };
        self.choices.iter().map(of).collect()
    }

    /// The use of a bound, by the better end of each choice at these prices.
    fn use_at(&self, prices: &PriceOf, chosen: &[usize], bound: usize) -> f64 {
        let uses = self.choices.iter().zip(chosen).map(|(choices, at)| {
            let choice = &choices[*at];
            let exchanged = if choice.slope(prices) < 0.0 { choice.exchangeable } else { 0 };
            choice.uses[bound] + choice.exchange_uses[bound] * exchanged as f64
        });
        uses.sum()
    }

    fn totals(&self, chosen: &[usize]) -> (f64, PriceOf) {
        let mut totals = (0.0, [0.0; Bound::ALL.len()]);
        for (choices, at) in self.choices.iter().zip(chosen) {
            choices[*at].add_to(&mut totals, 1.0);
        }
        totals
    }

    /// The cost of these choices, whose sums are `totals`, and the bytes that tenants exchange, so
    /// that all bounds are kept at the least cost; `None` if they cannot be.
    fn exchanged(
        &self,
        chosen: &[usize],
        totals: &(f64, PriceOf),
    ) -> Option<(f64, Vec<(usize, u64)>)> {
        let others_fit = |it: usize| it == FLASH || totals.1[it] <= 1.0 + ROUNDING;
        if !self.bounds().all(others_fit) {
            return None;
        }
        let choice = |tenant: usize| &self.choices[tenant][chosen[tenant]];
        let lowers_cost = |tenant: usize| choice(tenant).least_exchange() < 0.0;
        if totals.1[FLASH] <= 1.0 + ROUNDING && !(0..chosen.len()).any(lowers_cost) {
            return Some((totals.0, Vec::new()));
        }
        let attempt = |order: fn(&Choice) -> f64| {
            let mut tenants: Vec<usize> = (0..chosen.len()).collect();
            tenants.sort_by(|one, other| order(choice(*one)).total_cmp(&order(choice(*other))));
            let ((mut cost, mut uses), mut exchanges) = (*totals, Vec::new());
            for tenant in tenants {
                let choice = choice(tenant);
                let bytes = choice.exchange_within(&uses);
                if bytes > 0 {
                    cost += choice.exchange_cost * bytes as f64;
                    for (all, one) in uses.iter_mut().zip(choice.exchange_uses) {
                        *all += one * bytes as f64;
                    }
                    exchanges.push((tenant, bytes));
                }
            }
            let is_kept = self.bounds().all(|it| uses[it] <= 1.0 + ROUNDING);
            is_kept.then_some((cost, exchanges))
        };
        // Each order is the best one where a single bound is active.
        let orders: [fn(&Choice) -> f64; 3] = [
            |choice| choice.exchange_cost,
            |choice| choice.exchange_uses[DRAM],
            |choice| choice.exchange_uses[COST],
        ];
        let found = orders.into_iter().filter_map(attempt);
        found.min_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// The cost of these choices if they fit.
    fn cost(&self, chosen: &[usize]) -> Option<f64> {
        self.exchanged(chosen, &self.totals(chosen)).map(|(cost, _)| cost)
    }

    /// Prices at which all choices fit, or as nearly as possible.
    fn prices(&self) -> PriceOf {
        let mut prices = [0.0; Bound::ALL.len()];
        for _ in 0..ROUNDS {
            let before = prices;
            for bound in self.bounds() {
                prices[bound] = self.price(prices, bound);
            }
            if prices == before {
                break;
            }
        }
        prices
    }

    /// The least price at which a bound is kept, given those of the others.
    fn price(&self, mut prices: PriceOf, bound: usize) -> f64 {
        let mut is_kept_at = |price: f64| {
            prices[bound] = price;
            self.use_at(&prices, &self.chosen(&prices), bound) <= 1.0 + ROUNDING
        };
        if is_kept_at(0.0) {
            return 0.0;
        }
        // At this price nothing else counts.
        let (mut low, mut high) = (0.0, self.dearest.max(1.0) * 1e9);
        for _ in 0..HALVINGS {
            // By its logarithm at first, for it may be of any size.
            let middle = if low == 0.0 { high / 1_000.0 } else { f64::midpoint(low, high) };
            if is_kept_at(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// The cheapest choices that fit, changing one tenant's at a time.
    fn improved(&self, mut chosen: Vec<usize>) -> Vec<usize> {
        let mut cost = self.cost(&chosen).unwrap_or(f64::INFINITY);
        loop {
            let before = cost;
            for tenant in 0..chosen.len() {
                let was = chosen[tenant];
                let mut others = self.totals(&chosen);
                self.choices[tenant][was].add_to(&mut others, -1.0);
                let mut best = (cost, was);
                for (place, choice) in self.choices[tenant].iter().enumerate() {
                    // No exchange makes it cheaper, unless flash is dearer than DRAM.
                    if others.0 + choice.cost + choice.least_exchange() >= best.0 {
                        continue;
                    }
                    let mut totals = others;
                    choice.add_to(&mut totals, 1.0);
                    chosen[tenant] = place;
                    if let Some((cost, _)) = self.exchanged(&chosen, &totals)
                        && cost < best.0
                    {
                        best = (cost, place);
                    }
                }
                (cost, chosen[tenant]) = best;
            }
            if cost >= before {
                return chosen;
            }
        }
    }
}

/// The places of these bounds in [`Bound::ALL`].
const DRAM: usize = 0;
const FLASH: usize = 1;
const COST: usize = 2;

impl Choice {
    fn new(gets: Allotment, cost: f64, uses: PriceOf, exchange: (f64, PriceOf)) -> Self {
        let (exchange_cost, exchange_uses) = exchange;
        // Only a bound of flash makes it worth anything, or an objective that is better with less.
        let has_use = exchange_uses[FLASH] < 0.0 || exchange_cost < 0.0;
        let exchangeable = if has_use { gets.flash_bytes } else { 0 };
        Self { gets, cost, uses, exchangeable, exchange_cost, exchange_uses }
    }

    /// The bytes that it exchanges where all choices have these uses: those that flash has too many,
    /// or if it gets better with each, as many as the bounds allow.
    fn exchange_within(&self, uses: &PriceOf) -> u64 {
        let each = -self.exchange_uses[FLASH];
        let excess = if each > 0.0 { ((uses[FLASH] - 1.0) / each).ceil().max(0.0) } else { 0.0 };
        if self.exchange_cost >= 0.0 {
            return (excess as u64).min(self.exchangeable);
        }
        let parts = uses.iter().zip(self.exchange_uses).filter(|(_, each)| *each > 0.0);
        let room = parts.map(|(used, each)| ((1.0 - used) / each).floor().max(0.0));
        let room = room.fold(f64::INFINITY, f64::min);
        (room.max(excess) as u64).min(self.exchangeable)
    }

    /// Whether it fits alone, with finite numbers; its flash may be DRAM instead.
    fn is_possible(&self) -> bool {
        let parts = self.uses.iter().enumerate();
        let mut others = parts.filter(|(bound, _)| *bound != FLASH || self.exchangeable == 0);
        others.all(|(_, part)| *part <= 1.0 + ROUNDING)
    }

    /// What an exchanged byte changes at these prices.
    fn slope(&self, prices: &PriceOf) -> f64 {
        let uses = self.exchange_uses.iter().zip(prices).map(|(part, price)| part * price);
        self.exchange_cost + uses.sum::<f64>()
    }

    /// Its cost, and its use of bounds at these prices, at its better end.
    fn priced(&self, prices: &PriceOf) -> f64 {
        let uses = self.uses.iter().zip(prices).map(|(part, price)| part * price).sum::<f64>();
        let exchanged = match self.exchangeable {
            0 => 0.0,
            bytes => (self.slope(prices) * bytes as f64).min(0.0),
        };
        self.cost + uses + exchanged
    }

    /// Its cost with the exchanges that raise it most.
    fn dearest(&self) -> f64 {
        self.cost + self.exchange_cost.max(0.0) * self.exchangeable as f64
    }

    /// The most that exchanges can lower its cost, as a negative number.
    fn least_exchange(&self) -> f64 {
        self.exchange_cost.min(0.0) * self.exchangeable as f64
    }

    /// Adds it to sums of cost and uses, or subtracts it.
    fn add_to(&self, totals: &mut (f64, PriceOf), sign: f64) {
        totals.0 += sign * self.cost;
        for (all, one) in totals.1.iter_mut().zip(self.uses) {
            *all += sign * one;
        }
    }
}

/// A search through choices, each tenant's ordered by how much worse they are at the prices.
struct Search<'k> {
    knapsack: &'k Knapsack,
    /// By tenant: how much worse, and the index.
    worse: Vec<Vec<(f64, usize)>>,
    /// A lower bound of the cost of a plan.
    least: f64,
    /// The least use of each bound by the tenants from each one on.
    rest: Vec<PriceOf>,
    best: Option<(f64, Vec<usize>)>,
    nodes: u64,
}

impl<'k> Search<'k> {
    fn new(knapsack: &'k Knapsack, prices: &PriceOf, best: Option<Vec<usize>>) -> Self {
        let of = |choices: &Vec<Choice>| {
            let mut all: Vec<(f64, usize)> =
                choices.iter().map(|choice| choice.priced(prices)).zip(0..).collect();
            all.sort_by(|one, other| one.0.total_cmp(&other.0));
            let first = all.first().map_or(0.0, |(priced, _)| *priced);
            all.iter_mut().for_each(|(priced, _)| *priced -= first);
            (first, all)
        };
        let (firsts, worse): (Vec<f64>, Vec<_>) = knapsack.choices.iter().map(of).unzip();
        // Rounding may exceed a bound slightly, which a high price would magnify.
        let bounds = knapsack.bounds().map(|bound| prices[bound] * (1.0 + ROUNDING)).sum::<f64>();
        let mut rest = vec![[0.0; Bound::ALL.len()]; knapsack.choices.len() + 1];
        for (tenant, choices) in knapsack.choices.iter().enumerate().rev() {
            rest[tenant] = std::array::from_fn(|bound| {
                let uses = choices.iter().map(|choice| choice.uses[bound]);
                rest[tenant + 1][bound] + uses.fold(f64::INFINITY, f64::min)
            });
        }
        let best = best.and_then(|chosen| Some((knapsack.cost(&chosen)?, chosen)));
        Self { knapsack, worse, least: firsts.iter().sum::<f64>() - bounds, rest, best, nodes: 0 }
    }

    /// Whether a plan of at least this cost cannot improve on the best.
    fn is_no_better(&self, cost: f64) -> bool {
        self.best.as_ref().is_some_and(|(best, _)| cost >= best - best.abs() * NEAR)
    }

    /// Visits the choices of all tenants from the next on; the others have chosen, with the given
    /// excess.
    fn go(&mut self, chosen: &mut Vec<usize>, so_far: f64, used: PriceOf) {
        let tenant = chosen.len();
        if tenant == self.knapsack.choices.len() {
            if let Some(cost) = self.knapsack.cost(chosen)
                && !self.is_no_better(cost)
            {
                self.best = Some((cost, chosen.clone()));
            }
            return;
        }
        for at in 0..self.worse[tenant].len() {
            let (by, place) = self.worse[tenant][at];
            self.nodes += 1;
            if self.nodes > NODES_MAX || self.is_no_better(self.least + so_far + by) {
                return;
            }
            let uses = &self.knapsack.choices[tenant][place].uses;
            let used = std::array::from_fn(|bound| used[bound] + uses[bound]);
            let rest = &self.rest[tenant + 1];
            // Exchanges can lower the use of flash.
            let can_fit = |it: usize| it == FLASH || used[it] + rest[it] <= 1.0 + ROUNDING;
            if self.knapsack.bounds().all(can_fit) {
                chosen.push(place);
                self.go(chosen, so_far + by, used);
                chosen.pop();
            }
        }
    }
}

/// The feasible plan with the least objective.
pub(crate) fn least(request: &PlanRequest, objective: Objective) -> Outcome {
    Knapsack::of(request, objective).solve(request)
}

/// The plan of the least mean latency within the bounds, over these points of the curves. Unknown
/// with too many points.
pub(crate) fn quickest(request: &PlanRequest, curves: &[Curve]) -> Outcome {
    let pairs_of = |curve: &Curve| {
        let points = curve.points().len();
        points.saturating_mul(points + 1) / 2
    };
    let pairs = curves.iter().map(pairs_of).fold(0, usize::saturating_add);
    if pairs > PAIRS_MAX {
        return Outcome::Unknown;
    }
    if request.bounds.cost.is_none() {
        return Knapsack::of_pairs(request, curves, false).solve(request);
    }
    let outcome = Knapsack::of_pairs(request, curves, true).solve(request);
    let is_kept = |plan: &Plan, bound: Bound| {
        let most = request.bounds.get(bound);
        most.is_none_or(|most| plan.takes(request, bound) <= most * (1.0 + ROUNDING))
    };
    match outcome {
        Outcome::Found(plan) if !Bound::ALL.into_iter().all(|bound| is_kept(&plan, bound)) => {
            // Another bound is active, and a more expensive choice may use less of it.
            Knapsack::of_pairs(request, curves, false).solve(request)
        }
        outcome => outcome,
    }
}

impl Knapsack {
    fn solve(&self, request: &PlanRequest) -> Outcome {
        if self.choices.iter().any(Vec::is_empty) {
            return Outcome::Nothing;
        }
        let prices = self.prices();
        let first = Some(self.chosen(&prices)).filter(|chosen| self.cost(chosen).is_some());
        let is_free = prices.iter().all(|price| *price == 0.0);
        let chosen = match first {
            Some(chosen) if is_free => chosen,
            first => {
                let first = first.map(|chosen| self.improved(chosen));
                let mut search = Search::new(self, &prices, first);
                if search.least > self.dearest * (1.0 + NEAR) {
                    return Outcome::Nothing;
                }
                search.go(&mut Vec::new(), 0.0, [0.0; Bound::ALL.len()]);
                match search.best {
                    Some((_, chosen)) => chosen,
                    None if search.nodes > NODES_MAX => return Outcome::Unknown,
                    None => return Outcome::Nothing,
                }
            }
        };
        let sizes = self.choices.iter().zip(&chosen).map(|(choices, at)| {
            let gets = choices[*at].gets;
            (gets.memory_bytes, gets.flash_bytes)
        });
        let mut sizes: Vec<(u64, u64)> = sizes.collect();
        let exchanged = self.exchanged(&chosen, &self.totals(&chosen));
        for (tenant, bytes) in exchanged.into_iter().flat_map(|(_, exchanges)| exchanges) {
            let (memory, flash) = sizes[tenant];
            sizes[tenant] = (memory + bytes, flash - bytes);
        }
        Outcome::Found(Plan::of(request, &sizes))
    }
}
