//! The bound compared with the optimum for tiny traces, found by trying every possible cache
//! content after every operation.

use super::*;
use crate::load::dice::Dice;

const KEYS: u64 = 3;
const BLOCKS: u64 = 4;
const CHARGES: Charges = Charges { value: 2.0, pointer: 1.0, block: 3.0 };

fn block(number: u64) -> BlockId {
    BlockId { table: 1, offset: number }
}

/// Objects are bits: values, pointers, blocks.
fn value(key: u64) -> u32 {
    1 << key
}
fn pointer(key: u64) -> u32 {
    1 << (KEYS + key)
}
fn bit(id: &BlockId) -> u32 {
    1 << (2 * KEYS + id.offset)
}

fn bytes(set: u32) -> f64 {
    let count = |from: u64, len: u64| f64::from((set >> from & ((1 << len) - 1)).count_ones());
    count(0, KEYS) * CHARGES.value
        + count(KEYS, KEYS) * CHARGES.pointer
        + count(2 * KEYS, BLOCKS) * CHARGES.block
}

/// The reads of `request` with the content `held`, and the possible objects to keep afterwards.
fn serve(request: &Request, held: u32, fill: Fill, homes: &[BlockId]) -> (u64, u32) {
    let (reads, mut had) = match request {
        Request::Get(key, _) if held & value(*key) != 0 => (0, held),
        Request::Get(key, blocks) if held & pointer(*key) != 0 => {
            let home = bit(blocks.last().unwrap());
            (u64::from(held & home == 0), held | home | value(*key))
        }
        Request::Get(key, blocks) => {
            let all: u32 = blocks.iter().map(bit).sum();
            (u64::from((all & !held).count_ones()), held | all | value(*key) | pointer(*key))
        }
        Request::Scan(groups) => {
            let bits = groups.iter().map(|group| group.iter().map(bit).sum::<u32>());
            let missing = bits.clone().filter(|all| all & !held != 0).count() as u64;
            (missing, bits.fold(held, |had, all| had | all))
        }
    };
    if fill == Fill::Free {
        for (key, home) in (0..).zip(homes) {
            if had & bit(home) != 0 {
                had |= value(key) | pointer(key);
            }
        }
    }
    (reads, had)
}

/// The fewest reads of `trace` from `counted_from` on.
fn best(trace: &[Request], budget: f64, counted_from: usize, fill: Fill, homes: &[BlockId]) -> u64 {
    let sets = 1u32 << (2 * KEYS + BLOCKS);
    let mut costs: HashMap<u32, u64> = [(0, 0)].into();
    for (at, request) in trace.iter().enumerate() {
        let mut next: HashMap<u32, u64> = HashMap::new();
        for (&held, &cost) in &costs {
            let (reads, had) = serve(request, held, fill, homes);
            let cost = cost + if at >= counted_from { reads } else { 0 };
            // Leaving room for a fitting object has no advantage.
            let kept = (0..sets).filter(|set| set & !had == 0 && bytes(*set) <= budget);
            for set in kept {
                next.entry(set).and_modify(|old| *old = cost.min(*old)).or_insert(cost);
            }
        }
        costs = next;
    }
    costs.values().copied().min().unwrap()
}

/// Random operations; the first block is the filter of all, the others hold the keys.
fn trace(seed: u64, len: usize, homes: &[BlockId]) -> Vec<Request> {
    let mut dice = Dice::new(seed);
    let mut request = || match dice.below(4) {
        0 => {
            let first = 1 + dice.below(BLOCKS - 2);
            Request::Scan(vec![vec![block(first), block(first + 1)]])
        }
        _ => {
            let key = dice.below(KEYS);
            Request::Get(key, vec![block(0), homes[key as usize]])
        }
    };
    (0..len).map(|_| request()).collect()
}

#[test]
fn no_cache_beats_the_bound_and_the_bound_is_close() {
    let homes = [block(1), block(2), block(3)];
    let (mut bounds, mut bests) = (0.0, 0);
    for seed in 0..12 {
        let trace = trace(seed, 6, &homes);
        for (budget, counted_from) in [(0.0, 0), (2.0, 0), (4.0, 3), (6.0, 0)] {
            for fill in [Fill::Demand, Fill::Free] {
                let mut savings = Savings::new(CHARGES, fill, counted_from);
                trace.iter().for_each(|request| savings.see(request));
                let bound = savings.reads_min(budget);
                let best = best(&trace, budget, counted_from as usize, fill, &homes);
                assert!(bound <= best as f64 + 1e-9, "{seed} {budget} {fill:?}: {bound} > {best}");
                if budget == 0.0 {
                    assert_eq!(bound, best as f64);
                }
                (bounds, bests) = (bounds + bound, bests + best);
            }
        }
    }
    assert!(bounds > 0.8 * bests as f64, "{bounds} of {bests}");
}

