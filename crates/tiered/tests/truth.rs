//! A lookup returns the object last stored under its key, before its deadline, or nothing: under
//! random operations, device faults, kills at any write, power cuts and restarts.
//!
//! The seed determines the operations and the settings: one to three devices on simulated storage,
//! with full fingerprints or ones so short that keys displace each other all the time. A model
//! stores the last object of each key; a cache may have less and never anything else. An operation
//! in progress during a kill may have happened or not.
//!
//! `TIDEKV_TRUTH_OPERATIONS` sets the number of operations (evidence: enough for 100 000 000
//! checked gets), `TIDEKV_TRUTH_SEED` the first seed.

#[path = "truth/model.rs"]
mod model;
#[path = "truth/scene.rs"]
mod scene;

use std::panic::{AssertUnwindSafe, catch_unwind};

use scene::{Scene, Tally};
use tidekv_testkit::evidence::Row;

/// Operations of a scene.
const OPERATIONS: u64 = 50_000;
/// Operations of the suite.
const DEFAULT_OPERATIONS: u64 = 2_000_000;

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("the variable is a number"))
}

/// Runs scenes with fingerprints of `bits` bits until `operations` have been done.
fn play(operations: u64, bits: u32) -> Tally {
    let first = number("TIDEKV_TRUTH_SEED", 1);
    let mut all = Tally::default();
    for seed in (first..).take(operations.div_ceil(OPERATIONS) as usize) {
        let played = catch_unwind(AssertUnwindSafe(|| {
            let mut scene = Scene::new(seed, bits);
            (0..OPERATIONS).for_each(|_| scene.step());
            scene.tally()
        }));
        match played {
            Ok(tally) => all.add(&tally),
            Err(_) => {
                all.losses += 1;
                eprintln!("with TIDEKV_TRUTH_SEED={seed} and {bits} bits: a panic, see above");
            }
        }
    }
    println!("{bits} bits: {all:?}");
    let row = Row::new("proof-cache-truth", "tidekv").seed(first).param("fingerprint_bits", bits);
    all.row(row).record();
    assert_eq!(all.losses, 0, "see above");
    all
}

#[test]
fn lookup_returns_only_the_last_stored_object() {
    let tally = play(number("TIDEKV_TRUTH_OPERATIONS", DEFAULT_OPERATIONS), 40);
    tally.assert_that_all_was_tried();
}

#[test]
fn lookup_returns_only_the_last_stored_object_when_fingerprints_collide() {
    let tally = play(number("TIDEKV_TRUTH_OPERATIONS", DEFAULT_OPERATIONS), 8);
    tally.assert_that_all_was_tried();
    assert!(tally.collisions > tally.gets / 1_000, "{tally:?}");
}
