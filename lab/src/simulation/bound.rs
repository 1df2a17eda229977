//! The fewest I/Os of any cache for operations that are all known in advance: the baseline of
//! policies.
//!
//! Entries differ in size and requests in their savings, so Belady's rule is no bound. This one
//! relaxes the problem as PFOO does (Berger, Beckmann and Harchol-Balter, "Practical bounds on
//! optimal caching with variable object sizes", 2018), with several objects to keep for one
//! request:
//!
//! 1. To save I/Os at a request, a cache must have kept an object since it could last obtain it:
//!    that takes its bytes, for a number of operations. The product is a *volume*.
//! 2. A get may be saved by its key's value (all of its I/Os), by its pointer (all but that of the
//!    data block), by each of its blocks (one), or by pointer and data block. A value and a pointer
//!    are available when their key is read ([`Fill::Demand`]), or also when another request reads
//!    their block ([`Fill::Free`]).
//! 3. A group of blocks that are one read (`modelled_trace.rs`) saves I/Os only if all of it is
//!    kept: the group is one object with the bytes of all its blocks.
//! 4. The sum of all volumes is at most the budget times the operations. Each request has the upper
//!    hull of its (volume, saving) pairs, and the bound takes the steps of all hulls from the
//!    steepest on until the total is reached, the last one in part.
//!
//! Except for that, no cache saves more: at every moment it holds at most its budget, it has kept
//! an object for a request for at least that long, and times between two requests of an object do
//! not overlap. The bytes of tables, sketches and ghosts are not counted.
//!
//! **Without foresight.** If operations are drawn independently of each other (the *independent
//! reference model*: Coffman and Denning, "Operating Systems Theory", 1973), the content of a cache
//! at an operation is independent of it. So it saves, on average, no more than the best possible
//! content, which is a problem of the same kind: each use of an object takes a fraction of the
//! object's bytes, the probability of the use relative to that of all its uses. A volume is then
//! bytes divided by the probability of a use: the expected time until the next one, instead of the
//! actual one. No cache without knowledge of the future saves more on average, however well it has
//! learned ([`reads_per_op_min_irm`]). (The average is over the operations of one run, whose volume
//! is chosen with hindsight: for half a million this is negligible.)
//!
//! O(N log N) for N operations, and a few dozen bytes for each.

use std::collections::HashMap;

use tidekv_cache::BlockId;

use crate::simulation::modelled_trace::{Charges, Request, likely, requests};
use crate::simulation::simulator::Load;

/// When a value or a pointer becomes available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// When its key is read.
    Demand,
    /// Also when its block is in memory for another reason.
    Free,
}

/// A step of a hull: this saving for this additional volume.
#[derive(Debug, Clone, Copy)]
struct Step {
    volume: f64,
    saving: f64,
}

/// The probability that an operation uses an object.
#[derive(Debug, Default)]
struct Likelihoods {
    blocks: HashMap<BlockId, f64>,
    keys: HashMap<u64, f64>,
}

impl Likelihoods {
    /// Over all possible operations, each with its probability.
    fn of(operations: impl Iterator<Item = (Request, f64)>) -> Self {
        let mut likelihoods = Self::default();
        let mut of_block = |id: &BlockId, likelihood| {
            *likelihoods.blocks.entry(*id).or_default() += likelihood;
        };
        for (request, likelihood) in operations {
            match request {
                Request::Get(key, blocks) => {
                    *likelihoods.keys.entry(key).or_default() += likelihood;
                    blocks.iter().for_each(|id| of_block(id, likelihood));
                }
                Request::Scan(groups) => {
                    groups.iter().flatten().for_each(|id| of_block(id, likelihood));
                }
            }
        }
        likelihoods
    }
}

/// Collects the possible savings.
struct Savings {
    charges: Charges,
    fill: Fill,
    /// For a cache without knowledge of the future.
    likelihoods: Option<Likelihoods>,
    /// Operations before this one are not counted.
    counted_from: u64,
    now: u64,
    blocks: HashMap<BlockId, u64>,
    keys: HashMap<u64, u64>,
    steps: Vec<Step>,
    /// Reads with an empty cache.
    reads: u64,
}

impl Savings {
    fn new(charges: Charges, fill: Fill, counted_from: u64) -> Self {
        let (blocks, keys, steps) = Default::default();
        Self {
            charges,
            fill,
            likelihoods: None,
            counted_from,
            now: 0,
            blocks,
            keys,
            steps,
            reads: 0,
        }
    }

    /// For a cache that knows only the probabilities of operations.
    fn of_independent(charges: Charges, likelihoods: Likelihoods, counted_from: u64) -> Self {
        Self { likelihoods: Some(likelihoods), ..Self::new(charges, Fill::Demand, counted_from) }
    }

    fn see(&mut self, request: &Request) {
        let is_counted = self.now >= self.counted_from;
        match request {
            Request::Get(key, blocks) if is_counted => self.offer_get(*key, blocks),
            Request::Scan(groups) if is_counted => self.offer_scan(groups),
            _ => {}
        }
        match request {
            Request::Get(key, blocks) => {
                self.keys.insert(*key, self.now);
                blocks.iter().for_each(|id| self.touch(*id));
            }
            Request::Scan(groups) => groups.iter().flatten().for_each(|id| self.touch(*id)),
        }
        self.now += 1;
    }

