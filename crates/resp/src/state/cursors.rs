//! The positions of `SCAN` and `HSCAN`: a number for the client, a key for the server.
//!
//! A walk follows the order of keys, so its position is the last key returned, which does not fit
//! into the number that clients hold. A bounded ring keeps the keys of the latest cursors; cursors
//! are sequential, so the ring's index follows from the number.
//!
//! Guarantees: an element that exists from the first call of a walk to the last is returned. A
//! cursor dropped from the ring (after 65 536 newer ones or 16 MiB of keys, or a restart of the
//! server) starts again from the beginning: elements are returned twice, which `SCAN` allows, and
//! none is missed. A number of a previous run of the server is not valid in this run: numbers start
//! at a random one. Numbers stay below 2⁵³, because some clients store them as floating-point
//! numbers.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;

const CURSORS_MAX: usize = 1 << 16;
const KEY_BYTES_MAX: usize = 16 << 20;
/// Bound of the first cursor; half of 2⁵³, so that counting never reaches 2⁵³.
const FIRST_MAX: u64 = 1 << 52;

/// The scope of a cursor: a walk over all keys, or over one hash. A cursor used for another walk
/// starts from the beginning.
pub(crate) type Scope = u64;

/// The cursors.
#[derive(Debug)]
pub(crate) struct Cursors {
    ring: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    /// The number of the oldest position.
    first: u64,
    positions: VecDeque<(Scope, Bytes)>,
    key_bytes: usize,
}

impl Cursors {
    /// No cursors; `random` gives the first number of this run.
    pub(crate) fn new(random: u64) -> Self {
        let first = random % FIRST_MAX + 1;
        Self { ring: Mutex::new(Ring { first, positions: VecDeque::new(), key_bytes: 0 }) }
    }

    /// A cursor that continues after `last`.
    pub(crate) fn remember(&self, scope: Scope, last: &[u8]) -> u64 {
        let mut ring = self.ring.lock();
        // A copy: a slice would keep the whole request or block alive.
        ring.positions.push_back((scope, Bytes::copy_from_slice(last)));
        ring.key_bytes += last.len();
        while ring.positions.len() > CURSORS_MAX || ring.key_bytes > KEY_BYTES_MAX {
            let oldest = ring.positions.pop_front();
            ring.key_bytes -= oldest.map_or(0, |(_, key)| key.len());
            ring.first += 1;
        }
        ring.first + ring.positions.len() as u64 - 1
    }

    /// The key after which `cursor` continues; `None`: from the beginning.
    pub(crate) fn position(&self, scope: Scope, cursor: u64) -> Option<Bytes> {
        let ring = self.ring.lock();
        let index = usize::try_from(cursor.checked_sub(ring.first)?).ok()?;
        let (of, last) = ring.positions.get(index)?;
        (*of == scope).then(|| last.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_found_again_until_the_ring_is_full() {
        let cursors = Cursors::new(u64::MAX);
        let first = cursors.remember(1, b"a");
        assert!(first > 0 && first < 1 << 53);
        assert_eq!(cursors.position(1, first).unwrap(), "a");
        assert_eq!(cursors.position(2, first), None);
        for unknown in [0, 1, first + 1, u64::MAX] {
            assert_eq!(cursors.position(1, unknown), None);
        }
        let others: Vec<u64> = (0..CURSORS_MAX).map(|_| cursors.remember(1, b"b")).collect();
        assert_eq!(cursors.position(1, first), None);
        assert!(others.iter().all(|&other| cursors.position(1, other).unwrap() == "b"));
    }

    #[test]
    fn long_keys_are_bounded_too() {
        let cursors = Cursors::new(0);
        for _ in 0..300 {
            cursors.remember(0, &[0; 1 << 16]);
        }
        let ring = cursors.ring.lock();
        assert!(ring.key_bytes <= KEY_BYTES_MAX);
        assert_eq!(ring.positions.len(), KEY_BYTES_MAX >> 16);
    }
}
