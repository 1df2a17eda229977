//! How much DRAM and flash each tenant gets: the least cost that meets all targets, or the least
//! latency for a budget (ElCached §4).
//!
//! Two ways, and their difference is informative:
//!
//! * [`plan_on_hull`]: as a linear program, as in the paper. A curve that is not convex is replaced
//!   by its lower hull, which is too optimistic at sizes between the hull's points.
//! * [`plan_exactly`]: over the curve's own points. Each size is a point's: a little less misses
//!   more, and any size between two points is a waste, unless flash is bounded and more DRAM
//!   replaces it. For the least cost that meets latencies it searches all points
//!   ([`crate::planner::choices`]). For the least latency within bounds it searches
//!   [`DEFAULT_POINTS`] of each curve first, and then all near the solution; with too many points
//!   for that, as a mixed-integer program.
//!
//! Guarantees: every plan has been checked against the curves themselves ([`Plan`]); if there is
//! none, the error names the bound that prevents it, and the value needed ([`Infeasible`]).
//!
//! Pure; the solver is [`microlp`].

use microlp::{ComparisonOp, OptimizationDirection, Problem, Solution, Variable};

use crate::curves::curve::{Curve, Point};
use crate::planner::choices::{self, Outcome};
use crate::planner::model::{Allotment, Latencies, PercentileTarget, ROUNDING, Tenant};
use crate::planner::request::{Bound, Bounds, Goal, Objective, Plan, PlanRequest};

/// Points of a curve with which a plan of the least latency for three tenants takes about a second.
/// Spread by the logarithm of the size they make a size some per cent larger than necessary, until
/// the search is refined.
pub const DEFAULT_POINTS: usize = 200;
/// Points of a curve that are searched before a plan is declared impossible.
const POINTS_LAST: usize = 1_000;
/// The most refinements.
const LOOKS_MAX: usize = 4;
/// A target is met if it is missed by less than this part: the solver's own tolerance is less.
const TOLERANCE: f64 = 1e-6;

/// The reason why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Infeasible {
    /// A tenant's latency cannot be met with any sizes.
    Sla {
        /// Its index in the request.
        tenant: usize,
        /// The least latency possible, in microseconds.
        least_us: f64,
    },
    /// A tenant's target for a percentile cannot be met with any sizes.
    Percentile {
        /// Its index in the request.
        tenant: usize,
        /// The target.
        target: PercentileTarget,
        /// The largest fraction of requests, 0 to 1, that can be answered within its time.
        most_share: f64,
        /// The least time within which the target's percentage of requests can be answered, in
        /// microseconds.
        least_us: f64,
    },
    /// A bound is too narrow: raising any one of these to the given value makes a plan possible.
    Bound(Vec<(Bound, f64)>),
    /// Several bounds are too narrow: the cheapest plan without bounds uses this much of each.
    Bounds(Vec<(Bound, f64)>),
    /// The solver has failed; the request may be feasible.
    Solver(String),
}

/// The plan as a linear program over the hulls of the curves. Its sizes are those of the program;
/// its predictions are the curves' own: a target that the hull meets and the curve does not shows
/// there.
///
/// # Errors
/// When there is none.
pub fn plan_on_hull(request: &PlanRequest) -> Result<Plan, Infeasible> {
    check(request)?;
    let curves: Vec<Curve> = request.tenants.iter().map(|tenant| tenant.curve.clone()).collect();
    let found = solve(request, &curves, Shape::Hull, Objective::Goal(request.goal));
    found.map_err(|error| refused(request, &curves, Shape::Hull, &error))
}

