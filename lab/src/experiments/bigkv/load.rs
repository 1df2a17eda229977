//! A load for caches of objects.
//!
//! A cache is filled with all objects first; then they are asked for, and what a cache does not
//! have is put there as if it had been fetched from behind it, which takes a millisecond. Memory is
//! what the cache is set up with. The process, and what the kernel keeps of its files, may take
//! [`BESIDE_BYTES`] more: that is the same for all, and counts the kernel's cache of files.
//!
//! Caches in this process and caches behind a socket are measured at points of their own: what a
//! socket costs says nothing of a cache.

use tidekv_testkit::evidence::Value;

use crate::experiment::{Params, Point};
use crate::experiments::engine::filling;
use crate::harness::job::{Ending, Length, WarmUp};
use crate::load::keys::{Choice, KEY_BYTES};
use crate::load::workload::{Kind, Workload};
use crate::scale::{self, Scale};
use crate::subject::FlashSettings;

/// Memory of a process beside that of its cache: its code, its threads, what it has in flight, and
/// what drives it.
pub(super) const BESIDE_BYTES: u64 = 64 << 20;

/// What a miss costs in microseconds: a cache that has less must not be the faster for it.
const FETCH_US: u64 = 1_000;

/// Where a cache is: in this process.
pub(super) const EMBEDDED: &str = "embedded";
/// Behind a socket of its own.
pub(super) const SERVED: &str = "served";

/// A load for caches of objects.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// As rows name it.
    pub(super) name: &'static str,
    pub(super) choice: Choice,
    /// Kinds of operations with their weights.
    pub(super) mix: Vec<(Kind, u32)>,
    pub(super) objects: u64,
    pub(super) value_bytes: u64,
    pub(super) memory_bytes: u64,
    pub(super) flash_bytes: u64,
    pub(super) devices: u64,
    pub(super) index_bytes: Option<u64>,
    pub(super) threads: u64,
}

impl Load {
    /// What is done once all objects were put.
    pub(super) fn workload(&self) -> Workload {
        Workload {
            mix: self.mix.clone(),
            fetch_us: FETCH_US,
            ..Workload::only(Kind::Fetch, self.choice.clone(), self.objects)
        }
    }

    /// A point where all subjects in `only` carry this load.
    pub(super) fn point(&self, scale: &Scale, only: &'static [&'static str]) -> Point {
        let Self { objects, value_bytes, memory_bytes, threads, .. } = *self;
        let params: Params = [
            ("load", Value::from(self.name)),
            ("objects", objects.into()),
            ("value_bytes", value_bytes.into()),
            ("memory_bytes", memory_bytes.into()),
            ("flash_bytes", self.flash_bytes.into()),
            ("devices", self.devices.into()),
            ("threads", threads.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let shape = scale::Shape { entries: objects, value_bytes, is_compressed: false };
        let point = filling(scale, shape, threads, self.choice.clone(), 1).driven(|drive| {
            drive.workload = self.workload();
            drive.fills_first = true;
            drive.warm_up = WarmUp::Operations(objects.min(scale.warm_up_operations()));
            drive.warm_up_seconds_max = 30.0 * scale.seconds;
            drive.length = Length::Seconds(scale.seconds);
            drive.operations_per_sample = 1;
        });
        Point {
            params,
            memory_bytes,
            process_bytes: Some(memory_bytes + BESIDE_BYTES),
            value_bytes,
            ending: Ending::Close,
            alternations: scale.long_alternations(),
            flash: Some(FlashSettings {
                bytes: self.flash_bytes,
                devices: self.devices,
                object_bytes: KEY_BYTES as u64 + value_bytes,
                index_bytes: self.index_bytes,
            }),
            only,
            ..point
        }
    }
}
