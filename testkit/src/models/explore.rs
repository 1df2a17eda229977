//! Runs models: the number of executions, the seed, and the row of evidence that records them.
//!
//! A model is a closure that creates its objects, starts threads (loom's or shuttle's) and asserts.
//! It runs once per execution and must end all of its threads. The first failing execution ends the
//! test, with a panic that shows how to repeat it.
//!
//! Three variables set the scale:
//! - `TIDEKV_MODELS_SCHEDULES`: schedules per shuttle model, instead of [`SCHEDULES`];
//! - `TIDEKV_MODELS_EXHAUSTIVE`: if set, loom's models explore as much as they can in reasonable
//!   time, not only executions with few preemptions;
//! - `TIDEKV_MODELS_SEED`: the seed of shuttle's schedules, 0 by default.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::evidence::Row;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

use crate::models::mode::{Inside, Mode};

/// Schedules per shuttle model in the suite; half at random, half by PCT.
pub const SCHEDULES: usize = 2000;

/// The number of points at which PCT preempts the running thread: few known bugs of this kind need
/// more.
const PCT_DEPTH: usize = 4;

/// Stack size of a model's threads: a store is opened on one.
const STACK_BYTES: usize = 512 << 10;

/// Most operations in one execution of loom; more means that the model is too large.
const LOOM_BRANCHES_MAX: usize = 20_000;

/// Counts the begun and ended executions of one model.
#[derive(Debug, Default)]
struct Count {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Count {
    fn around(self: Arc<Self>, model: impl Fn()) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        model();
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn record(&self, row: Row) {
        let (begun, ended) =
            (self.begun.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed));
        assert!(begun > 0, "the model never ran");
        row.metric("executions", begun).metric("failures", begun - ended).record();
    }
}

/// Explores the executions of `model` with loom: in the suite those with at most `preemptions`, in
/// an exhaustive run those with at most `preemptions_exhaustive`, where `None` means all.
pub fn loom(
    name: &str,
    preemptions: usize,
    preemptions_exhaustive: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let bound = match std::env::var_os("TIDEKV_MODELS_EXHAUSTIVE") {
        Some(_) => preemptions_exhaustive,
        None => Some(preemptions),
    };
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.max_branches = LOOM_BRANCHES_MAX;
    let count = Arc::new(Count::default());
    let _inside = Inside::new(Mode::Loom);
    let counted = Arc::clone(&count);
    builder.check(move || Arc::clone(&counted).around(&model));
    let row = Row::new("proof-models", "tidekv").param("model", name).param("explorer", "loom");
    let bound = bound.map_or("all".to_owned(), |bound| bound.to_string());
    count.record(row.param("preemptions", bound));
}

/// Runs `model` under many schedules of shuttle.
pub fn shuttle(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let schedules = number("TIDEKV_MODELS_SCHEDULES").map_or(SCHEDULES, |n| n as usize).max(2);
    let seed = number("TIDEKV_MODELS_SEED").unwrap_or(0);
    let model = Arc::new(model);
    let half = schedules / 2;
    let random = RandomScheduler::new_from_seed(seed, schedules - half);
    draw(name, "shuttle-random", seed, random, &model);
    let pct = PctScheduler::new_from_seed(seed, PCT_DEPTH, half);
    draw(name, "shuttle-pct", seed, pct, &model);
}

fn draw(
    name: &str,
    explorer: &str,
    seed: u64,
    scheduler: impl Scheduler + 'static,
    model: &Arc<impl Fn() + Send + Sync + 'static>,
) {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    let count = Arc::new(Count::default());
    let _inside = Inside::new(Mode::Shuttle);
    let (counted, model) = (Arc::clone(&count), Arc::clone(model));
    shuttle::Runner::new(scheduler, config).run(move || Arc::clone(&counted).around(&*model));
    let row = Row::new("proof-models", "tidekv").param("model", name).param("explorer", explorer);
    count.record(row.seed(seed));
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}
