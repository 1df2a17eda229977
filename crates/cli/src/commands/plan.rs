//! `plan`: how much DRAM and flash to buy.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use tidekv_plan::{
    Allotment, Bound, Bounds, Goal, Infeasible, Latencies, POINTS_USUAL, Plan, Prices, Question,
    Tenant, plan_exactly, plan_on_hull, worth_of_one_more,
};

use crate::curve_file::{BYTES, CurveFile};
use crate::failure::{Failure, Result};
use crate::files;
use crate::output;
use crate::quantity::{parse_micros, parse_size, show_size};

const GIB: f64 = (1_u64 << 30) as f64;
/// Flash beside DRAM where a fixed ratio is the rule (ElCached §5).
const FLASH_FOR_DRAM: f64 = 4.0;
/// A bound that is used to this part is reached.
const BINDING: f64 = 0.999;
/// What saves less saves nothing.
const NOTHING: f64 = 1e-6;

/// Plan how much DRAM and flash each tenant gets: what meets their latencies for the least money, or is
/// the fastest for so much.
///
/// A request takes the time of DRAM, that of flash if DRAM misses it, and that of what is behind if
/// both do: Lat = m + s * mr(DRAM) + db * mr(DRAM + flash), with miss ratios out of curves as `tidekv
/// profile` writes them. All that is printed follows from them, and can be followed by hand.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv plan --curve web=web.curve --sla 300us\n  \
    tidekv plan --curve web=web.json --curve ads=ads.json --sla web=300us --sla ads=1ms --total-dram 3GiB\n  \
    tidekv plan --curve web=web.curve --cost 20")]
#[group(id = "goal", required = true, multiple = true, args = ["sla", "cost"])]
pub struct PlanCommand {
    /// A tenant and his curve (repeatable).
    #[arg(long = "curve", value_name = "NAME=FILE", required = true)]
    curves: Vec<String>,

    /// How long requests may take on average: of all tenants, or of one (repeatable).
    #[arg(long, value_name = "[NAME=]TIME")]
    sla: Vec<String>,

    /// How much it may cost: the least latency for it is looked for.
    #[arg(long, value_name = "MONEY")]
    cost: Option<f64>,

    /// DRAM of all tenants, at most.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    total_dram: Option<u64>,

    /// Flash of all tenants, at most.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    total_flash: Option<u64>,

    /// Bytes that may be written to flash in a second. Needs rates of requests.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    flash_writes: Option<u64>,

    /// Requests of a tenant in a second, his weight among others; else as his curve says (repeatable).
    #[arg(long, value_name = "NAME=N")]
    requests: Vec<String>,

    /// Time of DRAM, of flash, and of what is behind both.
    #[arg(long, value_name = "M,S,DB", default_value = "10us,100us,1ms")]
    latencies: String,

    /// A TOML file with `dram_per_gib` and `flash_per_gib`; else 13 and 1.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,

    /// Bytes of DRAM that the index of an object on flash takes. Needs the size of objects, which a
    /// curve in JSON has.
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    index: f64,

    /// Look at all points of the curves at once, rather than at 200 of each and then closer.
    #[arg(long)]
    exact: bool,

    /// Print an object.
    #[arg(long)]
    json: bool,
}

/// What a GiB costs, as a file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    dram_per_gib: f64,
    flash_per_gib: f64,
}

/// `NAME=REST`.
fn named(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}

