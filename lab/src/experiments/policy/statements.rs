//! The statements of "Exploring Cache Policies in RocksDB" (Gallardo and Friedman) about its
//! figures and Table 2, each checked against rows.
//!
//! Counts of a fixed number of operations hardly differ between turns, so tolerances are narrow: a
//! hundredth for "no effect".

use tidekv_testkit::evidence::Row;

use crate::experiment::{Answer, Statement};
use crate::groups::{Group, along};
use crate::quantity::{show_count, show_number, show_range};

/// The subject with the options of the paper.
pub(super) const ROCKS: &str = "rocksdb:options";

/// A smaller difference of counts is none.
const SAME: f64 = 0.01;
/// The paper's point beyond which the cache has little effect (section 3.3).
const KNEE: &str = "20";
/// Its largest cache.
const LARGEST: &str = "110";
/// The entries and the queries of Table 2.
const OF_TABLE_2: &str = "1000000";
/// A smaller distance counts as a straight line: over the sizes of the paper the square root bends
/// by 0.16, `x` to the 0.9 by 0.032.
const STRAIGHT: f64 = 0.03;
/// With fewer reads of a kind, their ratio is chance.
const MANY_READS: f64 = 500.0;

pub(super) const OF_SIZE_SKEW: &[Statement] = &[
    Statement {
        says: "Fig. 2: the more skew, the more hits",
        ask: |rows| rises(rows, "zipf", "block_hits"),
    },
    Statement {
        says: "Fig. 2: the larger the cache, the more hits",
        ask: |rows| rises(rows, "cache_percent", "block_hits"),
    },
    Statement {
        says: "Fig. 3: the time to read is an inverse of the hits",
        ask: |rows| {
            let of = |group: &Group<'_>| {
                let both = |row: &&Row| Some((row.number("block_hits")?, row.number("seconds")?));
                let dots: Vec<(f64, f64)> = group.rows.iter().filter_map(both).collect();
                correlation(&dots)
            };
            let groups = along(rows, ROCKS, "cache_percent");
            let of_io = |io: &str| -> Vec<f64> {
                let is_it = |group: &&Group<'_>| group.has("io", io);
                groups.iter().filter(is_it).filter_map(of).collect()
            };
            let (direct, buffered) = (of_io("direct"), of_io("buffered"));
            let weakest = direct.iter().chain(&buffered).copied().reduce(f64::max)?;
            Some(Answer {
                holds: weakest <= -0.8,
                found: format!(
                    "over the sizes of the cache, hits and seconds have a correlation of {} with \
                     direct reads, of {} with buffered ones",
                    show_range(&direct),
                    show_range(&buffered)
                ),
            })
        },
    },
    Statement {
        says: "the benefit largely rounds off beyond a cache of 20 % of the data",
        ask: |rows| {
            let all = alike(rows, "block_hits", |at, end| at / end)?;
            let data = alike(rows, "data_hits", |at, end| at / end)?;
            Some(Answer {
                // The statement holds if most of the gain is reached by then.
                holds: all.iter().all(|share| *share >= 0.8),
                found: format!(
                    "where all keys are alike, a cache of 20 % has {} of the hits that one of \
                     110 % has; of those of data blocks it has {}",
                    show_range(&all),
                    show_range(&data)
                ),
            })
        },
    },
    Statement {
        says: "section 4.1: hits do not grow linearly with the cache where all keys are alike",
        ask: |rows| {
            let bend = |group: &Group<'_>| {
                let dots = group.dots("cache_percent", "data_hits");
                // A cache larger than the data gains no hits.
                let within: Vec<_> = dots.into_iter().filter(|dot| dot.0 < 100.0).collect();
                bend(&within)
            };
            let all: Vec<f64> = uniform(rows).iter().filter_map(bend).collect();
            let most = all.iter().copied().reduce(f64::max)?;
            Some(Answer {
                holds: most > STRAIGHT,
                found: format!(
                    "hits of data blocks are at most {} of the last of them from a straight line \
                     between the smallest and the largest cache",
                    show_range(&all)
                ),
            })
        },
    },
];

