//! Single flight: when many threads need the same uncached block, one reads it and the others wait
//! for its result.
//!
//! ```text
//!            join: no read under way              publish
//! (nothing) ───────────────────────▶ in flight ─────────────▶ landed
//!                                      │  ▲ join: a read is under way → wait
//!                                      └──┘
//! ```
//!
//! Guarantees:
//! 1. Every flight lands: a leader that is dropped without publishing (it
//!    panicked) lands its flight with an error.
//! 2. No lock is held while the leader reads.
//! 3. No deadlock, as long as a thread publishes all flights that it leads
//!    before it waits for any.

use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use tidekv_cache::{BlockId, BlockKind};

use crate::error::{Error, ErrorKind, Result};
use crate::sst::block::Block;
use crate::sync::{Condvar, Mutex};

/// The key of a flight: the block that it fetches.
pub(super) type FlightKey = (BlockId, BlockKind);

/// Enough shards that threads which read different blocks rarely contend.
const SHARDS: usize = 16;

/// The result that the followers of a read wait for.
#[derive(Debug, Default)]
pub(super) struct Flight {
    result: Mutex<Option<Result<Arc<Block>>>>,
    landed: Condvar,
}

impl Flight {
    /// Waits until the flight lands.
    pub(super) fn wait(&self) -> Result<Arc<Block>> {
        let mut result = self.result.lock();
        loop {
            if let Some(result) = &*result {
                return result.clone();
            }
            self.landed.wait(&mut result);
        }
    }

    fn land(&self, result: Result<Arc<Block>>) {
        *self.result.lock() = Some(result);
        self.landed.notify_all();
    }
}

/// Reads under way, each with its flight if any thread waits for it. (Most reads have no followers
/// and allocate nothing.)
type UnderWay = HashMap<FlightKey, Option<Arc<Flight>>>;

/// All reads under way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    shards: [Mutex<UnderWay>; SHARDS],
}

/// The role of a thread that needs a block.
#[derive(Debug)]
pub(super) enum Role<'a> {
    /// Read it, and publish.
    Lead(Lead<'a>),
    /// Wait for the thread that reads it.
    Follow(Arc<Flight>),
}

/// The obligation to read a block for all threads that wait for it.
#[derive(Debug)]
pub(super) struct Lead<'a> {
    flights: &'a Flights,
    key: FlightKey,
    published: bool,
}

impl Flights {
    pub(super) fn join(&self, key: FlightKey) -> Role<'_> {
        match self.shard(key).lock().entry(key) {
            Entry::Occupied(mut under_way) => {
                Role::Follow(Arc::clone(under_way.get_mut().get_or_insert_default()))
            }
            Entry::Vacant(nobody) => {
                nobody.insert(None);
                Role::Lead(Lead { flights: self, key, published: false })
            }
        }
    }

    fn shard(&self, (id, _): FlightKey) -> &Mutex<UnderWay> {
        let mixed = (id.offset ^ id.table.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(mixed >> 60) as usize % SHARDS]
    }
}

impl Lead<'_> {
    /// Lands the flight.
    pub(super) fn publish(mut self, result: Result<Arc<Block>>) {
        self.land(result);
    }

    fn land(&mut self, result: Result<Arc<Block>>) {
        self.published = true;
        let flight = self.flights.shard(self.key).lock().remove(&self.key);
        if let Some(flight) = flight.expect("a flight is under way until its leader lands it") {
            flight.land(result);
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if !self.published {
            let (id, _) = self.key;
            let what = format!(
                "the read of the block at offset {} of table {} was abandoned",
                id.offset, id.table
            );
            self.land(Err(Error::new(ErrorKind::Storage, what)));
        }
    }
}
