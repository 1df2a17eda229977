//! A load for object caches.
//!
//! The load first fills a cache with all objects and then requests them; a client stores a missed
//! object as if it had fetched it from a backend, which takes a millisecond. Memory is the
//! configured size of the cache. The process and the kernel's page cache for its files may take
//! [`BESIDE_BYTES`] more, equal for all.
//!
//! Caches in this process and caches behind a socket are measured at separate points: the cost of a
//! socket is not a property of a cache.

use tidekv_testkit::evidence::Value;

use crate::experiment::{Params, Point};
use crate::experiments::engine::filling;
use crate::harness::job::{Ending, Length, WarmUp};
use crate::load::keys::{Choice, KEY_BYTES};
use crate::load::workload::{Kind, Workload};
use crate::scale::{self, Scale};
use crate::subject::FlashSettings;

/// Memory of a process in addition to its cache: code, threads, pending requests, and the driver.
pub(super) const BESIDE_BYTES: u64 = 64 << 20;

/// The cost of a miss in microseconds: a cache with fewer objects must not be faster because of it.
const FETCH_US: u64 = 1_000;

/// The location of a cache: in this process.
pub(super) const EMBEDDED: &str = "embedded";
/// Behind a socket of its own.
pub(super) const SERVED: &str = "served";

/// A load for object caches.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// Its name in rows.
    pub(super) name: &'static str,
    pub(super) choice: Choice,
    /// Operation kinds with their weights.
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
    /// The step after all objects are stored.
    pub(super) fn workload(&self) -> Workload {
        Workload {
            mix: self.mix.clone(),
            fetch_us: FETCH_US,
            ..Workload::only(Kind::Fetch, self.choice.clone(), self.objects)
        }
    }

    /// A point where all subjects in `only` run this load.
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
