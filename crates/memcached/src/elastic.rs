//! Automatic resizing of a cache: after each window of its curves it plans, and resizes if
//! [`tidekv_plan::Elastic`] decides so (ElCached §6).
//!
//! The sizes at the start, or those set later (`cache_memlimit`), are the maximum. Tenants that
//! shrink make room for tenants that grow. A tenant without any requests yet has the minimum size.
//! A tenant without recent requests keeps its size, and so does one without a latency target if
//! others have one. A tenant with a target keeps at least its size while the latency of its misses
//! is unknown.
//!
//! *Memory* is the DRAM for objects, *DRAM* is all of it, including the DRAM of flash
//! ([`tidekv_tiered::FlashDram`]). A plan, with all [`Sizes`] and [`Observation`], is in bytes of memory,
//! and for flash in the bytes that its objects would use in memory; on flash they use more
//! ([`OnFlash`]). The DRAM of flash is part of the price of memory. A [`Change`] is in bytes of its
//! own tier.

use std::sync::Arc;
use std::time::Duration;

use tidekv_net::error::{Error, Result};
use tidekv_observe::curves::{Curves, WindowReport};
use tidekv_plan::{
    Allotment, Bounds, Curve, Decision, Elastic, Goal, Infeasible, Latencies, Observation, Plan,
    Prices, Reason, Sizes, Tenant,
};
use tidekv_tiered::{DeviceStats, TenantStats};
use tokio::sync::watch::Receiver;

use crate::settings::sizes::{ElasticGoal, ElasticOptions};
use crate::state::forecast;
use crate::state::server_state::State;

const MIB: f64 = (1_u64 << 20) as f64;
/// Checks for the end of a window, per window.
const LOOKS: u32 = 50;
/// Upper bound of an object's size on flash, as a multiple of its size in DRAM.
const FLASH_FACTOR_MAX: f64 = 8.0;
/// Fewer segments give no measurement of that.
const SEGMENTS_MIN: u64 = 4;
/// The default without a measurement: the factor and the additional bytes of an object on flash, as
/// measured for objects of 64 B to 1 KiB.
const USUALLY_TAKES: (f64, f64) = (1.1, 68.0);

/// DRAM shrinks by this much at a time, or by a fixed share if that is more: each step rebuilds the
/// hot part of flash's index.
const DRAM_STEP_BYTES: u64 = 64 << 20;
const DRAM_STEP_DIVISOR: u64 = 8;

/// The tier that changes its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    Dram,
    Flash,
}

/// A change of a tenant's size, in bytes of the tier.
#[derive(Debug)]
struct Change {
    tenant: String,
    tier: Tier,
    from: u64,
    to: u64,
}

/// The flash that a tenant's objects use, relative to their DRAM.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OnFlash {
    /// Bytes of flash for each byte of DRAM.
    factor: f64,
    /// Bytes not available to objects, if there is any flash ([`TenantStats::flash_overhead_bytes`]).
    fixed_bytes: f64,
}

impl OnFlash {
    /// For a tenant whose objects use `factor` times as much as in DRAM.
    fn of(stats: &TenantStats, factor: f64) -> Self {
        Self { factor, fixed_bytes: stats.flash_overhead_bytes as f64 }
    }

    /// The DRAM size of the objects that fit into `flash_bytes`.
    fn objects_bytes(self, flash_bytes: u64) -> u64 {
        ((flash_bytes as f64 - self.fixed_bytes).max(0.0) / self.factor) as u64
    }

    /// The flash for objects that use `objects_bytes` of DRAM.
    fn flash_bytes(self, objects_bytes: u64) -> u64 {
        match objects_bytes {
            0 => 0,
            _ => (objects_bytes as f64 * self.factor + self.fixed_bytes).ceil() as u64,
        }
    }
}

/// The contents of all devices.
#[derive(Debug, Clone, Copy)]
struct Stored {
    segments: u64,
    segments_bytes: u64,
    objects: u64,
}

impl Stored {
    fn on(devices: &[DeviceStats]) -> Self {
        let sum = |of: fn(&DeviceStats) -> u64| devices.iter().map(of).sum();
        Self {
            segments: sum(|device| device.segments),
            segments_bytes: sum(|device| device.segments * device.segment_bytes),
            objects: sum(|device| device.objects),
        }
    }

