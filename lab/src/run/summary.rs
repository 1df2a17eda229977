//! From turns to rows: the metrics of a turn, their median and spread over the alternations, and
//! the verdict on each target.

use std::collections::BTreeMap;

use tidekv_testkit::evidence::{Row, Value};

use crate::experiment::{Experiment, Found, Params, Point, Rule, Target};
use crate::experiments::ackey::restart;
use crate::harness::foreground::SPACE_AMP;
use crate::harness::job::{
    CorpusCounts, Ending, ForegroundCounts, Length, Measurement, ReclaimCounts, ReclaimLook,
};
use crate::harness::phases;
use crate::load::keys::data_bytes;
use crate::machine::latency::Quantiles;
use crate::subject::{BASELINES, ColdLookups, Counts};
use crate::subjects::own::AS_IT_COMES;

/// Whether a metric depends on speed.
pub(crate) fn is_of_time(metric: &str) -> bool {
    ["_s", "_ms", "_us", "_us_per_op", "seconds"].iter().any(|unit| metric.ends_with(unit))
}

/// Metrics by their fixed names.
pub(crate) type Metrics = BTreeMap<&'static str, f64>;

/// Allowed difference between the counters of a subject and of the kernel.
const DISAGREEMENT: f64 = 0.02;

/// The kernel counts whole sectors, a subject perhaps only the bytes it needs: at both ends of a
/// read up to a sector less.
const SECTOR_BYTES_PER_READ_MAX: u64 = 2 * 511;

/// A subject above this multiple of its budget is not a fair baseline.
const OVER_BUDGET_FROM: f64 = 1.02;

/// Below this number of reads per operation ratios are meaningless.
const READS_PER_OPERATION_MIN: f64 = 0.01;

/// All alternations of one subject at one point.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) subject: &'static str,
    pub(crate) params: Params,
    pub(crate) turns: Vec<Metrics>,
    pub(crate) warnings: Vec<String>,
}

impl Series {
    fn values(&self, metric: &str) -> Vec<f64> {
        self.turns.iter().filter_map(|turn| turn.get(metric).copied()).collect()
    }

    /// The excess over its budget as a factor, if it is too large.
    fn over_budget(&self) -> Option<f64> {
        let middle = |metric| spread(&self.values(metric)).map(|(middle, _, _)| middle);
        let times = middle("cache_bytes_taken")? / middle("cache_bytes_budget")?;
        (times > OVER_BUDGET_FROM).then_some(times)
    }
}

/// The metrics of one turn.
pub(crate) fn metrics(point: &Point, turn: &Measurement) -> Metrics {
    let mut found = Metrics::new();
    let is_idle = point.drive.is_none() && point.replay.is_none();
    if is_idle && point.corpus.is_none() && point.reclaim.is_none() {
        found.insert("open_s", turn.open_seconds);
    }
    // If another process works for a subject, that process counts.
    let resident = turn.life.beside_bytes_max.unwrap_or(turn.rss_bytes_max);
    if resident > 0 {
        found.insert("rss_bytes_max", resident as f64);
    }
    found.extend(cache_metrics(point, turn));
    found.extend(turn.corpus.iter().flat_map(corpus_metrics));
    found.extend(turn.reclaim.iter().flat_map(reclaim_metrics));
    if let (Some(bytes), Some(store)) = (turn.counts.filter_bytes, &point.store) {
        found.insert("filter_bits_per_key", bytes as f64 * 8.0 / store.entries as f64);
    }
    let operations = turn.operations as f64;
    if turn.operations > 0 {
        found.insert("ops_per_s", operations / turn.seconds);
        let cpu_ns = turn.counts.beside_cpu_ns.unwrap_or(turn.kernel.cpu_ns);
        found.insert("cpu_us_per_op", cpu_ns as f64 / 1e3 / operations);
        found.extend(latency_metrics(&turn.latencies));
        let counted = [
            ("reads_per_op", turn.counts.reads),
            ("read_bytes_per_op", turn.counts.read_bytes),
            ("kernel_read_bytes_per_op", Some(turn.kernel.read_bytes)),
            ("false_positives_per_op", turn.counts.false_positives),
            ("repair_reads_per_op", turn.counts.repair_reads),
            ("wasted_reads_per_op", wasted_reads(&turn.counts)),
        ];
        for (name, count) in counted {
            count.map(|count| found.insert(name, count as f64 / operations));
        }
        if let Some(reads) = turn.counts.reads {
            found.insert("reads_per_s", reads as f64 / turn.seconds);
        }
        if turn.has_device {
            found.insert("device_reads_per_op", turn.kernel.device_reads as f64 / operations);
        }
        if let (Some(hits), Some(misses)) = (turn.counts.cache_hits, turn.counts.cache_misses)
            && hits + misses > 0
        {
            found.insert("hit_ratio", hits as f64 / (hits + misses) as f64);
        }
        turn.hits.map(|hits| found.insert("op_hit_ratio", hits as f64 / operations));
        found.extend(object_metrics(point, turn));
        let counts = &turn.counts;
        found.extend(cold_metrics(counts));
        let lookups = counts.point_lookups.filter(|lookups| *lookups > 0);
        for (name, hits) in [("kv_hit_ratio", counts.kv_hits), ("kp_hit_ratio", counts.kp_hits)] {
            if let (Some(hits), Some(lookups)) = (hits, lookups) {
                found.insert(name, hits as f64 / lookups as f64);
            }
        }
    }
    if point.ending == Ending::Settle && turn.operations > 0 {
        found.extend(settled_metrics(point, turn));
    }
    found.extend(total_metrics(point, turn));
    found
}

