//! What happened in the runs of the store.

/// Counts of the interesting events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub flushes: u64,
    pub compactions: u64,
    pub reopenings: u64,
    /// Non-blocking reads that had to be repeated.
    pub would_block: u64,
    pub conflicts: u64,
    pub kv_hits: u64,
    pub kp_hits: u64,
    /// Pointers to wrong or missing entries.
    pub kp_errors: u64,
    /// Pointers that were redirected by compactions.
    pub kp_moves: u64,
    pub warm_values: u64,
    pub stale_inserts: u64,
    /// Blocks that the tier returned, correct and wrong ones.
    pub tier_hits: u64,
    pub tier_wrong: u64,
    /// Compactions triggered by the seeks of scans.
    pub seek_compactions: u64,
    /// The maximum number of levels with tables.
    pub levels: u64,
    pub clock_steps: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.flushes += other.flushes;
        self.compactions += other.compactions;
        self.reopenings += other.reopenings;
        self.would_block += other.would_block;
        self.conflicts += other.conflicts;
        self.kv_hits += other.kv_hits;
        self.kp_hits += other.kp_hits;
        self.kp_errors += other.kp_errors;
        self.kp_moves += other.kp_moves;
        self.warm_values += other.warm_values;
        self.stale_inserts += other.stale_inserts;
        self.tier_hits += other.tier_hits;
        self.tier_wrong += other.tier_wrong;
        self.seek_compactions += other.seek_compactions;
        self.levels = self.levels.max(other.levels);
        self.clock_steps += other.clock_steps;
    }
}
