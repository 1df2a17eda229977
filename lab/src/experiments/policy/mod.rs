//! The experiments `policy-*`: the effects of RocksDB's cache options, as measured in "Exploring
//! Cache Policies in RocksDB" (Gallardo and Friedman), and the same loads on TideKV, which has none
//! of these options.
//!
//! A store has a million entries of 128 bytes, 8 of them the key; the number of gets equals the
//! number of entries, beginning with an empty cache; the cache is a percentage of the data and,
//! unless stated otherwise, contains the metadata. With Zipf's law, popular keys are scattered.
//! `zipf` is its exponent, 0 for uniform keys. Every point is measured with direct reads and with
//! reads through the kernel's page cache, as the paper does not say which it measured. Points of
//! ten million entries are fewer.
//!
//! The paper does not state the size of write buffers, but Table 2 implies it: a query checks 3.835
//! filters and 1.027 indexes, so most entries are in one run and those of three write buffers are
//! on level 0 above it. With buffers of 6 MiB it is 3.838 and 1.027 here. The table size is not
//! known; tables of the run have 8 MiB, and where it matters RocksDB's default of 64
//! ([`large_tables`]), whose filters are as large as a part of the cache.

mod statements;

use self::statements::{OF_LUCK, OF_PINNING, OF_PRIORITY, OF_PRIORITY_RATIO, OF_SIZE_SKEW, ROCKS};
use crate::experiment::{Experiment, Figure, Point, Rule, Shape, Subjects, Target};
use crate::experiments::scenario::Scenario;
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subject::Choices;

const VALUE_BYTES: u64 = 120;

/// Of the entries of the usual scale: a million.
const ENTRIES_SHARE: u64 = 10;
/// The factor of entries of large stores; a fifth of them is requested, as a query takes as long.
const LARGE_TIMES: u64 = 10;
const LARGE_SHARE: u64 = 5;
/// Stores that differ by chance are many, and each gets one in this number of the requests.
const LUCK_SHARE: u64 = 5;
/// A quick run makes one in this number of the requests.
const QUICK_SHARE: u64 = 10;

/// The cache in percent of the data (section 3.3 of the paper).
const SIZES: &[f64] = &[2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 65.0, 80.0, 95.0, 110.0];
const FEW_SIZES: &[f64] = &[2.0, 5.0, 10.0, 20.0, 50.0, 110.0];
const QUICK_SIZES: &[f64] = &[2.0, 20.0];

/// Exponents of Zipf's law (section 3.1); 0: uniform keys.
const ALPHAS: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const FEW_ALPHAS: &[f64] = &[0.0, MODERATE, 1.0];
/// The paper's default where it varies another parameter.
const MODERATE: f64 = 0.3;
const MODERATE_SIZE: f64 = 20.0;

const SMALL_TABLE_MIB: u32 = 8;
const LARGE_TABLE_MIB: u32 = 64;

/// The default scenario.
pub(crate) fn usual(scale: &Scale) -> Scenario {
    Scenario {
        entries: entries(scale),
        value_bytes: VALUE_BYTES,
        operations: operations(scale, entries(scale)),
        threads: scale.threads.last().copied().unwrap_or(1),
        cache_percent: MODERATE_SIZE,
        zipf: MODERATE,
        mix: Vec::new(),
        is_buffered: false,
        choices: Choices::new(),
    }
    .choosing("buffer_mib", 6)
    .choosing("table_mib", SMALL_TABLE_MIB)
}

/// With RocksDB's default table size. Where their metadata is read repeatedly, a query takes half a
/// millisecond, so there are fewer.
fn large_tables(scale: &Scale) -> Scenario {
    let usual = usual(scale);
    let operations = usual.operations / if scale.is_quick { 10 } else { 20 };
    Scenario { operations, ..usual }.choosing("table_mib", LARGE_TABLE_MIB)
}

fn operations(scale: &Scale, of_entries: u64) -> u64 {
    match () {
        () if scale.is_quick => of_entries / QUICK_SHARE,
        () if of_entries > entries(scale) => of_entries / LARGE_SHARE,
        () => of_entries,
    }
}

/// Entries of a store that many points use: a tenth of the scale's, all in a quick run.
pub(crate) fn entries(scale: &Scale) -> u64 {
    if scale.is_quick { scale.entries } else { (scale.entries / ENTRIES_SHARE).max(1) }
}

