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
    pub(crate) fn seat(&self, hash: u64, may_be: impl Fn(usize) -> bool) -> Option<usize> {
        let seats = (0..self.weights.len()).filter(|seat| may_be(*seat));
        if self.is_even {
            return seats.max_by_key(|seat| mixed(hash, *seat));
        }
        seats.max_by(|a, b| self.score(hash, *a).total_cmp(&self.score(hash, *b)))
    }

    fn score(&self, hash: u64, seat: usize) -> f64 {
        // In the open interval from 0 to 1.
        let uniform = ((mixed(hash, seat) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -self.weights[seat] / uniform.ln()
    }
}

/// A hash of both; the last steps of splitmix64.
fn mixed(hash: u64, seat: usize) -> u64 {
    let mixed = hash ^ (seat as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rendezvous: &Rendezvous, seats: usize, without: Option<usize>) -> Vec<usize> {
        let mut counts = vec![0; seats];
        for n in 0..80_000_u64 {
            let hash = xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
            let seat = rendezvous.seat(hash, |seat| Some(seat) != without);
            counts[seat.expect("there are seats")] += 1;
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
    fn only_the_keys_of_a_seat_that_is_passed_over_move() {
        for sizes in [[5, 5, 5, 5], [1, 2, 3, 4]] {
            let rendezvous = Rendezvous::new(sizes.into_iter());
            let mut moved_to = [0; 4];
            for n in 0..40_000_u64 {
                let hash = xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
                let before = rendezvous.seat(hash, |_| true).expect("there are seats");
                let after = rendezvous.seat(hash, |seat| seat != 3).expect("there are seats");
                match before {
                    3 => moved_to[after] += 1,
                    _ => assert_eq!(before, after),
                }
            }
            assert!(moved_to[..3].iter().all(|count| *count > 1_000), "{moved_to:?}");
        }
        assert_eq!(Rendezvous::new([1].into_iter()).seat(5, |_| false), None);
    }
}
