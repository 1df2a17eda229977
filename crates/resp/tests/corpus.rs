//! The corpora of the fuzz targets, replayed: bugs that a fuzzer once found stay fixed. The targets
//! themselves are in `fuzz/`, and are included from there.

#[path = "../../../fuzz/src/corpus.rs"]
#[allow(clippy::disallowed_methods, reason = "corpora stand in the source tree")]
mod corpus;
#[path = "../../../fuzz/src/requests.rs"]
mod requests;

use tidekv_testkit::allocation;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

#[test]
fn seeds_are_valid_input_of_the_targets() {
    corpus::plant(&requests::seeds());
}

#[test]
fn corpora_give_errors_or_correct_results() {
    assert!(allocation::is_counting(), "else no limit is checked");
    for &target in requests::TARGETS {
        assert!(corpus::replay(target) > 3, "{} has hardly a corpus", target.0);
    }
}
