//! `bigkv-restart`: how soon a killed cache is available again, and its content then.
//!
//! | part | what |
//! |---|---|
//! | `open` | opens a flash tier full of the smallest objects, whose process was killed |
//! | `hits` | the same, and immediately requests its objects |
//!
//! Objects of `open` are as small as possible, to have the largest number that the disk of a
//! typical machine can hold: the reads of a start depend on their number and hardly on their size.
//! Those of `hits` have a typical size. Memory is small compared with flash, as objects that are
//! only in memory are lost with the process.

use crate::experiment::{Experiment, Point, Rule, StoreEnd, StorePlan, Subjects, Target};
use crate::experiments::bigkv::load::Load;
use crate::harness::job::WarmUp;
use crate::load::keys::{Choice, KEY_BYTES};
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subject::FlashSettings;
use crate::subjects::tiered::TIDEKV_CACHE;

/// Small objects: with key, header and padding, 128 bytes.
const SMALL_BYTES: u64 = 40;
const USUAL_BYTES: u64 = 4 << 10;
/// The maximum overhead of an object on flash in addition to its key and value: a header, padding,
/// its part of a summary, and of two pages of the index that are three quarters full.
const BESIDE_BYTES: u64 = 64 + 63 + 24 + 44;
/// The fraction of flash that objects take, so that no object is evicted.
const FULL: f64 = 0.85;
/// Objects of the evidence for the target.
const MANY: u64 = 100_000_000;

/// Some memory for objects.
const OBJECTS_BYTES: u64 = 22 << 20;

/// The way a store was closed, as rows name it.
const ENDS: [(&str, StoreEnd); 2] = [("closed", StoreEnd::Settled), ("killed", StoreEnd::Killed)];

fn point(scale: &Scale, objects: u64, value_bytes: u64, end: (&'static str, StoreEnd)) -> Point {
    let object_bytes = KEY_BYTES as u64 + value_bytes;
    let flash_bytes = ((objects * (object_bytes + BESIDE_BYTES)) as f64 / FULL) as u64;
    // Three, of the segment size of such a device.
    let buffers_bytes = 3 * (flash_bytes >> 10).next_power_of_two().clamp(2 << 20, 16 << 20);
    // With fewer pending changes, a page is rewritten more often for few of them.
    let index_bytes = (objects * 2 / 3).clamp(1 << 20, 128 << 20);
    // Half of memory may be the flash index and write buffers, an eighth write buffers.
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
    // The disk hardly has room for two of this size: it is opened once.
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
    about: "a cache with 10 and 100 million objects on flash is killed and reopened",
    paper: "",
    claim: "within a second for 100 million objects, immediately with the previous hit ratio",
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