fn latency_metrics(latencies: &Quantiles) -> Metrics {
    let named = [
        ("mean_us", latencies.mean_ns),
        ("p50_us", latencies.p50_ns),
        ("p99_us", latencies.p99_ns),
        ("p999_us", latencies.p999_ns),
        ("p9999_us", latencies.p9999_ns),
        ("tail_us", latencies.tail_ns()),
    ];
    let in_us = named.map(|(name, ns)| (name, ns as f64 / 1e3));
    in_us.into_iter().filter(|_| latencies.samples > 0).collect()
}

/// The metrics of a corpus.
fn corpus_metrics(counts: &CorpusCounts) -> Metrics {
    let seconds = counts.set_ns as f64 / 1e9;
    let mut found: Metrics = [
        ("objects", counts.objects),
        ("object_bytes", counts.bytes),
        ("sets", counts.sets),
        ("hits", counts.hits),
        ("hit_bytes", counts.hit_bytes),
        ("misses", counts.misses),
        ("wrong_values", counts.wrong_values),
    ]
    .map(|(name, count)| (name, count as f64))
    .into();
    if seconds > 0.0 {
        found.insert("sets_per_s", counts.sets as f64 / seconds);
    }
    found
}

/// Bytes over live bytes when entries have just died, after some seconds, and at the end; the time
/// until tables took at most [`SPACE_AMP`] times the live bytes (if they did); scans; and a load
/// meanwhile.
fn reclaim_metrics(counts: &ReclaimCounts) -> Metrics {
    let live = counts.live_bytes.max(1) as f64;
    let amp = |look: &ReclaimLook| look.table_bytes as f64 / live;
    let at = |seconds: f64| counts.looks.iter().rev().find(|look| look.seconds <= seconds);
    let mut found = Metrics::new();
    let times = [
        ("space_amp_start", 0.0),
        ("space_amp_1s", 1.0),
        ("space_amp_5s", 5.0),
        ("space_amp_20s", 20.0),
        ("space_amp_end", f64::INFINITY),
    ];
    let end = counts.looks.last().map_or(0.0, |look| look.seconds);
    for (name, seconds) in times {
        let is_measured = seconds <= end || seconds.is_infinite();
        let look = at(seconds).or(counts.looks.first()).filter(|_| is_measured);
        found.extend(look.map(|look| (name, amp(look))));
    }
    found.insert("space_amp_full", counts.full_bytes as f64 / live);
    let last = counts.looks.last();
    found.extend(last.map(|look| ("file_space_amp_end", look.file_bytes as f64 / live)));
    let back = counts.looks.iter().find(|look| amp(look) <= SPACE_AMP);
    found.extend(back.map(|look| ("seconds_to_space", look.seconds)));
    found.insert("scan_s", counts.scan_s);
    found.insert("scan_over_merged", counts.scan_s / counts.merged_scan_s.max(1e-9));
    let ForegroundCounts { clean_per_s, before_per_s, busy_per_s, busy_s, is_back, .. } =
        counts.foreground;
    let over_clean = |bytes: u64| bytes as f64 / counts.foreground.clean_bytes.max(1) as f64;
    found.extend([
        ("foreground_ops_per_s", busy_per_s),
        ("foreground_clean_ops_per_s", clean_per_s),
        ("foreground_over_clean", busy_per_s / clean_per_s.max(1e-9)),
        ("foreground_s", busy_s),
        ("foreground_is_back", f64::from(is_back)),
        ("foreground_space_start", over_clean(counts.foreground.dead_bytes)),
        ("foreground_space_end", over_clean(counts.foreground.end_bytes)),
    ]);
    // Older results lack it.
    if before_per_s > 0.0 {
        found.insert("foreground_before_ops_per_s", before_per_s);
        found.insert("foreground_over_before", busy_per_s / before_per_s);
    }
    found
}

