//! `memory-promise`: whether a server keeps to its memory, whatever its clients ask for, while it
//! serves and when it opens its store after a kill.
//!
//! | subject | budget |
//! |---|---|
//! | `tidekv:server` | `tidekv serve --memory` |
//! | `redis` | `redis-server --maxmemory`, which bounds its data: it keeps all of them in memory |
//! | `rocksdb:lru` | its cache, with write buffers: in a process of the lab, which has the value to be written too |
//!
//! Each [load](loads) is a list of steps, each a row. The peak is that of the step (`VmHWM`, which
//! is reset before). After the last step the server is killed and started again, which is a step
//! too. With `process_bytes` the server is in a control group with that limit, and the kernel kills
//! it if it takes more: there the page cache counts too, which the kernel can take back.

mod sizes;
mod tally;
mod mix;
mod loads;

use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};
use tidekv_testkit::evidence::Value;

use self::loads::{LOADS, Load, Step};
use self::sizes::{Context, MIB, Sizes};
use self::tally::{Tally, one};
use crate::experiment::{Experiment, Found, Model, Params, Point, Rule, Target};
use crate::experiments::engine::filling;
use crate::failure::Result;
use crate::harness::job::{Ending, Job, MemoryJob};
use crate::harness::worker;
use crate::load::keys::Choice;
use crate::machine::kernel;
use crate::peers;
use crate::scale::{Scale, Shape};
use crate::subject::{Settings, SubjectRecord};
use crate::subjects::databases::{Database, Home, Product};
use crate::subjects::served::Directory;

/// The budget.
const MEMORY_BYTES: u64 = 64 * MIB;

/// What a server may take: the budget, a tenth for what the allocator keeps, and a constant for the
/// program, its threads and connections, and compactions of large values.
const PROMISED_BYTES: f64 = MEMORY_BYTES as f64 * 1.1 + (64 * MIB) as f64;

/// The limit of the control group: the promise, and a little for what the kernel keeps for it.
const PROCESS_BYTES: u64 = 160 * MIB;

/// The step after the last one of a load.
const OPENING: &str = "opening after a kill";

/// Time for a server to forget lost clients, and for the work that follows an opening.
const QUIET: Duration = Duration::from_secs(2);

/// The engine beside the servers, if this build has it.
const ENGINE: &str = "rocksdb:lru";

const PRODUCTS: [Product; 2] = [Product::TideKv, Product::Redis];

/// A load with all products, in turns.
#[derive(Debug)]
struct Promise {
    load: Load,
    sizes: Sizes,
    process_bytes: Option<u64>,
}

/// The step of a row.
fn of_step(name: &str) -> Params {
    [("step".to_owned(), Value::from(name))].into()
}

/// A row that says why there is no measurement.
fn skipped(product: Product, why: &str) -> Found {
    let mut params = of_step("skipped");
    params.insert("why".into(), why.into());
    Found { subject: product.name(), params, metrics: Vec::new() }
}

impl Promise {
    fn of(&self, product: Product, directory: &Directory, seed: u64) -> Result<Vec<Found>> {
        let folder = directory.folder(product.name())?;
        let home = match Home::new(product, MEMORY_BYTES, &folder, self.process_bytes) {
            Ok(home) => home,
            Err(failure) => return Ok(vec![skipped(product, &failure.message)]),
        };
        let mut found = Vec::new();
        let mut database = home.start()?;
        for step in self.load.steps {
            if step.only.is_none_or(|only| only == product) {
                found.push(self.measured(&home, &mut database, step, seed)?);
            }
            if database.has_ended()? {
                break;
            }
        }
        found.push(self.opened(&home, database)?);
        Ok(found)
    }

    fn measured(
        &self,
        home: &Home,
        database: &mut Database,
        step: &Step,
        seed: u64,
    ) -> Result<Found> {
        database.forget_peak();
        let kills = home.oom_kills();
        let read_bytes = database.storage_read_bytes();
        let context = Context { port: database.port(), sizes: &self.sizes, seed };
        let tally = (step.run)(&context);
        let mut metrics = vec![
            ("rss_bytes_max", database.peak_bytes() as f64),
            ("accepted", tally.accepted as f64),
            ("refused", tally.refused as f64),
            ("errors", tally.errors as f64),
            ("closed", tally.closed as f64),
            ("waiting", tally.waiting as f64),
            ("sent_bytes", tally.sent_bytes as f64),
            ("reply_bytes", tally.reply_bytes as f64),
            ("disk_bytes", home.disk_bytes() as f64),
            ("server_ended", f64::from(database.has_ended()?)),
        ];
        let read_bytes = database.storage_read_bytes().checked_sub(read_bytes);
        metrics.extend(read_bytes.map(|bytes| ("storage_read_bytes", bytes as f64)));
        metrics.extend(killed(home, kills));
        let mut params = of_step(step.name);
        params.extend(tally.error.map(|error| ("first_error".to_owned(), error.into())));
        Ok(Found { subject: home.product().name(), params, metrics })
    }

