//! The output of a plan: text and JSON.

use serde_json::{Value, json};
use tidekv_plan::{
    Allotment, Bound, DEFAULT_FLASH_FOR_DRAM, Goal, Infeasible, Latencies, PercentileTarget, Plan,
    PlanRequest, Prices, Tenant, marginal_value,
};

use crate::commands::plan::wear::Wear;
use crate::failure::Failure;
use crate::quantity::show_size;

const GIB: f64 = (1_u64 << 30) as f64;
/// A limit counts as reached from this used fraction.
const BINDING: f64 = 0.999;
/// A smaller saving counts as none.
const NOTHING: f64 = 1e-6;

/// An amount of the resource of a limit, in words.
fn amount_text(bound: Bound, amount: f64) -> String {
    let size = || show_size(amount.ceil() as u64);
    match bound {
        Bound::Dram => format!("DRAM of {}", size()),
        Bound::Flash => format!("flash of {}", size()),
        Bound::Cost => format!("a cost of {amount:.2}"),
        Bound::FlashWrites => format!("{} written to flash per second", size()),
    }
}

fn amount_texts(amounts: &[(Bound, f64)]) -> Vec<String> {
    amounts.iter().map(|(bound, amount)| amount_text(*bound, *amount)).collect()
}

/// A share of requests in per cent, rounded down: 99.996 % are no 100.
fn percent(share: f64) -> String {
    format!("{:.2}", (share * 1e4 + 1e-6).floor() / 1e2)
}

/// The reason why no plan exists.
pub(super) fn refuse(why: &Infeasible, request: &PlanRequest, names: &[&str]) -> Failure {
    Failure::new(match why {
        Infeasible::Sla { tenant, least_us } => format!(
            "{:.0} µs for {} is infeasible with any sizes: the least is {least_us:.1} µs",
            request.tenants[*tenant].sla_us.unwrap_or_default(),
            names[*tenant],
        ),
        Infeasible::Percentile { tenant, target, most_share, least_us } => format!(
            "p{} of {} µs for {} is infeasible with any sizes: at most {} % of its requests can be \
             answered within that time, and p{} can be {least_us:.1} µs at the least",
            target.percent,
            target.within_us,
            names[*tenant],
            percent(*most_share),
            target.percent,
        ),
        Infeasible::Bound(wider) => {
            let needed = amount_texts(wider).join(", or ");
            format!("no plan exists within these limits; one would need at least {needed}")
        }
        Infeasible::Bounds(takes) => {
            let taken = amount_texts(takes).join(" and ");
            format!("no plan exists within these limits; without limits the cheapest takes {taken}")
        }
        Infeasible::Solver(error) => format!("the solver failed: {error}"),
    })
}

/// The limits that are reached, with the value of another GiB or of a tenth more.
fn binding(request: &PlanRequest, plan: &Plan) -> Vec<(Bound, f64, f64)> {
    let is_used = |bound: &Bound| {
        let most = request.bounds.get(*bound);
        most.is_some_and(|most| plan.takes(request, *bound) >= most * BINDING)
    };
    let more = |bound: Bound| match bound {
        Bound::Dram | Bound::Flash => GIB,
        Bound::Cost | Bound::FlashWrites => request.bounds.get(bound).unwrap_or(0.0) / 10.0,
    };
    let worth = |bound: Bound| {
        let worth = marginal_value(request, plan, bound, more(bound))?;
        Some((bound, more(bound), worth))
    };
    Bound::ALL.into_iter().filter(is_used).filter_map(worth).collect()
}

/// The sizes at the fixed ratio, if it can serve all tenants.
pub(super) fn proportional(request: &PlanRequest) -> Option<Vec<Allotment>> {
    let tenants = request.tenants.iter();
    tenants.map(|tenant| tenant.proportional(DEFAULT_FLASH_FOR_DRAM, request.prices)).collect()
}

