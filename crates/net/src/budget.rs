//! A bound on the bytes of incomplete requests, over all connections.
//!
//! A connection holds a [`Reservation`] of the bytes that it buffers beyond
//! [`FREE_BYTES`]. Guarantees: the sum of all reservations never exceeds the
//! budget; dropping a reservation releases it. If the budget is used up, a
//! connection waits for a limited time, in order of arrival, and is then
//! rejected: two clients, each halfway through a value for which the other
//! leaves no room, would otherwise deadlock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that each connection may buffer without a reservation: most never need
/// more, so the common request does not touch the shared counter.
pub const FREE_BYTES: usize = 64 << 10;

/// Bytes of one permit; keeps a gigabyte within the semaphore's 32 bits.
const UNIT_BYTES: usize = 4 << 10;

/// The time to wait for other connections to finish their requests.
const PATIENCE: Duration = Duration::from_secs(5);

/// The shared bound.
#[derive(Debug, Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    units_max: usize,
}

impl Budget {
    /// A budget of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        let units_max = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units_max)), units_max }
    }

    /// An empty reservation.
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), held: None }
    }

    /// Bytes reserved by all connections.
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
    /// Grows the reservation to `bytes`. Returns false if the budget has no room in time, or if
    /// `bytes` exceed the whole budget.
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

    /// Shrinks the reservation to `bytes`.
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
    async fn a_connection_waits_for_the_budget_and_is_then_rejected() {
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