pub(super) const OF_PINNING: &[Statement] = &[
    Statement {
        says: "Fig. 4: pinning less results in more hits",
        ask: |rows| {
            let all = times(rows, "pinning", "all", "none", "block_hits")?;
            let flushed = times(rows, "pinning", "flushed", "none", "block_hits")?;
            let holds = all.iter().chain(&flushed).all(|times| *times <= 1.0 + SAME)
                && all.iter().all(|times| *times < 1.0 - SAME);
            let found = format!(
                "with all pinned {} times the hits of nothing pinned, with what was flushed {}",
                show_range(&all),
                show_range(&flushed)
            );
            Some(Answer { holds, found })
        },
    },
    Statement {
        says: "pinning harms performance",
        ask: |rows| {
            let data = times(rows, "pinning", "all", "none", "data_hits")?;
            let reads = times(rows, "pinning", "all", "none", "reads_per_op")?;
            let holds = reads.iter().any(|times| *times > 1.0 + SAME);
            let found = format!(
                "with all pinned {} times the hits of data blocks, and {} times the reads of a \
                 query",
                show_range(&data),
                show_range(&reads)
            );
            Some(Answer { holds, found })
        },
    },
];

pub(super) const OF_PRIORITY: &[Statement] = &[
    Statement {
        says: "Fig. 5: metadata priority has no effect on hits",
        ask: |rows| {
            let times = times(rows, "priority", "high", "low", "block_hits")?;
            let holds = times.iter().all(|times| (times - 1.0).abs() <= SAME);
            let found = format!("with high priority {} times the hits", show_range(&times));
            Some(Answer { holds, found })
        },
    },
    Statement {
        says: "Table 2: 1,026,500 and 1,021,094 hits of indexes with regular and high priority",
        ask: |rows| of_table_2(rows, "index_hits", [1_026_500.0, 1_021_094.0]),
    },
    Statement {
        says: "Table 2: 703 and 6,109 blocks of indexes read",
        ask: |rows| of_table_2(rows, "index_reads", [703.0, 6109.0]),
    },
    Statement {
        says: "Table 2: 3,834,346 and 3,831,024 hits of filters",
        ask: |rows| of_table_2(rows, "filter_hits", [3_834_346.0, 3_831_024.0]),
    },
    Statement {
        says: "Table 2: 453 and 3,774 blocks of filters read",
        ask: |rows| of_table_2(rows, "filter_reads", [453.0, 3774.0]),
    },
];

pub(super) const OF_LUCK: &[Statement] = &[Statement {
    says: "Table 2: 8 times as many blocks of metadata are read with high priority",
    ask: |rows| {
        let metadata = |row: &Row| Some(row.number("index_reads")? + row.number("filter_reads")?);
        let ratio = |group: &Group<'_>| {
            let [low, high] = ["low", "high"]
                .map(|name| group.rows.iter().find(|row| row.params["priority"] == name).copied());
            let (low, high) = (metadata(low?)?, metadata(high?)?);
            (low.max(high) >= MANY_READS).then_some(high / low)
        };
        let of_priority: Vec<f64> =
            along(rows, ROCKS, "priority").iter().filter_map(ratio).collect();
        let spread = |group: &Group<'_>| {
            let reads: Vec<f64> = group.rows.iter().filter_map(|row| metadata(row)).collect();
            let least = reads.iter().copied().fold(f64::INFINITY, f64::min);
            let most = reads.iter().copied().fold(0.0, f64::max);
            (reads.len() > 1 && most >= MANY_READS).then_some(most / least.max(1.0))
        };
        let of_builds: Vec<f64> = along(rows, ROCKS, "build").iter().filter_map(spread).collect();
        if of_priority.is_empty() || of_builds.is_empty() {
            return None;
        }
        Some(Answer {
            holds: of_priority.iter().any(|times| *times >= 2.0),
            found: format!(
                "where at least {MANY_READS} are read, {} times as many with high priority of the \
                 same store; between stores that differ by nothing but luck {} times",
                show_range(&of_priority),
                show_range(&of_builds)
            ),
        })
    },
}];

pub(super) const OF_PRIORITY_RATIO: &[Statement] = &[Statement {
    says: "Fig. 6: varying the priority ratio has no effect",
    ask: |rows| {
        let of = |group: &Group<'_>| {
            let hits: Vec<f64> =
                group.rows.iter().filter_map(|row| row.number("block_hits")).collect();
            let least = hits.iter().copied().reduce(f64::min)?;
            Some(hits.iter().copied().fold(0.0, f64::max) / least)
        };
        let all: Vec<f64> = along(rows, ROCKS, "priority_percent").iter().filter_map(of).collect();
        let most = all.iter().copied().reduce(f64::max)?;
        Some(Answer {
            holds: most <= 1.0 + SAME,
            found: format!("the best ratio has {} times the hits of the worst", show_range(&all)),
        })
    },
}];

