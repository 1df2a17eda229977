//! Which devices are there, and since when: so that what lay on a device before it failed can
//! never come back.
//!
//! ```text
//! 0   8   lineage: a random number
//! 8   4   epoch: goes up with every change
//! 12  4   floor: copies that were forwarded in an earlier epoch do not count
//! 16  4   how many seats follow
//! 20      seats: device (8), the epoch in which it came (4), in which it went (4) each
//! ```
//!
//! Values on flash: do not change. All numbers are little-endian.
//!
//! Keys belong to seats; a device takes a seat, and when it has failed another takes it.
//! While a seat is empty its keys are forwarded to others.
//!
//! ```text
//!          leave()                  come()
//!  there ──────────► empty seat ──────────► there
//! ```
//!
//! 1. Every change raises the epoch, and is written on all devices that are there, and where
//!    else there is a witness, before anything is done that relies on it.
//! 2. A device that was killed in one epoch counts in the same one only. If it had left it
//!    would not know, but the others would: more than half of those that it knows must be
//!    there and say the same ([`Membership::is_confirmed_by`]).
//! 3. Where no device was as it was left another lineage begins. Of two lineages nobody can
//!    tell which is the later one: then neither counts.
//! 4. Forwarded copies count until the next device leaves. When all that is theirs has been
//!    moved back nobody looks for them any more, nor invalidates them; and nobody looks for
//!    them again before some device leaves.
//!
//! **What we changed.** BigKV forwards and migrates, and does not say what becomes of copies
//! on the other side when a device fails, returns and fails again.
//!
//! Pure.

/// A seat and who sits there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeviceSlot {
    /// The device; 0: there never was one.
    pub(crate) device: u64,
    /// The epoch in which it came.
    pub(crate) came: u32,
    /// The epoch in which the seat was left last.
    pub(crate) left: u32,
}

impl DeviceSlot {
    /// Whether its device is there.
    pub(crate) fn is_taken(&self) -> bool {
        self.came > self.left
    }
}

/// All seats.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Membership {
    pub(crate) lineage: u64,
    pub(crate) epoch: u32,
    pub(crate) floor: u32,
    pub(crate) seats: Vec<DeviceSlot>,
}

/// There is room for so many seats on flash.
pub(crate) const SEATS_MAX: usize = 128;
/// What a membership takes on flash.
pub(crate) const MEMBERSHIP_BYTES: usize = HEAD_BYTES + SEATS_MAX * 16;

const HEAD_BYTES: usize = 20;

impl Membership {
    /// `seats` seats, all of them empty: the beginning of a lineage.
    pub(crate) fn new(lineage: u64, seats: usize) -> Self {
        Self { lineage, epoch: 0, floor: 0, seats: vec![DeviceSlot::default(); seats] }
    }

    /// A device takes an empty seat.
    pub(crate) fn attach(&mut self, seat: usize, device: u64) {
        debug_assert!(!self.seats[seat].is_taken());
        self.epoch += 1;
        self.seats[seat] = DeviceSlot { device, came: self.epoch, ..self.seats[seat] };
    }

    /// The device of a seat has failed.
    pub(crate) fn detach(&mut self, seat: usize) {
        self.epoch += 1;
        self.floor = self.epoch;
        self.seats[seat].left = self.epoch;
    }

    /// The seat of a device that is there.
    pub(crate) fn seat_of(&self, device: u64) -> Option<usize> {
        self.seats.iter().position(|seat| seat.is_taken() && seat.device == device)
    }

    /// Whether devices that say what this says, those with the ids of `present`, are enough to
    /// know that nothing has changed since.
    pub(crate) fn is_confirmed_by(&self, present: impl Iterator<Item = u64>) -> bool {
        let present = present.filter(|device| self.seat_of(*device).is_some()).count();
        let taken = self.seats.iter().filter(|seat| seat.is_taken()).count();
        // One cannot confirm itself.
        taken > 1 && present * 2 > taken
    }

    pub(crate) fn encode(&self) -> [u8; MEMBERSHIP_BYTES] {
        debug_assert!(self.seats.len() <= SEATS_MAX);
        let seats = self.seats.iter().flat_map(|seat| {
            let device = seat.device.to_le_bytes().into_iter();
            device.chain(seat.came.to_le_bytes()).chain(seat.left.to_le_bytes())
        });
        let head = [self.epoch, self.floor, self.seats.len() as u32];
        let mut bytes = [0; MEMBERSHIP_BYTES];
        let lineage = self.lineage.to_le_bytes().into_iter();
        let all = lineage.chain(head.into_iter().flat_map(u32::to_le_bytes)).chain(seats);
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; MEMBERSHIP_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let seat = |n: usize| {
            let at = HEAD_BYTES + n * 16;
            DeviceSlot { device: long(at), came: word(at + 8), left: word(at + 12) }
        };
        let seats = (word(16) as usize).min(SEATS_MAX);
        Self {
            lineage: long(0),
            epoch: word(8),
            floor: word(12),
            seats: (0..seats).map(seat).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Membership {
        let mut membership = Membership::new(1 << 40, 3);
        (0..3).for_each(|seat| membership.attach(seat, 10 + seat as u64));
        membership
    }

    #[test]
    fn it_comes_back() {
        let mut membership = three();
        membership.detach(1);
        membership.attach(1, 99);
        assert_eq!(Membership::decode(&membership.encode()), membership);
        assert_eq!((membership.epoch, membership.floor), (5, 4));
        assert_eq!(membership.seats[1], DeviceSlot { device: 99, came: 5, left: 4 });
        let most = Membership::new(5, SEATS_MAX);
        assert_eq!(Membership::decode(&most.encode()), most);
    }

    #[test]
    fn a_device_that_left_has_no_seat_and_forwarded_copies_count_until_the_next_change() {
        let mut membership = three();
        assert_eq!(membership.seat_of(11), Some(1));
        membership.detach(1);
        assert_eq!(membership.seat_of(11), None);
        let forwarded = membership.epoch;
        assert!(forwarded >= membership.floor);
        membership.attach(1, 11);
        assert!(forwarded >= membership.floor, "they are moved back");
        membership.detach(2);
        assert!(forwarded < membership.floor);
    }

    #[test]
    fn more_than_half_must_say_the_same_and_never_one_alone() {
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