    fn touch(&mut self, id: BlockId) {
        self.blocks.insert(id, self.now);
    }

    /// Counted operations since `then`.
    fn since(&self, then: u64) -> f64 {
        (self.now - then.max(self.counted_from)) as f64
    }

    /// Volume of a block until this use, if it was available before.
    fn of_block(&self, id: &BlockId) -> Option<f64> {
        let had = *self.blocks.get(id)?;
        let wait = self
            .likelihoods
            .as_ref()
            .map_or_else(|| self.since(had), |likelihoods| 1.0 / likelihoods.blocks[id]);
        Some(self.charges.block * wait)
    }

    /// The number of operations for which the object of a key, available at `had`, is kept until
    /// this use.
    fn wait_of_key(&self, key: u64, had: u64) -> f64 {
        self.likelihoods
            .as_ref()
            .map_or_else(|| self.since(had), |likelihoods| 1.0 / likelihoods.keys[&key])
    }

    fn offer_get(&mut self, key: u64, blocks: &[BlockId]) {
        let all = blocks.len() as f64;
        self.reads += blocks.len() as u64;
        let mut options: Vec<Step> = Vec::new();
        let mut of_blocks: Vec<f64> = blocks.iter().filter_map(|id| self.of_block(id)).collect();
        of_blocks.sort_by(f64::total_cmp);
        let mut volume = 0.0;
        for (saved, of_block) in of_blocks.iter().enumerate() {
            volume += of_block;
            options.push(Step { volume, saving: saved as f64 + 1.0 });
        }
        let home = blocks.last();
        let read = self.keys.get(&key).copied();
        let had = match self.fill {
            Fill::Demand => read,
            Fill::Free => read.max(home.and_then(|id| self.blocks.get(id)).copied()),
        };
        if let Some(had) = had {
            let (value, pointer) = (self.charges.value, self.charges.pointer);
            let wait = self.wait_of_key(key, had);
            let volume = pointer * wait;
            options.push(Step { volume: value * wait, saving: all });
            options.push(Step { volume, saving: all - 1.0 });
            if let Some(of_block) = home.and_then(|id| self.of_block(id)) {
                options.push(Step { volume: volume + of_block, saving: all });
            }
        }
        self.take_hull(options);
    }

    fn offer_scan(&mut self, groups: &[Vec<BlockId>]) {
        self.reads += groups.len() as u64;
        for group in groups {
            let volumes = group.iter().map(|id| self.of_block(id)).sum::<Option<f64>>();
            self.steps.extend(volumes.map(|volume| Step { volume, saving: 1.0 }));
        }
    }

    /// Keeps the steps of the upper hull of alternative options.
    fn take_hull(&mut self, mut options: Vec<Step>) {
        options.sort_by(|one, other| {
            one.volume.total_cmp(&other.volume).then(other.saving.total_cmp(&one.saving))
        });
        let mut hull: Vec<Step> = vec![Step { volume: 0.0, saving: 0.0 }];
        for option in options {
            if hull.last().is_some_and(|last| option.saving <= last.saving) {
                continue;
            }
            while let [.., before, last] = hull[..] {
                let slope = (last.saving - before.saving) * (option.volume - last.volume);
                if slope > (option.saving - last.saving) * (last.volume - before.volume) {
                    break;
                }
                hull.pop();
            }
            hull.push(option);
        }
        self.steps.extend(hull.windows(2).map(|pair| Step {
            volume: pair[1].volume - pair[0].volume,
            saving: pair[1].saving - pair[0].saving,
        }));
    }

    /// The fewest reads with `budget` bytes.
    fn reads_min(mut self, budget: f64) -> f64 {
        self.steps.sort_by(|one, other| {
            (other.saving * one.volume).total_cmp(&(one.saving * other.volume))
        });
        let mut left = budget * self.now.saturating_sub(self.counted_from) as f64;
        let mut reads = self.reads as f64;
        for step in self.steps {
            if step.volume > left {
                return reads - step.saving * left / step.volume;
            }
            left -= step.volume;
            reads -= step.saving;
        }
        reads
    }
}

/// The fewest I/Os per operation over the second half of a run of
/// [`simulate`](crate::simulation::simulator::simulate) with the same arguments.
pub fn reads_per_op_min(
    load: &Load,
    entries: u64,
    budget: usize,
    operations: u64,
    seed: u64,
    fill: Fill,
) -> f64 {
    let mut savings = Savings::new(Charges::of_entries(), fill, operations / 2);
    requests(load, entries, operations, seed).for_each(|request| savings.see(&request));
    savings.reads_min(budget as f64) / (operations - operations / 2) as f64
}

/// The fewest expected I/Os per operation over that half of a cache that does not know the future,
/// but its probabilities (values and pointers by [`Fill::Demand`]).
pub fn reads_per_op_min_irm(
    load: &Load,
    entries: u64,
    budget: usize,
    operations: u64,
    seed: u64,
) -> f64 {
    let likelihoods = Likelihoods::of(likely(load, entries, seed));
    let mut savings = Savings::of_independent(Charges::of_entries(), likelihoods, operations / 2);
    requests(load, entries, operations, seed).for_each(|request| savings.see(&request));
    savings.reads_min(budget as f64) / (operations - operations / 2) as f64
}

#[cfg(test)]
mod tests;
