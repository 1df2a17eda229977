//! `profile`: the miss-ratio curve of a trace.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use tidekv_plan::trace::{FORMATS, Fault, Format, Kind, Reader, Request};
use tidekv_plan::{
    Access, Action, CacheSize, ClassProfiler, Curve, ErrorBars, Expiry, GROWTH, Miniature,
    MissRatios, Profiler, Sampler, Settings, SlabClasses, TRACE_SAMPLE_SIZE, Unit,
};
use tidekv_tiered::Cache;
use xxhash_rust::xxh3::xxh3_64;

use crate::commands::cache::Order;
use crate::curve_file::{BYTES, CurveFile, OBJECTS};
use crate::curve_picture;
use crate::failure::{Failure, Result};
use crate::files;
use crate::output;
use crate::progress::Progress;
use crate::quantity::{count, parse_size, show_size};
use crate::simulated_cache::{LoadRules, ScaledDown, SimulatedCache};

/// The profile fails if more than this part of the lines is malformed.
const BROKEN_MAX: f64 = 0.02;
/// Warn if simulated caches leave more than this part of flash unused.
const UNUSED_MAX: f64 = 0.03;
/// Maximum number of points of a printed curve.
const POINTS_MAX: usize = 1000;
/// The longest key or value that counts, 256 TiB.
const LEN_MAX: u64 = 1 << 48;
/// The default sampling rate of simulated caches.
const DEFAULT_RATE: f64 = 0.01;

/// Compute the miss-ratio curve of a trace: the misses of caches of all sizes.
///
/// Prints the curve as CSV, `size,miss_ratio`, or with --json with further numbers; `tidekv plan`
/// reads both. Samples the keys (SHARDS), so memory does not grow with the trace, and the columns
/// `standard_error` and `size_error` are the standard errors of each miss ratio and of its size;
/// --exact processes all keys. The curve is that of an LRU cache. With --policy, scaled-down
/// simulations of the code of `tidekv cache` compute the miss ratio for each of --sizes; if some
/// sizes have flash, the lines are `dram,flash,dram_miss_ratio,miss_ratio`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv profile requests.csv > web.curve\n  \
    tidekv profile --format twitter --json cluster52.zst > c52.json\n  \
    tidekv profile --policy s3-fifo --sizes 1GiB,4GiB,16GiB requests.csv > s3-fifo.curve\n  \
    tidekv profile --svg both.svg --compare s3-fifo=s3-fifo.curve requests.csv > lru.curve")]
pub struct Profile {
    /// Trace of requests, plain or compressed with gzip or zstd; `-` for standard input.
    #[arg(value_name = "FILE")]
    trace: PathBuf,

    /// Format of the trace [default: detected from its first lines].
    #[arg(long, value_name = "NAME", value_parser = format_names())]
    format: Option<String>,

    /// Process all keys: exact, with about 60 bytes of memory per object.
    #[arg(long, conflicts_with_all = ["rate", "samples", "slabs"])]
    exact: bool,

    /// Sampling rate: the fraction of the keys to process, above 0 and at most 1, such as 0.01.
    /// First accesses are counted over all keys if that improves the estimate [default: --samples;
    /// 0.01 with --policy].
    #[arg(long, value_name = "R", conflicts_with = "samples")]
    rate: Option<f64>,

    /// Maximum number of sampled objects at a time; the sampling rate adapts to it.
    #[arg(long, value_name = "N", default_value_t = TRACE_SAMPLE_SIZE)]
    samples: usize,

    /// Model memcached: each slab class evicts separately. Processes all keys.
    #[arg(long, conflicts_with_all = ["rate", "samples"])]
    slabs: bool,

    /// Cache sizes in objects instead of bytes.
    #[arg(long, conflicts_with = "slabs")]
    objects: bool,

    /// Add the column `byte_miss_ratio`, the missed fraction of the requested bytes; fails if a get has
    /// no size.
    #[arg(long, conflicts_with_all = ["slabs", "policy", "sets_only"])]
    byte_misses: bool,

