//! `profile`: what a trace says of caches of all sizes.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use tidekv_plan::trace::{FORMATS, Fault, Format, Kind, Reader, Request};
use tidekv_plan::{
    Access, Action, CacheSize, ClassProfiler, Curve, DEFAULT_SAMPLE_SIZE, Expiry, GROWTH,
    Miniature, MissRatios, Profiler, Sampler, Settings, SlabClasses, Unit,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::commands::cache::Order;
use crate::curve_file::{BYTES, CurveFile, OBJECTS};
use crate::curve_picture;
use crate::failure::{Failure, Result};
use crate::files;
use crate::output;
use crate::progress::Progress;
use crate::quantity::{parse_size, show_size};
use crate::simulated_cache::{InSmall, SimulatedCache, Taking};

/// Where caches in small make no use of more than this part of flash, that is said.
const UNUSED_MAX: f64 = 0.03;
/// Points of a curve that is written.
const POINTS_MAX: usize = 1000;
/// Of the keys, where caches are tried in small and nobody says how many.
const DEFAULT_RATE: f64 = 0.01;

/// Profile a trace: what caches of all sizes miss of it.
///
/// Prints the curve as CSV, `size,miss_ratio`, or with --json with all that is known; `tidekv plan`
/// reads both. A sample of the keys is looked at (SHARDS), in memory that does not grow with
/// the trace; --exact looks at all. Caches evict the least recently used; with --policy as
/// `tidekv cache` does, whose own code is then tried in small for each of --sizes. Where some
/// of these have flash, the lines are `dram,flash,dram_miss_ratio,miss_ratio`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv profile requests.csv > web.curve\n  \
    tidekv profile --format twitter --json cluster52.zst > c52.json")]
pub struct Profile {
    /// A file of requests, perhaps compressed by gzip or zstd; `-` for standard input.
    #[arg(value_name = "FILE")]
    trace: PathBuf,

    /// How it is written; if not given, as it looks.
    #[arg(long, value_name = "NAME", value_parser = format_names())]
    format: Option<String>,

    /// Look at all keys: exact, and some 60 bytes of memory for each object.
    #[arg(long, conflicts_with_all = ["rate", "samples", "slabs"])]
    exact: bool,

    /// Look at this share of the keys, 0 to 1, and count what is new of all, where that makes it better.
    #[arg(long, value_name = "R", conflicts_with = "samples")]
    rate: Option<f64>,

    /// Look at so many objects at a time.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SAMPLE_SIZE)]
    samples: usize,

    /// Predict a memcached: each slab class evicts for itself, all keys are looked at.
    #[arg(long, conflicts_with_all = ["rate", "samples"])]
    slabs: bool,

    /// Sizes in objects rather than in bytes.
    #[arg(long, conflicts_with = "slabs")]
    objects: bool,

    /// Add the column `byte_miss_ratio`, the share of the bytes asked for that is missed; fails if a get has no
    /// size.
    #[arg(long, conflicts_with_all = ["slabs", "policy", "sets_only"])]
    byte_misses: bool,

    /// Caches evict in this order, as those of `tidekv cache`.
    #[arg(long, value_enum, value_name = "ORDER", requires = "sizes",
          conflicts_with_all = ["exact", "samples", "slabs", "objects", "overhead"])]
    policy: Option<Order>,

    /// With --policy: the sizes of caches, as DRAM or DRAM+FLASH; at least a MiB of DRAM for the keys of
    /// --rate.
    #[arg(long, value_delimiter = ',', value_name = "SIZE,...", value_parser = parse_cache_size,
          requires = "policy")]
    sizes: Vec<CacheSize>,

    /// With flash: how large objects are on average, about, as `tidekv cache` is told it.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    avg_object_size: u64,

    /// What an object takes beside its key and value.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "0")]
    overhead: u64,

    /// What becomes of objects when their time to live is over.
    #[arg(long, value_name = "WHEN", default_value = "at-once")]
    expiry: Expires,

    /// A get loads nothing: only what the trace stores is there.
    #[arg(long)]
    sets_only: bool,

    /// Stop at a broken line.
    #[arg(long)]
    strict: bool,

    /// Draw the curve into this file as well.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Print an object.
    #[arg(long)]
    json: bool,
}

/// [`Expiry`] by name.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Expires {
    /// They take no room from then on.
    AtOnce,
    /// They take room until they are asked for, or evicted.
    OnAccess,
    /// Times to live are ignored.
    Ignored,
}