/// The requests of an object cache, and their cost on flash. As in the tier's own design, a hit
/// whose index entry was in memory is *hot*, another one *cold*.
fn object_metrics(point: &Point, turn: &Measurement) -> Metrics {
    let mut found = Metrics::new();
    let asked = turn.fetch_hits + turn.fetch_misses;
    if asked > 0 {
        found.insert("hit_ratio", turn.fetch_hits as f64 / asked as f64);
    }
    let Some(counts) = turn.counts.objects else { return found };
    // Of a cache in a process of its own the kernel counts nothing here.
    if turn.counts.beside_cpu_ns.is_none() {
        let bytes = turn.kernel.read_bytes + turn.kernel.written_bytes;
        found.insert("storage_bytes_per_s", bytes as f64 / turn.seconds);
    }
    let mut insert = |name, part: u64, whole: u64| {
        if whole > 0 {
            found.insert(name, part as f64 / whole as f64);
        }
    };
    let lookups = counts.memory_hits + counts.flash_hits + counts.misses;
    insert("memory_hit_ratio", counts.memory_hits, lookups);
    insert("flash_hit_ratio", counts.flash_hits, lookups);
    let hit_reads = counts.index_reads_of_hits + counts.object_reads_of_hits;
    insert("flash_reads_per_hit", hit_reads, counts.flash_hits);
    insert("object_reads_per_hit", counts.object_reads_of_hits, counts.flash_hits);
    insert("index_reads_per_hit", counts.index_reads_of_hits, counts.flash_hits);
    let miss_reads = counts.index_reads_of_misses + counts.object_reads_of_misses;
    insert("flash_reads_per_miss", miss_reads, counts.misses);
    insert("write_amp", counts.flash_bytes_written, counts.object_bytes_written);
    // Not all subjects count their objects.
    if counts.index_bytes > 0 {
        insert("index_bytes_per_object", counts.index_bytes, counts.flash_objects);
    }
    if counts.flash_bytes_taken > 0 {
        insert("flash_bytes_per_object", counts.flash_bytes_taken, counts.flash_objects);
    }
    // Files of a corpus have all sizes.
    if counts.flash_bytes_taken > 0 && point.corpus.is_none() {
        let own_bytes = data_bytes(counts.flash_objects, point.value_bytes);
        insert("space_overhead", counts.flash_bytes_taken, own_bytes);
    }
    found
}

/// The cost of lookups that read storage, and its spread.
fn cold_metrics(counts: &Counts) -> Metrics {
    /// The share of lookups that end there, and the reads per lookup.
    const ENDS: [(&str, &str); ColdLookups::ENDS] = [
        ("cold_share_level_0", "cold_reads_level_0"),
        ("cold_share_level_1", "cold_reads_level_1"),
        ("cold_share_level_2", "cold_reads_level_2"),
        ("cold_share_level_3", "cold_reads_level_3"),
        ("cold_share_level_4", "cold_reads_level_4"),
        ("cold_share_level_5", "cold_reads_level_5"),
        ("cold_share_level_6", "cold_reads_level_6"),
        ("cold_share_absent", "cold_reads_absent"),
    ];
    let mut found = Metrics::new();
    let Some(cold) = &counts.cold else { return found };
    let lookups = cold.lookups_of.iter().sum::<u64>() as f64;
    if lookups == 0.0 {
        return found;
    }
    let ends = cold.ends.iter().flatten().zip(ENDS);
    for (end, (share, reads)) in ends.filter(|(end, _)| end.lookups > 0) {
        found.insert(share, end.lookups as f64 / lookups);
        found.insert(reads, end.reads as f64 / end.lookups as f64);
    }
    let of = |from: usize| cold.lookups_of[from..].iter().sum::<u64>() as f64 / lookups;
    found.extend([
        ("cold_reads", cold.reads as f64 / lookups),
        ("cold_share_of_1", 1.0 - of(1)),
        ("cold_share_of_2", of(1) - of(2)),
        ("cold_share_of_3", of(2) - of(3)),
        ("cold_share_of_more", of(3)),
        ("cold_filter_reads", cold.filter_reads as f64 / lookups),
    ]);
    cold.reads_in_vain.map(|reads| found.insert("cold_reads_in_vain", reads as f64 / lookups));
    found
}

