//! How much DRAM and flash each tenant gets: the least cost at which all are answered soon enough, or
//! the least latency for so much money (ElCached §4).
//!
//! Twice, and the difference tells something:
//!
//! * [`plan_on_hull`]: as a linear program, as the paper has it. A curve that is not convex is
//!   taken for its lower hull, which promises more than there is at sizes between the hull's points.
//! * [`plan_exactly`]: over the curve's own points. Each size is a point's: with a little less one misses more, and
//!   what is between two points is paid for nothing (unless flash is bounded: more DRAM could stand in for it). Where latencies are to be kept for the least cost it looks through all
//!   points ([`crate::planner::choices`]). For the least latency for so much money it looks at [`POINTS_USUAL`] of each curve
//!   first, and then at all that are near what it has found; where there is no bound of cost, as a
//!   mixed-integer program.
//!
//! Guarantees: whatever is answered has been held against the curves themselves ([`Plan`]);
//! what cannot be says which bound is in the way, and what it would have to be ([`Infeasible`]).
//!
//! Pure; the solver is [`microlp`].

use microlp::{ComparisonOp, OptimizationDirection, Problem, Solution, Variable};

use crate::curves::curve::{Curve, Point};
use crate::planner::choices::{self, Outcome};
use crate::planner::model::{Allotment, Tenant};
use crate::planner::question::{Bound, Bounds, Goal, Objective, Plan, Question, ROUNDING};

/// Points of a curve with which a plan of the least latency for three tenants takes about a second. Spread by the logarithm of the size they make a
/// size some per cent larger than it would have to be, until one looks closer.
pub const POINTS_USUAL: usize = 200;
/// Points of a curve that are looked at before it is said that there is no plan.
const POINTS_LAST: usize = 1_000;
/// So often it is looked closer at most.
const LOOKS_MAX: usize = 4;
/// What is asked is met if it is missed by less than this part: the solver's own tolerance is less.
const TOLERANCE: f64 = 1e-6;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Infeasible {
    /// However much a tenant has, his requests take longer than they may.
    Sla {
        /// By his place in the question.
        tenant: usize,
        /// The least that can be promised him, in microseconds.
        least_us: f64,
    },
    /// A bound is too narrow: with any one of these at least so wide there is a plan.
    Bound(Vec<(Bound, f64)>),
    /// More than one is: of these the cheapest plan without bounds takes so much.
    Bounds(Vec<(Bound, f64)>),
    /// The solver has failed, which says nothing of the question.
    Solver(String),
}

/// The plan as a linear program over the hulls of the curves. Its sizes are those of the program;
/// what is said to come of them, the curves' own: a promise that a hull does not keep shows there.
///
/// # Errors
/// Where there is none.
pub fn plan_on_hull(question: &Question) -> Result<Plan, Infeasible> {
    check(question)?;
    let curves: Vec<Curve> = question.tenants.iter().map(|tenant| tenant.curve.clone()).collect();
    let found = solve(question, &curves, Shape::Hull, Objective::Goal(question.goal));
    found.map_err(|error| refused(question, &curves, Shape::Hull, &error))
}

/// The plan by the curves' own points. For the least latency it looks at about `points_max` of each curve at a time: with
/// curves that have no more, it is the best there is; [`POINTS_USUAL`] is close to that, and quick. For the
/// least cost it looks at all of them, however many there are.
///
/// # Errors
/// Where there is none.
pub fn plan_exactly(question: &Question, points_max: usize) -> Result<Plan, Infeasible> {
    check(question)?;
    let goal = Objective::Goal(question.goal);
    if question.goal == Goal::Cost {
        match choices::least(question, goal) {
            Outcome::Found(plan) => return Ok(plan),
            Outcome::Nothing => {
                return Err(narrow(question, &thinned(question, points_max), Shape::Points));
            }
            Outcome::Unknown => {}
        }
    }
    let mut curves = thinned(question, points_max);
    let mut found = by_points(question, &curves, goal);
    for _ in 0..LOOKS_MAX {
        let near = match &found {
            Ok(plan) => plan.clone(),
            // What is thinned may have lost the only sizes that will do: they are near those of the hull.
            Err(microlp::Error::Infeasible) => match plan_on_hull(question) {
                Ok(plan) => plan,
                Err(_) => break,
            },
            Err(error) => return Err(Infeasible::Solver(error.to_string())),
        };
        let closer = closer(question, &near, &curves, points_max);
        if closer == curves {
            break;
        }
        curves = closer;
        found = match (found, by_points(question, &curves, goal)) {
            (before, Err(error)) if before.is_err() => Err(error),
            // It has all the points of before.
            (before, Err(_)) => before,
            (_, found) => found,
        };
    }
    if let Err(microlp::Error::Infeasible) = found {
        // What has been left out may be what would do.
        curves = thinned(question, points_max.max(POINTS_LAST));
        found = by_points(question, &curves, goal);
    }
    // For the least cost all points have been asked already.
    if let Err(microlp::Error::Infeasible) = found
        && question.goal == Goal::Latency
        && let Outcome::Found(near) = choices::least(question, Objective::Goal(Goal::Cost))
    {
        // All points know one.
        curves = closer(question, &near, &curves, points_max);
        found = by_points(question, &curves, goal).or(Ok(near));
    }
    found.map_err(|error| refused(question, &curves, Shape::Points, &error))
}