fn format_names() -> Vec<&'static str> {
    FORMATS.iter().map(|record| record.name).collect()
}

/// Requests that a sample takes in together, which is faster.
const AT_ONCE: usize = 1 << 10;

/// However a trace is looked at.
enum Profiling {
    All(Profiler),
    /// With requests that are still to be taken in.
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

    /// That nothing more will be seen.
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

    /// Of bytes, where it is known.
    fn byte_curve(&self) -> Option<Curve> {
        match self {
            Self::All(profiler) => profiler.byte_curve(),
            Self::Sample(sampler, _) => sampler.byte_curve(),
            Self::Slabs(_) | Self::Small(_) => None,
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

/// What is known of the requests beside their curve.
#[derive(Debug, Default)]
struct Tally {
    requests: u64,
    sized: u64,
    bytes: f64,
    broken: u64,
    first_broken: Option<String>,
    first_s: Option<f64>,
    last_s: f64,
}

impl Tally {
    /// From the first to the last, where there are times.
    fn seconds(&self) -> Option<f64> {
        self.first_s.map(|first| self.last_s - first).filter(|seconds| *seconds > 0.0)
    }

    /// The mean size of an object.
    fn object_bytes(&self) -> Option<f64> {
        (self.sized > 0).then(|| self.bytes / self.sized as f64)
    }
}

/// DRAM, or DRAM and flash with a plus between them.
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
            return Err(Failure::usage("--rate is above 0 and at most 1"));
        }
        if self.samples == 0 {
            return Err(Failure::usage("--samples is at least 1"));
        }
        if self.svg.is_some() && self.has_flash() {
            return Err(Failure::usage("--svg draws a curve: --sizes without flash"));
        }
        let (input, bytes) = files::open_input(&self.trace)?;
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted { input, read: Arc::clone(&read) };
        let mut input = files::decompressed(BufReader::with_capacity(1 << 20, counted))?;
        let head = input.fill_buf().map_err(|error| Failure::system("could not read", &error))?;
        let by_name = |name: &String| FORMATS.iter().find(|record| record.name == *name);
        let format = self.format.as_ref().and_then(by_name).map(|record| record.format);
        let format = format.or_else(|| Format::of(head)).ok_or_else(|| {
            Failure::usage("the trace looks like none of the formats that are known: --format")
        })?;
        let mut reader =
            Reader::new(format, input).map_err(|fault| Failure::new(fault.to_string()))?;
        let mut profiling = self.profiling()?;
        let mut tally = Tally::default();
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
        self.tell(&profiling, &tally, reader.skipped())
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
            return self.in_small(policy).map(Profiling::Small);
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
        let sampler = if self.byte_misses { sampler.with_bytes() } else { sampler };
        Profiling::Sample(sampler, Vec::with_capacity(AT_ONCE))
    }

    /// Caches of all sizes, as much smaller as there are fewer keys.
    fn in_small(&self, policy: Order) -> Result<Miniature<SimulatedCache>> {
        let rate = self.rate.unwrap_or(DEFAULT_RATE);
        let least = (SimulatedCache::BYTES_MIN as f64 / rate).ceil() as u64;
        if let Some(size) = self.sizes.iter().find(|size| size.memory_bytes < least) {
            return Err(Failure::usage(format!(
                "--sizes: {} is less than {}, which is the least that has a MiB for one of {:.0} keys: \
                 --rate",
                show_size(size.memory_bytes),
                show_size(least),
                1.0 / rate
            )));
        }
        let taking = Taking {
            is_sets_only: self.sets_only,
            has_deadlines: !matches!(self.expiry, Expires::Ignored),
        };
        let how = self.how_small(policy, rate);
        let make = |in_small: CacheSize, whole: CacheSize| {
            // By rounding it could be a byte less.
            let memory_bytes = in_small.memory_bytes.max(SimulatedCache::BYTES_MIN);
            let cache =
                SimulatedCache::new(&how, CacheSize { memory_bytes, ..in_small }, whole, taking);
            cache.map_err(|error| {
                Failure::usage(format!("--sizes: {}: {error}", show_cache_size(whole)))
            })
        };
        Miniature::new(rate, &self.sizes, make)
    }

    /// How small caches are made, of which so many of the keys are asked.
    fn how_small(&self, policy: Order, rate: f64) -> InSmall {
        InSmall { eviction: policy.into(), avg_object_bytes: self.avg_object_size, rate }
    }

