//! `bigkv-fault`: one of eight devices fails under load, and is replaced.
//!
//! The cache's own code on storage in memory, in virtual time. All objects are on flash, with room
//! for as many again. Requests are uniform, which is the worst case: with hot objects the lost
//! share returns sooner. The client stores missed objects; one in a hundred operations overwrites
//! an object.
//!
//! ```text
//!   1-before ──device 3 fails everything──▶ 2-lost ──it works again──▶ 3-replaced
//! ```
//!
//! - Every value is checked: it belongs to its key and is the last one written.
//! - The *fall* is the drop of the hit ratio in the worst stretch of operations, a fiftieth of the
//!   objects, in shares: 1 is the device's share of the objects on flash.
//! - The *refill* is the bytes of objects stored after misses, until the hit ratio of a stretch and
//!   of all following stretches in the phase is back at 99 % of that before, in shares. The last
//!   fifth of the phase shows whether it is back at all (`hit_ratio_at_end`, relative to the hit
//!   ratio before).
//!
//! `model:raid-0` is the same cache on one device of the total size: the loss of a stripe over
//! eight devices when one of them fails.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, Fault, FaultRule, ManualClock, MemoryStorage};
use tidekv_tiered::{Cache, Environment, FlashOptions, Object, Options};

use crate::experiment::{Experiment, Found, Model, Point, Rule, Subjects, Target};
use crate::experiments::bigkv::load::Load;
use crate::failure::{Failure, Result};
use crate::load::dice::Dice;
use crate::load::keys::{Choice, key_of, present};
use crate::load::values::Values;
use crate::load::workload::Kind;
use crate::scale::Scale;
use crate::subjects::tiered::{TIDEKV_CACHE, flash_in, open, plain};

const DEVICES: u64 = 8;
/// The failing device.
const LOST: u64 = 3;
const VALUE_BYTES: u64 = 1 << 10;
/// Flash size in objects: seven devices have room for all, including the overwrites.
const ROOM: f64 = 2.0;
/// Operations per stretch, in objects.
const STRETCH: f64 = 0.02;
/// One in this number of operations is a write.
const WRITE_EVERY: u64 = 100;
/// Virtual time of an operation.
const OPERATION: Duration = Duration::from_micros(200);
/// The hit ratio counts as recovered at this fraction of that before.
const BACK: f64 = 0.99;

const BEFORE: &str = "1-before";
const WITHOUT: &str = "2-lost";
const REPLACED: &str = "3-replaced";

#[derive(Debug)]
struct Loss {
    load: Load,
}

/// The counts of a stretch.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    hit_ratio: f64,
    /// Objects stored after a miss.
    misses: u64,
}

/// A cache whose responses are checked.
struct Scene<'a> {
    load: &'a Load,
    cache: Cache,
    flash: Vec<FlashOptions>,
    storage: Arc<MemoryStorage>,
    clock: Arc<ManualClock>,
    dice: Dice,
    values: Values,
    value: Vec<u8>,
    /// The last write of each object.
    versions: Vec<u32>,
    written: u32,
}

impl<'a> Scene<'a> {
    fn new(load: &'a Load, devices: u64, seed: u64) -> Result<Self> {
        let storage = Arc::new(MemoryStorage::new());
        let clock = Arc::new(ManualClock::new(1_800_000_000_000));
        let options = Options {
            dram_bytes: load.memory_bytes,
            flash: flash_in(Path::new(""), devices, load.flash_bytes / devices),
            object_bytes_max: 64 << 10,
            avg_object_bytes: load.value_bytes,
            segment_bytes: Some(256 << 10),
            ..Options::default()
        };
        let around = Environment {
            is_inline: true,
            ..Environment::new(storage.clone(), Arc::clone(&clock) as Arc<dyn Clock>)
        };
        Ok(Self {
            load,
            cache: open(&options, &around)?,
            flash: options.flash,
            storage,
            clock,
            dice: Dice::new(seed),
            values: Values::new(load.value_bytes as usize),
            value: Vec::new(),
            versions: vec![0; load.objects as usize],
            written: 0,
        })
    }

    fn put(&mut self, index: u64) {
        self.written += 1;
        self.versions[index as usize] = self.written;
        self.values.fill(&mut self.value, present(index), self.written.into());
        let plain = plain(&self.cache, Bytes::copy_from_slice(&self.value));
        let object = Object { flags: self.written, ..plain };
        self.cache.store(&key_of(present(index)), object);
    }

    /// Whether it is a hit.
    fn get(&mut self, index: u64) -> Result<bool> {
        let number = present(index);
        let Some(found) = self.cache.get(&key_of(number)) else { return Ok(false) };
        let is_right = self.values.is_of(&found.object.value, number)
            && found.object.flags == self.versions[index as usize];
        match is_right {
            true => Ok(true),
            false => Err(Failure::new(format!("wrong answer: the value of key number {number}"))),
        }
    }

    /// Runs a number of operations.
    fn stretch(&mut self, operations: u64) -> Result<Stretch> {
        let (mut hits, mut misses) = (0, 0);
        for operation in 0..operations {
            self.clock.advance(OPERATION);
            let index = self.dice.below(self.load.objects);
            if operation % WRITE_EVERY == 0 {
                self.put(index);
                continue;
            }
            match self.get(index)? {
                true => hits += 1,
                false => {
                    misses += 1;
                    self.put(index);
                }
            }
        }
        Ok(Stretch { hit_ratio: hits as f64 / (hits + misses) as f64, misses })
    }