/// Blocks checked for keys that they do not have, in memory or not, and the reads of filter
/// repairs.
fn wasted_reads(counts: &Counts) -> Option<u64> {
    Some(counts.false_positives? + counts.repair_reads.unwrap_or(0))
}

/// Totals, which are meaningful if every turn has the same number of operations.
fn total_metrics(point: &Point, turn: &Measurement) -> Metrics {
    let mut found = Metrics::new();
    let length = point.drive.as_ref().map(|drive| drive.length);
    let Some(Length::Operations(_)) = length else { return found };
    found.insert("seconds", turn.seconds);
    let counts = &turn.counts;
    for (hits, reads, lookups) in [
        ("data_hits", "data_reads", counts.data_blocks),
        ("index_hits", "index_reads", counts.index_blocks),
        ("filter_hits", "filter_reads", counts.filter_blocks),
    ] {
        if let Some(lookups) = lookups {
            found.insert(hits, lookups.hits as f64);
            found.insert(reads, lookups.reads as f64);
        }
    }
    counts.cache_hits.map(|hits| found.insert("block_hits", hits as f64));
    found
}

/// The size limits of caches, and their actual sizes.
fn cache_metrics(point: &Point, turn: &Measurement) -> Metrics {
    let mut found = Metrics::new();
    let parts = [
        ("kv_bytes", turn.counts.kv_bytes),
        ("kp_bytes", turn.counts.kp_bytes),
        ("block_bytes", turn.counts.block_bytes),
    ];
    for (name, bytes) in parts {
        bytes.map(|bytes| found.insert(name, bytes as f64));
    }
    // Without a cache, open tables are not a share of it.
    let budget = point.cache_bytes.filter(|bytes| *bytes > 0);
    if let (Some(budget), Some(taken)) = (budget, turn.cache_bytes_taken) {
        found.insert("cache_bytes_taken", taken as f64);
        found.insert("cache_bytes_budget", budget as f64);
    }
    found
}

/// The metrics of a turn that waited for background work.
fn settled_metrics(point: &Point, turn: &Measurement) -> Metrics {
    let mut found = Metrics::new();
    let seconds = turn.seconds + turn.settle_seconds;
    found.insert("settled_ops_per_s", turn.operations as f64 / seconds);
    let user_bytes = turn.user_bytes as f64;
    let amplifications = [
        ("write_amp", turn.life.table_written_bytes),
        ("log_amp", turn.life.log_bytes),
        ("kernel_write_amp", Some(turn.life_kernel.written_bytes)),
    ];
    for (name, bytes) in amplifications {
        bytes.map(|bytes| found.insert(name, bytes as f64 / user_bytes));
    }
    if let (Some(bytes), Some(drive)) = (turn.life.table_bytes, &point.drive) {
        let live = data_bytes(drive.workload.entries, point.value_bytes);
        found.insert("space_amp", bytes as f64 / live as f64);
    }
    found
}

/// The metrics of each phase and of each sample of a turn, with their parameters: those of the
/// point, and `phase`, or `t` in operations from the beginning.
pub(crate) fn metrics_of_parts(point: &Point, turn: &Measurement) -> Vec<(Params, Metrics)> {
    let Some(drive) = &point.drive else { return Vec::new() };
    let parts = phases::parts(&drive.phases, turn).into_iter();
    let with_params = parts.map(|(phase, t, part)| {
        let (mut params, mut metrics) = (point.params.clone(), metrics(point, &part));
        match phase {
            Some(name) => {
                metrics.extend(restart::metrics_of(drive, &name, point.value_bytes, turn));
                params.insert("phase".into(), name.into());
            }
            None => drop(params.insert("t".into(), t.into())),
        }
        (params, metrics)
    });
    with_params.collect()
}

/// The results of a point's model, each seed being one alternation.
pub(crate) fn series_of_model(params: &Params, found: Vec<Found>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for Found { subject, params: own, metrics } in found {
        let mut params = params.clone();
        params.extend(own);
        let turn = metrics.into_iter().collect();
        match all.iter_mut().find(|it| it.subject == subject && it.params == params) {
            Some(series) => series.turns.push(turn),
            None => all.push(Series { subject, params, turns: vec![turn], warnings: Vec::new() }),
        }
    }
    all
}