/// Each scenario with direct reads, and also through the kernel's page cache unless the run is a
/// quick one.
fn points(scale: &Scale, scenarios: Vec<Scenario>) -> Vec<Point> {
    let ways: &[bool] = if scale.is_quick { &[false] } else { &[false, true] };
    let with_each_way = |scenario: &Scenario| {
        ways.iter()
            .map(|&is_buffered| Scenario { is_buffered, ..scenario.clone() })
            .collect::<Vec<_>>()
    };
    let all = scenarios.iter().flat_map(with_each_way);
    all.map(|scenario| scenario.point()).collect()
}

/// A scenario with every cache size and every exponent.
fn grid(usual: &Scenario, sizes: &[f64], alphas: &[f64]) -> Vec<Scenario> {
    let skewed = alphas.iter().map(|&zipf| Scenario { zipf, ..usual.clone() });
    at_each_size(&skewed.collect::<Vec<_>>(), sizes)
}

fn at_each_size(scenarios: &[Scenario], sizes: &[f64]) -> Vec<Scenario> {
    let sized = |scenario: &Scenario| {
        let scenario = scenario.clone();
        sizes.iter().map(move |&cache_percent| Scenario { cache_percent, ..scenario.clone() })
    };
    scenarios.iter().flat_map(sized).collect()
}

/// The same with few of each for ten times the entries.
fn large_grid(scale: &Scale) -> Vec<Scenario> {
    match scale.is_quick {
        true => Vec::new(),
        false => {
            let entries = entries(scale) * LARGE_TIMES;
            let operations = operations(scale, entries);
            grid(&Scenario { entries, operations, ..usual(scale) }, FEW_SIZES, FEW_ALPHAS)
        }
    }
}

/// Every scenario with every value of a choice.
fn with_each(
    scenarios: &[Scenario],
    name: &'static str,
    values: &[impl ToString],
) -> Vec<Scenario> {
    let with_values = |scenario: &Scenario| {
        let scenario = scenario.clone();
        values
            .iter()
            .map(move |value| scenario.clone().choosing(name, value.to_string()))
            .collect::<Vec<_>>()
    };
    scenarios.iter().flat_map(with_values).collect()
}

/// Few sizes with few exponents; in a quick run two with one.
fn few(scale: &Scale) -> Vec<Scenario> {
    match scale.is_quick {
        true => grid(&usual(scale), QUICK_SIZES, &[MODERATE]),
        false => grid(&usual(scale), FEW_SIZES, FEW_ALPHAS),
    }
}

fn size_skew(scale: &Scale) -> Vec<Point> {
    let mut scenarios = match scale.is_quick {
        true => grid(&usual(scale), QUICK_SIZES, &[0.0, 1.0]),
        false => grid(&usual(scale), SIZES, ALPHAS),
    };
    scenarios.extend(large_grid(scale));
    points(scale, scenarios)
}

fn pinning(scale: &Scale) -> Vec<Point> {
    points(scale, with_each(&few(scale), "pinning", &["none", "flushed", "all"]))
}

fn priority(scale: &Scale) -> Vec<Point> {
    points(scale, with_each(&few(scale), "priority", &["low", "high"]))
}

fn priority_ratio(scale: &Scale) -> Vec<Point> {
    let shares: &[u32] = if scale.is_quick { &[0, 50, 100] } else { &[0, 10, 25, 50, 75, 90, 100] };
    let sizes: &[f64] = if scale.is_quick { &[MODERATE_SIZE] } else { &[2.0, 5.0, MODERATE_SIZE] };
    let scenarios = grid(&usual(scale), sizes, &[MODERATE]);
    let scenarios = with_each(&scenarios, "pinning", &["flushed"]);
    points(scale, with_each(&scenarios, "priority_percent", shares))
}

fn shards(scale: &Scale) -> Vec<Point> {
    let (bits, small, large): (&[&str], _, _) = match scale.is_quick {
        true => (&["auto", "0"], QUICK_SIZES, QUICK_SIZES),
        false => (&["auto", "0", "2", "4", "6"], FEW_SIZES, SIZES),
    };
    let mut scenarios = grid(&usual(scale), small, &[MODERATE]);
    scenarios.extend(grid(&large_tables(scale), large, &[MODERATE]));
    points(scale, with_each(&scenarios, "shard_bits", bits))
}