    /// Simulate `tidekv cache` with this eviction policy.
    #[arg(long, value_enum, value_name = "ORDER", requires = "sizes",
          conflicts_with_all = ["exact", "samples", "slabs", "objects", "overhead"])]
    policy: Option<Order>,

    /// With --policy: cache sizes, as DRAM or DRAM+FLASH, such as 1GiB,1GiB+10GiB. DRAM times --rate
    /// must be at least 1 MiB.
    #[arg(long, value_delimiter = ',', value_name = "SIZE,...", value_parser = parse_cache_size,
          requires = "policy")]
    sizes: Vec<CacheSize>,

    /// With flash: expected average size of an object, as in `tidekv cache`.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    avg_object_size: u64,

    /// Overhead per object in addition to its key and value [default: what `tidekv cache` charges to
    /// DRAM, about 150 bytes; with --slabs that of memcached].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    overhead: Option<u64>,

    /// Treatment of expired objects.
    #[arg(long, value_name = "WHEN", default_value = "at-once")]
    expiry: Expires,

    /// A miss does not load the object: only the sets of the trace store objects.
    #[arg(long)]
    sets_only: bool,

    /// Stop at a malformed line [default: skip it].
    #[arg(long)]
    strict: bool,

    /// Also draw the curve to this SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// With --svg: also draw this curve, the output of `profile` for another trace, policy or setting,
    /// under this name in the legend (repeatable).
    #[arg(long, value_name = "NAME=FILE", requires = "svg")]
    compare: Vec<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// [`Expiry`] by name.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Expires {
    /// An expired object frees its space immediately.
    AtOnce,
    /// An expired object takes space until its next access or its eviction.
    #[value(alias = "when-asked")]
    OnAccess,
    /// Times to live are ignored.
    Ignored,
}

fn format_names() -> Vec<&'static str> {
    FORMATS.iter().map(|record| record.name).collect()
}

/// Requests in a batch for the sampler, which is faster.
const AT_ONCE: usize = 1 << 10;

/// The profiler of a trace.
enum Profiling {
    All(Profiler),
    /// With the batch of pending requests.
    Sample(Sampler, Vec<Access>),
    Slabs(Box<ClassProfiler>),
    Small(Miniature<SimulatedCache>),
}

impl Profiling {
    fn record(&mut self, access: &Access, request: &Request) {
        match self {
            Self::All(profiler) => profiler.record(access),
            Self::Sample(sampler, waiting) => {
                waiting.push(*access);
                if waiting.len() == AT_ONCE {
                    sampler.record_all(waiting);
                    waiting.clear();
                }
            }
            Self::Slabs(profiler) => profiler.record(access),
            Self::Small(miniature) => {
                miniature.record(access.key, access.action.is_request(), request);
            }
        }
    }

    /// Processes the pending requests at the end of the trace.
    fn end(&mut self) {
        if let Self::Sample(sampler, waiting) = self {
            sampler.record_all(waiting);
            waiting.clear();
        }
    }

    fn curve(&self) -> Curve {
        match self {
            Self::All(profiler) => profiler.curve(),
            Self::Sample(sampler, _) => sampler.curve(),
            Self::Slabs(profiler) => profiler.curve(),
            Self::Small(miniature) => miniature.curve(),
        }
    }

    /// The curve of missed bytes, if known.
    fn byte_curve(&self) -> Option<Curve> {
        match self {
            Self::All(profiler) => profiler.byte_curve(),
            Self::Sample(sampler, _) => sampler.byte_curve(),
            Self::Slabs(_) | Self::Small(_) => None,
        }
    }

    /// The errors of the curve, if it is an estimate.
    fn error_bars(&self) -> Option<ErrorBars> {
        match self {
            Self::Sample(sampler, _) => sampler.error_bars(),
            Self::All(_) | Self::Slabs(_) | Self::Small(_) => None,
        }
    }