/// The curves with more points near the sizes of a plan.
fn closer(question: &Question, near: &Plan, coarse: &[Curve], points_max: usize) -> Vec<Curve> {
    let of = |((tenant, gets), coarse): ((&Tenant, &Allotment), &Curve)| {
        let sizes = [gets.memory_bytes, gets.memory_bytes.saturating_add(gets.flash_bytes)];
        tenant.curve.closer(coarse, &sizes, points_max)
    };
    question.tenants.iter().zip(&near.tenants).zip(coarse).map(of).collect()
}

/// The best plan by these points of the curves.
fn by_points(
    question: &Question,
    curves: &[Curve],
    goal: Objective,
) -> Result<Plan, microlp::Error> {
    let outcome = match goal {
        Objective::Goal(Goal::Latency) => choices::quickest(question, curves),
        _ => Outcome::Unknown,
    };
    match outcome {
        Outcome::Found(plan) => Ok(plan),
        Outcome::Nothing => Err(microlp::Error::Infeasible),
        Outcome::Unknown => solve(question, curves, Shape::Points, goal),
    }
}

/// The curves of all tenants, of at most so many points.
fn thinned(question: &Question, points_max: usize) -> Vec<Curve> {
    question.tenants.iter().map(|tenant| tenant.curve.thinned(points_max)).collect()
}

/// What another GiB of `bound` would make of a plan: how much less what is to be least would be.
/// Nothing where there is no such bound, or no plan.
pub fn worth_of_one_more(
    question: &Question,
    plan: &Plan,
    bound: Bound,
    amount: f64,
) -> Option<f64> {
    let mut more = question.clone();
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
    let better = plan_exactly(&more, POINTS_USUAL).ok()?;
    Some(match question.goal {
        Goal::Cost => plan.cost - better.cost,
        Goal::Latency => plan.latency_us - better.latency_us,
    })
}

/// How a curve is put to the solver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Hull,
    Points,
}

/// Says whose latency cannot be promised, if anybody's.
fn check(question: &Question) -> Result<(), Infeasible> {
    for (number, tenant) in question.tenants.iter().enumerate() {
        let least = tenant.curve.points().last().map_or(1.0, |point| point.miss_ratio);
        let least_us = tenant.latencies.mean_us(least, least);
        if tenant.sla_us.is_some_and(|sla_us| least_us > sla_us * (1.0 + ROUNDING)) {
            return Err(Infeasible::Sla { tenant: number, least_us });
        }
    }
    Ok(())
}

/// Why the solver has found nothing.
fn refused(
    question: &Question,
    curves: &[Curve],
    shape: Shape,
    error: &microlp::Error,
) -> Infeasible {
    match error {
        microlp::Error::Infeasible => narrow(question, curves, shape),
        error => Infeasible::Solver(error.to_string()),
    }
}

/// The plan of which that is least, with all latencies kept; by points it is looked for among all choices first.
fn least(
    question: &Question,
    curves: &[Curve],
    shape: Shape,
    objective: Objective,
) -> Result<Plan, microlp::Error> {
    if shape == Shape::Hull {
        return solve(question, curves, shape, objective);
    }
    match choices::least(question, objective) {
        Outcome::Found(plan) => Ok(plan),
        Outcome::Nothing => Err(microlp::Error::Infeasible),
        Outcome::Unknown => solve(question, curves, shape, objective),
    }
}

/// Which bounds are too narrow.
fn narrow(question: &Question, curves: &[Curve], shape: Shape) -> Infeasible {
    let alone = |bound: Bound| {
        question.bounds.get(bound)?;
        let question = Question { bounds: question.bounds.without(bound), ..question.clone() };
        let plan = least(&question, curves, shape, Objective::Use(bound)).ok()?;
        Some((bound, plan.takes(&question, bound)))
    };
    let each: Vec<(Bound, f64)> = Bound::ALL.into_iter().filter_map(alone).collect();
    if !each.is_empty() {
        return Infeasible::Bound(each);
    }
    let free = Question { bounds: Bounds::default(), ..question.clone() };
    match least(&free, curves, shape, Objective::Goal(Goal::Cost)) {
        Err(error) => Infeasible::Solver(error.to_string()),
        Ok(plan) => {
            let takes = Bound::ALL.into_iter().filter_map(|bound| {
                let most = question.bounds.get(bound)?;
                Some((bound, plan.takes(&free, bound))).filter(|(_, takes)| *takes > most)
            });
            Infeasible::Bounds(takes.collect())
        }
    }
}