    /// Kills the server and starts it again, and compares the numbers of its keys.
    fn opened(&self, home: &Home, mut database: Database) -> Result<Found> {
        let clock = SystemClock::new();
        clock.sleep(QUIET);
        // It may have been killed already.
        let before = if database.has_ended()? { None } else { keys(database.port()) };
        database.kill();
        let kills = home.oom_kills();
        let began_ns = clock.monotonic_ns();
        let mut metrics = vec![("server_ended", 1.0)];
        if let Ok(mut database) = home.start() {
            metrics.push(("open_s", (clock.monotonic_ns() - began_ns) as f64 / 1e9));
            let lost = before.zip(keys(database.port())).map(|(before, now)| before - now);
            metrics.extend(lost.map(|lost| ("lost_keys", lost as f64)));
            clock.sleep(QUIET);
            metrics.push(("rss_bytes_max", database.peak_bytes() as f64));
            metrics[0].1 = f64::from(database.has_ended()?);
        }
        metrics.extend(killed(home, kills));
        Ok(Found { subject: home.product().name(), params: of_step(OPENING), metrics })
    }
}

/// The kills since then.
fn killed(home: &Home, before: Option<u64>) -> Option<(&'static str, f64)> {
    let kills = home.oom_kills()? - before?;
    Some(("oom_kills", kills as f64))
}

/// The number of keys.
fn keys(port: u16) -> Option<i64> {
    let mut count = None;
    one(port, |client, tally: &mut Tally| {
        count = tally.note(&client.ask_line("DBSIZE")?);
        Ok(())
    });
    count
}

impl Promise {
    /// The steps of an engine in a process of the lab: writing, opening after a kill, and reading.
    fn of_engine(&self, directory: &Directory, seed: u64) -> Result<Vec<Found>> {
        let is_it = |record: &&SubjectRecord| record.name == ENGINE;
        let (Some(memory), Some(record)) = (self.load.engine, peers::SUBJECTS.iter().find(is_it))
        else {
            return Ok(Vec::new());
        };
        let memory = memory(&self.sizes);
        let reading = MemoryJob { puts: false, ..memory };
        let steps = [
            ("writing", Some(MemoryJob { gets: 0, ..memory })),
            (OPENING, None),
            ("reading", Some(reading).filter(|job| job.gets > 0)),
        ];
        let job = Job {
            subject: record.name.to_owned(),
            directory: directory.folder(record.name)?,
            settings: Settings { counts_everything: false, ..Settings::usual(MEMORY_BYTES) },
            process_bytes: self.process_bytes,
            value_bytes: memory.value_bytes,
            seed,
            drive: None,
            replay: None,
            corpus: None,
            reclaim: None,
            memory: None,
            ending: Ending::AwaitKill,
        };
        let mut found = Vec::new();
        for (name, memory) in steps {
            if name != OPENING && memory.is_none() {
                continue;
            }
            let mut params = of_step(name);
            let mut metrics = Vec::new();
            match worker::run(&Job { memory, ..job.clone() }) {
                Ok(measurement) => {
                    metrics.push(("rss_bytes_max", measurement.rss_bytes_max as f64));
                    metrics.push(("accepted", measurement.operations as f64));
                    metrics.push(("disk_bytes", kernel::bytes_below(&job.directory) as f64));
                }
                Err(failure) => {
                    metrics.push(("server_ended", 1.0));
                    params.insert("why".to_owned(), failure.message.into());
                }
            }
            found.push(Found { subject: record.name, params, metrics });
        }
        Ok(found)
    }
}

impl Model for Promise {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let directory = Directory::new()?;
        let mut found = Vec::new();
        for product in PRODUCTS {
            found.extend(self.of(product, &directory, seed)?);
        }
        found.extend(self.of_engine(&directory, seed)?);
        Ok(found)
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    let sizes = Sizes::new(scale);
    let mut points = Vec::new();
    for process_bytes in [None, Some(PROCESS_BYTES)] {
        for load in LOADS {
            let model = Promise { load: *load, sizes: sizes.clone(), process_bytes };
            let shape = Shape { entries: 1, value_bytes: 1, is_compressed: false };
            let params: Params = [
                ("load", Value::from(load.name)),
                ("memory_bytes", MEMORY_BYTES.into()),
                ("process_bytes", process_bytes.unwrap_or(0).into()),
                ("value_bytes", 1_u64.into()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
            points.push(Point {
                params,
                memory_bytes: MEMORY_BYTES,
                store: None,
                model: Some(Arc::new(model)),
                alternations: 1,
                ..filling(scale, shape, 1, Choice::Sequential, 1)
            });
        }
    }
    points
}

/// The experiment.
pub(crate) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "memory-promise",
    about: "the peak memory of a server with a budget of 64 MiB whose clients ask for much more, \
            and of its opening after a kill; also in a control group of 160 MiB",
    claim: "1.1 times the budget and 64 MiB are enough, and the kernel never kills the server for \
            its memory",
    points,
    targets: &[
        Target::new("rss_bytes_max", Rule::AtMost(PROMISED_BYTES)),
        Target::new("oom_kills", Rule::AtMost(0.0)),
        Target::new("server_ended", Rule::AtMost(0.0)),
        Target::new("lost_keys", Rule::AtMost(0.0)),
    ],
    ..Experiment::USUAL
}];
