//! The device slot of a key: the one whose number hashes highest together with the key's hash,
//! weighted by size (Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
//! 1998; weights as in Schindelhauer and Schomaker, 2005).
//!
//! Guarantee: when a slot is skipped, only its own keys move, and they are spread over all the
//! others by their weights.
//!
//! Pure.

/// The weights of the slots.
#[derive(Debug, Clone)]
pub(crate) struct Rendezvous {
    weights: Box<[f64]>,
    /// All weights are equal: then hashes are compared directly.
    is_even: bool,
}

impl Rendezvous {
    /// Slots with these sizes, in bytes.
    pub(crate) fn new(bytes: impl Iterator<Item = u64>) -> Self {
        let weights: Box<[f64]> = bytes.map(|bytes| bytes as f64).collect();
        let is_even = weights.windows(2).all(|pair| pair[0] == pair[1]);
        Self { weights, is_even }
    }

    /// The slot of a key with that hash among those for which `may_be` is true.
    pub(crate) fn device_slot(&self, hash: u64, may_be: impl Fn(usize) -> bool) -> Option<usize> {
        let device_slots = (0..self.weights.len()).filter(|device_slot| may_be(*device_slot));
        if self.is_even {
            return device_slots.max_by_key(|device_slot| mixed(hash, *device_slot));
        }
        device_slots.max_by(|a, b| self.score(hash, *a).total_cmp(&self.score(hash, *b)))
    }

    fn score(&self, hash: u64, device_slot: usize) -> f64 {
        // In the open interval from 0 to 1.
        let uniform = ((mixed(hash, device_slot) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -self.weights[device_slot] / uniform.ln()
    }
}

/// A hash of both; the last steps of splitmix64.
fn mixed(hash: u64, device_slot: usize) -> u64 {
    let mixed = hash ^ (device_slot as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rendezvous: &Rendezvous, device_slots: usize, without: Option<usize>) -> Vec<usize> {
        let mut counts = vec![0; device_slots];
        for n in 0..80_000_u64 {
            let hash = xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
            let device_slot =
                rendezvous.device_slot(hash, |device_slot| Some(device_slot) != without);
            counts[device_slot.expect("there are slots")] += 1;
        }
        counts
    }

    #[test]
    fn keys_are_spread_by_size() {
        let even = Rendezvous::new([5, 5, 5, 5].into_iter());
        assert!(counts(&even, 4, None).iter().all(|count| (19_000..21_000).contains(count)));
        let uneven = Rendezvous::new([1, 3].into_iter());
        assert!((19_000..21_000).contains(&counts(&uneven, 2, None)[0]));
    }

    #[test]
    fn only_the_keys_of_a_skipped_slot_move() {
        for sizes in [[5, 5, 5, 5], [1, 2, 3, 4]] {
            let rendezvous = Rendezvous::new(sizes.into_iter());
            let mut moved_to = [0; 4];
            for n in 0..40_000_u64 {
                let hash = xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
                let before = rendezvous.device_slot(hash, |_| true).expect("there are slots");
                let after = rendezvous
                    .device_slot(hash, |device_slot| device_slot != 3)
                    .expect("there are slots");
                match before {
                    3 => moved_to[after] += 1,
                    _ => assert_eq!(before, after),
                }
            }
            assert!(moved_to[..3].iter().all(|count| *count > 1_000), "{moved_to:?}");
        }
        assert_eq!(Rendezvous::new([1].into_iter()).device_slot(5, |_| false), None);
    }
}