/// The plan over the curves' own points. For the least latency it searches about `points_max` of
/// each curve at a time: with curves that have no more, it is optimal; [`DEFAULT_POINTS`] is close
/// to that, and fast. For the least cost it searches all of them, however many there are.
///
/// # Errors
/// When there is none.
pub fn plan_exactly(request: &PlanRequest, points_max: usize) -> Result<Plan, Infeasible> {
    check(request)?;
    let goal = Objective::Goal(request.goal);
    if request.goal == Goal::Cost {
        match choices::least(request, goal) {
            Outcome::Found(plan) => return Ok(plan),
            Outcome::Nothing => {
                return Err(narrow(request, &thinned(request, points_max), Shape::Points));
            }
            Outcome::Unknown => {}
        }
    }
    let mut curves = thinned(request, points_max);
    let mut found = by_points(request, &curves, goal);
    for _ in 0..LOOKS_MAX {
        let near = match &found {
            Ok(plan) => plan.clone(),
            // Thinning may have dropped the only sizes that suffice: they are near those of the
            // hull.
            Err(microlp::Error::Infeasible) => match plan_on_hull(request) {
                Ok(plan) => plan,
                Err(_) => break,
            },
            Err(error) => return Err(Infeasible::Solver(error.to_string())),
        };
        let closer = closer(request, &near, &curves, points_max);
        if closer == curves {
            break;
        }
        curves = closer;
        found = match (found, by_points(request, &curves, goal)) {
            (before, Err(error)) if before.is_err() => Err(error),
            // It has all the points of before.
            (before, Err(_)) => before,
            (_, found) => found,
        };
    }
    if let Err(microlp::Error::Infeasible) = found {
        // A dropped point may be the one that suffices.
        curves = thinned(request, points_max.max(POINTS_LAST));
        found = by_points(request, &curves, goal);
    }
    // For the least cost all points have been searched already.
    if let Err(microlp::Error::Infeasible) = found
        && request.goal == Goal::Latency
        && let Outcome::Found(near) = choices::least(request, Objective::Goal(Goal::Cost))
    {
        // The search of all points found a plan.
        curves = closer(request, &near, &curves, points_max);
        found = by_points(request, &curves, goal).or(Ok(near));
    }
    found.map_err(|error| refused(request, &curves, Shape::Points, &error))
}

/// The curves with more points near the sizes of a plan.
fn closer(request: &PlanRequest, near: &Plan, coarse: &[Curve], points_max: usize) -> Vec<Curve> {
    let of = |((tenant, gets), coarse): ((&Tenant, &Allotment), &Curve)| {
        let sizes = [gets.memory_bytes, gets.memory_bytes.saturating_add(gets.flash_bytes)];
        tenant.curve.closer(coarse, &sizes, points_max)
    };
    request.tenants.iter().zip(&near.tenants).zip(coarse).map(of).collect()
}

/// The best plan over these points of the curves.
fn by_points(
    request: &PlanRequest,
    curves: &[Curve],
    goal: Objective,
) -> Result<Plan, microlp::Error> {
    let outcome = match goal {
        Objective::Goal(Goal::Latency) => choices::quickest(request, curves),
        _ => Outcome::Unknown,
    };
    match outcome {
        Outcome::Found(plan) => Ok(plan),
        Outcome::Nothing => Err(microlp::Error::Infeasible),
        Outcome::Unknown => solve(request, curves, Shape::Points, goal),
    }
}

/// The curves of all tenants, with at most this many points.
fn thinned(request: &PlanRequest, points_max: usize) -> Vec<Curve> {
    request.tenants.iter().map(|tenant| tenant.curve.thinned(points_max)).collect()
}

/// The marginal value of another GiB of `bound`: the decrease of the objective. `None` if there is
/// no such bound, or no plan.
pub fn marginal_value(
    request: &PlanRequest,
    plan: &Plan,
    bound: Bound,
    amount: f64,
) -> Option<f64> {
    let mut more = request.clone();
    let bounds = &mut more.bounds;
    let raised = |value: u64| value.saturating_add(amount as u64);
    match bound {
        Bound::Dram => bounds.dram_bytes = Some(raised(bounds.dram_bytes?)),
        Bound::Flash => bounds.flash_bytes = Some(raised(bounds.flash_bytes?)),
        Bound::Cost => bounds.cost = Some(bounds.cost? + amount),
        Bound::FlashWrites => {
            bounds.flash_writes_bytes_per_s = Some(bounds.flash_writes_bytes_per_s? + amount);
        }
    }
    let better = plan_exactly(&more, DEFAULT_POINTS).ok()?;
    Some(match request.goal {
        Goal::Cost => plan.cost - better.cost,
        Goal::Latency => plan.latency_us - better.latency_us,
    })
}

/// The encoding of a curve for the solver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Hull,
    Points,
}