/// Whether a metric rises with a parameter, within the tolerance.
fn rises(rows: &[&Row], axis: &str, metric: &str) -> Option<Answer> {
    let groups = along(rows, ROCKS, axis);
    let dots = groups.iter().map(|group| group.dots(axis, metric));
    let steps: Vec<f64> = dots
        .flat_map(|dots| dots.windows(2).map(|pair| pair[1].1 / pair[0].1).collect::<Vec<_>>())
        .collect();
    let falls = steps.iter().filter(|times| **times < 1.0 - SAME).count();
    let least = steps.iter().copied().reduce(f64::min)?;
    Some(Answer {
        holds: falls == 0,
        found: format!(
            "{} of {} steps are down by more than a hundredth; the least is {} times",
            falls,
            steps.len(),
            show_number(least)
        ),
    })
}

/// The ratio of a metric between two values of a parameter, at each point.
fn times(rows: &[&Row], axis: &str, value: &str, other: &str, metric: &str) -> Option<Vec<f64>> {
    let of = |group: &Group<'_>| {
        let below = group.at(axis, other, metric).filter(|number| *number > 0.0)?;
        Some(group.at(axis, value, metric)? / below)
    };
    let all: Vec<f64> = along(rows, ROCKS, axis).iter().filter_map(of).collect();
    (!all.is_empty()).then_some(all)
}

/// Caches of all sizes with uniform keys.
fn uniform<'a>(rows: &[&'a Row]) -> Vec<Group<'a>> {
    let mut groups = along(rows, ROCKS, "cache_percent");
    groups.retain(|group| group.has("zipf", "0"));
    groups
}

/// A metric at 20 % and with the largest cache, with uniform keys.
fn alike(rows: &[&Row], metric: &str, of: fn(f64, f64) -> f64) -> Option<Vec<f64>> {
    let both = |group: &Group<'_>| {
        let end = group.at("cache_percent", LARGEST, metric)?;
        Some(of(group.at("cache_percent", KNEE, metric)?, end))
    };
    let all: Vec<f64> = uniform(rows).iter().filter_map(both).collect();
    (!all.is_empty()).then_some(all)
}

/// A row of Table 2 next to our counts with the same load: a cache of 20 % and an exponent of 0.3,
/// low and high priority.
fn of_table_2(rows: &[&Row], metric: &str, paper: [f64; 2]) -> Option<Answer> {
    let is_it = |group: &&Group<'_>| {
        group.has("cache_percent", KNEE)
            && group.has("zipf", "0.3")
            && ["entries", "operations"].iter().all(|name| group.has(name, OF_TABLE_2))
    };
    let groups = along(rows, ROCKS, "priority");
    let mut holds = true;
    let mut found = Vec::new();
    for group in groups.iter().filter(is_it) {
        let ours = ["low", "high"].map(|value| group.at("priority", value, metric));
        let [Some(low), Some(high)] = ours else { continue };
        let near = |ours: f64, theirs: f64| (ours / theirs - 1.0).abs() <= SAME;
        holds &= near(low, paper[0]) && near(high, paper[1]);
        let io = group.params.get("io").and_then(|io| io.as_str()).unwrap_or_default();
        let [low, high] = [low, high].map(|count| show_count(count as u64));
        found.push(format!("{low} and {high} ({io})"));
    }
    (!found.is_empty()).then(|| Answer { holds, found: found.join(", ") })
}

/// The maximum distance of points from the straight line between their ends, as a fraction of the
/// last one; `None`: no points between them.
fn bend(dots: &[(f64, f64)]) -> Option<f64> {
    let [(x0, y0), between @ .., (x1, y1)] = dots else { return None };
    let away = |(x, y): &(f64, f64)| (y - y0 - (y1 - y0) * (x - x0) / (x1 - x0)).abs() / y1;
    between.iter().map(away).reduce(f64::max)
}