    /// Bytes of flash for each byte of DRAM, for objects of this mean size in DRAM.
    fn factor(self, object_bytes: Option<f64>) -> f64 {
        let Some(bytes) = object_bytes.filter(|bytes| *bytes > 0.0) else { return 1.0 };
        let factor = match self.segments >= SEGMENTS_MIN && self.objects > 0 {
            true => self.segments_bytes as f64 / self.objects as f64 / bytes,
            false => USUALLY_TAKES.0 + USUALLY_TAKES.1 / bytes,
        };
        factor.clamp(1.0, FLASH_FACTOR_MAX)
    }
}

/// The resizing loop.
pub(crate) struct Loop {
    state: Arc<State>,
    curves: Arc<Curves>,
    options: ElasticOptions,
    /// Maximum DRAM of all tenants.
    dram_max: u64,
    /// The memory part of it at the time.
    memory_max: u64,
    /// Maximum flash of each tenant.
    flash_max: Vec<u64>,
    elastic: Option<Elastic>,
    /// The statistics of each tenant at the start of the window, and its time.
    before: Vec<TenantStats>,
    before_ns: u64,
    /// DRAM of all tenants after the last resize: another size means that it was changed elsewhere.
    dram_bytes: u64,
}

impl Loop {
    /// A loop for the cache of `state`, with its current size as the maximum.
    ///
    /// # Errors
    /// If a target names an unknown tenant, or curves are off.
    pub(crate) fn new(state: &Arc<State>, options: ElasticOptions) -> Result<Self> {
        let Some(curves) = &state.curves else {
            return Err(Error::invalid("automatic resizing (--elastic) needs curves"));
        };
        let tenants = state.objects.cache.tenant_stats();
        if let ElasticGoal::Latency { of, .. } = &options.goal {
            let is_known = |name: &str| tenants.iter().any(|tenant| tenant.name == name);
            if let Some((name, _)) = of.iter().find(|(name, _)| !is_known(name)) {
                return Err(Error::invalid(format!("there is no tenant {name}")));
            }
        }
        Ok(Self {
            state: Arc::clone(state),
            curves: Arc::clone(curves),
            options,
            dram_max: dram_of(&tenants),
            memory_max: tenants.iter().map(memory_of).sum(),
            flash_max: tenants.iter().map(|tenant| tenant.flash_bytes_max).collect(),
            elastic: None,
            dram_bytes: dram_of(&tenants),
            before: tenants,
            before_ns: state.monotonic_ns(),
        })
    }

    /// Runs until `stopped` becomes true. May be called again after a panic.
    pub(crate) fn run(&mut self, stopped: &Receiver<bool>) {
        // A plan in which work has panicked is made anew.
        self.elastic = None;
        let pause = (self.curves.window() / LOOKS)
            .clamp(Duration::from_millis(1), Duration::from_millis(200));
        let mut ended = self.curves.ended();
        while !*stopped.borrow() && stopped.has_changed().is_ok() {
            self.state.pause(pause);
            if self.curves.ended() > ended {
                ended = self.curves.ended();
                self.window(ended, stopped);
            }
        }
    }

    /// Processes a window that has ended.
    fn window(&mut self, number: u64, stopped: &Receiver<bool>) {
        let cache = &self.state.objects.cache;
        let (now, now_ns) = (cache.tenant_stats(), self.state.monotonic_ns());
        if dram_of(&now) != self.dram_bytes {
            // That is the current size.
            self.dram_max = dram_of(&now);
            self.memory_max = now.iter().map(memory_of).sum();
        }
        let told: Vec<Option<WindowReport>> =
            (0..now.len()).map(|it| self.curves.told(it)).collect();
        let factor = Stored::on(&cache.device_stats()).factor(object_bytes(&told));
        let seconds = now_ns.saturating_sub(self.before_ns).max(1) as f64 / 1e9;
        let seen =
            |(tenant, (stats, told))| self.seen(tenant, stats, told, (number, factor, seconds));
        let seen: Vec<Observation> = now.iter().zip(told).enumerate().map(seen).collect();
        (self.before, self.before_ns) = (now, now_ns);
        // The first window is cold and says little about later ones.
        if number > 1 {
            let decision = self.elastic(factor).window(&seen);
            let changes = decision.sizes.as_ref().map(|sizes| self.changes(&seen, sizes, factor));
            let resized = changes.is_some_and(|changes| self.resize(&changes, stopped));
            self.report(&decision, &seen, resized, factor);
        }
        self.dram_bytes = dram_of(&self.state.objects.cache.tenant_stats());
    }

