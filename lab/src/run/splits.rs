//! Searches for the best fixed boundaries, in tenths, without trying all of them: 66 for three
//! caches, 11 for two.
//!
//! 1. It tries splits that differ widely: each cache alone, and one or two between.
//! 2. From the best of them on, it moves tenths from each cache to each other, three at once, as
//!    long as that is an improvement; then one at once.
//!
//! The result is a local optimum; with several local optima it may not be the best of all. AC-Key's
//! "offline" tries all.

use std::collections::BTreeMap;

use crate::failure::Result;
use crate::subject::{Caches, ROWS_POLICY};

/// Tenths of values or rows, of pointers and of blocks.
pub(crate) type Tenths = [u8; 3];

/// The step sizes in tenths, in this order.
const STRIDES: [u8; 2] = [3, 1];

/// The start of the search.
const fn starts(caches: Caches) -> &'static [Tenths] {
    match caches {
        Caches::ValuesPointersBlocks | Caches::AcKeys => {
            &[[0, 0, 10], [10, 0, 0], [0, 10, 0], [5, 0, 5], [3, 3, 4]]
        }
        Caches::RowsBlocks => &[[0, 0, 10], [10, 0, 0], [5, 0, 5]],
    }
}

/// The policy with these fixed boundaries.
pub(crate) fn policy(caches: Caches, tenths: Tenths) -> String {
    let [first, kp, block] = tenths.map(|tenth| u32::from(tenth) * 10);
    match caches {
        Caches::ValuesPointersBlocks => format!("fixed:{first},{kp},{block}"),
        Caches::AcKeys => format!("ac-key-fixed:{first},{kp},{block}"),
        Caches::RowsBlocks => format!("{ROWS_POLICY}{first}"),
    }
}

/// The cheapest of the splits tried.
pub(crate) fn search(
    caches: Caches,
    mut cost: impl FnMut(Tenths) -> Result<f64>,
) -> Result<Tenths> {
    let mut known: BTreeMap<Tenths, f64> = BTreeMap::new();
    let mut cost = |split| -> Result<f64> {
        if let Some(cost) = known.get(&split) {
            return Ok(*cost);
        }
        let found = cost(split)?;
        known.insert(split, found);
        Ok(found)
    };
    let starts = starts(caches);
    let mut best = (starts[0], f64::INFINITY);
    for &split in starts {
        let found = cost(split)?;
        if found < best.1 {
            best = (split, found);
        }
    }
    for stride in STRIDES {
        loop {
            let from = best;
            for split in neighbours(caches, from.0, stride) {
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

/// The splits in which one cache has `stride` tenths more and another has as many less.
fn neighbours(caches: Caches, split: Tenths, stride: u8) -> Vec<Tenths> {
    let takes_part = move |at: &usize| caches != Caches::RowsBlocks || *at != 1;
    let all = || (0..3).filter(takes_part);
    let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
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
    use tidekv_cache::CachePolicy;

    use super::*;
    use crate::subject::Search;
    use crate::subjects::tidekv::{TIDEKV_BEST_SPLIT, TIDEKV_OFFLINE};

    /// The number of tries to find `bottom`.
    fn tries_until(caches: Caches, bottom: Tenths) -> u32 {
        let mut tries = 0;
        let found = search(caches, |split| {
            tries += 1;
            let apart = |at: usize| f64::from(split[at].abs_diff(bottom[at]));
            assert_eq!(split.iter().sum::<u8>(), 10);
            Ok((0..3).map(|at| apart(at) * apart(at)).sum())
        });
        assert_eq!(found.unwrap(), bottom);
        tries
    }

    #[test]
    fn the_bottom_of_a_valley_is_found_with_a_part_of_the_tries() {
        for first in 0..=10u8 {
            for kp in 0..=10 - first {
                let bottom = [first, kp, 10 - first - kp];
                assert!(tries_until(Caches::ValuesPointersBlocks, bottom) <= 30);
                assert!(tries_until(Caches::AcKeys, bottom) <= 30);
            }
            let tries = tries_until(Caches::RowsBlocks, [first, 0, 10 - first]);
            assert!(tries <= 8, "{tries}");
        }
        assert_eq!(policy(Caches::ValuesPointersBlocks, [3, 0, 7]), "fixed:30,0,70");
        assert_eq!(policy(Caches::AcKeys, [3, 0, 7]), "ac-key-fixed:30,0,70");
        for (record, is_of_ac_key) in [(TIDEKV_BEST_SPLIT, false), (TIDEKV_OFFLINE, true)] {
            let Search::Split(caches) = record.search else { panic!("it is looked for") };
            let found: CachePolicy = policy(caches, [3, 0, 7]).parse().unwrap();
            assert_eq!(found.is_of_ac_key(), is_of_ac_key, "{}", record.name);
        }
        assert_eq!(policy(Caches::RowsBlocks, [3, 0, 7]), "rows:30");
    }
}