/// What a tenant is to the solver; sizes in parts of his largest.
struct Variables {
    unit: f64,
    /// DRAM for objects, and that with flash.
    memory: Level,
    all: Level,
}

/// A size, and what it misses: on the curve.
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
                    // Above the line through both; steep ones by the size that is needed.
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

    /// The size that a solution means, in bytes.
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
    fn new(problem: &mut Problem, curve: &Curve, shape: Shape) -> Self {
        let unit = curve.points().last().map_or(1, |point| point.size.max(1)) as f64;
        let memory = Level::new(problem, curve, unit, shape);
        let all = Level::new(problem, curve, unit, shape);
        let flash = [(all.size, 1.0), (memory.size, -1.0)];
        problem.add_constraint(flash, ComparisonOp::Ge, 0.0);
        Self { unit, memory, all }
    }
}

/// A sum of variables, each so many times.
type Sum = Vec<(Variable, f64)>;

/// The best plan, with these for the curves of the tenants: of the same, but fewer points perhaps.
fn solve(
    question: &Question,
    curves: &[Curve],
    shape: Shape,
    objective: Objective,
) -> Result<Plan, microlp::Error> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let mut tenants = Vec::new();
    for (tenant, curve) in question.tenants.iter().zip(curves) {
        let variables = Variables::new(&mut problem, curve, shape);
        if let Some(sla_us) = tenant.sla_us {
            let (latency, fixed) = latency(tenant, &variables);
            // In parts of the longest latency there is.
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
        if let Some(most) = question.bounds.get(bound) {
            let (sum, scale) = scaled(takes(question, &tenants, bound));
            problem.add_constraint(sum, ComparisonOp::Le, most * (1.0 + TOLERANCE) / scale);
        }
    }
    let (least, _) = scaled(match objective {
        Objective::Use(bound) => takes(question, &tenants, bound),
        Objective::Goal(Goal::Cost) => takes(question, &tenants, Bound::Cost),
        Objective::Goal(Goal::Latency) => {
            let weigh = |(tenant, variables): (&Tenant, &Variables)| {
                let weight = tenant.requests_per_s;
                let (latency, _) = latency(tenant, variables);
                latency.into_iter().map(move |(variable, us)| (variable, us * weight))
            };
            question.tenants.iter().zip(&tenants).flat_map(weigh).collect()
        }
    });
    // The solver has objectives with their variables: one that is what is to be least.
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
    let plan = Plan::of(question, &sizes.collect::<Vec<_>>());
    match shape {
        Shape::Points if !keeps(question, &plan) => {
            Err(microlp::Error::InternalError("its answer breaks a bound".into()))
        }
        _ => Ok(plan),
    }
}

/// Whether a plan is what was asked for, but for what a solver may miss it by.
fn keeps(question: &Question, plan: &Plan) -> bool {
    let most = |value: f64| value * (1.0 + 10.0 * TOLERANCE);
    let suits = |(tenant, gets): (&Tenant, &Allotment)| {
        tenant.sla_us.is_none_or(|sla_us| gets.latency_us <= most(sla_us))
            && tenant
                .flash_bytes_max
                .is_none_or(|bytes| gets.flash_bytes as f64 <= most(bytes as f64) + 1.0)
    };
    let within = |bound: Bound| {
        let value = question.bounds.get(bound);
        value.is_none_or(|value| plan.takes(question, bound) <= most(value) + 1.0)
    };
    question.tenants.iter().zip(&plan.tenants).all(suits) && Bound::ALL.into_iter().all(within)
}

/// The latency of a tenant in microseconds: a sum, and what comes to it in any case.
fn latency(tenant: &Tenant, variables: &Variables) -> (Sum, f64) {
    let latencies = tenant.latencies;
    let sum = vec![
        (variables.memory.misses, latencies.flash_us),
        (variables.all.misses, latencies.backend_us),
    ];
    (sum, latencies.memory_us)
}

/// How much all tenants take of what a bound is about, in its unit.
fn takes(question: &Question, tenants: &[Variables], bound: Bound) -> Sum {
    let prices = question.prices;
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
            Bound::FlashWrites => {
                vec![(variables.memory.misses, tenant.requests_per_s * tenant.demoted_bytes)]
            }
        }
    };
    question.tenants.iter().zip(tenants).flat_map(of).collect()
}

/// The same in parts of its largest factor, and that.
fn scaled(sum: Sum) -> (Sum, f64) {
    let largest = sum.iter().map(|(_, factor)| factor.abs()).fold(0.0, f64::max);
    let scale = if largest > 0.0 { largest } else { 1.0 };
    (sum.into_iter().map(|(variable, factor)| (variable, factor / scale)).collect(), scale)
}

#[cfg(test)]
mod tests;