/// Returns an error for a tenant one of whose targets cannot be met. DRAM for the whole curve, without
/// flash, is the fastest for each request.
fn check(request: &PlanRequest) -> Result<(), Infeasible> {
    for (number, tenant) in request.tenants.iter().enumerate() {
        let last = tenant.curve.points().last().map_or(0, |point| point.size);
        let fastest = tenant.allot(last, 0, request.prices);
        let least_us = fastest.latency_us;
        if tenant.sla_us.is_some_and(|sla_us| least_us > sla_us * (1.0 + ROUNDING)) {
            return Err(Infeasible::Sla { tenant: number, least_us });
        }
        let Latencies { memory_us, backend_us, .. } = tenant.latencies;
        for target in &tenant.percentiles {
            if !tenant.meets(target, &fastest, ROUNDING) {
                let as_memory = PercentileTarget { within_us: memory_us, ..*target };
                let is_hit = tenant.meets(&as_memory, &fastest, ROUNDING);
                return Err(Infeasible::Percentile {
                    tenant: number,
                    target: *target,
                    most_share: tenant.share_within(target.within_us, &fastest),
                    least_us: if is_hit { memory_us } else { memory_us + backend_us },
                });
            }
        }
    }
    Ok(())
}

/// The reason why the solver has found no plan.
fn refused(
    request: &PlanRequest,
    curves: &[Curve],
    shape: Shape,
    error: &microlp::Error,
) -> Infeasible {
    match error {
        microlp::Error::Infeasible => narrow(request, curves, shape),
        error => Infeasible::Solver(error.to_string()),
    }
}

/// The plan that minimises this objective, with all targets met; over points, all choices are
/// searched first.
fn least(
    request: &PlanRequest,
    curves: &[Curve],
    shape: Shape,
    objective: Objective,
) -> Result<Plan, microlp::Error> {
    if shape == Shape::Hull {
        return solve(request, curves, shape, objective);
    }
    match choices::least(request, objective) {
        Outcome::Found(plan) => Ok(plan),
        Outcome::Nothing => Err(microlp::Error::Infeasible),
        Outcome::Unknown => solve(request, curves, shape, objective),
    }
}

/// The bounds that are too narrow.
fn narrow(request: &PlanRequest, curves: &[Curve], shape: Shape) -> Infeasible {
    let alone = |bound: Bound| {
        request.bounds.get(bound)?;
        let request = PlanRequest { bounds: request.bounds.without(bound), ..request.clone() };
        let plan = least(&request, curves, shape, Objective::Use(bound)).ok()?;
        Some((bound, plan.takes(&request, bound)))
    };
    let each: Vec<(Bound, f64)> = Bound::ALL.into_iter().filter_map(alone).collect();
    if !each.is_empty() {
        return Infeasible::Bound(each);
    }
    let free = PlanRequest { bounds: Bounds::default(), ..request.clone() };
    match least(&free, curves, shape, Objective::Goal(Goal::Cost)) {
        Err(error) => Infeasible::Solver(error.to_string()),
        Ok(plan) => {
            let takes = Bound::ALL.into_iter().filter_map(|bound| {
                let most = request.bounds.get(bound)?;
                Some((bound, plan.takes(&free, bound))).filter(|(_, takes)| *takes > most)
            });
            Infeasible::Bounds(takes.collect())
        }
    }
}

/// The solver's variables of a tenant; sizes as fractions of its largest.
struct Variables {
    unit: f64,
    /// DRAM for objects, and that with flash.
    memory: Level,
    all: Level,
    /// Whether it may have flash.
    has_flash: bool,
}

/// A size, and its miss ratio: on the curve.
struct Level {
    size: Variable,
    misses: Variable,
    /// Whether it is at each point.
    is_here: Vec<Variable>,
}

impl Level {
    fn new(problem: &mut Problem, curve: &Curve, unit: f64, shape: Shape) -> Self {
        let size = problem.add_var(0.0, (0.0, 1.0));
        let misses = problem.add_var(0.0, (0.0, 1.0));
        let mut is_here = Vec::new();
        let scaled = |point: &Point| (point.size as f64 / unit, point.miss_ratio);
        match shape {
            Shape::Hull => {
                let hull: Vec<(f64, f64)> = curve.hull().iter().map(scaled).collect();
                for pair in hull.windows(2) {
                    let ((from, high), (to, low)) = (pair[0], pair[1]);
                    // Above the line through both; for steep ones, expressed by the size needed.
                    let (run, fall) = (to - from, high - low);
                    let scale = run.max(fall);
                    let line = [(misses, run / scale), (size, fall / scale)];
                    let least = (high * run + from * fall) / scale;
                    problem.add_constraint(line, ComparisonOp::Ge, least);
                }
                if let Some((_, least)) = hull.last() {
                    problem.add_constraint([(misses, 1.0)], ComparisonOp::Ge, *least);
                }
            }
            Shape::Points => {
                let (mut sizes, mut ratios) = (vec![(size, -1.0)], vec![(misses, -1.0)]);
                for (at, ratio) in curve.points().iter().map(scaled) {
                    let here = problem.add_binary_var(0.0);
                    is_here.push(here);
                    sizes.push((here, at));
                    ratios.push((here, ratio));
                }
                let one = is_here.iter().map(|here| (*here, 1.0));
                problem.add_constraint(one.collect::<Sum>(), ComparisonOp::Eq, 1.0);
                problem.add_constraint(sizes, ComparisonOp::Eq, 0.0);
                problem.add_constraint(ratios, ComparisonOp::Eq, 0.0);
            }
        }
        Self { size, misses, is_here }
    }

