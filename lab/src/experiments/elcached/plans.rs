//! `elcached-plans`: what `tidekv plan` makes of the curve of a sample, beside a search of all sizes,
//! and beside the latency of caches of the planned sizes.
//!
//! For each trace: the curve of the sample of `tidekv profile` with its standard errors, the curve of all keys,
//! and a hundred random settings. A setting has prices, latencies, a target between the best and the
//! worst latency of the curve, and sometimes a bound of DRAM, of flash, or no flash at all.
//!
//! | metric | meaning |
//! |---|---|
//! | `plans` | settings for which there is a plan |
//! | `disagreements` | settings in which the plan costs more than the search finds, or only one of them finds a plan |
//! | `cost_to_searched_most` | the largest ratio of a plan's cost to that of the search |
//! | `within_target` | the fraction of plans whose latency by the curve of all keys is at most the target |
//! | `over_target_most` | the largest excess, as a fraction of the target |
//! | `within_target_plain`, `over_target_most_plain` | the same of plans without a margin (`--margin 0`) |
//! | `cost_of_margin` | the mean cost of plans beside those without a margin |
//! | `lru_difference` | between the curve of all keys and an LRU cache of one planned size |
//!
//! The search has the same curve with the margin and knows the model of the planner, but none of its
//! code: the least cost is at points of the curve, or where a bound of flash leaves the rest to DRAM. Sizes are those that the cache charges.
//! Real traces are the files of the folder that `TIDEKV_TRACES` names, in any format of `tidekv
//! profile`; `lab/traces/fetch` gets those of libCacheSim and Caffeine from their registries.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads traces, not data of a store"
)]

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidekv_plan::trace::{Format, Kind, Reader};
use tidekv_plan::{
    Access, Action, Bounds, Curve, DEFAULT_POINTS, Goal, Latencies, PlanRequest, Prices, Profiler,
    Sampler, TRACE_SAMPLE_SIZE, Tenant, plan_exactly,
};
use tidekv_tiered::Cache;

use crate::experiment::{Experiment, Found, Model, Params, Point, Rule, Subjects, Target};
use crate::experiments::elcached::cost::modelled;
use crate::experiments::elcached::workload::{self, Law, SETTINGS};
use crate::failure::{Failure, Result};
use crate::load::dice::{Dice, mix};
use crate::scale::Scale;

const PLAN: &str = "tidekv:plan";
/// The folder of real traces.
const TRACES: &str = "TIDEKV_TRACES";
/// The default of `tidekv plan`.
const MARGIN: f64 = 2.0;
/// Points of a curve that `tidekv profile` prints.
const POINTS: usize = 1000;
/// Costs whose ratio differs by less from 1 are equal: sizes are whole bytes.
const EQUAL: f64 = 1e-6;
const GIB: f64 = (1_u64 << 30) as f64;

/// The origin of requests.
#[derive(Debug, Clone)]
enum Origin {
    Law(Law),
    /// A cycle over all keys, and as many requests for a tenth of them.
    Cycle,
    /// All keys are equally popular.
    Uniform,
    /// The popular keys change all the time.
    Moving,
    File(PathBuf),
}

#[derive(Debug)]
struct Plans {
    origin: Origin,
    /// At most this many requests.
    requests: usize,
    settings: u32,
}

/// A setting of the planner.
#[derive(Debug, Clone, Copy)]
struct Setting {
    prices: Prices,
    latencies: Latencies,
    sla_us: f64,
    dram_max: Option<u64>,
    flash_max: Option<u64>,
}

/// A number between these; all orders of magnitude are equally probable.
fn between(dice: &mut Dice, from: f64, to: f64) -> f64 {
    from * (to / from).powf(dice.unit())
}

impl Setting {
    fn random(dice: &mut Dice, curve: &Curve) -> Self {
        let prices = Prices {
            dram_per_gib: between(dice, 2.0, 30.0),
            flash_per_gib: between(dice, 0.2, 4.0),
        };
        let latencies = Latencies {
            memory_us: between(dice, 1.0, 30.0),
            flash_us: between(dice, 20.0, 400.0),
            backend_us: between(dice, 500.0, 20_000.0),
        };
        let last = curve.points().last().map_or(1, |point| point.size).max(2);
        let least = latencies.mean_us_without_flash(curve.miss_ratio(last));
        let most = latencies.mean_us_without_flash(1.0);
        let sla_us = least + (most - least) * between(dice, 0.02, 0.9);
        let mut bound = || {
            let bytes = between(dice, last as f64 / 100.0, last as f64) as u64;
            (dice.below(3) == 0).then_some(bytes)
        };
        let (dram_max, flash_max) = (bound(), bound());
        let flash_max = if dice.below(8) == 0 { Some(0) } else { flash_max };
        Self { prices, latencies, sla_us, dram_max, flash_max }
    }

    fn latency_us(&self, curve: &Curve, dram: u64, flash: u64) -> f64 {
        let Latencies { memory_us, flash_us, backend_us } = self.latencies;
        let misses = curve.miss_ratio(dram);
        match flash {
            0 => memory_us + backend_us * misses,
            _ => memory_us + flash_us * misses + backend_us * curve.miss_ratio(dram + flash),
        }
    }

