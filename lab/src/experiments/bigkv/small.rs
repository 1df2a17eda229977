//! `bigkv-small`: the minimum object size for the flash tier, and the cost of smaller objects.
//!
//! Objects of 64 bytes to 4 KiB on the same bytes of flash and DRAM. Keys and values alone take as
//! many bytes as flash has, and requests are uniform: so the hit ratio is about the part of flash
//! that objects themselves take, plus the objects in DRAM (`memory_hit_ratio`). The client stores
//! missed objects.
//!
//! Objects whose record has at most 800 bytes are in buckets, with an index in memory; larger ones
//! are records, with an index on flash.
//!
//! | column | smaller objects in buckets | records |
//! |---|---|---|
//! | `index_bytes_per_object` | some bits of the tag, the number of the segment | the filter, fixed parts |
//! | `flash_bytes_per_object` | some 15 bytes of a record, 5 in a summary, and what buckets have left | 64 bytes of a record, which ends at a multiple of 64, and an index entry of 16 on a page that has two places |
//! | `space_overhead` | the same in bytes of key and value | |
//! | `flash_reads_per_hit` | one bucket | a record, and index pages for entries that are not in memory |
//! | `flash_reads_per_miss` | one key in sixteen is taken for an object that is there | |
//! | `write_amp` | objects are written once | index pages are written for changes, and a page has fewer changes at once |

use crate::experiment::{Experiment, Figure, Point, Rule, Shape, Subjects, Target};
use crate::experiments::bigkv::load::Load;
use crate::load::keys::{Choice, KEY_BYTES};
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subject::FlashSettings;
use crate::subjects::tiered::TIDEKV_CACHE;

const SIZES: [u64; 6] = [64, 128, 256, 512, 1 << 10, 4 << 10];
/// Concurrent requests.
const THREADS: u64 = 16;

fn points(scale: &Scale) -> Vec<Point> {
    let flash_bytes: u64 = if scale.is_quick { 128 << 20 } else { 256 << 20 };
    let sizes = if scale.is_quick { &SIZES[2..] } else { &SIZES };
    let point = |value_bytes: u64| {
        let object_bytes = KEY_BYTES as u64 + value_bytes;
        let load = Load {
            name: "fetch",
            choice: Choice::Uniform,
            mix: vec![(Kind::Fetch, 100)],
            objects: flash_bytes / object_bytes,
            value_bytes,
            // Twice the memory of write buffers and of the index of the smallest objects.
            memory_bytes: 32 << 20,
            flash_bytes,
            devices: 1,
            index_bytes: None,
            threads: THREADS,
        };
        // Properties that differ with the size are not parameters of their own.
        let point = load.point(scale, &[]).without(&["objects"]);
        let flash = point.flash.clone().map(|flash| FlashSettings { object_bytes, ..flash });
        let part = match value_bytes {
            128 => "128",
            256 => "256",
            512 => "512",
            _ => "other",
        };
        Point { alternations: scale.long_alternations(), flash, ..point }.with("part", part)
    };
    sizes.iter().copied().map(point).collect()
}

const fn lines(title: &'static str, metric: &'static str) -> Figure<'static> {
    Figure { title, metric, x: "value_bytes", y: "", shape: Shape::Lines }
}

pub(super) const SMALL: Experiment = Experiment {
    name: "bigkv-small",
    about: "objects of 64 bytes to 4 KiB on the same bytes of flash and DRAM: space per object \
            on both, reads and writes, and hit ratio",
    paper: "",
    claim: "memory per object on flash is at most 2 bytes for all sizes; small objects take little \
            more flash than their keys and values, are written about once, and are read at once",
    subjects: Subjects::Only(&[TIDEKV_CACHE.name]),
    points,
    targets: &[
        Target::new("index_bytes_per_object", Rule::AtMost(2.0)),
        Target::in_phase("128", "write_amp", Rule::AtMost(3.0)),
        Target::in_phase("256", "write_amp", Rule::AtMost(2.0)),
        Target::in_phase("512", "write_amp", Rule::AtMost(1.5)),
        Target::in_phase("128", "space_overhead", Rule::AtMost(1.4)),
        Target::in_phase("256", "space_overhead", Rule::AtMost(1.25)),
        Target::in_phase("512", "space_overhead", Rule::AtMost(1.2)),
        Target::in_phase("128", "flash_reads_per_hit", Rule::AtMost(1.1)),
        Target::in_phase("256", "flash_reads_per_hit", Rule::AtMost(1.1)),
        Target::in_phase("512", "flash_reads_per_hit", Rule::AtMost(1.1)),
    ],
    figures: &[
        lines("Bytes of flash for a byte of an object", "space_overhead"),
        lines("Bytes written to flash for a byte of an object", "write_amp"),
        lines("Reads of flash for a hit", "flash_reads_per_hit"),
        lines("Hit ratio of gets", "hit_ratio"),
    ],
    ..Experiment::USUAL
};