    fn sampled(&self) -> f64 {
        match self {
            Self::Sample(sampler, _) => sampler.rate(),
            Self::Small(miniature) => miniature.rate(),
            Self::All(_) | Self::Slabs(_) => 1.0,
        }
    }
}

/// Counts of the requests.
#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    sized: u64,
    bytes: f64,
    broken: u64,
    first_broken: Option<String>,
    /// Lines and commands without a request for a key.
    skipped: u64,
    /// What the reader says about the trace.
    notes: Vec<String>,
    /// The requests of all kinds.
    all: u64,
    /// An append-only file has no others.
    has_only_writes: bool,
    first_s: Option<f64>,
    last_s: f64,
}

impl Tally {
    /// Seconds from the first to the last request, if the trace has timestamps.
    fn seconds(&self) -> Option<f64> {
        self.first_s.map(|first| self.last_s - first).filter(|seconds| *seconds > 0.0)
    }

    /// Fails if more than [`BROKEN_MAX`] of the lines were malformed: the curve may not represent the
    /// workload.
    fn check(&self) -> Result<()> {
        let lines = self.all + self.broken;
        if self.broken as f64 <= BROKEN_MAX * lines as f64 {
            return Ok(());
        }
        let share = 100.0 * self.broken as f64 / lines as f64;
        Err(Failure::new(format!(
            "{share:.0} % of the lines are malformed: do not rely on this curve; is --format right?"
        )))
    }

    /// The mean size of an object.
    fn object_bytes(&self) -> Option<f64> {
        (self.sized > 0).then(|| self.bytes / self.sized as f64)
    }
}

/// Parses DRAM or DRAM+FLASH.
fn parse_cache_size(text: &str) -> std::result::Result<CacheSize, String> {
    let (memory, flash) = text.split_once('+').unwrap_or((text, "0"));
    Ok(CacheSize { memory_bytes: parse_size(memory)?, flash_bytes: parse_size(flash)? })
}

fn show_cache_size(size: CacheSize) -> String {
    format!("{}+{}", show_size(size.memory_bytes), show_size(size.flash_bytes))
}

