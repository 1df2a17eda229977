//! Looks for the best boundaries that never move, in tenths, without trying all 66.
//!
//! 1. Five splits that differ much are tried: blocks alone, values alone, pointers alone,
//!    and two between.
//! 2. From the best of them on, tenths go from each cache to each other, three at once,
//!    for as long as that makes it better; then one at once.
//!
//! What it finds is best among its neighbours; with more than one such place it may not be
//! the best of all. AC-Key's "offline" tries all.

use std::collections::BTreeMap;

use crate::failure::Result;

/// Tenths of values, of pointers and of blocks.
pub(crate) type Tenths = [u8; 3];

/// Where the search begins.
const STARTS: [Tenths; 5] = [[0, 0, 10], [10, 0, 0], [0, 10, 0], [5, 0, 5], [3, 3, 4]];
/// Tenths that go at once, in this order.
const STRIDES: [u8; 2] = [3, 1];

/// The policy that fixes boundaries so.
pub(crate) fn policy(tenths: Tenths) -> String {
    let [kv, kp, block] = tenths.map(|tenth| u32::from(tenth) * 10);
    format!("fixed:{kv},{kp},{block}")
}

/// The split of the least cost, of those that were tried.
pub(crate) fn search(mut cost: impl FnMut(Tenths) -> Result<f64>) -> Result<Tenths> {
    let mut known: BTreeMap<Tenths, f64> = BTreeMap::new();
    let mut cost = |split| -> Result<f64> {
        if let Some(cost) = known.get(&split) {
            return Ok(*cost);
        }
        let found = cost(split)?;
        known.insert(split, found);
        Ok(found)
    };
    let mut best = (STARTS[0], f64::INFINITY);
    for split in STARTS {
        let found = cost(split)?;
        if found < best.1 {
            best = (split, found);
        }
    }
    for stride in STRIDES {
        loop {
            let from = best;
            for split in neighbours(from.0, stride) {
                let found = cost(split)?;
                if found < best.1 {
                    best = (split, found);
                }
            }
            if best.0 == from.0 {
                break;
            }
        }
    }
    Ok(best.0)
}

/// The splits of which one cache has `stride` tenths more and another as many less.
fn neighbours(split: Tenths, stride: u8) -> Vec<Tenths> {
    let pairs = (0..3).flat_map(|from| (0..3).map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| from != to && split[*from] > 0)
        .map(|(from, to)| {
            let mut next = split;
            let moved = stride.min(split[from]);
            next[from] -= moved;
            next[to] += moved;
            next
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_valley_is_found_with_a_third_of_the_tries() {
        for kv in 0..=10u8 {
            for kp in 0..=10 - kv {
                let bottom = [kv, kp, 10 - kv - kp];
                let mut tries = 0;
                let found = search(|split| {
                    tries += 1;
                    let apart = |at: usize| f64::from(split[at].abs_diff(bottom[at]));
                    assert_eq!(split.iter().sum::<u8>(), 10);
                    Ok((0..3).map(|at| apart(at) * apart(at)).sum())
                })
                .unwrap();
                assert_eq!(found, bottom);
                assert!(tries <= 30, "{tries}");
            }
        }
        assert_eq!(policy([3, 0, 7]), "fixed:30,0,70");
    }
}
