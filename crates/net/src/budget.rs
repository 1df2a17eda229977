//! A bound on the bytes of requests that wait, over all connections.
//!
//! A connection keeps a [`Reservation`] of what it buffers beyond
//! [`FREE_BYTES`]. Guarantees: the sum of all reservations never exceeds the
//! budget; a reservation is given back when it is dropped, whatever happened.
//! Who finds the budget spent waits a moment, in order of arrival, and is then
//! refused: two clients, each half-way through a value that the other leaves no
//! room for, would otherwise wait for each other for ever.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What each connection may buffer without asking: most never need more, and
/// the common request costs no turn on a shared counter.
pub const FREE_BYTES: usize = 64 << 10;

/// What one permit stands for; keeps a gigabyte within the semaphore's 32 bits.
const UNIT_BYTES: usize = 4 << 10;

/// How long to wait for others to finish their requests.
const PATIENCE: Duration = Duration::from_secs(5);

/// The shared bound.
#[derive(Debug, Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    units_max: usize,
}

impl Budget {
    /// A bound of so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let units_max = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units_max)), units_max }
    }

    /// A reservation of nothing.
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), held: None }
    }

    /// Bytes reserved by all.
    pub fn used_bytes(&self) -> usize {
        (self.units_max - self.units.available_permits()) * UNIT_BYTES
    }
}

/// The part of the budget that one connection holds.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    held: Option<OwnedSemaphorePermit>,
}

impl Reservation {
    /// Makes room for `bytes` in all; false when others hold too much for too
    /// long, or it could never be had.
    pub async fn grow_to(&mut self, bytes: usize) -> bool {
        let units = bytes.saturating_sub(FREE_BYTES).div_ceil(UNIT_BYTES);
        let more = units.saturating_sub(self.held_units());
        if more == 0 {
            return true;
        }
        let Ok(count) = u32::try_from(more) else {
            return false;
        };
        if units > self.budget.units_max {
            return false;
        }
        let semaphore = self.budget.units.clone();
        match tokio::time::timeout(PATIENCE, semaphore.acquire_many_owned(count)).await {
            Ok(Ok(permit)) => {
                match &mut self.held {
                    Some(held) => held.merge(permit),
                    held => *held = Some(permit),
                }
                true
            }
            _ => false,
        }
    }

    /// Gives back what is held beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let units = bytes.saturating_sub(FREE_BYTES).div_ceil(UNIT_BYTES);
        let excess = self.held_units().saturating_sub(units);
        if let Some(held) = &mut self.held {
            drop(held.split(excess));
        }
    }

    fn held_units(&self) -> usize {
        self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_one_holds_another_waits_for_and_is_refused() {
        let budget = Budget::new(1 << 20);
        let mut one = budget.reservation();
        let mut other = budget.reservation();
        assert!(one.grow_to(FREE_BYTES).await);
        assert_eq!(budget.used_bytes(), 0);
        assert!(one.grow_to(FREE_BYTES + 1000 * 1024).await);
        assert!(!other.grow_to(FREE_BYTES + 100 * 1024).await);
        one.shrink_to(FREE_BYTES + 1);
        assert_eq!(budget.used_bytes(), UNIT_BYTES);
        assert!(other.grow_to(FREE_BYTES + 100 * 1024).await);
        drop(other);
        drop(one);
        assert_eq!(budget.used_bytes(), 0);
        assert!(!budget.reservation().grow_to(FREE_BYTES + (1 << 20) + 1).await);
    }
}