    /// Which part of flash small caches make no use of, at most.
    fn unused_of_flash(&self, policy: Order) -> f64 {
        let how = self.how_small(policy, self.rate.unwrap_or(DEFAULT_RATE));
        // Sizes that no cache can have have been refused.
        let unused = self.sizes.iter().map(|size| how.unused_of_flash(*size).unwrap_or_default());
        unused.fold(0.0, f64::max)
    }

    fn take(&self, request: &Request, profiling: &mut Profiling, tally: &mut Tally) {
        let bytes = self.object_bytes(request);
        let action = match request.kind {
            Kind::Get if self.sets_only => Action::Get,
            Kind::Get if request.value_bytes.is_none() => Action::LoadUnsized,
            Kind::Get => Action::Load(bytes),
            Kind::Put => Action::Set(bytes),
            Kind::Delete => Action::Delete,
            Kind::Scan => return,
        };
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
        let access = Access { key: xxh3_64(&request.key), action, at_ms, ttl_ms };
        profiling.record(&access, request);
    }

    fn object_bytes(&self, request: &Request) -> u64 {
        let (key_bytes, value_bytes) = (request.key.len() as u64, request.value_bytes.unwrap_or(0));
        let bytes = match self.slabs {
            true => SlabClasses::item_bytes(key_bytes, value_bytes),
            false => key_bytes.saturating_add(value_bytes),
        };
        bytes.saturating_add(self.overhead)
    }

    fn tell(&self, profiling: &Profiling, tally: &Tally, left_out: u64) -> Result<()> {
        if tally.requests == 0 {
            let first = tally.first_broken.as_ref().map(|fault| format!("; {fault}"));
            let first = first.unwrap_or_default();
            return Err(Failure::new(format!("the trace asks for nothing{first}")));
        }
        if let Profiling::Small(miniature) = profiling
            && self.has_flash()
        {
            self.warn(tally, left_out);
            return self.tell_of_both(miniature, tally);
        }
        let curve = profiling.curve().thinned(POINTS_MAX);
        let unit = if self.objects { OBJECTS } else { BYTES };
        let file = CurveFile {
            seconds: tally.seconds(),
            object_bytes: tally.object_bytes(),
            sampled: Some(profiling.sampled()),
            ..self.with_bytes(CurveFile::of(&curve, unit), profiling)?
        };
        self.warn(tally, left_out);
        if let Some(path) = &self.svg {
            files::write_text(path, &curve_picture::of_file(&file))?;
        }
        match self.json {
            true => output::line(&serde_json::json!(file).to_string()),
            false => output::line(file.to_csv().trim_end()),
        }
    }

    /// The curve with what is missed of bytes, where that is asked for.
    fn with_bytes(&self, file: CurveFile, profiling: &Profiling) -> Result<CurveFile> {
        if !self.byte_misses {
            return Ok(file);
        }
        let unsized_get = || {
            Failure::new("--byte-misses: not every get of the trace says how large its object is")
        };
        Ok(file.with_bytes(&profiling.byte_curve().ok_or_else(unsized_get)?))
    }

    fn has_flash(&self) -> bool {
        self.sizes.iter().any(|size| size.flash_bytes > 0)
    }

    /// What caches with flash miss: no curve, for which of the two an object is in is not the same.
    fn tell_of_both(&self, miniature: &Miniature<SimulatedCache>, tally: &Tally) -> Result<()> {
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

    /// What one ought to know, beside what is printed.
    fn warn(&self, tally: &Tally, left_out: u64) {
        let mut words = Vec::new();
        if let Some(first) = &tally.first_broken {
            words.push(format!("{} broken lines left out; the first: {first}", tally.broken));
        }
        if left_out > 0 {
            words.push(format!("{left_out} lines and commands without a key left out"));
        }
        let unused = self.policy.map_or(0.0, |policy| self.unused_of_flash(policy));
        if unused > UNUSED_MAX {
            words.push(format!(
                "up to {:.0} % of flash is of no use to caches as small as these; a larger --rate is nearer",
                (unused * 100.0).ceil()
            ));
        }
        if tally.sized == 0 && !self.objects {
            words.push("the trace has no sizes: those of keys count alone; --objects?".to_owned());
        }
        words.iter().for_each(|line| output::remark(line));
    }
}

/// Counts the bytes that are read.
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