impl PlanCommand {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let question = self.question()?;
        let names: Vec<&str> = question.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        let refused = |why: Infeasible| refuse(&why, &question, &names);
        let points = if self.exact { usize::MAX } else { POINTS_USUAL };
        let plan = plan_exactly(&question, points).map_err(refused)?;
        // A plan is one without it.
        let hull = plan_on_hull(&question).ok();
        match self.json {
            true => output::line(&to_json(&question, &plan, hull.as_ref()).to_string()),
            false => {
                show(&question, &plan, hull.as_ref()).iter().try_for_each(|line| output::line(line))
            }
        }
    }

    fn question(&self) -> Result<Question> {
        let latencies = self.latencies()?;
        let (mut tenants, mut rates) = (Vec::new(), Vec::new());
        for text in &self.curves {
            let (name, path) =
                named(text).ok_or_else(|| Failure::usage(format!("{text:?} is no NAME=FILE")))?;
            if tenants.iter().any(|tenant: &Tenant| tenant.name == name) {
                return Err(Failure::usage(format!("there are two curves of {name:?}")));
            }
            let (tenant, has_rate) = self.tenant(name, Path::new(path), latencies)?;
            tenants.push(tenant);
            rates.push(
                has_rate
                    || self.requests.iter().filter_map(|text| named(text)).any(|it| it.0 == name),
            );
        }
        for text in &self.sla {
            let (name, time) =
                named(text).map_or((None, text.as_str()), |(name, time)| (Some(name), time));
            let sla_us = parse_micros(time).map_err(Failure::usage)?;
            for tenant in of_name(&mut tenants, name)? {
                tenant.sla_us = Some(sla_us);
            }
        }
        for text in &self.requests {
            let parsed =
                named(text).and_then(|(name, number)| Some((name, number.parse::<f64>().ok()?)));
            let (name, number) = parsed
                .filter(|(_, number)| number.is_finite() && *number >= 0.0)
                .ok_or_else(|| Failure::usage(format!("{text:?} is no NAME=N")))?;
            for tenant in of_name(&mut tenants, Some(name))? {
                tenant.requests_per_s = number;
            }
        }
        let is_known = rates.iter().filter(|is_known| **is_known).count();
        if is_known < rates.len() && (is_known > 0 || self.flash_writes.is_some()) {
            return Err(Failure::usage(
                "the requests of some tenants in a second are not known: --requests",
            ));
        }
        if tenants.iter().all(|tenant| tenant.requests_per_s == 0.0) {
            return Err(Failure::usage("nobody has requests"));
        }
        let goal = if self.cost.is_some() { Goal::Latency } else { Goal::Cost };
        if goal == Goal::Cost && tenants.iter().any(|tenant| tenant.sla_us.is_none()) {
            return Err(Failure::usage(
                "each tenant needs --sla, unless --cost says how much there is",
            ));
        }
        if self.cost.is_some_and(|cost| !(cost.is_finite() && cost >= 0.0)) {
            return Err(Failure::usage("--cost is no money"));
        }
        let bounds = Bounds {
            dram_bytes: self.total_dram,
            flash_bytes: self.total_flash,
            cost: self.cost,
            flash_writes_bytes_per_s: self.flash_writes.map(|bytes| bytes as f64),
        };
        Ok(Question { tenants, prices: self.prices()?, bounds, goal })
    }

    /// A tenant, and whether it is known how many requests he has.
    fn tenant(&self, name: &str, path: &Path, latencies: Latencies) -> Result<(Tenant, bool)> {
        let in_file = |what: String| Failure::new(format!("{}: {what}", path.display()));
        let file = CurveFile::read(&files::read_text(path)?)
            .map_err(|failure| in_file(failure.message))?;
        if file.unit != BYTES {
            return Err(in_file(format!("sizes are in {}, and are needed in bytes", file.unit)));
        }
        let curve = file.curve().map_err(in_file)?;
        let object_bytes = file.object_bytes.filter(|bytes| *bytes > 0.0);
        if (self.index > 0.0 || self.flash_writes.is_some()) && object_bytes.is_none() {
            return Err(in_file(
                "the size of objects is not known: `tidekv profile --json`".into(),
            ));
        }
        if !(self.index.is_finite() && self.index >= 0.0) {
            return Err(Failure::usage("--index is a number of bytes"));
        }
        let object_bytes = object_bytes.unwrap_or(1.0);
        let rate =
            file.seconds.filter(|seconds| *seconds > 0.0).map(|seconds| file.requests / seconds);
        let tenant = Tenant {
            latencies,
            requests_per_s: rate.unwrap_or(1.0),
            index_bytes_per_byte: self.index / object_bytes,
            demoted_bytes: object_bytes,
            ..Tenant::new(name, curve)
        };
        Ok((tenant, rate.is_some()))
    }

    fn latencies(&self) -> Result<Latencies> {
        let times: std::result::Result<Vec<f64>, String> =
            self.latencies.split(',').map(parse_micros).collect();
        match times.map_err(Failure::usage)?[..] {
            [memory_us, flash_us, backend_us] => Ok(Latencies { memory_us, flash_us, backend_us }),
            _ => Err(Failure::usage("--latencies are three: of DRAM, flash, and what is behind")),
        }
    }

    fn prices(&self) -> Result<Prices> {
        let Some(path) = &self.prices else {
            return Ok(Prices { dram_per_gib: 13.0, flash_per_gib: 1.0 });
        };
        let in_file = |what: &str| Failure::new(format!("{}: {what}", path.display()));
        let file: PriceFile = toml::from_str(&files::read_text(path)?)
            .map_err(|error| in_file(&error.to_string()))?;
        let is_price = |price: f64| price.is_finite() && price >= 0.0;
        if !(is_price(file.dram_per_gib) && is_price(file.flash_per_gib)) {
            return Err(in_file("a price is a number from 0 on"));
        }
        let PriceFile { dram_per_gib, flash_per_gib } = file;
        Ok(Prices { dram_per_gib, flash_per_gib })
    }
}