/// The correlation (Pearson) of two columns; `None`: one of them is constant.
fn correlation(dots: &[(f64, f64)]) -> Option<f64> {
    let count = dots.len() as f64;
    let mean_x = dots.iter().map(|dot| dot.0).sum::<f64>() / count;
    let mean_y = dots.iter().map(|dot| dot.1).sum::<f64>() / count;
    let mut sums = (0.0, 0.0, 0.0);
    for (x, y) in dots {
        let (dx, dy) = (x - mean_x, y - mean_y);
        sums = (sums.0 + dx * dy, sums.1 + dx * dx, sums.2 + dy * dy);
    }
    let below = (sums.1 * sums.2).sqrt();
    (dots.len() > 2 && below > 0.0).then(|| sums.0 / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, value: &str, metrics: &[(&str, f64)]) -> Row {
        let row = Row::new("policy", ROCKS)
            .param("cache_percent", 20.0)
            .param("zipf", 0.3)
            .param("io", "direct")
            .param("entries", 1_000_000)
            .param("operations", 1_000_000)
            .param(name, value);
        metrics.iter().fold(row, |row, (name, value)| row.metric(name, *value))
    }

    fn answers(statements: &[Statement], rows: &[Row]) -> Vec<Option<bool>> {
        let rows: Vec<&Row> = rows.iter().collect();
        statements.iter().map(|it| (it.ask)(&rows).map(|answer| answer.holds)).collect()
    }

    #[test]
    fn an_unmeasured_statement_has_no_answer() {
        let all = [OF_SIZE_SKEW, OF_PINNING, OF_PRIORITY, OF_LUCK, OF_PRIORITY_RATIO];
        for statement in all.into_iter().flatten() {
            assert_eq!((statement.ask)(&[]), None, "{}", statement.says);
        }
    }

    #[test]
    fn straight_lines_are_distinguished_from_curves() {
        let of = |hits: fn(f64) -> f64| {
            let dot = |x: f64| (x, hits(x));
            bend(&[2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 65.0, 80.0, 95.0].map(dot)).unwrap()
        };
        assert!(of(|x| 7.0 * x + 3.0) < 1e-9);
        assert!(of(|x| x.powf(0.9)) > STRAIGHT && of(|x| 1.0 - (-x / 100.0).exp()) > STRAIGHT);
        assert_eq!(bend(&[(1.0, 1.0), (2.0, 2.0)]), None);
    }

    #[test]
    fn sizes_and_skews_are_checked_against_rows() {
        let rows = |hits: fn(f64) -> f64| -> Vec<Row> {
            let of = |percent: f64| {
                Row::new("policy-size-skew", ROCKS)
                    .param("cache_percent", percent)
                    .param("zipf", 0.0)
                    .param("io", "direct")
                    .metric("block_hits", 4e6 + hits(percent))
                    .metric("data_hits", hits(percent))
                    .metric("seconds", 10.0 - hits(percent) / 1e5)
            };
            [2.0, 20.0, 50.0, 95.0, 110.0].map(of).into()
        };
        let linear = answers(OF_SIZE_SKEW, &rows(|percent| 8e3 * percent.min(100.0)));
        assert_eq!(linear, [None, Some(true), Some(true), Some(true), Some(false)]);
        let bent = answers(OF_SIZE_SKEW, &rows(|percent| 4e5 * percent.min(20.0)));
        assert_eq!(bent, [None, Some(true), Some(true), Some(true), Some(true)]);
    }

    #[test]
    fn uncounted_pinned_lookups_do_no_harm() {
        let counts =
            |hits, reads| [("block_hits", hits), ("data_hits", 100.0), ("reads_per_op", reads)];
        let rows = [
            row("pinning", "none", &counts(1000.0, 0.8)),
            row("pinning", "flushed", &counts(800.0, 0.8)),
            row("pinning", "all", &counts(100.0, 0.8)),
        ];
        assert_eq!(answers(OF_PINNING, &rows), [Some(true), Some(false)]);
        let mut harmful = rows.to_vec();
        harmful[2] = row("pinning", "all", &counts(1000.0, 0.9));
        assert_eq!(answers(OF_PINNING, &harmful), [Some(false), Some(true)]);
    }

    #[test]
    fn table_2_is_compared_only_with_the_same_load() {
        let counts = |reads| {
            let hits = [("block_hits", 5e6), ("index_hits", 1.02e6), ("filter_hits", 3.833e6)];
            [&hits[..], &[("index_reads", reads), ("filter_reads", 16.0)]].concat()
        };
        let rows = [
            row("priority", "low", &counts(15.0)),
            row("priority", "high", &counts(16.0)),
            row("priority", "high", &counts(6109.0)).param("cache_percent", 5.0),
        ];
        let found = answers(OF_PRIORITY, &rows);
        assert_eq!(found, [Some(true), Some(true), Some(false), Some(true), Some(false)]);
    }

    #[test]
    fn chance_is_distinguished_from_priority() {
        let counts = |reads| [("index_reads", 0.0), ("filter_reads", reads)];
        let store = |build: &str, low, high| {
            [("low", low), ("high", high)]
                .map(|(name, reads)| row("priority", name, &counts(reads)).param("build", build))
        };
        let rows = [store("1", 5.0, 9.0), store("2", 9000.0, 9900.0)].concat();
        assert_eq!(answers(OF_LUCK, &rows), [Some(false)]);
        let rows = [store("1", 800.0, 6400.0), store("2", 800.0, 6400.0)].concat();
        assert_eq!(answers(OF_LUCK, &rows), [Some(true)]);
    }
}