    /// The planner's state; the factor of objects on flash may have changed since.
    fn elastic(&mut self, factor: f64) -> &mut Elastic {
        let (goal, prices, bounds) = self.terms(factor);
        let elastic = self.elastic.get_or_insert_with(|| Elastic::new(goal, prices, bounds));
        elastic.set_terms(prices, bounds);
        elastic
    }

    /// The goal, prices and bounds of plans: the DRAM of flash is part of the price of memory, and
    /// its fixed part is paid in advance.
    fn terms(&self, factor: f64) -> (Goal, Prices, Bounds) {
        let tenants = self.before.iter().zip(&self.flash_max);
        let tenants = tenants.map(|(stats, max)| (OnFlash::of(stats, factor), *max));
        let flash_bytes = tenants.clone().map(|(of, max)| of.objects_bytes(max)).sum();
        let beside_bytes = tenants.map(|(of, max)| if max > 0 { of.fixed_bytes } else { 0.0 });
        let prices = self.options.prices;
        let flash_least = prices.cost(0, beside_bytes.sum::<f64>() as u64);
        let dram_least = self.before.iter().map(|stats| stats.flash_dram.dram_bytes_min()).sum();
        let (goal, cost, flash_bytes) = match self.options.goal {
            ElasticGoal::Latency { .. } => (Goal::Cost, None, flash_bytes),
            ElasticGoal::Cost(cost) => {
                let cost = (cost - prices.cost(dram_least, 0)).max(0.0);
                // A budget that hardly pays for indexes gets no flash.
                match cost < 2.0 * flash_least {
                    true => (Goal::Latency, Some(cost), 0),
                    false => (Goal::Latency, Some(cost - flash_least), flash_bytes),
                }
            }
        };
        let dram_factor = self.before.iter().map(dram_factor).fold(1.0, f64::max);
        let prices = Prices {
            dram_per_gib: prices.dram_per_gib * dram_factor,
            flash_per_gib: prices.flash_per_gib * factor,
        };
        let bounds = Bounds {
            dram_bytes: Some(self.memory_max),
            flash_bytes: Some(flash_bytes),
            cost,
            flash_writes_bytes_per_s: None,
        };
        (goal, prices, bounds)
    }

    /// The observation of a tenant in a window.
    fn seen(
        &self,
        number: usize,
        stats: &TenantStats,
        told: Option<WindowReport>,
        (window, factor, seconds): (u64, f64, f64),
    ) -> Observation {
        let before = &self.before[number];
        // Objects moved from DRAM to flash are not lost.
        let is_full = match stats.flash_bytes_max {
            0 => stats.cache.evicted > before.cache.evicted,
            _ => stats.flash_segments_evicted > before.flash_segments_evicted,
        };
        let before = &before.cache;
        let [dram_hits, flash_hits, misses] = [
            stats.cache.dram_hits - before.dram_hits,
            stats.cache.flash_hits - before.flash_hits,
            stats.cache.misses - before.misses,
        ];
        let requests = dram_hits + flash_hits + misses;
        let share = |part: u64| if requests > 0 { part as f64 / requests as f64 } else { 0.0 };
        // Another window may have ended meanwhile.
        let is_new = told.as_ref().is_some_and(|told| told.window >= window);
        let on_flash = OnFlash::of(stats, factor);
        let flash = |bytes: u64| on_flash.objects_bytes(bytes);
        let sla_us = self.sla_us(&stats.name);
        // A tenant without any requests needs nothing. One without recent requests, or without a
        // target where others have one, keeps its size.
        let is_promised = sla_us.is_some() || matches!(self.options.goal, ElasticGoal::Cost(_));
        let is_guessed = self.is_guessed(&stats.name, told.as_ref());
        let is_fixed = told.is_some() && !(is_new && is_promised);
        let tenant = Tenant {
            requests_per_s: if is_new { requests as f64 / seconds } else { 0.0 },
            latencies: self.latencies(told.as_ref()),
            sla_us: sla_us.filter(|_| told.is_some()),
            flash_bytes_max: Some(flash(self.flash_max[number])),
            ..Tenant::new(stats.name.clone(), told.map_or_else(nothing, |told| told.curve))
        };
        Observation {
            tenant,
            has: (memory_of(stats), flash(stats.flash_bytes_max)),
            least: (
                stats.flash_dram.objects_bytes(stats.dram_bytes_min),
                flash(stats.flash_bytes_min),
            ),
            requests: if is_new { requests } else { 0 },
            missed: (share(flash_hits + misses), share(misses)),
            is_full,
            is_fixed,
            is_guessed,
        }
    }