/// Other plans, for comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others<'p> {
    /// The plan on the hulls of the curves.
    pub(super) hull: Option<&'p Plan>,
    /// The current sizes of a running cache.
    pub(super) now: Option<&'p Plan>,
    /// The fixed ratio for the same latencies ([`proportional`]).
    pub(super) proportional: Option<&'p [Allotment]>,
    /// The margin in standard errors, if some curve is an estimate.
    pub(super) margin: Option<f64>,
    /// What is known of the wear of flash.
    pub(super) wear: &'p Wear,
}

/// A plan as text.
pub(super) fn show(request: &PlanRequest, plan: &Plan, others: Others<'_>) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<16} {:>10} {:>10} {:>10} {:>9} {:>9} {:>11} {:>11} {:>10}",
        "tenant", "DRAM", "index", "flash", "mr(DRAM)", "mr(both)", "latency µs", "SLA µs", "cost"
    )];
    for (tenant, gets) in request.tenants.iter().zip(&plan.tenants) {
        let sla = tenant.sla_us.map_or("-".into(), |sla_us| format!("{sla_us:.1}"));
        lines.push(format!(
            "{:<16} {:>10} {:>10} {:>10} {:>9.4} {:>9.4} {:>11.1} {sla:>11} {:>10.3}",
            tenant.name,
            show_size(gets.memory_bytes),
            show_size(gets.index_bytes),
            show_size(gets.flash_bytes),
            gets.memory_miss_ratio,
            gets.miss_ratio,
            gets.latency_us,
            gets.cost
        ));
    }
    let sum = |plan: &Plan, of: fn(&Allotment) -> u64| -> String {
        show_size(plan.tenants.iter().map(of).sum())
    };
    lines.push(format!(
        "{:<16} {:>10} {:>10} {:>10} {:>9} {:>9} {:>11.1} {:>11} {:>10.3}",
        "all",
        sum(plan, |gets| gets.memory_bytes),
        sum(plan, |gets| gets.index_bytes),
        sum(plan, |gets| gets.flash_bytes),
        "",
        "",
        plan.latency_us,
        "",
        plan.cost
    ));
    lines.extend(formulas(request));
    lines.extend(percentile_lines(request, plan));
    lines.extend(others.wear.show(request, plan));
    if let Some(margin) = others.margin {
        lines.push(format!(
            "curves of samples have a margin of {margin} standard errors (--margin)"
        ));
    }
    if let Some(now) = others.now {
        lines.push(format!(
            "current sizes, {} of DRAM and {} of flash: cost {:.3}, latency {:.1} µs by the curves",
            sum(now, Allotment::dram_bytes),
            sum(now, |gets| gets.flash_bytes),
            now.cost,
            now.latency_us
        ));
    }
    let fixed = others.proportional.map(|fixed| fixed.iter().map(|gets| gets.cost).sum::<f64>());
    if let Some(cost) = fixed.filter(|cost| *cost > 0.0) {
        lines.push(format!(
            "DRAM : flash = 1 : {DEFAULT_FLASH_FOR_DRAM} for the same latencies: cost {cost:.3}; this plan costs {:.2} of it",
            plan.cost / cost
        ));
    }
    if let Some(hull) = others.hull {
        lines.push(format!(
            "linear program on the curves' hulls: cost {:.3}, latency {:.1} µs by the curves themselves",
            hull.cost, hull.latency_us
        ));
    }
    lines.extend(limit_lines(request, plan));
    lines
}

/// The percentile targets, each with the share of requests that are in time; and for each tenant the
/// times of the levels, by which the share can be checked.
fn percentile_lines(request: &PlanRequest, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for (tenant, gets) in request.tenants.iter().zip(&plan.tenants) {
        let name = &tenant.name;
        for target in &tenant.percentiles {
            let share = percent(tenant.share_within(target.within_us, gets));
            let PercentileTarget { percent, within_us } = target;
            lines.push(format!("{name} p{percent}: {share} % of requests within {within_us} µs"));
        }
        if !tenant.percentiles.is_empty() {
            let Latencies { memory_us, flash_us, backend_us } = tenant.latencies;
            let flash_us = if gets.flash_bytes > 0 { memory_us + flash_us } else { memory_us };
            let both = if gets.flash_bytes > 0 {
                format!(", {flash_us} from flash")
            } else {
                String::new()
            };
            let backend_us = flash_us + backend_us;
            lines.push(format!(
                "{name}: a request takes {memory_us} µs from DRAM{both}, {backend_us} from the backend"
            ));
        }
    }
    lines
}