    /// The size in a solution, in bytes.
    fn bytes(&self, curve: &Curve, unit: f64, solution: &Solution) -> u64 {
        let here = |variable: &Variable| solution.var_value(*variable);
        let places = self.is_here.iter().zip(curve.points());
        match places.max_by(|one, other| here(one.0).total_cmp(&here(other.0))) {
            Some((_, point)) => point.size,
            None => (solution.var_value(self.size).max(0.0) * unit).round() as u64,
        }
    }
}

impl Variables {
    fn new(problem: &mut Problem, tenant: &Tenant, curve: &Curve, shape: Shape) -> Self {
        let unit = curve.points().last().map_or(1, |point| point.size.max(1)) as f64;
        let memory = Level::new(problem, curve, unit, shape);
        let all = Level::new(problem, curve, unit, shape);
        let flash = [(all.size, 1.0), (memory.size, -1.0)];
        let has_flash = suits_flash(tenant);
        let order = if has_flash { ComparisonOp::Ge } else { ComparisonOp::Eq };
        problem.add_constraint(flash, order, 0.0);
        if !tenant.percentiles.is_empty()
            && let Some(most) = tenant.miss_limits(has_flash)
        {
            for (level, most) in [(&memory, most.memory), (&all, most.all)] {
                let most = most * (1.0 + TOLERANCE);
                problem.add_constraint([(level.misses, 1.0)], ComparisonOp::Le, most);
            }
        }
        Self { unit, memory, all, has_flash }
    }
}

/// Whether a tenant's targets can be met with flash: with too slow a device, only DRAM suffices.
fn suits_flash(tenant: &Tenant) -> bool {
    let least = tenant.curve.points().last().map_or(1.0, |point| point.miss_ratio);
    let most = |value: f64| value * (1.0 + TOLERANCE);
    let least_us = tenant.latencies.mean_us(least, least);
    tenant.sla_us.is_none_or(|sla_us| least_us <= most(sla_us))
        && tenant
            .miss_limits(true)
            .is_some_and(|limits| least <= most(limits.memory.min(limits.all)))
}

/// A weighted sum of variables.
type Sum = Vec<(Variable, f64)>;

