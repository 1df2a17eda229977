//! Where a key is looked up.
//!
//! | its own device is | first | then |
//! |---|---|---|
//! | attached | there | |
//! | out | on the next best | |
//! | attached again, warming | there | on the next best, whose copy counts if it was put there since the last detachment |
//!
//! Pure.

use crate::fleet::rendezvous::Rendezvous;
use crate::membership::Membership;

/// The attached devices, in a form that is fast to read for every key.
#[derive(Debug, Clone)]
pub(crate) struct Routing {
    pub(crate) rendezvous: Rendezvous,
    pub(crate) is_in: Box<[bool]>,
    pub(crate) is_warming: Box<[bool]>,
    pub(crate) epoch: u32,
    pub(crate) floor: u32,
}

impl Routing {
    /// The routing with these devices attached and those slots warming.
    pub(crate) fn new(
        rendezvous: Rendezvous,
        membership: &Membership,
        is_warming: impl Iterator<Item = bool>,
    ) -> Self {
        Self {
            rendezvous,
            is_in: membership
                .device_slots
                .iter()
                .map(|device_slot| device_slot.is_taken())
                .collect(),
            is_warming: is_warming.collect(),
            epoch: membership.epoch,
            floor: membership.floor,
        }
    }

    /// The slot that a key belongs to, and the slots where it may be.
    pub(crate) fn device_slots(&self, hash: u64) -> (usize, [Option<usize>; 2]) {
        let home = self.rendezvous.device_slot(hash, |_| true).unwrap_or(0);
        let next = || {
            self.rendezvous
                .device_slot(hash, |device_slot| device_slot != home && self.is_in[device_slot])
        };
        match (self.is_in[home], self.is_warming[home]) {
            (true, false) => (home, [Some(home), None]),
            (true, true) => (home, [Some(home), next()]),
            (false, _) => (home, [next(), None]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(is_in: [bool; 3], is_warming: [bool; 3]) -> Routing {
        let rendezvous = Rendezvous::new([1, 1, 1].into_iter());
        let (is_in, is_warming) = (is_in.into(), is_warming.into());
        Routing { rendezvous, is_in, is_warming, epoch: 1, floor: 0 }
    }

    #[test]
    fn key_is_forwarded_while_its_device_is_out_and_looked_up_twice_while_it_warms() {
        let well = routing([true; 3], [false; 3]);
        for n in 0..1_000_u64 {
            let hash = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let (home, device_slots) = well.device_slots(hash);
            assert_eq!(device_slots, [Some(home), None]);
            let without = [0, 1, 2].map(|device_slot| device_slot != home);
            let (same, [Some(next), None]) = routing(without, [false; 3]).device_slots(hash) else {
                panic!("it is forwarded");
            };
            assert!(same == home && next != home);
            let warming = routing([true; 3], without.map(|is_in| !is_in));
            assert_eq!(warming.device_slots(hash), (home, [Some(home), Some(next)]));
        }
        assert_eq!(routing([false; 3], [false; 3]).device_slots(5).1, [None, None]);
    }
}
