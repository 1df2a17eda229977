//! Lookups on flash, in steps: on the device that a key belongs to, on the fallback device if that
//! one was out, and part by part for objects that are larger than a segment.
//!
//! The caller performs each read and passes its result to the next step: a thread that may block
//! reads at once, an event loop has many lookups in progress.
//!
//! Guarantees: those of [`crate::fleet::flash`]. A lookup uses the routing of its beginning; device
//! state is checked after each read.

use std::sync::Arc;

use bytes::BytesMut;
use tidekv_io::{Buffer, ReadRequest, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::device::flash_device::Device;
use crate::device::lookup::{DeviceLookup, Step};
use crate::entry::RecordLocation;
use crate::fleet::copy_location::CopyLocation;
use crate::fleet::flash::Flash;
use crate::fleet::routing::Routing;
use crate::object::{CachedObject, Object};
use crate::segment::parts::Parts;
use crate::segment::record::{Kind, Record};

/// The object that was found, and the location of its copy, if it is on its own device.
pub(crate) type Outcome = Option<(CachedObject, Option<CopyLocation>)>;

/// A lookup on flash.
#[derive(Debug)]
pub(crate) struct FlashLookup {
    key: Box<[u8]>,
    hash: u64,
    now_s: u32,
    routing: Arc<Routing>,
    home: usize,
    device_slots: std::iter::Flatten<std::array::IntoIter<Option<usize>, 2>>,
    device_slot: Option<SlotLookup>,
    parts: Option<PartsLookup>,
}

/// A lookup on the device of a slot.
#[derive(Debug)]
struct SlotLookup {
    number: usize,
    device: Arc<Device>,
    began_ns: u64,
    lookup: DeviceLookup,
}

/// The parts of an object that have been read, and their names.
#[derive(Debug)]
struct PartsLookup {
    head: CachedObject,
    place: Option<CopyLocation>,
    parts: Parts,
    number: u32,
    name: Box<[u8]>,
    value: BytesMut,
}

/// The next step.
#[derive(Debug)]
pub(crate) enum FlashStep {
    /// Perform this read.
    Read(ReadRequest),
    Done(Outcome),
}

impl FlashLookup {
    /// Begins a lookup of `key`.
    pub(crate) fn new(flash: &Flash, hash: u64, key: &[u8], now_s: u32) -> Self {
        let routing = flash.routing();
        let (home, device_slots) = routing.device_slots(hash);
        let mut new = Self {
            key: key.into(),
            hash,
            now_s,
            routing,
            home,
            device_slots: device_slots.into_iter().flatten(),
            device_slot: None,
            parts: None,
        };
        new.device_slot = new.next_seat(flash);
        new
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The key's hash.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Advances the lookup; `read` is the result of the previous step's read.
    pub(crate) fn step(&mut self, flash: &Flash, mut read: Option<Result<Buffer>>) -> FlashStep {
        while let Some(device_slot) = &mut self.device_slot {
            let key = self.parts.as_ref().map_or(&self.key, |parts| &parts.name);
            let stepped =
                device_slot.device.step(&mut device_slot.lookup, key, self.now_s, read.take());
            if let Ok(Step::Read { at, len }) = stepped {
                let file = Arc::clone(&device_slot.device.data);
                return FlashStep::Read(ReadRequest { file, offset: at, len });
            }
            if device_slot.lookup.was_read {
                flash.has_read(device_slot.number, device_slot.began_ns, stepped.is_ok());
            }
            let outcome = match stepped {
                Ok(Step::Found(record, location)) => self.found(flash, *record, location),
                _ => self.missing(flash),
            };
            if let Some(outcome) = outcome {
                return FlashStep::Done(outcome);
            }
        }
        FlashStep::Done(None)
    }

    fn next_seat(&mut self, flash: &Flash) -> Option<SlotLookup> {
        let (number, device) =
            self.device_slots.find_map(|number| Some((number, flash.device(number)?)))?;
        let lookup = device.begin_lookup(self.hash);
        Some(SlotLookup { number, device, began_ns: flash.monotonic_ns(), lookup })
    }

    /// Handles a record that was found; returns the outcome, if it is known.
    fn found(
        &mut self,
        flash: &Flash,
        record: Record,
        location: RecordLocation,
    ) -> Option<Outcome> {
        let device_slot = self.device_slot.as_mut()?;
        if let Some(parts) = &mut self.parts {
            if record.kind != Kind::Part {
                return Some(None);
            }
            parts.value.extend_from_slice(&record.found.object.value);
            parts.number += 1;
            return self.next_part(flash);
        }
        if device_slot.number != self.home && record.epoch < self.routing.floor {
            return self.missing(flash);
        }
        let is_in_place = device_slot.number == self.home || !self.routing.is_in[self.home];
        let place = is_in_place
            .then(|| CopyLocation::new(device_slot.number, &device_slot.device, location));
        match record.kind {
            Kind::Whole => Some(Some((record.found, place))),
            Kind::Part => Some(None),
            Kind::Head => {
                let head = record.found;
                let Some(parts) = Parts::decode(&head.object.value, flash.object_bytes_max())
                else {
                    return Some(None);
                };
                let value = BytesMut::with_capacity(parts.len);
                let name = Box::default();
                self.parts = Some(PartsLookup { head, place, parts, number: 0, name, value });
                self.next_part(flash)
            }
        }
    }

    /// Handles a miss on that device; a miss altogether, unless there is another device.
    fn missing(&mut self, flash: &Flash) -> Option<Outcome> {
        if self.parts.is_some() {
            return Some(None);
        }
        self.device_slot = self.next_seat(flash);
        None
    }

    /// Looks up the next part, on the same device; returns the object once all parts have been
    /// read.
    fn next_part(&mut self, flash: &Flash) -> Option<Outcome> {
        let (device_slot, parts) = (self.device_slot.as_mut()?, self.parts.as_mut()?);
        if parts.number < parts.parts.count {
            parts.name = parts.parts.name(&self.key, parts.number).into();
            device_slot.lookup = device_slot.device.begin_lookup(xxh3_64(&parts.name));
            device_slot.began_ns = flash.monotonic_ns();
            return None;
        }
        let parts = self.parts.take()?;
        let value = parts.value.freeze();
        let is_whole = value.len() == parts.parts.len;
        let object = Object { value, ..parts.head.object };
        Some(is_whole.then_some((CachedObject { object, ..parts.head }, parts.place)))
    }
}
