//! A cache that knows all future requests: an achievable result, next to the
//! [bound](crate::simulation::bound) that no cache can exceed.
//!
//! Belady's rule for objects that differ in size and in their savings. Of a random sample of
//! objects it evicts the one with the highest cost: bytes × operations until its next use / saving.
//! A value and a pointer are available when their key is read, a block when it is read; an object
//! without a further use is not kept. It is a heuristic: it considers only the next use and treats
//! a group of blocks one by one (each saves its part of the read), and does not see that a block is
//! useless if the value is cached. A value next to its pointer counts as saving the one read that
//! the pointer does not.
//!
//! The operations are generated twice: once to record the uses of each object, once to serve them.
//! It takes 16 bytes per use, and a few hundred per object.

use std::collections::{HashMap, VecDeque};

use tidekv_cache::BlockId;

use crate::load::dice::Dice;
use crate::simulation::modelled_trace::{Charges, Request, requests};
use crate::simulation::simulator::Load;

/// The sample size of an eviction.
const SAMPLES: u64 = 128;

/// An object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Thing {
    Value(u64),
    Pointer(u64),
    Block(BlockId),
}

/// The time of a use of an object, and the I/Os that it saves if cached.
#[derive(Debug, Clone, Copy)]
struct Use {
    at: u64,
    saving: f64,
}

/// The objects that save I/Os of a request, with the saving of each.
fn uses(request: &Request) -> Vec<(Thing, f64)> {
    match request {
        Request::Get(key, blocks) => {
            let all = blocks.len() as f64;
            let of_key = [(Thing::Value(*key), all), (Thing::Pointer(*key), all - 1.0)];
            of_key.into_iter().chain(blocks.iter().map(|id| (Thing::Block(*id), 1.0))).collect()
        }
        Request::Scan(groups) => {
            let of_group = |group: &Vec<BlockId>| {
                let part = 1.0 / group.len() as f64;
                group.iter().map(|id| (Thing::Block(*id), part)).collect::<Vec<_>>()
            };
            groups.iter().flat_map(of_group).collect()
        }
    }
}

/// All future uses of each object, the next one first.
#[derive(Debug, Default)]
struct Future(HashMap<Thing, VecDeque<Use>>);

impl Future {
    fn of(requests: impl Iterator<Item = Request>) -> Self {
        let mut all: HashMap<Thing, VecDeque<Use>> = HashMap::new();
        for (at, request) in (0..).zip(requests) {
            for (thing, saving) in uses(&request) {
                all.entry(thing).or_default().push_back(Use { at, saving });
            }
        }
        Self(all)
    }

    /// The first use of an object after `now`. Forgets the earlier ones.
    fn next(&mut self, thing: Thing, now: u64) -> Option<Use> {
        let uses = self.0.get_mut(&thing)?;
        while uses.front().is_some_and(|next| next.at <= now) {
            uses.pop_front();
        }
        uses.front().copied()
    }
}

/// A cached object.
#[derive(Debug, Clone, Copy)]
struct Kept {
    thing: Thing,
    bytes: f64,
    next: Use,
}

/// The cache.
struct Foresight {
    charges: Charges,
    budget: f64,
    future: Future,
    now: u64,
    kept: Vec<Kept>,
    /// The position of each object in `kept`.
    places: HashMap<Thing, usize>,
    bytes: f64,
    dice: Dice,
}

/// The cached objects of a get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CachedPart {
    Value,
    Pointer,
    Nothing,
}

impl Foresight {
    fn new(charges: Charges, budget: f64, future: Future) -> Self {
        let (kept, places, dice) = (Vec::new(), HashMap::new(), Dice::new(0));
        Self { charges, budget, future, now: 0, kept, places, bytes: 0.0, dice }
    }

    /// Serves the next operation; returns its I/Os.
    fn serve(&mut self, request: &Request) -> u64 {
        let (held, reads) = self.reads(request);
        let home = match request {
            Request::Get(_, blocks) => blocks.last().map(|id| Thing::Block(*id)),
            Request::Scan(_) => None,
        };
        for (thing, _) in uses(request) {
            let is_had = match held {
                CachedPart::Value => false,
                CachedPart::Pointer => matches!(thing, Thing::Value(_)) || Some(thing) == home,
                CachedPart::Nothing => true,
            };
            let next = self.future.next(thing, self.now);
            match (self.places.get(&thing).copied(), next) {
                (Some(place), Some(next)) => self.kept[place].next = next,
                (Some(place), None) => self.remove(place),
                (None, Some(next)) if is_had => self.keep(thing, next),
                (None, _) => {}
            }
        }
        while self.bytes > self.budget {
            let worst = self.worst();
            self.remove(worst);
        }
        self.now += 1;
        reads
    }

    fn reads(&self, request: &Request) -> (CachedPart, u64) {
        let has = |thing| self.places.contains_key(&thing);
        let is_missing = |id: &&BlockId| !has(Thing::Block(**id));
        match request {
            Request::Get(key, _) if has(Thing::Value(*key)) => (CachedPart::Value, 0),
            Request::Get(key, blocks) if has(Thing::Pointer(*key)) => (
                CachedPart::Pointer,
                blocks.last().iter().filter(|id| is_missing(id)).count() as u64,
            ),
            Request::Get(_, blocks) => {
                (CachedPart::Nothing, blocks.iter().filter(is_missing).count() as u64)
            }
            Request::Scan(groups) => {
                let is_read = |group: &&Vec<BlockId>| group.iter().any(|id| is_missing(&id));
                (CachedPart::Nothing, groups.iter().filter(is_read).count() as u64)
            }
        }
    }

