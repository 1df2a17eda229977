//! The least cost that meets every tenant's latency, over all points of all curves; the least value
//! that a bound must have; and the least latency for a cost, over some points.
//!
//! With a latency to meet, a tenant has one *choice* for each size of DRAM: the least flash that
//! suffices with it. So thousands of points make thousands of choices, and not their square; and
//! without common bounds each tenant takes its cheapest.
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
//! Guarantees: a plan that is found keeps all latencies and bounds, and costs as little as any plan
//! of these choices does, up to [`NEAR`], or to [`NODES_MAX`] with very many similar choices. Sizes
//! between points are not choices: they would help where flash is bounded, and more DRAM can
//! replace it. Infeasibility is reported only if no choices fit, or if by the sum above a plan
//! would cost more than the most expensive one possible.
//!
//! Pure.

use crate::curves::curve::{Curve, Point};
use crate::planner::model::{Allotment, Tenant};
use crate::planner::request::{Bound, Objective, Plan, PlanRequest, ROUNDING};

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

/// A choice that meets a tenant's latency.
#[derive(Debug, Clone, Copy)]
struct Choice {
    gets: Allotment,
    /// The objective, to be minimised.
    cost: f64,
    /// Its use of each bound, as a fraction of the bound.
    uses: [f64; Bound::ALL.len()],
}

/// All choices that meet a tenant's latency with the least flash, one for each point of the curve
/// that DRAM may reach; if writes to flash do not count, none with more DRAM than the latency takes
/// without flash.
fn allotments(tenant: &Tenant, request: &PlanRequest, do_writes_count: bool) -> Vec<Allotment> {
    let latencies = tenant.latencies;
    let sla_us = tenant.sla_us.unwrap_or(f64::INFINITY);
    let mut all = Vec::new();
    for point in tenant.curve.points() {
        let left_us =
            sla_us * (1.0 + ROUNDING) - latencies.memory_us - latencies.flash_us * point.miss_ratio;
        if left_us < 0.0 {
            continue;
        }
        let misses = if latencies.backend_us > 0.0 { left_us / latencies.backend_us } else { 1.0 };
        let Some(size) = tenant.curve.size_for(misses) else { continue };
        let flash_bytes = size.saturating_sub(point.size);
        if tenant.flash_bytes_max.is_none_or(|most| flash_bytes <= most) {
            all.push(tenant.allot(point.size, flash_bytes, request.prices));
        }
        if flash_bytes == 0 && !do_writes_count {
            break;
        }
    }
    all
}

/// All sizes of these points that meet a tenant's latency.
fn pairs(tenant: &Tenant, curve: &Curve, request: &PlanRequest) -> Vec<Allotment> {
    let points = curve.points();
    let from = |(place, memory): (usize, &Point)| {
        let memory = memory.size;
        points[place..].iter().map(move |all| (memory, all.size - memory))
    };
    let sizes = points.iter().enumerate().flat_map(from);
    let sizes = sizes.filter(|(_, flash)| tenant.flash_bytes_max.is_none_or(|most| *flash <= most));
    let all = sizes.map(|(memory, flash)| tenant.allot(memory, flash, request.prices));
    let most_us = tenant.sla_us.map_or(f64::INFINITY, |sla_us| sla_us * (1.0 + ROUNDING));
    all.filter(|gets| gets.latency_us <= most_us).collect()
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
    choices.iter().map(|all| all.iter().map(|it| it.cost).fold(0.0, f64::max)).sum()
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
    /// The knapsack that minimises this objective, with all latencies met.
    fn of(request: &PlanRequest, objective: Objective) -> Self {
        let least = match objective {
            Objective::Goal(_) => Bound::Cost,
            Objective::Use(bound) => bound,
        };
        let most = Bound::ALL.map(|bound| request.bounds.get(bound));
        let do_writes_count =
            least == Bound::FlashWrites || request.bounds.get(Bound::FlashWrites).is_some();
        let of = |(number, tenant): (usize, &Tenant)| {
            let choice = |gets: Allotment| {
                let cost = request.use_of(number, &gets, least);
                Choice { gets, cost, uses: uses_of(request, number, &gets, most) }
            };
            let all = allotments(tenant, request, do_writes_count).into_iter().map(choice);
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
            let choice = |gets: Allotment| {
                let cost = gets.latency_us * tenant.requests_per_s;
                Choice { gets, cost, uses: uses_of(request, number, &gets, most) }
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

    fn use_of(&self, chosen: &[usize], bound: usize) -> f64 {
        let uses = self.choices.iter().zip(chosen).map(|(choices, at)| choices[*at].uses[bound]);
        uses.sum()
    }

    fn cost(&self, chosen: &[usize]) -> f64 {
        self.choices.iter().zip(chosen).map(|(choices, at)| choices[*at].cost).sum()
    }

    fn fits(&self, chosen: &[usize]) -> bool {
        self.bounds().all(|bound| self.use_of(chosen, bound) <= 1.0 + ROUNDING)
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
            self.use_of(&self.chosen(&prices), bound) <= 1.0 + ROUNDING
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
        loop {
            let before = self.cost(&chosen);
            for tenant in 0..chosen.len() {
                let was = chosen[tenant];
                let mut best = (self.choices[tenant][was].cost, was);
                for place in 0..self.choices[tenant].len() {
                    let cost = self.choices[tenant][place].cost;
                    chosen[tenant] = place;
                    if cost < best.0 && self.fits(&chosen) {
                        best = (cost, place);
                    }
                }
                chosen[tenant] = best.1;
            }
            if self.cost(&chosen) >= before {
                return chosen;
            }
        }
    }
}

impl Choice {
    /// Whether it fits alone, with finite numbers.
    fn is_possible(&self) -> bool {
        self.uses.iter().all(|part| *part <= 1.0 + ROUNDING)
    }

    /// Its cost, and its use of bounds at these prices.
    fn priced(&self, prices: &PriceOf) -> f64 {
        self.cost + self.uses.iter().zip(prices).map(|(part, price)| part * price).sum::<f64>()
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
        let best = best.map(|chosen| (knapsack.cost(&chosen), chosen));
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
            let cost = self.knapsack.cost(chosen);
            if !self.is_no_better(cost) {
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
            if self.knapsack.bounds().all(|it| used[it] + rest[it] <= 1.0 + ROUNDING) {
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

/// The plan of the least mean latency for a cost, over these points of the curves. Unknown without
/// a bound of cost, or with too many points.
pub(crate) fn quickest(request: &PlanRequest, curves: &[Curve]) -> Outcome {
    let pairs_of = |curve: &Curve| {
        let points = curve.points().len();
        points.saturating_mul(points + 1) / 2
    };
    let pairs = curves.iter().map(pairs_of).fold(0, usize::saturating_add);
    if request.bounds.cost.is_none() || pairs > PAIRS_MAX {
        return Outcome::Unknown;
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
        let first = Some(self.chosen(&prices)).filter(|chosen| self.fits(chosen));
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
        Outcome::Found(Plan::of(request, &sizes.collect::<Vec<_>>()))
    }
}