#[test]
fn repeated_requests_cost_no_reads_if_everything_fits() {
    let get = |key| Request::Get(key, vec![block(0), block(key + 1)]);
    let mut savings = Savings::new(CHARGES, Fill::Demand, 0);
    [get(0), get(1), get(0), get(1), get(0)].iter().for_each(|request| savings.see(request));
    // Two blocks, then one: the second key's lookup finds the filter's block.
    assert_eq!(savings.reads_min(100.0), 3.0);
}

#[test]
fn no_policy_reads_less() {
    use crate::load::keys::Choice;
    use crate::simulation::simulator::{budget, simulate};
    use tidekv_cache::CachePolicy;
    let entries = 50_000;
    for scans in [0.0, 0.5, 1.0] {
        let choice = Choice::Zipf { alpha: 0.99, is_scattered: true };
        let load = Load { name: "test", choice, scans };
        let bytes = budget(entries, 5.0);
        let [demand, free] = [Fill::Demand, Fill::Free]
            .map(|fill| reads_per_op_min(&load, entries, bytes, 40_000, 3, fill));
        assert!(0.0 < free && free <= demand);
        for policy in [CachePolicy::Adaptive, CachePolicy::BlockOnly, CachePolicy::AC_KEY] {
            let found = simulate(policy, &load, entries, bytes, 40_000, 3).reads_per_op;
            assert!(found > demand, "{policy}: {found} of {demand}");
        }
    }
}

/// The frequency of each operation in a trace.
fn frequencies(trace: &[Request]) -> impl Iterator<Item = (Request, f64)> {
    let of_each = 1.0 / trace.len() as f64;
    trace.iter().map(move |request| (request.clone(), of_each))
}

#[test]
fn no_static_cache_beats_the_bound_of_probabilities() {
    let homes = [block(1), block(2), block(3)];
    let (mut bounds, mut bests) = (0.0, 0);
    for seed in 0..12 {
        // The first half contains all objects, so any of them may be cached from then on.
        let half = trace(seed, 60, &homes);
        let both = [half.clone(), half.clone()].concat();
        for budget in [0.0, 2.0, 4.0, 6.0, 100.0] {
            let likelihoods = Likelihoods::of(frequencies(&half));
            let mut savings = Savings::of_independent(CHARGES, likelihoods, half.len() as u64);
            both.iter().for_each(|request| savings.see(request));
            let bound = savings.reads_min(budget);
            let sets = (0..1u32 << (2 * KEYS + BLOCKS)).filter(|set| bytes(*set) <= budget);
            let reads = |held| -> u64 {
                half.iter().map(|request| serve(request, held, Fill::Demand, &homes).0).sum()
            };
            let best = sets.map(reads).min().unwrap();
            assert!(bound <= best as f64 + 1e-9, "{seed} {budget}: {bound} > {best}");
            (bounds, bests) = (bounds + bound, bests + best);
        }
    }
    assert!(bounds > 0.8 * bests as f64, "{bounds} of {bests}");
}

#[test]
fn independent_objects_are_cached_by_their_probabilities() {
    // Three keys of one block each, with probabilities 1/2, 1/3 and 1/6; a value takes 2 of the
    // bytes.
    let get = |key| Request::Get(key, vec![block(key)]);
    let half: Vec<Request> = [0, 1, 0, 2, 0, 1].map(get).into();
    for (budget, reads) in [(0.0, 6.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0), (6.0, 0.0)] {
        let likelihoods = Likelihoods::of(frequencies(&half));
        let mut savings = Savings::of_independent(CHARGES, likelihoods, 6);
        [half.clone(), half.clone()].concat().iter().for_each(|request| savings.see(request));
        assert!((savings.reads_min(budget) - reads).abs() < 1e-9, "{budget}");
    }
}

#[test]
fn a_cache_without_foresight_reads_more_than_one_with_it() {
    use crate::load::keys::Choice;
    use crate::simulation::simulator::{budget, simulate};
    use tidekv_cache::CachePolicy;
    let entries = 50_000;
    for scans in [0.0, 0.5, 1.0] {
        let choice = Choice::Zipf { alpha: 0.99, is_scattered: true };
        let load = Load { name: "test", choice, scans };
        let bytes = budget(entries, 5.0);
        let of_independent = reads_per_op_min_irm(&load, entries, bytes, 40_000, 3);
        let known = reads_per_op_min(&load, entries, bytes, 40_000, 3, Fill::Demand);
        let found = simulate(CachePolicy::Adaptive, &load, entries, bytes, 40_000, 3).reads_per_op;
        assert!(
            known < of_independent && of_independent < found,
            "{known} {of_independent} {found}"
        );
    }
}
