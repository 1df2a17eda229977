//! What a cache finds around it: storage, time, randomness, threads, and the run of the machine.

use std::sync::Arc;

use tidekv_io::{Clock, Executor, InlineExecutor, Random, Storage, SystemRandom, ThreadPool};

/// What a cache finds around it.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Where flash devices are.
    pub storage: Arc<dyn Storage>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Names of devices come from here.
    pub random: Arc<dyn Random>,
    /// Which run of the machine it is: what is written and not synced outlives no other.
    pub boot: u128,
    /// Whether background work is done in the thread that causes it: slower, and repeatable.
    pub is_inline: bool,
}

impl Environment {
    /// The real machine's, with that storage and clock.
    pub fn new(storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Self {
        let random = Arc::new(SystemRandom);
        Self { storage, clock, random, boot: tidekv_io::boot_id(), is_inline: false }
    }

    /// The present second.
    pub(crate) fn now_s(&self) -> u32 {
        second(&*self.clock)
    }

    /// What runs the background work of a device.
    pub(crate) fn executor(&self, seat: usize) -> Arc<dyn Executor> {
        match self.is_inline {
            true => Arc::new(InlineExecutor::new()),
            false => Arc::new(ThreadPool::new(&format!("flash-{seat}"), 1)),
        }
    }

    /// A number for a device; 0 stands for none.
    pub(crate) fn device_id(&self) -> u64 {
        self.random.next_u64().max(1)
    }
}

/// The present second of a clock.
pub(crate) fn second(clock: &dyn Clock) -> u32 {
    u32::try_from(clock.unix_ms() / 1000).unwrap_or(u32::MAX - 1)
}