    /// A device's share of the objects on flash.
    fn share_of(&self, device: u64) -> f64 {
        let objects: Vec<u64> = self.cache.device_stats().iter().map(|it| it.objects).collect();
        objects[device as usize] as f64 / objects.iter().sum::<u64>().max(1) as f64
    }

    fn phase(&mut self, objects: f64) -> Result<Vec<Stretch>> {
        let operations = (self.load.objects as f64 * STRETCH) as u64;
        (0..(objects / STRETCH) as u64).map(|_| self.stretch(operations)).collect()
    }
}

impl Loss {
    fn play(&self, subject: &'static str, devices: u64, seed: u64) -> Result<Vec<Found>> {
        let mut scene = Scene::new(&self.load, devices, seed)?;
        for index in 0..self.load.objects {
            scene.put(index);
            scene.cache.drain_writes();
        }
        scene.phase(2.0)?;
        let before = scene.phase(1.0)?;
        let lost = LOST.min(devices - 1);
        let share = scene.share_of(lost);
        scene.storage.add_fault(FaultRule {
            operation: None,
            path_contains: Some(scene.flash[lost as usize].path.display().to_string()),
            skip: 0,
            times: None,
            fault: Fault::Fail(tidekv_io::ErrorKind::Failed),
        });
        let without = scene.phase(3.0)?;
        scene.storage.clear_faults();
        let replaced = scene.phase(3.0)?;
        let phases = [(BEFORE, before), (WITHOUT, without), (REPLACED, replaced)];
        Ok(self.found(subject, share, &phases))
    }

    /// The metrics of each stretch and of each phase.
    fn found(
        &self,
        subject: &'static str,
        share: f64,
        phases: &[(&'static str, Vec<Stretch>)],
    ) -> Vec<Found> {
        let mean = |stretches: &[Stretch]| {
            stretches.iter().map(|it| it.hit_ratio).sum::<f64>() / stretches.len() as f64
        };
        let old = mean(&phases[0].1);
        let objects = self.load.objects as f64;
        let (mut found, mut t) = (Vec::new(), 0);
        for (name, stretches) in phases {
            for stretch in stretches {
                t += (objects * STRETCH) as u64;
                let metrics = vec![("hit_ratio", stretch.hit_ratio)];
                found.push(Found { subject, params: [("t".to_owned(), t.into())].into(), metrics });
            }
            let lowest = stretches.iter().map(|it| it.hit_ratio).fold(f64::INFINITY, f64::min);
            let back = stretches.iter().rposition(|it| it.hit_ratio < BACK * old);
            let until = &stretches[..back.map_or(0, |back| back + 1)];
            let refilled: u64 = until.iter().map(|it| it.misses).sum();
            let metrics = vec![
                ("hit_ratio", mean(stretches)),
                ("fall_in_shares", (1.0 - lowest / old).max(0.0) / share),
                ("refill_in_shares", refilled as f64 / (objects * share)),
                ("hit_ratio_at_end", mean(&stretches[stretches.len() * 4 / 5..]) / old),
            ];
            let params = [("phase".to_owned(), (*name).into())].into();
            found.push(Found { subject, params, metrics });
        }
        found
    }
}

impl Model for Loss {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let sharded = self.play(TIDEKV_CACHE.name, DEVICES, seed)?;
        let striped = self.play("model:raid-0", 1, seed)?;
        Ok([sharded, striped].concat())
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    let objects = if scale.is_quick { 60_000 } else { 500_000 };
    let load = Load {
        name: "fetch",
        choice: Choice::Uniform,
        mix: vec![(Kind::Fetch, WRITE_EVERY as u32 - 1), (Kind::Put, 1)],
        objects,
        value_bytes: VALUE_BYTES,
        memory_bytes: 24 << 20,
        flash_bytes: (objects as f64 * VALUE_BYTES as f64 * ROOM) as u64,
        devices: DEVICES,
        index_bytes: None,
        threads: 1,
    };
    let point = load.point(scale, &[]);
    vec![Point { model: Some(Arc::new(Loss { load })), ..point }]
}

pub(super) const FAULT: Experiment = Experiment {
    name: "bigkv-fault",
    about: "one of eight devices fails under load and is replaced, in virtual time; every value \
            is checked (BigKV)",
    paper: "a better hit ratio without parity, and recovery of what was lost",
    claim: "the hit ratio falls by no more than the share of the device, once, and recovers to \
            99 % when a share has been refilled",
    subjects: Subjects::Only(&[TIDEKV_CACHE.name]),
    points,
    targets: &[
        Target::in_phase(WITHOUT, "fall_in_shares", Rule::AtMost(1.0)),
        Target::in_phase(WITHOUT, "refill_in_shares", Rule::AtMost(1.0)),
        Target::in_phase(WITHOUT, "hit_ratio_at_end", Rule::AtLeast(BACK)),
        Target::in_phase(REPLACED, "fall_in_shares", Rule::AtMost(1.0)),
        Target::in_phase(REPLACED, "hit_ratio_at_end", Rule::AtLeast(BACK)),
    ],
    ..Experiment::USUAL
};
