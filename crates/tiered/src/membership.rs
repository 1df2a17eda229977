//! The devices of a cache and the epochs in which they were attached, so that records from before a
//! device's failure never reappear.
//!
//! ```text
//! 0   8   lineage: a random number
//! 8   4   epoch: rises with every change
//! 12  4   floor: copies forwarded in an earlier epoch do not count
//! 16  4   number of device slots that follow
//! 20      device slots: device (8), epoch attached (4), epoch detached (4) each
//! ```
//!
//! Values on flash: do not change. All numbers are little-endian.
//!
//! Keys belong to device slots; a device takes a slot, and when it has failed another takes it.
//! While a slot is empty its keys are forwarded to others.
//!
//! ```text
//!            detach()               attach()
//!  attached ──────────► empty slot ──────────► attached
//! ```
//!
//! 1. Every change raises the epoch, and is written to all attached devices and to the state file,
//!    if there is one, before anything relies on it.
//! 2. A device that was killed in one epoch counts in that epoch only. A device that was detached
//!    does not know it, but the others do: more than half of the devices in its membership must be
//!    present and agree ([`Membership::is_confirmed_by`]).
//! 3. If no device is trusted, another lineage begins. Of two lineages it is unknown which is
//!    later: then neither counts.
//! 4. Forwarded copies count until the next device is detached. Once all copies of a slot have been
//!    moved back they are neither looked up nor invalidated, until another device is detached.
//!
//! **What we changed.** BigKV forwards and migrates, and does not specify the copies on the other
//! side when a device fails, returns and fails again.
//!
//! Pure.

/// A device slot and its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeviceSlot {
    /// The device; 0: there never was one.
    pub(crate) device: u64,
    /// The epoch in which it was attached.
    pub(crate) attached_epoch: u32,
    /// The epoch in which a device was last detached.
    pub(crate) detached_epoch: u32,
}

impl DeviceSlot {
    /// Whether its device is attached.
    pub(crate) fn is_taken(&self) -> bool {
        self.attached_epoch > self.detached_epoch
    }
}

/// All device slots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Membership {
    pub(crate) lineage: u64,
    pub(crate) epoch: u32,
    pub(crate) floor: u32,
    pub(crate) device_slots: Vec<DeviceSlot>,
}

/// The most device slots that fit on flash.
pub(crate) const DEVICE_SLOTS_MAX: usize = 128;
/// The encoded length of a membership, in bytes.
pub(crate) const MEMBERSHIP_BYTES: usize = HEAD_BYTES + DEVICE_SLOTS_MAX * 16;

const HEAD_BYTES: usize = 20;

impl Membership {
    /// A new lineage of `device_slots` empty slots.
    pub(crate) fn new(lineage: u64, device_slots: usize) -> Self {
        Self {
            lineage,
            epoch: 0,
            floor: 0,
            device_slots: vec![DeviceSlot::default(); device_slots],
        }
    }

    /// Attaches a device to an empty slot.
    pub(crate) fn attach(&mut self, device_slot: usize, device: u64) {
        debug_assert!(!self.device_slots[device_slot].is_taken());
        self.epoch += 1;
        self.device_slots[device_slot] =
            DeviceSlot { device, attached_epoch: self.epoch, ..self.device_slots[device_slot] };
    }

    /// Detaches the failed device of a slot.
    pub(crate) fn detach(&mut self, device_slot: usize) {
        self.epoch += 1;
        self.floor = self.epoch;
        self.device_slots[device_slot].detached_epoch = self.epoch;
    }

    /// The slot of an attached device.
    pub(crate) fn device_slot_of(&self, device: u64) -> Option<usize> {
        self.device_slots
            .iter()
            .position(|device_slot| device_slot.is_taken() && device_slot.device == device)
    }

    /// Whether the devices with the ids of `present`, which all store this membership, are enough
    /// to know that nothing has changed since.
    pub(crate) fn is_confirmed_by(&self, present: impl Iterator<Item = u64>) -> bool {
        let present = present.filter(|device| self.device_slot_of(*device).is_some()).count();
        let taken = self.device_slots.iter().filter(|device_slot| device_slot.is_taken()).count();
        // A single device cannot confirm itself.
        taken > 1 && present * 2 > taken
    }

    pub(crate) fn encode(&self) -> [u8; MEMBERSHIP_BYTES] {
        debug_assert!(self.device_slots.len() <= DEVICE_SLOTS_MAX);
        let device_slots = self.device_slots.iter().flat_map(|device_slot| {
            let device = device_slot.device.to_le_bytes().into_iter();
            device
                .chain(device_slot.attached_epoch.to_le_bytes())
                .chain(device_slot.detached_epoch.to_le_bytes())
        });
        let head = [self.epoch, self.floor, self.device_slots.len() as u32];
        let mut bytes = [0; MEMBERSHIP_BYTES];
        let lineage = self.lineage.to_le_bytes().into_iter();
        let all = lineage.chain(head.into_iter().flat_map(u32::to_le_bytes)).chain(device_slots);
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; MEMBERSHIP_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let device_slot = |n: usize| {
            let at = HEAD_BYTES + n * 16;
            DeviceSlot {
                device: long(at),
                attached_epoch: word(at + 8),
                detached_epoch: word(at + 12),
            }
        };
        let device_slots = (word(16) as usize).min(DEVICE_SLOTS_MAX);
        Self {
            lineage: long(0),
            epoch: word(8),
            floor: word(12),
            device_slots: (0..device_slots).map(device_slot).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Membership {
        let mut membership = Membership::new(1 << 40, 3);
        (0..3).for_each(|device_slot| membership.attach(device_slot, 10 + device_slot as u64));
        membership
    }

    #[test]
    fn membership_round_trips() {
        let mut membership = three();
        membership.detach(1);
        membership.attach(1, 99);
        assert_eq!(Membership::decode(&membership.encode()), membership);
        assert_eq!((membership.epoch, membership.floor), (5, 4));
        assert_eq!(
            membership.device_slots[1],
            DeviceSlot { device: 99, attached_epoch: 5, detached_epoch: 4 }
        );
        let most = Membership::new(5, DEVICE_SLOTS_MAX);
        assert_eq!(Membership::decode(&most.encode()), most);
    }

    #[test]
    fn detached_device_has_no_slot_and_forwarded_copies_count_until_the_next_detachment() {
        let mut membership = three();
        assert_eq!(membership.device_slot_of(11), Some(1));
        membership.detach(1);
        assert_eq!(membership.device_slot_of(11), None);
        let forwarded = membership.epoch;
        assert!(forwarded >= membership.floor);
        membership.attach(1, 11);
        assert!(forwarded >= membership.floor, "they are moved back");
        membership.detach(2);
        assert!(forwarded < membership.floor);
    }

    #[test]
    fn membership_needs_a_majority_and_never_one_device_alone() {
        let membership = three();
        assert!(membership.is_confirmed_by([10, 11].into_iter()));
        assert!(!membership.is_confirmed_by([10].into_iter()));
        assert!(!membership.is_confirmed_by([10, 77].into_iter()));
        let mut one = Membership::new(5, 1);
        one.attach(0, 5);
        assert!(!one.is_confirmed_by([5].into_iter()));
        let mut two = three();
        two.detach(0);
        assert!(!two.is_confirmed_by([11].into_iter()));
        assert!(two.is_confirmed_by([11, 12].into_iter()));
    }
}