/// The difference between the kernel's and the subject's counts, in a read-only turn.
pub(crate) fn warnings(turn: &Measurement, is_buffered: bool) -> Vec<String> {
    let mut found = Vec::new();
    let counts = &turn.counts;
    // Reads from the page cache are not storage reads.
    if turn.operations == 0 || turn.user_bytes > 0 || is_buffered {
        return found;
    }
    let per_operation = |count: u64| count as f64 / turn.operations as f64;
    let mut compare =
        |what: &str, who: &str, own: Option<u64>, background: u64, seen: u64, slack: u64| {
            let Some(own) = own else { return };
            let own = own + background;
            // The kernel's counts beyond the tolerance, or missing.
            let apart = if seen > own { (seen - own).saturating_sub(slack) } else { own - seen };
            let differs = apart as f64 > DISAGREEMENT * own.max(seen) as f64;
            if differs && per_operation(own.max(seen)) >= READS_PER_OPERATION_MIN {
                found.push(format!(
                    "{what} an operation: {:.3} by the subject's count, {:.3} by that of the {who}",
                    per_operation(own),
                    per_operation(seen)
                ));
            }
        };
    let background_bytes = counts.background_read_bytes.unwrap_or(0);
    let background_reads = counts.background_reads.unwrap_or(0);
    let ends = (counts.reads.unwrap_or(0) + background_reads) * SECTOR_BYTES_PER_READ_MAX;
    compare("bytes", "kernel", counts.read_bytes, background_bytes, turn.kernel.read_bytes, ends);
    if turn.has_device {
        compare("reads", "device", counts.reads, background_reads, turn.kernel.device_reads, 0);
    }
    found
}

/// The median of `values` with their minimum and maximum.
pub(crate) fn spread(values: &[f64]) -> Option<(f64, f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let half = sorted.len() / 2;
    let middle = if sorted.len() % 2 == 1 {
        sorted[half]
    } else {
        f64::midpoint(sorted[half - 1], sorted[half])
    };
    Some((middle, first, last))
}

/// Six significant digits; more would be noise.
fn rounded(value: f64) -> Value {
    let text = format!("{value:.5e}");
    text.parse::<f64>().unwrap_or(value).into()
}

/// A row with the metrics of one subject at one point.
pub(crate) fn measured_row(experiment: &Experiment, series: &Series, seed: u64) -> Row {
    let mut row = Row::new(experiment.name, series.subject).seed(seed);
    row.params = series.params.clone();
    let names: Vec<&str> =
        series.turns.first().into_iter().flat_map(Metrics::keys).copied().collect();
    for name in names {
        if let Some((middle, least, greatest)) = spread(&series.values(name)) {
            row = row
                .metric(name, rounded(middle))
                .metric(&format!("{name}_min"), rounded(least))
                .metric(&format!("{name}_max"), rounded(greatest));
        }
    }
    row = row.metric("alternations", series.turns.len());
    if let Some(times) = series.over_budget() {
        row = row.metric("over_budget", rounded(times));
    }
    if let Some(warning) = series.warnings.first() {
        row = row.metric("warning", warning.as_str());
    }
    row
}

/// Verdicts on `series`, one of TideKV, for the targets; `others` are all series of the experiment
/// so far. A subject that exceeds its budget fails a target; ratios to a baseline that exceeds its
/// budget are stated and not judged.
pub(crate) fn verdict_rows(
    experiment: &Experiment,
    series: &Series,
    others: &[Series],
    seed: u64,
) -> Vec<Row> {
    let judged = experiment
        .targets
        .iter()
        .flat_map(|target| judged(target, series, others).into_iter().map(move |j| (target, j)));
    let own_times = series.over_budget();
    let verdicts = judged.filter_map(|(target, Judged { values, baseline, over_budget })| {
        let (middle, least, greatest) = spread(&values)?;
        // The rounded value of the row is judged.
        let middle = rounded(middle);
        let keeps = middle.as_f64().is_some_and(|middle| target.rule.is_kept(middle));
        let (bound, is_from_below) = target.rule.bound();
        let name = if target.rule.is_of_ratio() { "ratio" } else { target.of };
        let mut row = Row::new(experiment.name, series.subject).seed(seed);
        row.params = series.params.clone();
        row = row
            .metric("of", target.of)
            .metric("baseline", baseline)
            .metric(name, middle)
            .metric(&format!("{name}_min"), rounded(least))
            .metric(&format!("{name}_max"), rounded(greatest))
            .metric("target", bound)
            .metric("is_at_least", is_from_below);
        if let Some(times) = own_times {
            row = row.metric("over_budget", rounded(times));
        }
        Some(match over_budget {
            Some(times) => row.metric("baseline_over_budget", rounded(times)),
            None => row.metric("is_met", keeps && own_times.is_none()),
        })
    });
    verdicts.collect()
}