/// The query of Table 2 with stores that differ only in the placement of their blocks in the cache.
/// Reads go through the kernel's page cache, as there are many of large blocks.
fn luck(scale: &Scale) -> Vec<Point> {
    let (tables, builds): (&[u32], u32) = match scale.is_quick {
        true => (&[LARGE_TABLE_MIB], 2),
        false => (&[SMALL_TABLE_MIB, 32, LARGE_TABLE_MIB], 8),
    };
    let usual = usual(scale);
    let operations = usual.operations / LUCK_SHARE;
    let usual = Scenario { is_buffered: true, operations, ..usual };
    let of_tables = with_each(&[usual], "table_mib", tables);
    let of_builds = with_each(&of_tables, "build", &(1..=builds).collect::<Vec<_>>());
    let of_sizes = at_each_size(&of_builds, &[5.0, 15.0, MODERATE_SIZE]);
    let of_shards = with_each(&of_sizes, "shard_bits", &["auto", "0"]);
    let scenarios = with_each(&of_shards, "priority", &["low", "high"]);
    scenarios.iter().map(Scenario::point).collect()
}

fn placement(scale: &Scale) -> Vec<Point> {
    let mut scenarios = few(scale);
    if !scale.is_quick {
        scenarios.extend(grid(&large_tables(scale), SIZES, &[MODERATE]));
    }
    points(scale, with_each(&scenarios, "metadata", &["cache", "parts", "beside"]))
}

/// The other operations that section 4.1 could have measured, in percent of the operations.
const MIXES: &[&[(Kind, u32)]] =
    &[&[], &[(Kind::Scan, 50)], &[(Kind::Put, 20)], &[(Kind::GetAbsent, 50)]];

fn hyperclock(scale: &Scale) -> Vec<Point> {
    let (mixes, sizes, alphas): (_, &[f64], _) = match scale.is_quick {
        true => (&MIXES[..1], QUICK_SIZES, &[MODERATE][..]),
        false => (MIXES, &[5.0, MODERATE_SIZE, 50.0], FEW_ALPHAS),
    };
    let gets = grid(&usual(scale), sizes, alphas);
    let of_mix = |mix: &&[(Kind, u32)]| {
        let mix = mix.to_vec();
        gets.clone().into_iter().map(move |scenario| Scenario { mix: mix.clone(), ..scenario })
    };
    let scenarios: Vec<Scenario> = mixes.iter().flat_map(of_mix).collect();
    let both = with_each(&scenarios, "block_cache", &["lru", "hyperclock"]);
    let clock = with_each(&gets, "block_cache", &["hyperclock"]);
    let with_estimates = with_each(&clock, "entry_bytes", &[4096, 8192]);
    let large = match scale.is_quick {
        true => Vec::new(),
        false => grid(&large_tables(scale), SIZES, &[MODERATE]),
    };
    let of_large = with_each(&large, "block_cache", &["lru", "hyperclock"]);
    points(scale, [both, with_estimates, of_large].concat())
}

const fn lines(
    title: &'static str,
    metric: &'static str,
    x: &'static str,
    y: &'static str,
) -> Figure<'static> {
    Figure { title, metric, x, y, shape: Shape::Lines }
}

const fn map(
    title: &'static str,
    metric: &'static str,
    x: &'static str,
    y: &'static str,
) -> Figure<'static> {
    Figure { title, metric, x, y, shape: Shape::Map }
}

