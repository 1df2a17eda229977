//! The environment of a cache: storage, clock, randomness, threads, and the boot id of the machine.

use std::sync::Arc;

use tidekv_io::{Clock, Executor, InlineExecutor, Random, Storage, SystemRandom, ThreadPool};

/// The environment of a cache.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Where the flash devices are.
    pub storage: Arc<dyn Storage>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Source of device ids.
    pub random: Arc<dyn Random>,
    /// The machine's boot id: unsynced writes do not survive a reboot.
    pub boot: u128,
    /// Whether background work runs in the thread that causes it: slower, but repeatable.
    pub is_inline: bool,
}

impl Environment {
    /// The real machine's environment, with this storage and clock.
    pub fn new(storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Self {
        let random = Arc::new(SystemRandom);
        Self { storage, clock, random, boot: tidekv_io::boot_id(), is_inline: false }
    }

    /// The present second.
    pub(crate) fn now_s(&self) -> u32 {
        second(&*self.clock)
    }

    /// The executor of a device's background work.
    pub(crate) fn executor(&self, device_slot: usize) -> Arc<dyn Executor> {
        match self.is_inline {
            true => Arc::new(InlineExecutor::new()),
            false => Arc::new(ThreadPool::new(&format!("flash-{device_slot}"), 1)),
        }
    }

    /// A random device id; 0 means none.
    pub(crate) fn device_id(&self) -> u64 {
        self.random.next_u64().max(1)
    }
}

/// The present second of a clock.
pub(crate) fn second(clock: &dyn Clock) -> u32 {
    u32::try_from(clock.unix_ms() / 1000).unwrap_or(u32::MAX - 1)
}