/// The best plan, with these as the curves of the tenants: the same or thinned.
fn solve(
    request: &PlanRequest,
    curves: &[Curve],
    shape: Shape,
    objective: Objective,
) -> Result<Plan, microlp::Error> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let mut tenants = Vec::new();
    for (tenant, curve) in request.tenants.iter().zip(curves) {
        let variables = Variables::new(&mut problem, tenant, curve, shape);
        if let Some(sla_us) = tenant.sla_us {
            let (latency, fixed) = latency(tenant, &variables);
            // As fractions of the longest latency.
            let longest = tenant.latencies.mean_us(1.0, 1.0).max(f64::MIN_POSITIVE);
            let latency = latency.into_iter().map(|(variable, us)| (variable, us / longest));
            let most = (sla_us * (1.0 + TOLERANCE) - fixed) / longest;
            problem.add_constraint(latency.collect::<Sum>(), ComparisonOp::Le, most);
        }
        if let Some(most) = tenant.flash_bytes_max {
            let flash = [(variables.all.size, 1.0), (variables.memory.size, -1.0)];
            problem.add_constraint(flash, ComparisonOp::Le, most as f64 / variables.unit);
        }
        tenants.push(variables);
    }
    for bound in Bound::ALL {
        if let Some(most) = request.bounds.get(bound) {
            let (sum, scale) = scaled(takes(request, &tenants, bound));
            problem.add_constraint(sum, ComparisonOp::Le, most * (1.0 + TOLERANCE) / scale);
        }
    }
    let (least, _) = scaled(match objective {
        Objective::Use(bound) => takes(request, &tenants, bound),
        Objective::Goal(Goal::Cost) => takes(request, &tenants, Bound::Cost),
        Objective::Goal(Goal::Latency) => {
            let choose = |(tenant, variables): (&Tenant, &Variables)| {
                let weight = tenant.requests_per_s;
                let (latency, _) = latency(tenant, variables);
                latency.into_iter().map(move |(variable, us)| (variable, us * weight))
            };
            request.tenants.iter().zip(&tenants).flat_map(choose).collect()
        }
    });
    // The solver attaches objectives to variables: add one for the objective.
    let value = problem.add_var(1.0, (f64::NEG_INFINITY, f64::INFINITY));
    let sum = least.into_iter().chain([(value, -1.0)]);
    problem.add_constraint(sum.collect::<Sum>(), ComparisonOp::Eq, 0.0);
    let interrupted = |_| microlp::Error::InternalError("it has no time limit".into());
    let solution = problem.solve()?.into_solution().map_err(interrupted)?;
    let sizes = curves.iter().zip(&tenants).map(|(curve, variables)| {
        let memory = variables.memory.bytes(curve, variables.unit, &solution);
        let all = variables.all.bytes(curve, variables.unit, &solution).max(memory);
        (memory, all - memory)
    });
    let plan = Plan::of(request, &sizes.collect::<Vec<_>>());
    match shape {
        Shape::Points if !keeps(request, &plan) => {
            Err(microlp::Error::InternalError("its solution exceeds a bound".into()))
        }
        _ => Ok(plan),
    }
}

/// Whether a plan meets the request, up to the solver's tolerance.
fn keeps(request: &PlanRequest, plan: &Plan) -> bool {
    let most = |value: f64| value * (1.0 + 10.0 * TOLERANCE);
    let suits = |(tenant, gets): (&Tenant, &Allotment)| {
        tenant.is_met(gets, 10.0 * TOLERANCE)
            && tenant
                .flash_bytes_max
                .is_none_or(|bytes| gets.flash_bytes as f64 <= most(bytes as f64) + 1.0)
    };
    let within = |bound: Bound| {
        let value = request.bounds.get(bound);
        value.is_none_or(|value| plan.takes(request, bound) <= most(value) + 1.0)
    };
    request.tenants.iter().zip(&plan.tenants).all(suits) && Bound::ALL.into_iter().all(within)
}

/// The latency of a tenant in microseconds: a sum, and a constant.
fn latency(tenant: &Tenant, variables: &Variables) -> (Sum, f64) {
    let latencies = tenant.latencies;
    let sum = vec![
        (variables.memory.misses, if variables.has_flash { latencies.flash_us } else { 0.0 }),
        (variables.all.misses, latencies.backend_us),
    ];
    (sum, latencies.memory_us)
}

/// The use of a bound by all tenants, in its unit.
fn takes(request: &PlanRequest, tenants: &[Variables], bound: Bound) -> Sum {
    let prices = request.prices;
    let of = |(tenant, variables): (&Tenant, &Variables)| {
        let unit = variables.unit;
        let (memory, all) = (variables.memory.size, variables.all.size);
        let index = tenant.index_bytes_per_byte;
        match bound {
            Bound::Dram => vec![(memory, (1.0 - index) * unit), (all, index * unit)],
            Bound::Flash => vec![(all, unit), (memory, -unit)],
            Bound::Cost => {
                let (dram, flash) = (prices.cost(1 << 30, 0), prices.cost(0, 1 << 30));
                let flash = flash + dram * index;
                let gib = unit / (1_u64 << 30) as f64;
                vec![(memory, (dram - flash) * gib), (all, flash * gib)]
            }
            Bound::FlashWrites if variables.has_flash => {
                vec![(variables.memory.misses, tenant.requests_per_s * tenant.demoted_bytes)]
            }
            Bound::FlashWrites => Vec::new(),
        }
    };
    request.tenants.iter().zip(tenants).flat_map(of).collect()
}

/// The same as fractions of its largest factor, and that factor.
fn scaled(sum: Sum) -> (Sum, f64) {
    let largest = sum.iter().map(|(_, factor)| factor.abs()).fold(0.0, f64::max);
    let scale = if largest > 0.0 { largest } else { 1.0 };
    (sum.into_iter().map(|(variable, factor)| (variable, factor / scale)).collect(), scale)
}

#[cfg(test)]
mod tests;
