//! `space-back`: whether deleted and expired data gives its space and its read cost back by itself.
//!
//! Nine tenths of the values, of 100 bytes, 4 KiB and 100 KiB, are deleted one by one, deleted by
//! ranges, or expire. Then nothing is done for a while. RocksDB takes part with its defaults, and
//! with compactions triggered by deletions and by age; it has no expiry of single entries. fjall
//! has no range deletion either.

use tidekv_testkit::evidence::Value;

use crate::experiment::{Experiment, Params, Point, Rule, Subjects, Target};
use crate::experiments::engine::filling;
use crate::harness::job::{Death, Ending, ReclaimJob};
use crate::load::keys::{Choice, KEY_BYTES};
use crate::scale::{Scale, Shape};

const VALUES: [u64; 3] = [100, 4 << 10, 100 << 10];

const MEMORY_BYTES: u64 = 64 << 20;

/// Bytes of all keys and values, how long they are watched, and how long those live that expire:
/// longer than the store takes to fill, so that all deadlines pass afterwards.
fn scale_of(scale: &Scale) -> (u64, f64, f64) {
    if scale.is_quick { (48 << 20, 4.0, 4.0) } else { (1 << 30, 60.0, 60.0) }
}

const DEATHS: [(Death, &str, &[&str]); 3] = [
    (Death::Delete, "delete", &["tidekv:tide", "rocksdb:default", "rocksdb:reclaiming", "fjall"]),
    (Death::RangeDelete, "range-delete", &["tidekv:tide", "rocksdb:default", "rocksdb:reclaiming"]),
    (Death::Expire, "expire", &["tidekv:tide"]),
];

fn points(scale: &Scale) -> Vec<Point> {
    let (bytes, seconds, life_s) = scale_of(scale);
    let mut points = Vec::new();
    for value_bytes in VALUES {
        for (death, part, only) in DEATHS {
            let entries = bytes / (KEY_BYTES as u64 + value_bytes);
            let params: Params = [
                ("part", Value::from(part)),
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
                reclaim: Some(ReclaimJob { entries, death, life_s, seconds }),
                ending: Ending::Close,
                alternations: if scale.is_quick { 1 } else { scale.long_alternations() },
                only,
                ..filling(scale, shape, 1, Choice::Uniform, 1)
            });
        }
    }
    points
}

/// The experiment.
pub(crate) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "space-back",
    about: "bytes on disk and the time of a scan after nine tenths of the values were deleted or \
            have expired, while nothing else is done",
    claim: "within a minute tables take at most 1.2 times the live data, and a scan at most twice \
            the time that it takes after a compaction of everything",
    subjects: Subjects::Also(&["rocksdb:default", "rocksdb:reclaiming", "fjall"]),
    points,
    targets: &[
        Target::new("space_amp_end", Rule::AtMost(1.2)),
        Target::new("scan_over_merged", Rule::AtMost(2.0)),
    ],
    ..Experiment::USUAL
}];