/// The limits that are reached, as text.
fn limit_lines(request: &PlanRequest, plan: &Plan) -> Vec<String> {
    let saved = |worth: f64| match request.goal {
        _ if worth < NOTHING => "nothing".to_owned(),
        Goal::Cost => format!("{worth:.3} of the cost"),
        Goal::Latency => format!("{worth:.1} µs"),
    };
    let line = |(bound, more, worth): (Bound, f64, f64)| {
        let taken = amount_text(bound, plan.takes(request, bound));
        let more = amount_text(bound, more);
        format!("limit reached: {taken}; {more} more would save {}", saved(worth))
    };
    binding(request, plan).into_iter().map(line).collect()
}

/// The formulas of latencies and cost; one line if all tenants have the same latencies.
fn formulas(request: &PlanRequest) -> Vec<String> {
    let Prices { dram_per_gib, flash_per_gib } = request.prices;
    let cost = format!("cost = {dram_per_gib} per GiB of DRAM + {flash_per_gib} per GiB of flash");
    let formula = |of: &str, latencies: Latencies| {
        let Latencies { memory_us, flash_us, backend_us } = latencies;
        format!("latency{of} = {memory_us} + {flash_us} mr(DRAM) + {backend_us} mr(both)")
    };
    let first = request.tenants[0].latencies;
    if request.tenants.iter().all(|tenant| tenant.latencies == first) {
        return vec![format!("{}; {cost}", formula("", first))];
    }
    let of = |tenant: &Tenant| formula(&format!(" of {}", tenant.name), tenant.latencies);
    request.tenants.iter().map(of).chain([cost]).collect()
}

fn allotment_to_json(request: &PlanRequest, number: usize, gets: &Allotment, wear: &Wear) -> Value {
    let tenant = &request.tenants[number];
    let percentiles = tenant.percentiles.iter().map(|target| {
        let share = tenant.share_within(target.within_us, gets);
        json!({ "percent": target.percent, "within_us": target.within_us, "share": share })
    });
    json!({
        "tenant": tenant.name, "dram_bytes": gets.memory_bytes, "index_bytes": gets.index_bytes,
        "flash_bytes": gets.flash_bytes, "dram_miss_ratio": gets.memory_miss_ratio,
        "miss_ratio": gets.miss_ratio, "latency_us": gets.latency_us, "sla_us": tenant.sla_us,
        "percentiles": percentiles.collect::<Vec<_>>(), "cost": gets.cost,
        "flash_writes": wear.tenant_json(request, number, gets),
    })
}

/// A plan as JSON.
pub(super) fn to_json(request: &PlanRequest, plan: &Plan, others: Others<'_>) -> Value {
    let all = |gets: &[Allotment]| -> Vec<Value> {
        let to_json = |(number, gets)| allotment_to_json(request, number, gets, others.wear);
        gets.iter().enumerate().map(to_json).collect()
    };
    let plain = |plan: &Plan| json!({ "tenants": all(&plan.tenants), "cost": plan.cost, "latency_us": plan.latency_us });
    let name = |bound: Bound| match bound {
        Bound::Dram => "dram_bytes",
        Bound::Flash => "flash_bytes",
        Bound::Cost => "cost",
        Bound::FlashWrites => "flash_writes_bytes_per_s",
    };
    let binding = binding(request, plan)
        .into_iter()
        .map(|(bound, more, worth)| json!({ "bound": name(bound), "more": more, "saves": worth }));
    json!({
        "tenants": all(&plan.tenants), "cost": plan.cost, "latency_us": plan.latency_us,
        "on_hull": others.hull.map(plain),
        "now": others.now.map(plain),
        "proportional": others.proportional.map(all),
        "margin": others.margin,
        "flash_writes": others.wear.plan_json(request, plan),
        "binding": binding.collect::<Vec<_>>(),
    })
}
