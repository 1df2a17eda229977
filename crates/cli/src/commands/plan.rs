//! `plan`: computes the DRAM and flash that each tenant needs.

mod targets;
mod wear;
mod report;
mod picture;

use std::path::PathBuf;

use tidekv_plan::{
    Bounds, DEFAULT_POINTS, Goal, Infeasible, Latencies, LatencyOverrides, Plan, PlanRequest,
    Prices, Tenant, plan_exactly, plan_on_hull,
};

use crate::commands::plan::targets::{Given, named};
use crate::commands::plan::wear::{Known, Wear};
use crate::curve_file::{BYTES, CurveFile};
use crate::failure::{Failure, Result};
use crate::files;
use crate::live_curves::{self, Live};
use crate::output;
use crate::quantity::parse_size;
use crate::terms::Terms;

/// Plan the DRAM and flash of each tenant: the cheapest sizes that meet the latency targets, or the
/// fastest sizes for a budget.
///
/// A request takes the time of DRAM, plus that of flash if DRAM misses, plus that of the backend if
/// both miss: Lat = m + s * mr(DRAM) + db * mr(DRAM + flash), with the miss ratios of curves from
/// `tidekv profile`. That is its mean. For a percentile, such as `--sla p99:1ms`, a request takes m if
/// DRAM answers it, m + s if flash does, and m + s + db otherwise (m + db without flash). The output
/// prints the formulas, so every number can be checked by hand.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv plan --curve web=web.curve --sla 300us\n  \
    tidekv plan --curve web=web.json --curve ads=ads.json --sla web=300us --sla ads=1ms --total-dram 3GiB\n  \
    tidekv plan --curve web=web.curve --sla 300us --sla p99:1200us --latencies 10us,90us,2ms\n  \
    tidekv plan --curve web=web.curve --cost 20\n  \
    tidekv plan --live localhost:11211 --sla 300us")]
#[group(id = "goal", required = true, multiple = true, args = ["sla", "cost"])]
pub struct PlanCommand {
    /// Tenant and its miss-ratio curve, such as web=web.curve (repeatable).
    #[arg(long = "curve", value_name = "NAME=FILE", required_unless_present = "live")]
    curves: Vec<String>,

    /// Running server (`tidekv cache` or `tidekv serve`) whose current curves to use, per tenant or
    /// keyspace: host:port, a host alone for port 11211, or unix:PATH.
    #[arg(long, value_name = "ADDR", conflicts_with = "curves")]
    live: Option<String>,

    /// File whose first line is the server's `user:password`; for `tidekv serve` the password alone.
    #[arg(long, value_name = "FILE", requires = "live")]
    auth_file: Option<PathBuf>,

    /// Latency target of all tenants or of one (repeatable): for the mean, such as 300us or web=300us,
    /// or for a percentile, such as p99:1ms or web=p99.9:1ms, by which at least 99 % or 99.9 % of the
    /// requests are answered within that time. All targets of a tenant count; its own replaces that of
    /// all for the same percentile.
    #[arg(long, value_name = "[NAME=][pNN:]TIME")]
    sla: Vec<String>,

    /// Maximum cost, in the currency of --prices; minimizes the latency instead of the cost.
    #[arg(long, value_name = "MONEY")]
    cost: Option<f64>,

    /// Maximum DRAM of all tenants [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    total_dram: Option<u64>,

    /// Maximum flash of all tenants [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    total_flash: Option<u64>,

    /// Maximum bytes written to flash per second, such as 50MiB. Needs request rates [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    flash_writes: Option<u64>,

    /// Requests of a tenant per second, which are its weight [default: the rate in its curve]
    /// (repeatable).
    #[arg(long, value_name = "NAME=N")]
    requests: Vec<String>,

    /// Margin for curves of a sample, in standard errors of miss ratios and of sizes; 0 for none.
    #[arg(long, value_name = "N", default_value_t = MARGIN)]
    margin: f64,

    /// Latency of DRAM, of flash, and of the backend (the database behind the cache), of all tenants or
    /// of one, such as 10us,100us,1ms or web=10us,100us,5ms (repeatable). For an omitted one, as in
    /// `50us,,`: that of all tenants, or else the measurement of the running cache, or else 10us, 100us
    /// or 1ms.
    #[arg(long, value_name = "[NAME=]DRAM,FLASH,BACKEND")]
    latencies: Vec<String>,