    fn cost(&self, dram: u64, flash: u64) -> f64 {
        let Prices { dram_per_gib, flash_per_gib } = self.prices;
        (dram_per_gib * dram as f64 + flash_per_gib * flash as f64) / GIB
    }

    /// The least cost for which some sizes keep the target.
    fn searched(&self, curve: &Curve) -> Option<f64> {
        let mut least: Option<f64> = None;
        for all in curve.points() {
            for memory in curve.points().iter().take_while(|memory| memory.size <= all.size) {
                let flash_max = self.flash_max.unwrap_or(u64::MAX);
                let dram = memory.size.max(all.size.saturating_sub(flash_max));
                if self.dram_max.is_some_and(|most| dram > most) {
                    continue;
                }
                let flash = all.size - dram;
                let cost = self.cost(dram, flash);
                if least.is_none_or(|least| cost < least)
                    && self.latency_us(curve, dram, flash) <= self.sla_us
                {
                    least = Some(cost);
                }
            }
        }
        least
    }

    /// The DRAM and flash of a plan.
    fn planned(&self, curve: &Curve) -> Option<(u64, u64)> {
        let tenant = Tenant {
            latencies: self.latencies,
            sla_us: Some(self.sla_us),
            ..Tenant::new("trace", curve.clone())
        };
        let bounds =
            Bounds { dram_bytes: self.dram_max, flash_bytes: self.flash_max, ..Bounds::default() };
        let request =
            PlanRequest { tenants: vec![tenant], prices: self.prices, bounds, goal: Goal::Cost };
        let plan = plan_exactly(&request, DEFAULT_POINTS).ok()?;
        Some((plan.tenants[0].memory_bytes, plan.tenants[0].flash_bytes))
    }
}

/// An LRU cache of that size: the fraction of requests that it misses.
fn lru_miss_ratio(accesses: &[Access], bytes_max: u64) -> f64 {
    let mut by_use: BTreeMap<usize, u64> = BTreeMap::new();
    let mut objects: HashMap<u64, (usize, u64)> = HashMap::new();
    let (mut used, mut misses) = (0, 0_u64);
    for (at, access) in accesses.iter().enumerate() {
        let Action::Load(bytes) = access.action else { continue };
        match objects.insert(access.key, (at, bytes)) {
            Some((before, size)) => {
                by_use.remove(&before);
                used -= size;
            }
            None => misses += 1,
        }
        by_use.insert(at, access.key);
        used += bytes;
        while used > bytes_max
            && let Some((_, key)) = by_use.pop_first()
        {
            used -= objects.remove(&key).map_or(0, |(_, size)| size);
        }
    }
    misses as f64 / accesses.len().max(1) as f64
}

/// How plans keep their targets.
#[derive(Debug, Default)]
struct Kept {
    plans: u32,
    within: u32,
    over_most: f64,
}

impl Kept {
    fn note(&mut self, setting: &Setting, exact: &Curve, (dram, flash): (u64, u64)) {
        let over = setting.latency_us(exact, dram, flash) / setting.sla_us - 1.0;
        self.plans += 1;
        self.within += u32::from(over <= EQUAL);
        self.over_most = self.over_most.max(over);
    }

    fn share(&self) -> f64 {
        f64::from(self.within) / f64::from(self.plans.max(1))
    }
}

impl Plans {
    fn accesses(&self, seed: u64) -> Result<Vec<Access>> {
        let load = |key: u64, value_len: usize| {
            Access::new(mix(key), Action::Load(Cache::object_dram_bytes(16, value_len) as u64))
        };
        let mut dice = Dice::new(mix(seed));
        let count = self.requests as u64;
        let size = |key: u64| 50 + (mix(key ^ 7) % 2_000) as usize;
        Ok(match &self.origin {
            Origin::Law(law) => {
                let keys = workload::keys(*law, 200, seed).take(self.requests);
                keys.map(|key| load(key, workload::sizes_of(key).value_bytes as usize)).collect()
            }
            Origin::Cycle => {
                let keys = count / 20;
                let key = |at: u64, dice: &mut Dice| match at % 2 {
                    0 => at / 2 % keys,
                    _ => dice.below(keys / 10),
                };
                (0..count).map(|at| key(at, &mut dice)).map(|key| load(key, size(key))).collect()
            }
            Origin::Uniform => {
                (0..count).map(|_| dice.below(count / 10)).map(|key| load(key, size(key))).collect()
            }
            Origin::Moving => {
                let key = |at: u64| at / 8 + ((count / 20) as f64).powf(dice.unit()) as u64;
                (0..count).map(key).map(|key| load(key, size(key))).collect()
            }
            Origin::File(path) => self.read(path)?,
        })
    }