    /// Whether a tenant's latency would be a guess: the latency of its misses is neither measured
    /// nor configured.
    fn is_guessed(&self, name: &str, told: Option<&WindowReport>) -> bool {
        let is_known =
            |told: &WindowReport| self.options.latencies.backend_us.or(told.backend_us).is_some();
        self.sla_us(name).is_some() && told.is_some_and(|told| !is_known(told))
    }

    fn sla_us(&self, name: &str) -> Option<f64> {
        match &self.options.goal {
            ElasticGoal::Cost(_) => None,
            ElasticGoal::Latency { all, of } => {
                let own = of.iter().rfind(|(tenant, _)| tenant == name).map(|(_, us)| *us);
                own.or(*all)
            }
        }
    }

    fn latencies(&self, told: Option<&WindowReport>) -> Latencies {
        let (memory_us, flash) = forecast::latencies(&self.state);
        let backend_us = told.and_then(|told| told.backend_us);
        let flash_us = flash.map(|flash| match self.options.goal {
            // The target holds in each window, also with slow flash.
            ElasticGoal::Latency { .. } => flash.slow_us,
            ElasticGoal::Cost(_) => flash.mean_us,
        });
        Latencies::measured(memory_us, flash_us, backend_us).with(self.options.latencies)
    }

    /// The changes to reach these sizes. In each tier, shrinking comes first and makes room for
    /// growth; flash comes before DRAM, so that there is room for objects evicted from DRAM.
    fn changes(&self, seen: &[Observation], sizes: &[Sizes], factor: f64) -> Vec<Change> {
        let dram = self.drams(sizes);
        let mut changes = Vec::new();
        for ((number, seen), &(_, flash)) in seen.iter().enumerate().zip(sizes) {
            let stats = &self.before[number];
            let name = || stats.name.clone();
            let (from, to) = (stats.cache.dram_bytes_max, dram[number]);
            if from != to {
                changes.push(Change { tenant: name(), tier: Tier::Dram, from, to });
            }
            if flash != seen.has.1 {
                let bytes = OnFlash::of(stats, factor).flash_bytes(flash);
                let bytes = bytes.min(self.flash_max[number]);
                // Sizes in larger units are rounded down.
                let to = if flash > 0 { bytes.max(stats.flash_bytes_min) } else { 0 };
                let from = stats.flash_bytes_max;
                changes.push(Change { tenant: name(), tier: Tier::Flash, from, to });
            }
        }
        changes.sort_by_key(|change| (change.tier == Tier::Dram, change.to > change.from));
        changes
    }

    /// The DRAM of each tenant for these sizes, within the maximum.
    fn drams(&self, sizes: &[Sizes]) -> Vec<u64> {
        let of = |(stats, &(memory, _)): (&TenantStats, &Sizes)| {
            let bytes = dram_for(stats, memory);
            let is_kept = memory == memory_of(stats);
            let spare = if is_kept { 0 } else { bytes.saturating_sub(stats.dram_bytes_min) };
            Wanted { bytes, spare }
        };
        let wanted: Vec<Wanted> = self.before.iter().zip(sizes).map(of).collect();
        shared(&wanted, self.dram_max)
    }

    /// Applies changes, until `stopped` becomes true or one fails; returns whether any was applied.
    fn resize(&self, changes: &[Change], stopped: &Receiver<bool>) -> bool {
        let cache = &self.state.objects.cache;
        let is_over = || *stopped.borrow() || stopped.has_changed().is_err();
        let mut is_any = false;
        for Change { tenant, tier, from, to } in changes {
            let mut at = *from;
            while at != *to && !is_over() {
                // A large shrink is done in steps, so that it can be stopped.
                let step_bytes = DRAM_STEP_BYTES.max(at / DRAM_STEP_DIVISOR);
                at = (*to).max(at.saturating_sub(step_bytes));
                let done = match tier {
                    Tier::Dram => cache.set_tenant_dram_bytes(tenant, at),
                    Tier::Flash => {
                        at = *to;
                        cache.set_tenant_flash_bytes(tenant, at)
                    }
                };
                if let Err(error) = done {
                    tracing::warn!("tenant {tenant}: {error}");
                    return is_any;
                }
                is_any = true;
            }
        }
        is_any
    }