    fn keep(&mut self, thing: Thing, next: Use) {
        let bytes = match thing {
            Thing::Value(_) => self.charges.value,
            Thing::Pointer(_) => self.charges.pointer,
            Thing::Block(_) => self.charges.block,
        };
        self.places.insert(thing, self.kept.len());
        self.kept.push(Kept { thing, bytes, next });
        self.bytes += bytes;
    }

    fn remove(&mut self, place: usize) {
        let gone = self.kept.swap_remove(place);
        self.places.remove(&gone.thing);
        self.bytes -= gone.bytes;
        if let Some(moved) = self.kept.get(place) {
            self.places.insert(moved.thing, place);
        }
    }

    /// The position of the object to evict, of the sample.
    fn worst(&mut self) -> usize {
        let count = self.kept.len() as u64;
        let places: Vec<usize> = match count <= SAMPLES {
            true => (0..self.kept.len()).collect(),
            false => (0..SAMPLES).map(|_| self.dice.below(count) as usize).collect(),
        };
        let costs = places.into_iter().map(|place| (place, self.cost(&self.kept[place])));
        let worst = costs.max_by(|(_, one), (_, other)| one.total_cmp(other));
        worst.expect("what is over its budget keeps something").0
    }

    /// Bytes times the operations until the next use of an object, per I/O saved then.
    fn cost(&self, kept: &Kept) -> f64 {
        let saving = match kept.thing {
            Thing::Value(key) if self.places.contains_key(&Thing::Pointer(key)) => 1.0,
            _ => kept.next.saving,
        };
        kept.bytes * (kept.next.at - self.now) as f64 / saving
    }
}

/// I/Os per operation, over the second half of a run of
/// [`simulate`](crate::simulation::simulator::simulate) with the same arguments, of a cache of
/// `budget` bytes that knows the future.
pub fn reads_per_op_foreseen(
    load: &Load,
    entries: u64,
    budget: usize,
    operations: u64,
    seed: u64,
) -> f64 {
    let all = || requests(load, entries, operations, seed);
    let mut cache = Foresight::new(Charges::of_entries(), budget as f64, Future::of(all()));
    let reads: Vec<u64> = all().map(|request| cache.serve(&request)).collect();
    let counted = &reads[(operations / 2) as usize..];
    counted.iter().sum::<u64>() as f64 / counted.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::keys::Choice;
    use crate::simulation::simulator::{budget, simulate};
    use tidekv_cache::CachePolicy;

    const CHARGES: Charges = Charges { value: 2.0, pointer: 1.0, block: 4.0 };

    fn block(number: u64) -> BlockId {
        BlockId { table: 1, offset: number }
    }

    fn get(key: u64) -> Request {
        Request::Get(key, vec![block(0), block(key + 1)])
    }

    fn reads(budget: f64, trace: &[Request]) -> Vec<u64> {
        let mut cache = Foresight::new(CHARGES, budget, Future::of(trace.iter().cloned()));
        let serve = |request| {
            let reads = cache.serve(request);
            assert!(cache.bytes <= budget);
            assert_eq!(cache.kept.len(), cache.places.len());
            reads
        };
        trace.iter().map(serve).collect()
    }

    #[test]
    fn fitting_objects_are_read_once_and_others_always() {
        let trace = [get(0), get(1), get(0), get(1), get(0)];
        // The second key's lookup uses the block that both need.
        assert_eq!(reads(100.0, &trace), [2, 1, 0, 0, 0]);
        assert_eq!(reads(0.0, &trace), [2; 5]);
        // A pointer saves one of two.
        assert_eq!(reads(1.0, &trace), [2, 2, 1, 2, 1]);
    }

    #[test]
    fn the_object_with_the_sooner_use_is_kept() {
        // Room for the value and the pointer of one: 1 is needed first, then 0.
        let trace = [get(0), get(1), get(1), get(2), get(0), get(0)];
        assert_eq!(reads(3.0, &trace), [2, 2, 0, 2, 2, 0]);
    }

    #[test]
    fn a_group_of_blocks_is_read_if_one_is_missing() {
        let scan = Request::Scan(vec![vec![block(1), block(2)], vec![block(9)]]);
        let trace = [scan.clone(), get(0), scan.clone(), scan];
        assert_eq!(reads(100.0, &trace), [2, 1, 0, 0]);
        assert_eq!(reads(4.0, &trace)[3], 1);
    }

    /// Between the bound and policies that do not know the future.
    #[test]
    fn foresight_is_between_the_bound_and_the_policies() {
        use crate::simulation::bound::{Fill, reads_per_op_min};
        let entries = 50_000;
        for (scans, percent) in [(0.0, 1.0), (0.5, 5.0), (1.0, 5.0)] {
            let choice = Choice::Zipf { alpha: 0.99, is_scattered: true };
            let load = Load { name: "test", choice, scans };
            let bytes = budget(entries, percent);
            let foreseen = reads_per_op_foreseen(&load, entries, bytes, 40_000, 3);
            let bound = reads_per_op_min(&load, entries, bytes, 40_000, 3, Fill::Demand);
            assert!(bound < foreseen, "{foreseen} of {bound}");
            let lru = simulate(CachePolicy::BlockOnly, &load, entries, bytes, 40_000, 3);
            assert!(foreseen < 0.9 * lru.reads_per_op, "{foreseen} of {}", lru.reads_per_op);
        }
    }
}
