//! `bigkv-small`: the minimum object size for the flash tier, and the cost of smaller objects.
//!
//! Objects of 64 bytes to 4 KiB on the same bytes of flash and DRAM. Keys and values alone take as
//! many bytes as flash has, and requests are uniform: so the hit ratio is about the part of flash
//! that objects themselves take, plus the objects in DRAM (`memory_hit_ratio`). The client stores
//! missed objects.
//!
//! | column | effect of smaller objects |
//! |---|---|
//! | `index_bytes_per_object` | constant |
//! | `flash_bytes_per_object` | a record has 64 bytes beside key and value and ends at a multiple of 64, an entry of the index 16, on a page that has two places |
//! | `space_overhead` | the same in bytes of key and value |
//! | `flash_reads_per_hit` | misses of the index in memory: the same memory serves more entries |
//! | `write_amp` | index pages are written for changes, and a page has fewer changes at once |

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
        Point { alternations: 1, flash, ..point }
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
    claim: "memory per object on flash is about the same for all sizes, at most 2 bytes; most of \
            the flash space of small objects is overhead",
    subjects: Subjects::Only(&[TIDEKV_CACHE.name]),
    points,
    targets: &[Target::new("index_bytes_per_object", Rule::AtMost(2.0))],
    figures: &[
        lines("Bytes of flash for a byte of an object", "space_overhead"),
        lines("Bytes written to flash for a byte of an object", "write_amp"),
        lines("Reads of flash for a hit", "flash_reads_per_hit"),
        lines("Hit ratio of gets", "hit_ratio"),
    ],
    ..Experiment::USUAL
};
