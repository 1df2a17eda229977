//! Storage I/Os per operation of the cache policies over a modelled tree.
//!
//! ```sh
//! cargo run --release -p tidekv-lab --example simulation                    # all loads
//! cargo run --release -p tidekv-lab --example simulation -- get-zipf-0.99
//! cargo run --release -p tidekv-lab --example simulation -- get-hot 1 best  # every split
//!     cargo run --release -p tidekv-lab --example simulation -- ablation        # without mechanisms
//! cargo run --release -p tidekv-lab --example simulation -- get-hot-keys 1 seeds=3,4,5 \
//!     tide fixed:50,30,20                                    # policies by name, and seeds
//! ```
//!
//! Arguments: a prefix of a load's name, the budget in percent of the data, and `best` to search
//! for the best fixed split in tenths (66 runs); or, after `seeds=`, seeds and the policies to run
//! with each of them. Prints a table and writes a row for each run (`TIDEKV_ROWS`). `ablation`: ten
//! loads under `adaptive`, under `adaptive` without each of its mechanisms, and under other
//! policies. (The tree does not change, so two mechanisms for tree changes are not included.)

use tidekv_cache::{Ablation, Ablations, CachePolicy};
use tidekv_lab::load::keys::Choice;
use tidekv_lab::simulation::simulator::{Load, Outcome, budget, simulate};
use tidekv_testkit::evidence::Row;

const ENTRIES: u64 = 1_000_000;
const OPERATIONS: u64 = 1_000_000;
const SEED: u64 = 3;
/// Block caches alone: LRU, CLOCK, S3-FIFO, and LRU with admission.
const OF_BLOCKS: [CachePolicy; 4] = [
    CachePolicy::BlockOnly,
    CachePolicy::BlockClock,
    CachePolicy::BlockS3Fifo,
    CachePolicy::Fixed { kv: 0, kp: 0 },
];
const PERCENTS: [f64; 4] = [0.1, 1.0, 5.0, 10.0];

fn loads() -> Vec<Load> {
    let zipf = |alpha| Choice::Zipf { alpha, is_scattered: true };
    let hot = |operations, run| Choice::Hot { entries: 0.01, operations, run };
    let load = |name, choice, scans| Load { name, choice, scans };
    vec![
        load("get-zipf-0.99", zipf(0.99), 0.0),
        load("get-zipf-0.8", zipf(0.8), 0.0),
        load("get-hot-keys", hot(0.9, 1), 0.0),
        load("get-hot-ranges", hot(0.99, 1000), 0.0),
        load("mixed-zipf-0.99", zipf(0.99), 0.5),
        load("mixed-zipf-0.8", zipf(0.8), 0.5),
        load("mixed-hot-keys", hot(0.9, 1), 0.5),
        load("mixed-hot-ranges", hot(0.99, 1000), 0.5),
        load("scan-zipf-0.99", zipf(0.99), 1.0),
        load("scan-zipf-0.8", zipf(0.8), 1.0),
        load("scan-hot-keys", hot(0.9, 1), 1.0),
        load("scan-hot-ranges", hot(0.99, 1000), 1.0),
    ]
}

/// The ablation: loads, and the caches in percent of the data.
const ABLATION: [(&str, f64); 10] = [
    ("get-zipf-0.99", 1.0),
    ("mixed-zipf-0.99", 1.0),
    ("mixed-zipf-0.99", 5.0),
    ("get-hot-keys", 5.0),
    ("mixed-hot-ranges", 1.0),
    ("get-zipf-0.99", 0.1),
    ("get-zipf-0.8", 0.1),
    ("get-hot-keys", 1.0),
    ("mixed-zipf-0.99", 0.1),
    ("scan-hot-ranges", 1.0),
];
/// Other policies to compare `adaptive` with.
const OTHERS: [CachePolicy; 5] = [
    CachePolicy::AC_KEY,
    CachePolicy::Fixed { kv: 0, kp: 100 },
    CachePolicy::Fixed { kv: 100, kp: 0 },
    CachePolicy::Fixed { kv: 0, kp: 0 },
    CachePolicy::BlockOnly,
];

fn run(policy: CachePolicy, load: &Load, percent: f64) -> Outcome {
    run_with(policy, load, percent, SEED)
}

fn run_with(policy: CachePolicy, load: &Load, percent: f64, seed: u64) -> Outcome {
    let outcome = simulate(policy, load, ENTRIES, budget(ENTRIES, percent), OPERATIONS, seed);
    let [kv, kp, block] = outcome.split;
    Row::new("ackey-simulation", &format!("sim:{policy}"))
        .param("load", load.name)
        .param("cache_percent", percent)
        .param("entries", ENTRIES)
        .param("operations", OPERATIONS)
        .metric("reads_per_op", outcome.reads_per_op)
        .metric("kv_bytes", kv)
        .metric("kp_bytes", kp)
        .metric("block_bytes", block)
        .seed(seed)
        .record();
    outcome
}

