//! `bigkv-restart`: how soon a cache is there again whose process was killed, and what it has then.
//!
//! | part | what |
//! |---|---|
//! | `open` | a flash full of the smallest objects is opened, whose process was killed |
//! | `hits` | the same, and it is asked for its objects at once |
//!
//! Objects of `open` are as small as they can be, so that there are as many of them as the disk of
//! a usual machine bears: what a start reads depends on their number and hardly on their size.
//! Those of `hits` are of a usual size. Memory is small beside flash, for what is in memory alone is
//! lost with its process.

use crate::experiment::{Experiment, Point, Rule, StoreEnd, StorePlan, Subjects, Target};
use crate::experiments::bigkv::load::Load;
use crate::harness::job::WarmUp;
use crate::load::keys::{Choice, KEY_BYTES};
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subject::FlashSettings;
use crate::subjects::tiered::TIDEKV_CACHE;

/// Small objects: with key, header and what fills it up, 128 bytes.
const SMALL_BYTES: u64 = 40;
const USUAL_BYTES: u64 = 4 << 10;
/// What an object takes on flash beside its key and value, at most: a header, what fills it up, its
/// part of a summary, and of two pages of the index that are three quarters full.
const BESIDE_BYTES: u64 = 64 + 63 + 24 + 44;
/// The share of flash that objects take, so that none has to leave.
const FULL: f64 = 0.85;
/// Objects of the evidence for the target.
const MANY: u64 = 100_000_000;

/// Some memory for objects.
const OBJECTS_BYTES: u64 = 22 << 20;

/// How a store came to be closed, as rows name it.
const ENDS: [(&str, StoreEnd); 2] = [("closed", StoreEnd::Settled), ("killed", StoreEnd::Killed)];

fn point(scale: &Scale, objects: u64, value_bytes: u64, end: (&'static str, StoreEnd)) -> Point {
    let object_bytes = KEY_BYTES as u64 + value_bytes;
    let flash_bytes = ((objects * (object_bytes + BESIDE_BYTES)) as f64 / FULL) as u64;
    // Three, of the segment that a device of that size has.
    let buffers_bytes = 3 * (flash_bytes >> 10).next_power_of_two().clamp(2 << 20, 16 << 20);
    // The fewer changes wait, the more often a page is written again for few of them.
    let index_bytes = (objects * 2 / 3).clamp(1 << 20, 128 << 20);
    // Half of memory may be the index of what is on flash and write buffers, an eighth write buffers.
    let all_index_bytes = index_bytes + objects * 3;
    let flash_dram_bytes = (2 * (all_index_bytes + buffers_bytes)).max(all_index_bytes * 8 / 3);
    let load = Load {
        name: "fetch",
        choice: Choice::Uniform,
        mix: vec![(Kind::Fetch, 100)],
        objects,
        value_bytes,
        memory_bytes: flash_dram_bytes + OBJECTS_BYTES,
        flash_bytes: flash_bytes.max(64 << 20),
        devices: 1,
        index_bytes: Some(index_bytes),
        threads: 8,
    };
    let point = load.point(scale, &[TIDEKV_CACHE.name]).driven(|drive| {
        drive.fills_first = false;
        drive.warm_up = WarmUp::None;
    });
    let flash = point.flash.clone().map(|flash| FlashSettings { object_bytes, ..flash });
    let store = StorePlan {
        entries: objects,
        key_bytes: KEY_BYTES,
        value_bytes,
        is_compressed: false,
        choice: Choice::Shuffled,
        memory_bytes: load.memory_bytes,
        end: end.1,
    };
    let point = point.with("end", end.0).once_if_quick(scale);
    // Of so many there is hardly room for two: it is opened once.
    let changes_store = objects < MANY;
    let alternations = if changes_store { point.alternations } else { 1 };
    Point { flash, store: Some(store), changes_store, alternations, ..point }
}

fn points(scale: &Scale) -> Vec<Point> {
    let (usual, small) = if scale.is_quick { (20_000, 200_000) } else { (850_000, 10_000_000) };
    let hits = ENDS.map(|end| point(scale, usual, USUAL_BYTES, end).with("part", "hits"));
    let open = |objects| {
        let point = point(scale, objects, SMALL_BYTES, ENDS[1]).with("part", "open");
        Point { drive: None, ..point }
    };
    let many = (!scale.is_quick).then_some(MANY);
    hits.into_iter().chain([small].into_iter().chain(many).map(open)).collect()
}

pub(super) const RESTART: Experiment = Experiment {
    name: "bigkv-restart",
    about: "a cache with ten and a hundred million objects on flash is killed and opened again",
    paper: "",
    claim: "within a second for a hundred million objects, with the hit ratio of before at once",
    subjects: Subjects::Only(&[TIDEKV_CACHE.name]),
    points,
    targets: &[
        Target::in_phase("open", "open_s", Rule::AtMost(1.0)),
        Target::in_phase(
            "hits",
            "hit_ratio",
            Rule::RatioToNamedPointAtLeast("end", "closed", 0.99),
        ),
    ],
    ..Experiment::USUAL
};
