//! One list of operations under many settings: every history is the same, and equals that of an
//! ordered map.
//!
//! A list of operations (`operations.rs`) is generated from a seed, settings (`settings.rs`) from
//! another: limits from absurdly tiny up, all kinds of tables, caches down to zero bytes, in the
//! caller's thread or with threads, on simulated storage that loses power or on a real directory,
//! and disturbed by flushes, evictions and compactions that are not in the list. The results of
//! every operation are compared with those of a plain model (`model.rs`). A difference is shrunk
//! (`shrink.rs`) and printed with the command that repeats it.
//!
//! `TIDEKV_METAMORPHIC_OPERATIONS` sets the number of operations (evidence: 20 000 000),
//! `TIDEKV_METAMORPHIC_SEED` the first seed, and `TIDEKV_METAMORPHIC_REPEAT=LIST:SETTINGS` runs one
//! list under one setting.

#[path = "metamorphic/operations.rs"]
mod operations;
#[path = "metamorphic/answer.rs"]
mod answer;
#[path = "metamorphic/model.rs"]
mod model;
#[path = "metamorphic/settings.rs"]
mod settings;
#[path = "metamorphic/tally.rs"]
mod tally;
#[path = "metamorphic/subject.rs"]
mod subject;
#[path = "metamorphic/shrink.rs"]
mod shrink;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use answer::Answer;
use model::Model;
use operations::{Generator, Operation, PROFILES, Profile};
use parking_lot::Mutex;
use settings::Settings;
use shrink::shrink;
use subject::Subject;
use tally::Tally;
use tidekv_testkit::evidence::Row;

/// Number of settings per list.
const SETTINGS_PER_LIST: u64 = 12;
/// Number of lists to try when shrinking a failing one.
const SHRINKING_TRIES: usize = 600;

/// The profile of list number `list`: short ones are more frequent.
fn profile(list: u64) -> Profile {
    PROFILES[[0, 1, 2, 1, 3, 0, 2, 1][(list % 8) as usize]]
}

/// The model's results, as hashes.
fn history(list: &[Operation]) -> Vec<u64> {
    let (mut model, mut answer) = (Model::new(), Answer::default());
    let run = |operation| {
        answer.clear();
        model.run(operation, &mut answer);
        answer.hash()
    };
    list.iter().map(run).collect()
}

/// Where a history differs from the model's, and how it continues.
#[derive(Debug)]
struct Difference {
    place: usize,
    found: String,
}

/// Runs the list under the settings until a result differs from `expected`.
fn compare(
    list: &[Operation],
    expected: &[u64],
    settings: &Settings,
    tally: &mut Tally,
) -> Option<Difference> {
    let mut place = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut subject = Subject::new(settings);
        let mut answer = Answer::default();
        for (operation, expected) in list.iter().zip(expected) {
            subject.disturb();
            answer.clear();
            subject.run(operation, &mut answer);
            if answer.hash() != *expected {
                return Some(answer.text());
            }
            place += 1;
        }
        subject.finish(tally);
        None
    }));
    match outcome {
        Ok(None) => None,
        Ok(Some(found)) => Some(Difference { place, found }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
            Some(Difference { place, found: format!("a panic: {}", text.unwrap_or_default()) })
        }
    }
}

/// Describes a difference completely.
fn explain(
    list: &[Operation],
    number: u64,
    settings: &Settings,
    difference: &Difference,
) -> String {
    let fails = |list: &[Operation]| {
        compare(list, &history(list), settings, &mut Tally::default()).is_some()
    };
    let cut = &list[..=difference.place];
    // With threads a failure may not repeat.
    let short = if fails(cut) { shrink(cut, SHRINKING_TRIES, fails) } else { cut.to_vec() };
    let last = compare(&short, &history(&short), settings, &mut Tally::default());
    let place = last.as_ref().map_or(short.len() - 1, |difference| difference.place);
    let (mut model, mut answer) = (Model::new(), Answer::default());
    for operation in &short[..=place] {
        answer.clear();
        model.run(operation, &mut answer);
    }
    let tail: Vec<_> = short.iter().rev().take(60).rev().map(|o| format!("  {o:?}\n")).collect();
    format!(
        "list {number} differs at operation {} under {settings}\nrepeat it with \
         TIDEKV_METAMORPHIC_REPEAT={number}:{} cargo test -p tidekv --test metamorphic\n\
         shrunk to {} operations, which end with\n{}\nexpected {}\nfound {}\nat first {}",
        difference.place,
        settings.seed,
        short.len(),
        tail.concat(),
        answer.text(),
        last.map_or_else(|| "no difference any more".to_owned(), |difference| difference.found),
        difference.found,
    )
}