    fn report(&self, decision: &Decision, seen: &[Observation], resized: bool, factor: f64) {
        let mut text = told(decision, &self.before, (factor, self.options.prices));
        let guessed = seen.iter().filter(|seen| seen.is_guessed);
        let guessed: Vec<&str> = guessed.map(|seen| &*seen.tenant.name).collect();
        if !guessed.is_empty() {
            let names = guessed.join(", ");
            text +=
                &format!("; what misses take is not known of {names}, so nothing is taken there");
        }
        let Some(report) = &self.state.sizes else { return };
        let mut report = report.lock();
        if resized {
            tracing::info!("{text}");
            report.resizes += 1;
        } else {
            tracing::debug!("{text}");
        }
        (report.last, report.unix_ms) = (text, self.state.unix_ms());
    }
}

/// The mean size of an object in DRAM, of all tenants.
fn object_bytes(told: &[Option<WindowReport>]) -> Option<f64> {
    let sizes =
        told.iter().flatten().filter_map(|it| Some((it.object_bytes?, it.curve.requests())));
    let (sum, all) = sizes
        .fold((0.0, 0.0), |(sum, all), (bytes, requests)| (sum + bytes * requests, all + requests));
    (all > 0.0).then(|| sum / all)
}

/// DRAM of all tenants, in bytes.
fn dram_of(tenants: &[TenantStats]) -> u64 {
    tenants.iter().map(|tenant| tenant.cache.dram_bytes_max).sum()
}

/// The planned DRAM of a tenant, and the part that it can do without.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    bytes: u64,
    spare: u64,
}

/// The DRAM of each tenant within `dram_max`: tenants that can, give in proportion. The excess is
/// the DRAM of flash: of the same DRAM it uses more with many tenants than with one.
fn shared(wanted: &[Wanted], dram_max: u64) -> Vec<u64> {
    let over = wanted.iter().map(|it| it.bytes).sum::<u64>().saturating_sub(dram_max);
    let spare: u64 = wanted.iter().map(|it| it.spare).sum();
    let part = if spare > 0 { (over as f64 / spare as f64).min(1.0) } else { 0.0 };
    let gives = |it: &Wanted| ((it.spare as f64 * part).ceil() as u64).min(it.spare);
    wanted.iter().map(|it| it.bytes - gives(it)).collect()
}

/// The DRAM for each byte of memory, without the fixed part of flash: the maximum over four sizes,
/// because buffers are an eighth until there are enough of them.
fn dram_factor(stats: &TenantStats) -> f64 {
    let (flash, memory) = (stats.flash_dram, memory_of(stats).max(1));
    let of = |memory: u64| {
        let beside_least = flash.dram_bytes_for(memory) - flash.dram_bytes_min();
        beside_least as f64 / memory.max(1) as f64
    };
    [64, 16, 4, 1].map(|part| of(memory / part)).into_iter().fold(1.0, f64::max)
}

/// The DRAM with which a tenant has `memory_bytes` of memory. Several DRAM sizes may give the same
/// memory; its current DRAM is preferred.
fn dram_for(stats: &TenantStats, memory_bytes: u64) -> u64 {
    match memory_bytes == memory_of(stats) {
        true => stats.cache.dram_bytes_max,
        false => stats.flash_dram.dram_bytes_for(memory_bytes),
    }
}

/// Memory of a tenant, in bytes.
fn memory_of(stats: &TenantStats) -> u64 {
    stats.flash_dram.objects_bytes(stats.cache.dram_bytes_max)
}

/// The curve of a tenant without requests.
fn nothing() -> Curve {
    match Curve::new([], 0.0) {
        Ok(curve) => curve,
        Err(error) => unreachable!("no points are in order: {error}"),
    }
}