/// The judged value of a target.
struct Judged {
    /// Alternation by alternation.
    values: Vec<f64>,
    /// The baseline.
    baseline: String,
    /// The baseline's excess over its budget as a factor, if it is too large.
    over_budget: Option<f64>,
}

/// The judged values of `target`: one per baseline.
fn judged(target: &Target, series: &Series, others: &[Series]) -> Vec<Judged> {
    let part = series.params.get("phase").or_else(|| series.params.get("part"));
    let phase = part.and_then(Value::as_str).unwrap_or_default();
    if phase != target.phase || series.params.contains_key("t") {
        return Vec::new();
    }
    let own = series.values(target.of);
    let against = |other: &Series, baseline: String| Judged {
        values: ratios(&own, &other.values(target.of)),
        baseline,
        over_budget: other.over_budget(),
    };
    match target.rule {
        Rule::AtMost(_) | Rule::AtLeast(_) => {
            vec![Judged { values: own, baseline: String::new(), over_budget: None }]
        }
        Rule::RatioAtLeast(_) | Rule::RatioAtMost(_) => others
            .iter()
            .filter(|other| other.subject.starts_with(BASELINES) && other.params == series.params)
            .filter(|_| AS_IT_COMES.contains(&series.subject))
            .map(|other| against(other, other.subject.to_owned()))
            .collect(),
        Rule::RatioToPointAtLeast(param, value, _) | Rule::RatioToPointAtMost(param, value, _) => {
            let baselines = at_point(series, others, param, value.into());
            baselines.map(|other| against(other, format!("{param} {value}"))).collect()
        }
        Rule::RatioToNamedPointAtLeast(param, name, _)
        | Rule::RatioToNamedPointAtMost(param, name, _) => {
            let baselines = at_point(series, others, param, name.into());
            baselines.map(|other| against(other, format!("{param} {name}"))).collect()
        }
        Rule::RatioToNextBelowAtMost(param, _) => {
            let below = next_below(series, others, param).into_iter();
            below.map(|(value, other)| against(other, format!("{param} {value}"))).collect()
        }
        Rule::RatioToSubjectAtLeast(subject, _) | Rule::RatioToSubjectAtMost(subject, _) => others
            .iter()
            .filter(|other| other.subject == subject && other.params == series.params)
            .filter(|_| AS_IT_COMES.contains(&series.subject))
            .map(|other| against(other, other.subject.to_owned()))
            .collect(),
    }
}

/// The series of the same subject that differs only in `param`, which has the next smaller value.
fn next_below<'a>(series: &Series, others: &'a [Series], param: &str) -> Option<(f64, &'a Series)> {
    let value_of = |series: &Series| series.params.get(param).and_then(Value::as_f64);
    let rest = |series: &Series| {
        let mut params = series.params.clone();
        params.remove(param);
        params
    };
    let (own, own_rest) = (value_of(series)?, rest(series));
    let below = others
        .iter()
        .filter(|other| other.subject == series.subject && rest(other) == own_rest)
        .filter_map(|other| Some((value_of(other)?, other)))
        .filter(|(value, _)| *value < own);
    below.max_by(|one, other| one.0.total_cmp(&other.0))
}

/// The series of the same subject where `param` is `value`, if it is another one.
fn at_point<'a>(
    series: &'a Series,
    others: &'a [Series],
    param: &str,
    value: Value,
) -> impl Iterator<Item = &'a Series> {
    let mut params = series.params.clone();
    params.insert(param.to_owned(), value);
    let is_it = move |other: &&Series| {
        other.subject == series.subject && other.params == params && params != series.params
    };
    others.iter().filter(is_it)
}

fn ratios(own: &[f64], baseline: &[f64]) -> Vec<f64> {
    own.iter().zip(baseline).map(|(own, baseline)| own / baseline).collect()
}

#[cfg(test)]
mod tests;