/// The totals of all runs.
#[derive(Debug, Default)]
struct Totals {
    operations: AtomicU64,
    histories: AtomicU64,
    lists: AtomicU64,
    tally: Mutex<Tally>,
    differences: Mutex<Vec<String>>,
}

impl Totals {
    fn goes_on(&self, wanted: u64) -> bool {
        self.operations.load(Ordering::Relaxed) < wanted && self.differences.lock().is_empty()
    }

    /// Runs list `number` under the settings of `seeds`, as long as operations are left to do.
    fn run(&self, number: u64, seeds: impl IntoIterator<Item = u64>, wanted: u64) {
        let profile = profile(number);
        let list = Generator::new(number, profile).list();
        let expected = history(&list);
        self.lists.fetch_add(1, Ordering::Relaxed);
        for seed in seeds {
            if !self.goes_on(wanted) {
                return;
            }
            let settings = Settings::new(seed, &profile);
            let list = &list[..list.len().min(settings.operations_max)];
            let mut tally = Tally::default();
            let difference = compare(list, &expected, &settings, &mut tally);
            if let Some(difference) = difference {
                let text = explain(list, number, &settings, &difference);
                println!("{text}");
                self.differences.lock().push(text);
                continue;
            }
            self.operations.fetch_add(list.len() as u64, Ordering::Relaxed);
            self.histories.fetch_add(1, Ordering::Relaxed);
            self.tally.lock().add(tally);
        }
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn no_setting_changes_a_result() {
    let totals = Totals::default();
    if let Ok(text) = std::env::var("TIDEKV_METAMORPHIC_REPEAT") {
        let (list, seed) = text.split_once(':').expect("LIST:SETTINGS");
        totals.run(list.parse().unwrap(), [seed.parse().unwrap()], u64::MAX);
        assert!(totals.differences.lock().is_empty(), "it differs again");
        return;
    }
    let wanted = number("TIDEKV_METAMORPHIC_OPERATIONS", 300_000);
    let first = number("TIDEKV_METAMORPHIC_SEED", 1);
    let next = AtomicU64::new(first);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while totals.goes_on(wanted) {
                    let list = next.fetch_add(1, Ordering::Relaxed);
                    let seeds = (0..SETTINGS_PER_LIST).map(|i| list * SETTINGS_PER_LIST + i);
                    totals.run(list, seeds, wanted);
                }
            });
        }
    });
    report(&totals, first);
}

fn report(totals: &Totals, seed: u64) {
    let differences = totals.differences.lock();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (operations, histories) = (load(&totals.operations), load(&totals.histories));
    let tally = *totals.tally.lock();
    println!("{operations} operations in {histories} histories, all equal; {tally:?}");
    assert!(tally.flushes > 100 && tally.compactions > 100 && tally.reopenings > 10);
    assert!(tally.kv_hits > 100 && tally.kp_hits > 100 && tally.kp_moves > 10, "{tally:?}");
    assert!(tally.seek_compactions > 0, "{tally:?}");
    assert!(tally.warm_values > 100 && tally.clock_steps > 0, "{tally:?}");
    assert!(tally.tier_hits > 100 && tally.tier_wrong > 100, "{tally:?}");
    assert!(tally.would_block > 0 && tally.conflicts > 0 && tally.levels > 2, "{tally:?}");
    Row::new("proof-metamorphic", "tidekv")
        .seed(seed)
        .param("settings_per_list", SETTINGS_PER_LIST)
        .metric("operations", operations)
        .metric("histories", histories)
        .metric("lists", load(&totals.lists))
        // Each history ran under its own settings.
        .metric("settings", histories)
        .metric("flushes", tally.flushes)
        .metric("compactions", tally.compactions)
        .metric("reopenings", tally.reopenings)
        .metric("kv_hits", tally.kv_hits)
        .metric("kp_hits", tally.kp_hits)
        .metric("kp_errors", tally.kp_errors)
        .metric("kp_moves", tally.kp_moves)
        .metric("warm_values", tally.warm_values)
        .metric("stale_inserts", tally.stale_inserts)
        .metric("tier_hits", tally.tier_hits)
        .metric("tier_wrong", tally.tier_wrong)
        .metric("seek_compactions", tally.seek_compactions)
        .metric("clock_steps", tally.clock_steps)
        .metric("differences", differences.len() as u64)
        .metric("losses", differences.len() as u64)
        .record();
}