/// All tenants, or the one with that name.
fn of_name<'t>(
    tenants: &'t mut [Tenant],
    name: Option<&str>,
) -> Result<impl Iterator<Item = &'t mut Tenant>> {
    let is_meant = |tenant: &&mut Tenant| name.is_none_or(|name| tenant.name == name);
    if let Some(name) = name
        && !tenants.iter().any(|tenant| tenant.name == name)
    {
        return Err(Failure::usage(format!("there is no curve of {name:?}")));
    }
    Ok(tenants.iter_mut().filter(is_meant).collect::<Vec<_>>().into_iter())
}

/// What a bound is about, in words, and an amount of it.
fn told(bound: Bound, amount: f64) -> String {
    let size = || show_size(amount.ceil() as u64);
    match bound {
        Bound::Dram => format!("DRAM of {}", size()),
        Bound::Flash => format!("flash of {}", size()),
        Bound::Cost => format!("a cost of {amount:.2}"),
        Bound::FlashWrites => format!("{} written to flash in a second", size()),
    }
}

fn all_told(amounts: &[(Bound, f64)]) -> Vec<String> {
    amounts.iter().map(|(bound, amount)| told(*bound, *amount)).collect()
}

fn refuse(why: &Infeasible, question: &Question, names: &[&str]) -> Failure {
    Failure::new(match why {
        Infeasible::Sla { tenant, least_us } => format!(
            "{:.0} µs for {} cannot be promised, however much there is: the least is {least_us:.1} µs",
            question.tenants[*tenant].sla_us.unwrap_or_default(),
            names[*tenant],
        ),
        Infeasible::Bound(wider) => {
            let needed = all_told(wider).join(", or ");
            format!("there is no plan within these bounds; it would take at least {needed}")
        }
        Infeasible::Bounds(takes) => {
            let taken = all_told(takes).join(" and ");
            format!("there is no plan within these bounds; without any the cheapest takes {taken}")
        }
        Infeasible::Solver(error) => format!("the solver has failed: {error}"),
    })
}

/// The bounds that are reached, with what another GiB or a tenth more would be worth.
fn binding(question: &Question, plan: &Plan) -> Vec<(Bound, f64, f64)> {
    let is_used = |bound: &Bound| {
        let most = question.bounds.get(*bound);
        most.is_some_and(|most| plan.takes(question, *bound) >= most * BINDING)
    };
    let more = |bound: Bound| match bound {
        Bound::Dram | Bound::Flash => GIB,
        Bound::Cost | Bound::FlashWrites => question.bounds.get(bound).unwrap_or(0.0) / 10.0,
    };
    let worth = |bound: Bound| {
        let worth = worth_of_one_more(question, plan, bound, more(bound))?;
        Some((bound, more(bound), worth))
    };
    Bound::ALL.into_iter().filter(is_used).filter_map(worth).collect()
}

/// What a fixed ratio would cost, where all tenants can be served by it.
fn proportional(question: &Question) -> Option<Vec<Allotment>> {
    let tenants = question.tenants.iter();
    tenants.map(|tenant| tenant.proportional(FLASH_FOR_DRAM, question.prices)).collect()
}

