//! Replays the corpora of the fuzz targets: bugs that a fuzzer found stay fixed. The targets
//! themselves are in `fuzz/`, and are included from there.

#[path = "../../../fuzz/src/corpus.rs"]
#[allow(clippy::disallowed_methods, reason = "corpora are in the source tree")]
mod corpus;
#[path = "../../../fuzz/src/input.rs"]
mod input;
#[path = "../../../fuzz/src/store.rs"]
mod store;

use tidekv_testkit::allocation;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

#[test]
fn targets_accept_their_seeds() {
    corpus::plant(&store::seeds());
}

#[test]
fn corpora_give_errors_or_correct_data() {
    assert!(allocation::is_counting(), "else no limit is checked");
    for &target in store::TARGETS {
        assert!(corpus::replay(target) > 3, "{} has hardly a corpus", target.0);
    }
}