impl Profile {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1.0)) {
            return Err(Failure::usage("--rate must be above 0 and at most 1"));
        }
        if self.samples == 0 {
            return Err(Failure::usage("--samples must be at least 1"));
        }
        if self.svg.is_some() && self.has_flash() {
            return Err(Failure::usage("--svg needs --sizes without flash"));
        }
        let compared = self.compared()?;
        let (input, bytes) = files::open_input(&self.trace)?;
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted { input, read: Arc::clone(&read) };
        let mut input = files::decompressed(BufReader::with_capacity(1 << 20, counted))?;
        let head = input.fill_buf().map_err(|error| Failure::system("could not read", &error))?;
        let by_name = |name: &String| FORMATS.iter().find(|record| record.name == *name);
        let format = self.format.as_ref().and_then(by_name).map(|record| record.format);
        let format = format
            .or_else(|| Format::of(head))
            .ok_or_else(|| Failure::usage("unknown trace format: use --format"))?;
        let mut reader =
            Reader::new(format, input).map_err(|fault| Failure::new(fault.to_string()))?;
        let mut profiling = self.profiling()?;
        let mut tally = Tally { has_only_writes: format == Format::Resp, ..Tally::default() };
        let mut progress = Progress::new(bytes);
        for item in reader.by_ref() {
            match item {
                Ok(request) => self.take(&request, &mut profiling, &mut tally),
                Err(fault @ Fault::Broken { .. }) if !self.strict => {
                    tally.broken += 1;
                    tally.first_broken.get_or_insert_with(|| fault.to_string());
                }
                Err(fault) => return Err(Failure::new(fault.to_string())),
            }
            progress.step(read.load(Ordering::Relaxed));
        }
        drop(progress);
        profiling.end();
        tally.skipped = reader.skipped();
        tally.notes = reader.notes();
        self.print(&profiling, &tally, &compared)?;
        tally.check()
    }

    fn profiling(&self) -> Result<Profiling> {
        let unit = if self.objects { Unit::Objects } else { Unit::Bytes };
        let expiry = match self.expiry {
            Expires::AtOnce => Expiry::AtOnce,
            Expires::OnAccess => Expiry::OnAccess,
            Expires::Ignored => Expiry::Ignored,
        };
        let settings = Settings { unit, expiry };
        if let Some(policy) = self.policy {
            return self.simulation(policy).map(Profiling::Small);
        }
        Ok(match (self.rate, self.exact, self.slabs) {
            (_, _, true) => Profiling::Slabs(Box::new(ClassProfiler::new(
                SlabClasses::of_growth(GROWTH),
                expiry,
            ))),
            (_, true, _) => Profiling::All(Profiler::new(settings)),
            (Some(rate), ..) => self.of_sample(Sampler::of_rate(rate, settings)),
            _ => self.of_sample(Sampler::of_size(self.samples, settings)),
        })
    }

    fn of_sample(&self, sampler: Sampler) -> Profiling {
        let sampler = sampler.with_error_bars();
        let sampler = if self.byte_misses { sampler.with_bytes() } else { sampler };
        Profiling::Sample(sampler, Vec::with_capacity(AT_ONCE))
    }

    /// Simulated caches of all sizes, scaled down by the sampling rate.
    fn simulation(&self, policy: Order) -> Result<Miniature<SimulatedCache>> {
        let rate = self.rate.unwrap_or(DEFAULT_RATE);
        let least = (SimulatedCache::BYTES_MIN as f64 / rate).ceil() as u64;
        if let Some(size) = self.sizes.iter().find(|size| size.memory_bytes < least) {
            return Err(Failure::usage(format!(
                "--sizes: {} is below {}, the minimum at which a sample of one in {:.0} keys has 1 MiB \
                 of DRAM: use a larger --rate",
                show_size(size.memory_bytes),
                show_size(least),
                1.0 / rate
            )));
        }
        let rules = LoadRules {
            is_sets_only: self.sets_only,
            has_deadlines: !matches!(self.expiry, Expires::Ignored),
        };
        let how = self.scaled(policy, rate);
        let make = |scaled: CacheSize, full: CacheSize| {
            // Rounding could make it a byte smaller.
            let memory_bytes = scaled.memory_bytes.max(SimulatedCache::BYTES_MIN);
            let cache =
                SimulatedCache::new(&how, CacheSize { memory_bytes, ..scaled }, full, rules);
            cache.map_err(|error| {
                Failure::usage(format!("--sizes: {}: {error}", show_cache_size(full)))
            })
        };
        Miniature::new(rate, &self.sizes, make)
    }

    /// The settings of simulated caches for a sample of the keys with this rate.
    fn scaled(&self, policy: Order, rate: f64) -> ScaledDown {
        ScaledDown { eviction: policy.into(), avg_object_bytes: self.avg_object_size, rate }
    }

    /// The largest part of flash that a simulated cache leaves unused.
    fn unused_of_flash(&self, policy: Order) -> f64 {
        let how = self.scaled(policy, self.rate.unwrap_or(DEFAULT_RATE));
        // Invalid sizes were rejected before.
        let unused = self.sizes.iter().map(|size| how.unused_of_flash(*size).unwrap_or_default());
        unused.fold(0.0, f64::max)
    }

    fn take(&self, request: &Request, profiling: &mut Profiling, tally: &mut Tally) {
        let bytes = self.object_bytes(request);
        let action = match request.kind {
            Kind::Get if self.sets_only => Action::Get,
            // At the least it has a key.
            Kind::Get if request.value_bytes.is_none() => Action::LoadUnsized(bytes),
            Kind::Get => Action::Load(bytes),
            Kind::Put => Action::Set(bytes),
            Kind::Delete => Action::Delete,
            Kind::Expire => Action::Expire,
            Kind::Scan => return,
        };
        tally.all += 1;
        tally.requests += u64::from(request.kind == Kind::Get);
        if request.value_bytes.is_some() {
            tally.sized += 1;
            tally.bytes += bytes as f64;
        }
        if let Some(seconds) = request.seconds.filter(|seconds| seconds.is_finite()) {
            tally.first_s.get_or_insert(seconds);
            tally.last_s = tally.last_s.max(seconds);
        }
        let at_ms = request.seconds.map_or(0, |seconds| (seconds.max(0.0) * 1000.0) as u64);
        let ttl_ms = request.ttl_seconds.map(|seconds| seconds.saturating_mul(1000));
        let payload_bytes =
            request.cached_key_bytes().saturating_add(request.value_bytes.unwrap_or(0));
        let access = Access {
            at_ms,
            ttl_ms,
            requested_bytes: Some(payload_bytes),
            ..Access::new(xxh3_64(&request.key), action)
        };
        profiling.record(&access, request);
    }

    /// The bytes that an object takes in a cache.
    fn object_bytes(&self, request: &Request) -> u64 {
        let key_bytes = request.cached_key_bytes();
        let value_bytes = request.value_bytes.unwrap_or(0);
        match (self.slabs, self.overhead) {
            (true, overhead) => SlabClasses::item_bytes(key_bytes, value_bytes)
                .saturating_add(overhead.unwrap_or(0)),
            (false, Some(overhead)) => {
                key_bytes.saturating_add(value_bytes).saturating_add(overhead)
            }
            (false, None) => {
                // Damaged traces have longer ones.
                let len = |bytes: u64| bytes.min(LEN_MAX) as usize;
                Cache::object_dram_bytes(len(key_bytes), len(value_bytes)) as u64
            }
        }
    }

    /// The curves of --compare, with their names.
    fn compared(&self) -> Result<Vec<(String, CurveFile)>> {
        let mut all = Vec::<(String, CurveFile)>::new();
        for text in &self.compare {
            let named = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, path) = named
                .ok_or_else(|| Failure::usage(format!("--compare: {text:?} is not NAME=FILE")))?;
            if name == self.name() || all.iter().any(|(other, _)| other == name) {
                let text = format!("--compare: there is another curve of the name {name:?}");
                return Err(Failure::usage(text));
            }
            let in_file = |what: String| Failure::new(format!("{path}: {what}"));
            let mut file = CurveFile::read(&files::read_text(path.as_ref())?)
                .map_err(|failure| in_file(failure.message))?;
            file.curve().map_err(in_file)?;
            if file.unit != self.unit() {
                let (has, unit) = (&file.unit, self.unit());
                return Err(in_file(format!(
                    "sizes are in {has}, but those of the trace in {unit}"
                )));
            }
            if !self.byte_misses {
                file.byte_miss_ratios = None;
            }
            all.push((name.to_owned(), file));
        }
        Ok(all)
    }

    /// The name of the curve in the legend: the policy, or else the trace.
    fn name(&self) -> String {
        let policy = self.policy.and_then(|policy| policy.to_possible_value());
        let trace = || self.trace.file_name().unwrap_or(self.trace.as_os_str()).to_string_lossy();
        policy.map_or_else(|| trace().into_owned(), |policy| policy.get_name().to_owned())
    }

    fn unit(&self) -> &'static str {
        if self.objects { OBJECTS } else { BYTES }
    }

    fn print(
        &self,
        profiling: &Profiling,
        tally: &Tally,
        compared: &[(String, CurveFile)],
    ) -> Result<()> {
        if tally.requests == 0 {
            let first = tally.first_broken.as_ref().map(|fault| format!("; {fault}"));
            let first = first.unwrap_or_default();
            let why = match tally.has_only_writes && tally.all > 0 {
                true => ": an append-only file has writes only; use the output of MONITOR",
                false => "",
            };
            return Err(Failure::new(format!("the trace has no gets{why}{first}")));
        }
        if let Profiling::Small(miniature) = profiling
            && self.has_flash()
        {
            self.warn(tally);
            return self.print_with_flash(miniature, tally);
        }
        let curve = profiling.curve().thinned(POINTS_MAX);
        let unit = self.unit();
        let file = CurveFile {
            seconds: tally.seconds(),
            object_bytes: tally.object_bytes(),
            sampled: Some(profiling.sampled()),
            ..self.with_bytes(CurveFile::of(&curve, unit), profiling)?
        };
        let file = file.with_errors(profiling.error_bars().as_ref());
        self.warn(tally);
        if let Some(path) = &self.svg {
            files::write_text(path, &curve_picture::of_file(&self.name(), &file, compared))?;
        }
        match self.json {
            true => output::line(&serde_json::json!(file).to_string()),
            false => output::line(file.to_csv().trim_end()),
        }
    }

    /// The curve, with byte miss ratios if --byte-misses is set.
    fn with_bytes(&self, file: CurveFile, profiling: &Profiling) -> Result<CurveFile> {
        if !self.byte_misses {
            return Ok(file);
        }
        let unsized_get =
            || Failure::new("--byte-misses: some gets of the trace have no object size");
        Ok(file.with_bytes(&profiling.byte_curve().ok_or_else(unsized_get)?))
    }

    fn has_flash(&self) -> bool {
        self.sizes.iter().any(|size| size.flash_bytes > 0)
    }

    /// Prints the miss ratios of caches with flash. They are not a curve: sizes have two dimensions.
    fn print_with_flash(&self, miniature: &Miniature<SimulatedCache>, tally: &Tally) -> Result<()> {
        let missed = miniature.miss_ratios();
        if !self.json {
            let lines = missed.map(|MissRatios { size, memory_miss_ratio, miss_ratio }| {
                let CacheSize { memory_bytes, flash_bytes } = size;
                format!("\n{memory_bytes},{flash_bytes},{memory_miss_ratio:.6},{miss_ratio:.6}")
            });
            let header = "dram,flash,dram_miss_ratio,miss_ratio";
            return output::line(&(header.to_owned() + &lines.collect::<String>()));
        }
        let sizes: Vec<serde_json::Value> = missed
            .map(|MissRatios { size, memory_miss_ratio, miss_ratio }| {
                serde_json::json!({
                    "dram_bytes": size.memory_bytes,
                    "flash_bytes": size.flash_bytes,
                    "dram_miss_ratio": memory_miss_ratio,
                    "miss_ratio": miss_ratio,
                })
            })
            .collect();
        let object = serde_json::json!({
            "requests": tally.requests,
            "seconds": tally.seconds(),
            "object_bytes": tally.object_bytes(),
            "sampled": miniature.rate(),
            "sizes": sizes,
        });
        output::line(&object.to_string())
    }

    /// Prints warnings about the trace and the settings.
    fn warn(&self, tally: &Tally) {
        let mut warnings = tally.notes.clone();
        if let Some(first) = &tally.first_broken {
            let lines = count(tally.broken, "malformed line", "malformed lines");
            warnings.push(format!("skipped {lines}; the first: {first}"));
        }
        if tally.skipped > 0 {
            let skipped = tally.skipped;
            warnings.push(format!("skipped {skipped} lines and commands without a key"));
        }
        let unused = self.policy.map_or(0.0, |policy| self.unused_of_flash(policy));
        if unused > UNUSED_MAX {
            warnings.push(format!(
                "the simulated caches leave up to {:.0} % of flash unused; a larger --rate is more accurate",
                (unused * 100.0).ceil()
            ));
        }
        if tally.sized == 0 && !self.objects {
            let text = "the trace has no sizes: only keys and overhead count; consider --objects";
            warnings.push(text.to_owned());
        }
        warnings.iter().for_each(|line| output::warn(line));
    }
}

/// Counts the bytes read.
struct Counted<R> {
    input: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