/// The best of all fixed splits.
fn best(load: &Load, percent: f64) -> (CachePolicy, f64) {
    let splits = (0..=100u8)
        .step_by(10)
        .flat_map(|kv| (0..=100 - kv).step_by(10).map(move |kp| CachePolicy::Fixed { kv, kp }));
    let runs = splits.map(|policy| (policy, run(policy, load, percent).reads_per_op));
    runs.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are splits")
}

/// The share of each component, as text.
fn parts(outcome: &Outcome) -> String {
    let total: usize = outcome.split.iter().sum();
    let [kv, kp, block] = outcome.split.map(|bytes| bytes * 100 / total.max(1));
    format!("{kv}, {kp}, {block} %")
}

/// Prints the effect of each mechanism, and that of the policies in `others`.
fn ablation(others: impl Iterator<Item = CachePolicy>) {
    let loads = loads();
    let cells = ABLATION.map(|(name, percent)| {
        let load = loads.iter().find(|load| load.name == name).expect("loads have these names");
        (load, percent)
    });
    let all = cells.map(|(load, percent)| run(CachePolicy::Adaptive, load, percent).reads_per_op);
    println!("| | {} |", cells.map(|(load, p)| format!("{}, {p} %", load.name)).join(" | "));
    println!("|---|{}", "---|".repeat(cells.len()));
    println!("| tide | {} |", all.map(|reads| format!("{reads:.3}")).join(" | "));
    let without = Ablations::all()
        .filter(|(idea, _)| !matches!(idea, Ablation::Repair | Ablation::Sync))
        .map(|(idea, _)| CachePolicy::AdaptiveWithout(Ablations::NONE.and(idea)));
    for policy in without.chain(OTHERS).chain(others) {
        let ratios = cells.iter().zip(all).map(|((load, percent), all)| {
            format!("{:.2}", run(policy, load, *percent).reads_per_op / all)
        });
        println!("| {policy} | {} |", ratios.collect::<Vec<_>>().join(" | "));
    }
}

/// Prints the reads of policies with each of the seeds, as in `seeds=3,4,5`, and their mean.
fn with_seeds(load: &Load, percent: f64, seeds: &str, policies: &[String]) {
    let seeds: Vec<u64> =
        seeds.split(',').map(|seed| seed.parse().expect("a seed is a number")).collect();
    for text in policies {
        let policy: CachePolicy = text.parse().expect("a policy");
        let reads: Vec<f64> =
            seeds.iter().map(|&s| run_with(policy, load, percent, s).reads_per_op).collect();
        let mean = reads.iter().sum::<f64>() / reads.len() as f64;
        println!("| {} | {percent} % | {policy} | {mean:.4} | {reads:.4?} |", load.name);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "ablation") {
        return ablation(arguments.iter().skip(1).map(|text| text.parse().expect("a policy")));
    }
    let wanted = arguments.first().map_or("", |name| name);
    let percent = arguments.get(1).and_then(|text| text.parse::<f64>().ok());
    let loads = loads();
    let chosen = loads.iter().filter(|load| load.name.starts_with(wanted)).flat_map(|load| {
        let percents = PERCENTS.into_iter().filter(|p| percent.is_none_or(|wanted| wanted == *p));
        percents.map(move |percent| (load, percent))
    });
    let named = arguments.iter().enumerate().find_map(|(at, word)| {
        word.strip_prefix("seeds=").map(|seeds| (seeds, &arguments[at + 1..]))
    });
    if let Some((seeds, policies)) = named {
        chosen.for_each(|(load, percent)| with_seeds(load, percent, seeds, policies));
        return;
    }
    let looks_for_best = arguments.iter().any(|word| word == "best");
    println!(
        "| load | cache | LRU | CLOCK | S3-FIFO | admission | hac | KV, KP, blocks | tide | \
         KV, KP, blocks | of LRU | best fixed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (load, percent) in chosen {
        let [lru, clock, s3_fifo, admission] =
            OF_BLOCKS.map(|policy| run(policy, load, percent).reads_per_op);
        let hac = run(CachePolicy::AC_KEY, load, percent);
        let tide = run(CachePolicy::Adaptive, load, percent);
        let found = looks_for_best.then(|| best(load, percent));
        let best = found.map_or_else(String::new, |(policy, reads)| {
            format!("{reads:.3} ({}), {:.2}", policy, tide.reads_per_op / reads)
        });
        println!(
            "| {} | {percent} % | {lru:.3} | {clock:.3} | {s3_fifo:.3} | {admission:.3} | \
             {:.3} | {} | {:.3} | {} | {:.2} | {best} |",
            load.name,
            hac.reads_per_op,
            parts(&hac),
            tide.reads_per_op,
            parts(&tide),
            tide.reads_per_op / lru,
        );
    }
}