/// A decision as text.
fn told(decision: &Decision, tenants: &[TenantStats], (factor, prices): (f64, Prices)) -> String {
    let why = match &decision.reason {
        Reason::Idle => "too few requests to say anything".into(),
        Reason::NothingToGain => "what there is will do, and hardly anything would be saved".into(),
        Reason::Confirming => "less would do; it has to say so once more".into(),
        Reason::FlashFirst => {
            "less DRAM would do; flash that is to stand in for it has to fill first".into()
        }
        Reason::TargetMissed => "what is asked would not be kept".into(),
        Reason::Cheaper => "less will do".into(),
        Reason::Faster => "as much money makes it faster".into(),
        Reason::Impossible(why) => {
            format!("what is asked cannot be ({})", impossible(why, tenants))
        }
    };
    // In bytes of each tier.
    let sizes = |plan: &Plan| -> Vec<Sizes> {
        let size = |(stats, gets): (&TenantStats, &Allotment)| {
            let flash_bytes = OnFlash::of(stats, factor).flash_bytes(gets.flash_bytes);
            (dram_for(stats, gets.memory_bytes), flash_bytes)
        };
        tenants.iter().zip(&plan.tenants).map(size).collect()
    };
    let (now, then) = (sizes(&decision.now), sizes(&decision.then));
    let mib = |bytes: u64| bytes as f64 / MIB;
    let change = |(stats, (now, then)): (&TenantStats, (&Sizes, &Sizes))| {
        let [now, then] =
            [now, then].map(|size| format!("{:.1} + {:.1}", mib(size.0), mib(size.1)));
        format!("{} {now} -> {then} MiB", stats.name)
    };
    let changes: Vec<String> = tenants.iter().zip(now.iter().zip(&then)).map(change).collect();
    let cost = |sizes: &[Sizes]| -> f64 {
        sizes.iter().map(|(memory, flash)| prices.cost(*memory, *flash)).sum()
    };
    let (from, to) = (decision.now.latency_us, decision.then.latency_us);
    let costs = format!("cost {:.4} -> {:.4}", cost(&now), cost(&then));
    format!("{why}: {}; latency by the curves {from:.1} -> {to:.1} us, {costs}", changes.join(", "))
}

fn impossible(why: &Infeasible, tenants: &[TenantStats]) -> String {
    match why {
        Infeasible::Sla { tenant, least_us } => {
            let name = tenants.get(*tenant).map_or("", |tenant| &tenant.name);
            format!("the least for {name} is {least_us:.1} us")
        }
        Infeasible::Percentile { tenant, target, least_us, .. } => {
            let name = tenants.get(*tenant).map_or("", |tenant| &tenant.name);
            format!("the least p{} for {name} is {least_us:.1} us", target.percent)
        }
        Infeasible::Bound(_) | Infeasible::Bounds(_) => "there is too little DRAM or flash".into(),
        Infeasible::Solver(error) => error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_of_devices_is_not_available_to_objects() {
        let on_flash = OnFlash { factor: 1.25, fixed_bytes: 12.0 * MIB };
        let mib = 1 << 20;
        assert_eq!(on_flash.objects_bytes(62 * mib), 40 * mib);
        assert_eq!(on_flash.flash_bytes(40 * mib), 62 * mib);
        assert_eq!((on_flash.objects_bytes(7 * mib), on_flash.objects_bytes(0)), (0, 0));
        assert_eq!(on_flash.flash_bytes(0), 0);
    }

    #[test]
    fn shares_do_not_exceed_the_maximum() {
        let of = |mib: u64, spare_mib: u64| Wanted { bytes: mib << 20, spare: spare_mib << 20 };
        let mib = |mib: [u64; 3]| mib.map(|mib| mib << 20);
        // The second keeps its size.
        let wanted = [of(30, 20), of(50, 0), of(20, 10)];
        assert_eq!(shared(&wanted, 100 << 20), mib([30, 50, 20]));
        assert_eq!(shared(&wanted, 85 << 20), mib([20, 50, 15]));
        assert_eq!(shared(&wanted, 1 << 20), mib([10, 50, 10]), "no more than they can");
        assert_eq!(shared(&[of(1, 0)], 0), [1 << 20]);
    }

    #[test]
    fn the_factor_is_measured_with_enough_segments() {
        let stored = Stored { segments: 10, segments_bytes: 10 << 20, objects: 8_192 };
        assert_eq!(stored.factor(Some(1_024.0)), 1.25);
        assert_eq!((stored.factor(None), stored.factor(Some(1e9))), (1.0, 1.0));
        // Too few segments: the default.
        let few = Stored { segments: 2, segments_bytes: 2 << 20, objects: 1_000 };
        assert!((few.factor(Some(680.0)) - 1.2).abs() < 1e-9);
        assert!((Stored::on(&[]).factor(Some(680.0)) - 1.2).abs() < 1e-9);
    }
}
