//! `space-back`: whether deleted and expired data gives its space and its read cost back by itself.
//!
//! Nine tenths of the values, of 100 bytes, 4 KiB and 100 KiB, are deleted one by one, deleted by
//! ranges, or expire. Then nothing is done for a while; after that the same happens below a load in
//! the foreground. RocksDB takes part with its defaults, and with compactions triggered by deletions
//! and by age; it has no expiry of single entries. fjall has no range deletion either.
//!
//! A server whose keys are all gone must not search for them: see [`emptied`].

mod emptied;

use tidekv_testkit::evidence::Value;

use crate::experiment::{Experiment, Params, Point, Rule, Subjects, Target};
use crate::experiments::engine::filling;
use crate::harness::job::{Death, Ending, ReclaimJob};
use crate::load::keys::{Choice, KEY_BYTES, data_bytes};
use crate::scale::{Scale, Shape};

const VALUES: [u64; 3] = [100, 4 << 10, 100 << 10];

const MEMORY_BYTES: u64 = 64 << 20;

/// The largest store.
const BYTES_MAX: u64 = 1 << 30;

/// Bytes of all keys and values: a quarter of the small entries of this scale.
fn bytes_of(scale: &Scale) -> u64 {
    (data_bytes(scale.entries, 100) / 4).min(BYTES_MAX)
}

/// How long the store is watched at most: a minute.
fn watched_s(scale: &Scale) -> f64 {
    if scale.is_quick { scale.seconds * 4.0 } else { (scale.seconds * 12.0).min(60.0) }
}

/// How long those live that expire: longer than the store takes to fill, so that all deadlines pass
/// afterwards.
fn life_s(bytes: u64) -> f64 {
    (bytes as f64 / f64::from(16 << 20)).max(2.0)
}

const DEATHS: [(Death, &str, &[&str]); 3] = [
    (Death::Delete, "delete", &["tidekv:tide", "rocksdb:default", "rocksdb:reclaiming", "fjall"]),
    (Death::RangeDelete, "range-delete", &["tidekv:tide", "rocksdb:default", "rocksdb:reclaiming"]),
    (Death::Expire, "expire", &["tidekv:tide"]),
];

fn points(scale: &Scale) -> Vec<Point> {
    let bytes = bytes_of(scale);
    let mut points = Vec::new();
    for value_bytes in VALUES {
        for (death, name, only) in DEATHS {
            let entries = (bytes / (KEY_BYTES as u64 + value_bytes)).max(1000);
            let params: Params = [
                ("death", Value::from(name)),
                ("entries", entries.into()),
                ("value_bytes", value_bytes.into()),
                ("memory_bytes", MEMORY_BYTES.into()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
            let shape = Shape { entries, value_bytes, is_compressed: false };
            points.push(Point {
                params,
                memory_bytes: MEMORY_BYTES,
                drive: None,
                reclaim: Some(ReclaimJob {
                    entries,
                    death,
                    life_s: life_s(bytes),
                    seconds: watched_s(scale),
                    foreground_s: scale.seconds,
                }),
                ending: Ending::Close,
                alternations: if scale.is_quick { 1 } else { scale.long_alternations() },
                only,
                ..filling(scale, shape, 1, Choice::Uniform, 1)
            });
        }
    }
    points.extend(emptied::points(scale));
    points
}

/// The experiment.
pub(crate) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "space-back",
    about: "bytes on disk and the time of a scan after nine tenths of the values were deleted or \
            have expired, while nothing else is done; a load while space is given back; and the \
            first requests to an emptied server",
    claim: "within a minute tables take at most 1.2 times the live data, and a scan at most twice \
            the time that it takes after a compaction of everything; a load meanwhile \
            reaches 0.9 times its rate without dead data and 0.9 times its rate just before the data \
            dies; an emptied server says so within 10 ms",
    subjects: Subjects::Also(&["rocksdb:default", "rocksdb:reclaiming", "fjall"]),
    points,
    targets: &[
        Target::new("space_amp_end", Rule::AtMost(1.2)),
        Target::new("scan_over_merged", Rule::AtMost(2.0)),
        Target::new("foreground_over_clean", Rule::AtLeast(0.9)),
        Target::new("foreground_over_before", Rule::AtLeast(0.9)),
        Target::new("scan_ms", Rule::AtMost(10.0)),
        Target::new("dbsize_ms", Rule::AtMost(10.0)),
        Target::new("keys_left", Rule::AtMost(0.0)),
    ],
    ..Experiment::USUAL
}];
