//! The store in a memory budget that it shares with others: what it wants, and when the budget is
//! divided again.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::options::memory_budget::Member;

/// The time between two looks at what the stores of a budget want.
const INTERVAL: Duration = Duration::from_secs(2);

impl Member for Engine {
    fn wanted_bytes(&self) -> u64 {
        self.memory.wanted_bytes(&self.trees)
    }

    fn set_share(self: Arc<Self>, bytes: u64) {
        // Waits for no lock that is held while storage is written: other stores wait for this one.
        self.memory.follow_total(&self.trees, bytes);
    }
}

impl Engine {
    /// Takes what the store gets of its budget, now and whenever it is divided again.
    pub(crate) fn take_memory(self: &Arc<Self>) {
        let this: Arc<dyn Member> = Arc::clone(self) as _;
        self.share.belongs_to(Arc::downgrade(&this));
        if self.share.is_of_several() {
            self.repeat(INTERVAL, |engine| {
                engine.memory.begin_review();
                engine.run_job(|| engine.share.review());
                Some(INTERVAL)
            });
        }
    }
}