/// All of them, in the order of listing and running.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "policy-size-skew",
        about: "caches of 2 to 110 % of the data, keys by Zipf's law with exponents of 0.1 to 1 \
                and uniform keys (RocksDB's cache policies, Figs. 2 and 3)",
        paper: "more skew and a larger cache give more hits, and the time to read falls as they \
                rise; beyond a cache of 20 % of the data there is little more to gain, also where \
                all keys are alike, which the paper cannot explain",
        claim: "hits of data blocks grow linearly with the cache for uniform keys; those of \
                metadata, which the paper includes, are complete from the beginning; TideKV \
                never reads more with a larger cache",
        subjects: Subjects::Only(&[ROCKS, "tidekv:tide"]),
        points: size_skew,
        targets: &[Target::new(
            "reads_per_op",
            Rule::RatioToNextBelowAtMost("cache_percent", 1.02),
        )],
        figures: &[
            lines("Lookups that the cache answers", "block_hits", "cache_percent", "zipf"),
            lines("Time for all queries (s)", "seconds", "cache_percent", "zipf"),
            lines("Data blocks found in the cache", "data_hits", "cache_percent", "zipf"),
            map("Reads per operation", "reads_per_op", "cache_percent", "zipf"),
        ],
        statements: OF_SIZE_SKEW,
    },
    Experiment {
        name: "policy-pinning",
        about: "metadata not pinned, pinned for flushed tables, or all pinned (Fig. 4)",
        paper: "the more is pinned, the fewer hits there are; the paper expected the opposite",
        claim: "pinned blocks are never looked up, so their hits are not counted; reads do not \
                increase",
        subjects: Subjects::Only(&[ROCKS]),
        points: pinning,
        figures: &[
            lines("Lookups that the cache answers", "block_hits", "cache_percent", "pinning"),
            lines("Data blocks found in the cache", "data_hits", "cache_percent", "pinning"),
            map("Reads per operation", "reads_per_op", "cache_percent", "pinning"),
        ],
        statements: OF_PINNING,
        ..Experiment::USUAL
    },
    Experiment {
        name: "policy-priority",
        about: "metadata with high priority in the cache, and without (Fig. 5, Table 2)",
        paper: "no effect on hits; blocks of indexes are read 703 times with regular priority and \
                6109 times with high, those of filters 453 and 3774 times, of a million queries \
                with a cache of 20 % and an exponent of 0.3",
        claim: "no effect on the same store: a block with a hit counts as high priority, and \
                metadata is hit immediately; see policy-luck for Table 2",
        subjects: Subjects::Only(&[ROCKS]),
        points: priority,
        figures: &[
            lines("Lookups that the cache answers", "block_hits", "cache_percent", "priority"),
            map("Blocks of indexes read", "index_reads", "cache_percent", "priority"),
            map("Blocks of filters read", "filter_reads", "cache_percent", "priority"),
        ],
        statements: OF_PRIORITY,
        ..Experiment::USUAL
    },
    Experiment {
        name: "policy-luck",
        about: "the query of Table 2 with stores that differ only in the placement of their \
                blocks in the cache, with tables of three sizes, and with one cache shard",
        paper: "8 times as many blocks of metadata are read with high priority",
        claim: "with 16 or 32 cache shards some stores read metadata repeatedly and others do \
                not, with either priority; with one shard none does",
        subjects: Subjects::Only(&[ROCKS]),
        points: luck,
        figures: &[
            map("Blocks of indexes read", "index_reads", "build", "priority"),
            map("Blocks of filters read", "filter_reads", "build", "priority"),
        ],
        statements: OF_LUCK,
        ..Experiment::USUAL
    },
    Experiment {
        name: "policy-priority-ratio",
        about: "0 to 100 % of the cache for high-priority blocks (Fig. 6)",
        paper: "no effect",
        claim: "no effect: see policy-priority",
        subjects: Subjects::Only(&[ROCKS]),
        points: priority_ratio,
        figures: &[
            lines(
                "Lookups that the cache answers",
                "block_hits",
                "priority_percent",
                "cache_percent",
            ),
            map("Reads per operation", "reads_per_op", "priority_percent", "cache_percent"),
        ],
        statements: OF_PRIORITY_RATIO,
        ..Experiment::USUAL
    },
    Experiment {
        name: "policy-shards",
        about: "the cache in 1 to 64 shards, and in RocksDB's automatic number (Table 1)",
        claim: "where a shard is hardly larger than a filter, filters are read repeatedly: a \
                cache of 15 % then reads far more than one of 10 %, as it has twice the shards",
        subjects: Subjects::Only(&[ROCKS]),
        points: shards,
        figures: &[
            lines("Lookups that the cache answers", "block_hits", "shard_bits", "cache_percent"),
            map("Reads per operation", "reads_per_op", "shard_bits", "cache_percent"),
        ],
        ..Experiment::USUAL
    },
    Experiment {
        name: "policy-placement",
        about: "metadata in the cache, partitioned in the cache, and outside of it (Table 1)",
        claim: "whole metadata ruins small caches, partitioned metadata does not; outside the \
                cache it takes uncounted memory",
        subjects: Subjects::Only(&[ROCKS]),
        points: placement,
        figures: &[
            lines("Data blocks found in the cache", "data_hits", "cache_percent", "metadata"),
            map("Reads per operation", "reads_per_op", "cache_percent", "metadata"),
        ],
        ..Experiment::USUAL
    },
    Experiment {
        name: "policy-hyperclock",
        about: "RocksDB's newer cache with its parameter, with gets alone and with scans, puts \
                and absent keys, and with large tables (section 4.1)",
        paper: "left for later",
        claim: "about the hits of LRU; where LRU's shards are hardly larger than filters far \
                fewer reads, as HyperClock's shards have 32 MiB",
        subjects: Subjects::Only(&[ROCKS]),
        points: hyperclock,
        figures: &[
            lines("Lookups that the cache answers", "block_hits", "cache_percent", "block_cache"),
            map("Reads per operation", "reads_per_op", "cache_percent", "block_cache"),
            map("Operations per second", "ops_per_s", "cache_percent", "block_cache"),
        ],
        ..Experiment::USUAL
    },
];