    #[command(flatten)]
    terms: Terms,

    /// Bytes of DRAM for the index entry of an object on flash. Needs the object size, which a
    /// curve in JSON contains.
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    index: f64,

    /// With --cost: solve over all points of the curves, rather than over 200 of each with refinement.
    #[arg(long)]
    exact: bool,

    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,

    /// Also draw each tenant's curve to this SVG file, with its planned sizes and, dashed, the
    /// sizes at DRAM : flash = 1 : 4.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The default margin: the true miss ratio exceeds the estimate by more than this in about one of
/// twenty-five cases (Student's t with seven degrees of freedom).
const MARGIN: f64 = 2.0;

/// A tenant's curve and its origin.
struct Source {
    name: String,
    /// For messages.
    from: String,
    file: CurveFile,
    latencies: Latencies,
    /// Its current DRAM and flash, if known.
    has: Option<(u64, u64)>,
}

impl PlanCommand {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        if !(self.margin.is_finite() && self.margin >= 0.0) {
            return Err(Failure::usage("--margin must be a number of at least 0"));
        }
        let latencies = targets::latencies(&self.latencies)?;
        let sources = self.sources(&latencies)?;
        let (prices, endurance) = self.terms.prices_and_endurance()?;
        let (request, known) = self.request(&sources, prices)?;
        let names: Vec<&str> = request.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        let refused = |why: Infeasible| report::refuse(&why, &request, &names);
        let points = if self.exact { usize::MAX } else { DEFAULT_POINTS };
        let plan = plan_exactly(&request, points).map_err(refused)?;
        // The plan is complete without the hull.
        let hull = plan_on_hull(&request).ok();
        let has: Option<Vec<(u64, u64)>> = sources.iter().map(|source| source.has).collect();
        let now = has.map(|has| Plan::of(&request, &has));
        let proportional = report::proportional(&request);
        let others = report::Others {
            hull: hull.as_ref(),
            now: now.as_ref(),
            proportional: proportional.as_deref(),
            margin: sources.iter().any(|source| source.file.has_errors()).then_some(self.margin),
            wear: &Wear { known, endurance },
        };
        if let Some(path) = &self.svg {
            files::write_text(path, &picture::draw(&request, &plan, &others))?;
        }
        match self.json {
            true => output::line(&report::to_json(&request, &plan, others).to_string()),
            false => {
                report::show(&request, &plan, others).iter().try_for_each(|line| output::line(line))
            }
        }
    }

    /// The tenants, from files or from a running server.
    fn sources(&self, given: &[Given<LatencyOverrides>]) -> Result<Vec<Source>> {
        let sources = match &self.live {
            Some(address) => self.live_sources(address, given)?,
            None => self.file_sources(given)?,
        };
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        targets::check_names("--latencies", given, &names)?;
        Ok(sources)
    }

    /// The tenants, from files.
    fn file_sources(&self, given: &[Given<LatencyOverrides>]) -> Result<Vec<Source>> {
        let mut sources = Vec::<Source>::new();
        for text in &self.curves {
            let (name, path) =
                named(text).ok_or_else(|| Failure::usage(format!("{text:?} is not NAME=FILE")))?;
            if sources.iter().any(|source| source.name == name) {
                return Err(Failure::usage(format!("tenant {name:?} has two curves")));
            }
            let file = CurveFile::read(&files::read_text(path.as_ref())?)
                .map_err(|failure| Failure::new(format!("{path}: {}", failure.message)))?;
            let latencies = Latencies::DEFAULT.with(targets::latencies_of(given, name));
            let (name, from) = (name.to_owned(), path.to_owned());
            sources.push(Source { name, from, file, latencies, has: None });
        }
        Ok(sources)
    }

    /// The tenants of a running server.
    fn live_sources(
        &self,
        address: &str,
        given: &[Given<LatencyOverrides>],
    ) -> Result<Vec<Source>> {
        let user = self.auth_file.as_deref().map(files::read_text).transpose()?;
        let user = user.as_deref().map(|text| text.lines().next().unwrap_or_default().trim());
        let user = user.filter(|user| !user.is_empty());
        let Live { tenants, memory_us, flash_us } = live_curves::fetch(address, user)?;
        let sources = tenants.into_iter().map(|tenant| {
            let measured = Latencies::measured(memory_us, flash_us, tenant.backend_us);
            let latencies = measured.with(targets::latencies_of(given, &tenant.name));
            let from = format!("{address}, {}", tenant.name);
            Source { name: tenant.name, from, file: tenant.file, latencies, has: tenant.has }
        });
        Ok(sources.collect())
    }

