//! `bigkv-small`: from which size on objects are for the flash tier, and what it costs below.
//!
//! Objects of 64 bytes to 4 KiB on the same bytes of flash and DRAM. There are as many as take all
//! bytes of flash with their keys and nothing else, and each is as likely as the others to be asked
//! for: so the hit ratio is, about, the part of flash that objects themselves take, and what is in
//! DRAM beside it (`memory_hit_ratio`). What a cache does not have is put there.
//!
//! | column | what grows as objects get smaller |
//! |---|---|
//! | `index_bytes_per_object` | nothing |
//! | `flash_bytes_per_object` | a record has 64 bytes beside key and value and ends at a multiple of 64, an entry of the index 16, on a page that has two places |
//! | `space_overhead` | the same in bytes of key and value |
//! | `flash_reads_per_hit` | misses of the index in memory: there are more entries for the same memory |
//! | `write_amp` | pages of the index are written for changes, of which a page has fewer at once |

use crate::experiment::{Experiment, Figure, Point, Rule, Shape, Subjects, Target};
use crate::experiments::bigkv::load::Load;
use crate::load::keys::{Choice, KEY_BYTES};
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subject::FlashSettings;
use crate::subjects::tiered::TIDEKV_CACHE;

const SIZES: [u64; 6] = [64, 128, 256, 512, 1 << 10, 4 << 10];
/// So many requests are under way.
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
            // What buffers for writes and the index of the smallest objects take, twice.
            memory_bytes: 32 << 20,
            flash_bytes,
            devices: 1,
            index_bytes: None,
            threads: THREADS,
        };
        // What differs with the size is no axis of its own.
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
    about: "objects of 64 bytes to 4 KiB on the same bytes of flash and DRAM: what each takes of \
            both, what is read and written for it, and how many are there",
    paper: "",
    claim: "memory for an object on flash is about the same for all sizes, at most 2 bytes; of what \
            small objects take of flash most is not theirs",
    subjects: Subjects::Only(&[TIDEKV_CACHE.name]),
    points,
    targets: &[Target::new("index_bytes_per_object", Rule::AtMost(2.0))],
    figures: &[
        lines("Bytes of flash for a byte of an object", "space_overhead"),
        lines("Bytes written to flash for a byte of an object", "write_amp"),
        lines("Reads of flash for a hit", "flash_reads_per_hit"),
        lines("Gets that found their object", "hit_ratio"),
    ],
    ..Experiment::USUAL
};