fn show(question: &Question, plan: &Plan, hull: Option<&Plan>) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<16} {:>10} {:>10} {:>10} {:>9} {:>9} {:>11} {:>11} {:>10}",
        "tenant", "DRAM", "index", "flash", "mr(DRAM)", "mr(both)", "latency µs", "SLA µs", "cost"
    )];
    for (tenant, gets) in question.tenants.iter().zip(&plan.tenants) {
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
    let sum = |of: fn(&Allotment) -> u64| show_size(plan.tenants.iter().map(of).sum());
    lines.push(format!(
        "{:<16} {:>10} {:>10} {:>10} {:>9} {:>9} {:>11.1} {:>11} {:>10.3}",
        "all",
        sum(|gets| gets.memory_bytes),
        sum(|gets| gets.index_bytes),
        sum(|gets| gets.flash_bytes),
        "",
        "",
        plan.latency_us,
        "",
        plan.cost
    ));
    let Latencies { memory_us, flash_us, backend_us } = question.tenants[0].latencies;
    let Prices { dram_per_gib, flash_per_gib } = question.prices;
    lines.push(format!(
        "latency = {memory_us} + {flash_us} mr(DRAM) + {backend_us} mr(both); \
         cost = {dram_per_gib} a GiB of DRAM + {flash_per_gib} a GiB of flash"
    ));
    if let Some(fixed) = proportional(question) {
        let cost: f64 = fixed.iter().map(|gets| gets.cost).sum();
        lines.push(format!(
            "DRAM : flash = 1 : {FLASH_FOR_DRAM} for the same latencies: cost {cost:.3}; this is {:.2} of it",
            plan.cost / cost
        ));
    }
    if let Some(hull) = hull {
        lines.push(format!(
            "as a linear program on the curves' hulls: cost {:.3}, latency {:.1} µs by the curves themselves",
            hull.cost, hull.latency_us
        ));
    }
    let saved = |worth: f64| match question.goal {
        _ if worth < NOTHING => "nothing".to_owned(),
        Goal::Cost => format!("{worth:.3} of the cost"),
        Goal::Latency => format!("{worth:.1} µs"),
    };
    for (bound, more, worth) in binding(question, plan) {
        lines.push(format!(
            "at its bound: {}; {} more would save {}",
            told(bound, plan.takes(question, bound)),
            told(bound, more),
            saved(worth)
        ));
    }
    lines
}

fn allotment_to_json(name: &str, sla_us: Option<f64>, gets: &Allotment) -> Value {
    json!({
        "tenant": name, "dram_bytes": gets.memory_bytes, "index_bytes": gets.index_bytes,
        "flash_bytes": gets.flash_bytes, "dram_miss_ratio": gets.memory_miss_ratio,
        "miss_ratio": gets.miss_ratio, "latency_us": gets.latency_us, "sla_us": sla_us,
        "cost": gets.cost,
    })
}

fn to_json(question: &Question, plan: &Plan, hull: Option<&Plan>) -> Value {
    let all = |gets: &[Allotment]| -> Vec<Value> {
        let each = question.tenants.iter().zip(gets);
        each.map(|(tenant, gets)| allotment_to_json(&tenant.name, tenant.sla_us, gets)).collect()
    };
    let name = |bound: Bound| match bound {
        Bound::Dram => "dram_bytes",
        Bound::Flash => "flash_bytes",
        Bound::Cost => "cost",
        Bound::FlashWrites => "flash_writes_bytes_per_s",
    };
    let binding = binding(question, plan)
        .into_iter()
        .map(|(bound, more, worth)| json!({ "bound": name(bound), "more": more, "saves": worth }));
    json!({
        "tenants": all(&plan.tenants), "cost": plan.cost, "latency_us": plan.latency_us,
        "on_hull": hull.map(|hull| json!({
            "tenants": all(&hull.tenants), "cost": hull.cost, "latency_us": hull.latency_us,
        })),
        "proportional": proportional(question).map(|gets| all(&gets)),
        "binding": binding.collect::<Vec<_>>(),
    })
}