    /// The plan request, and what is known of each tenant.
    fn request(&self, sources: &[Source], prices: Prices) -> Result<(PlanRequest, Vec<Known>)> {
        let (mut tenants, mut known) = (Vec::new(), Vec::new());
        for source in sources {
            let (tenant, mut it) = self.tenant(source)?;
            let is_given = |text: &String| named(text).is_some_and(|it| it.0 == source.name);
            it.has_rate |= self.requests.iter().any(is_given);
            tenants.push(tenant);
            known.push(it);
        }
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let slas = targets::targets(&self.sla)?;
        targets::check_names("--sla", &slas, &names)?;
        targets::aim(&mut tenants, &slas);
        for text in &self.requests {
            let parsed =
                named(text).and_then(|(name, number)| Some((name, number.parse::<f64>().ok()?)));
            let (name, number) =
                parsed.filter(|(_, number)| number.is_finite() && *number >= 0.0).ok_or_else(
                    || Failure::usage(format!("{text:?} is not NAME=N with a rate of at least 0")),
                )?;
            let tenant = tenants.iter_mut().find(|tenant| tenant.name == name);
            let unknown = || Failure::usage(format!("--requests: tenant {name:?} has no curve"));
            tenant.ok_or_else(unknown)?.requests_per_s = number;
        }
        let is_known = known.iter().filter(|known| known.has_rate).count();
        if is_known < known.len() && (is_known > 0 || self.flash_writes.is_some()) {
            return Err(Failure::usage(
                "the request rates of some tenants are unknown: use --requests",
            ));
        }
        if tenants.iter().all(|tenant| tenant.requests_per_s == 0.0) {
            return Err(Failure::usage("no tenant has requests"));
        }
        let goal = if self.cost.is_some() { Goal::Latency } else { Goal::Cost };
        if goal == Goal::Cost && !tenants.iter().all(Tenant::has_target) {
            return Err(Failure::usage("each tenant needs an --sla, unless --cost sets a budget"));
        }
        if self.cost.is_some_and(|cost| !(cost.is_finite() && cost >= 0.0)) {
            return Err(Failure::usage("--cost must be a number of at least 0"));
        }
        let bounds = Bounds {
            dram_bytes: self.total_dram,
            flash_bytes: self.total_flash,
            cost: self.cost,
            flash_writes_bytes_per_s: self.flash_writes.map(|bytes| bytes as f64),
        };
        Ok((PlanRequest { tenants, prices, bounds, goal }, known))
    }

    /// A tenant, and what its curve tells of it.
    fn tenant(&self, source: &Source) -> Result<(Tenant, Known)> {
        let Source { name, from, file, latencies, .. } = source;
        let in_file = |what: String| Failure::new(format!("{from}: {what}"));
        if file.unit != BYTES {
            return Err(in_file(format!("sizes are in {}, but must be in bytes", file.unit)));
        }
        let curve = file.curve_with_margin(self.margin).map_err(in_file)?;
        let object_bytes = file.object_bytes.filter(|bytes| *bytes > 0.0);
        if (self.index > 0.0 || self.flash_writes.is_some()) && object_bytes.is_none() {
            return Err(in_file(
                "the size of objects is unknown: use a curve from `tidekv profile --json`".into(),
            ));
        }
        if !(self.index.is_finite() && self.index >= 0.0) {
            return Err(Failure::usage("--index must be a number of bytes"));
        }
        let has_object_size = object_bytes.is_some();
        let object_bytes = object_bytes.unwrap_or(1.0);
        let rate =
            file.seconds.filter(|seconds| *seconds > 0.0).map(|seconds| file.requests / seconds);
        let tenant = Tenant {
            latencies: *latencies,
            requests_per_s: rate.unwrap_or(1.0),
            index_bytes_per_byte: self.index / object_bytes,
            demoted_bytes: object_bytes,
            ..Tenant::new(name.as_str(), curve)
        };
        Ok((tenant, Known { has_rate: rate.is_some(), has_object_size }))
    }
}