    fn read(&self, path: &Path) -> Result<Vec<Access>> {
        let failed = |error: String| Failure::new(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let mut input = BufReader::with_capacity(1 << 20, file);
        let head = input.fill_buf().map_err(|error| failed(error.to_string()))?;
        let format = Format::of(head).ok_or_else(|| failed("unknown format".into()))?;
        let reader = Reader::new(format, input).map_err(|fault| failed(fault.to_string()))?;
        let mut accesses = Vec::new();
        for request in reader.take(self.requests) {
            let request = request.map_err(|fault| failed(fault.to_string()))?;
            if request.kind == Kind::Get {
                let len = |bytes: u64| bytes.min(1 << 40) as usize;
                let value_len = len(request.value_bytes.unwrap_or(0));
                let bytes = Cache::object_dram_bytes(len(request.cached_key_bytes()), value_len);
                let key = xxhash_rust::xxh3::xxh3_64(&request.key);
                accesses.push(Access::new(key, Action::Load(bytes as u64)));
            }
        }
        Ok(accesses)
    }
}

impl Model for Plans {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let accesses = self.accesses(seed)?;
        let mut exact = Profiler::new(SETTINGS);
        let mut sampler = Sampler::of_size(TRACE_SAMPLE_SIZE, SETTINGS).with_error_bars();
        accesses.iter().for_each(|access| exact.record(access));
        sampler.record_all(&accesses);
        let (exact, plain) = (exact.curve(), sampler.curve().thinned(POINTS));
        let bars = sampler.error_bars();
        let raised = match &bars {
            Some(bars) => plain.with_margin(MARGIN, |point| bars.of(point)),
            None => plain.clone(),
        };
        let mut dice = Dice::new(mix(seed ^ 99));
        let (mut kept, mut kept_plain) = (Kept::default(), Kept::default());
        let (mut disagreements, mut cost_most) = (0, 1.0_f64);
        let (mut cost, mut cost_plain) = (0.0, 0.0);
        let mut checked = None;
        for _ in 0..self.settings {
            let setting = Setting::random(&mut dice, &exact);
            let (planned, searched) = (setting.planned(&raised), setting.searched(&raised));
            match (planned, searched) {
                (Some(sizes), Some(least)) => {
                    let found = setting.cost(sizes.0, sizes.1);
                    disagreements += u32::from(found > least * (1.0 + EQUAL) + EQUAL);
                    cost_most = cost_most.max(found / least.max(f64::MIN_POSITIVE));
                    kept.note(&setting, &exact, sizes);
                    checked.get_or_insert(sizes.0);
                }
                (None, None) => {}
                _ => disagreements += 1,
            }
            if let (Some(sizes), Some(with)) = (setting.planned(&plain), planned) {
                kept_plain.note(&setting, &exact, sizes);
                cost += setting.cost(with.0, with.1);
                cost_plain += setting.cost(sizes.0, sizes.1);
            }
        }
        let size = checked.unwrap_or(1 << 20);
        let lru_difference = (lru_miss_ratio(&accesses, size) - exact.miss_ratio(size)).abs();
        let metrics = vec![
            ("requests", accesses.len() as f64),
            ("sampled", sampler.rate()),
            ("sample_error", exact.mean_absolute_error(&plain, 1_000)),
            ("plans", f64::from(kept.plans)),
            ("disagreements", f64::from(disagreements)),
            ("cost_to_searched_most", cost_most),
            ("within_target", kept.share()),
            ("over_target_most", kept.over_most),
            ("within_target_plain", kept_plain.share()),
            ("over_target_most_plain", kept_plain.over_most),
            ("cost_of_margin", cost / cost_plain.max(f64::MIN_POSITIVE)),
            ("lru_difference", lru_difference),
        ];
        Ok(vec![Found { subject: PLAN, params: Params::new(), metrics }])
    }
}

/// The files of the folder with real traces, by name.
fn files() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os(TRACES) else { return Vec::new() };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn points(scale: &Scale) -> Vec<Point> {
    let (requests, settings) = if scale.is_quick { (300_000, 20) } else { (4_000_000, 100) };
    let made = [
        ("zipf", Origin::Law(Law::Zipf)),
        ("exponential", Origin::Law(Law::Exponential)),
        ("cycle", Origin::Cycle),
        ("uniform", Origin::Uniform),
        ("moving", Origin::Moving),
    ];
    let made = made.map(|(name, origin)| (name.to_owned(), origin));
    let name = |path: &PathBuf| {
        path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    };
    let real = files().into_iter().map(|path| (name(&path), Origin::File(path)));
    let point = |(name, origin): (String, Origin)| {
        let model = Plans { origin, requests, settings };
        modelled(scale, &name, 1, Arc::new(model)).with("requests", requests as u64)
    };
    made.into_iter().chain(real).map(point).collect()
}

pub(super) const PLANS: Experiment = Experiment {
    name: "elcached-plans",
    about: "plans from the curves of samples, beside a search of all sizes and beside the latency \
            of caches of the planned sizes, for made and real traces",
    paper: "",
    claim: "no plan costs more than the search finds, and 95 % of them keep their target",
    subjects: Subjects::Default,
    points,
    targets: &[
        Target::new("disagreements", Rule::AtMost(0.0)),
        Target::new("within_target", Rule::AtLeast(0.95)),
    ],
    ..Experiment::USUAL
};
