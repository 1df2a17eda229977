//! Replays the corpora of the fuzz targets, so that fixed findings stay fixed.
//! The targets themselves are in `fuzz/`, and are included from there.

#[path = "../../../fuzz/src/corpus.rs"]
#[allow(clippy::disallowed_methods, reason = "corpora stand in the source tree")]
mod corpus;
#[path = "../../../fuzz/src/import.rs"]
mod import;

/// The formats are part of a binary; including them includes their tests.
#[path = "../src"]
#[allow(dead_code, reason = "the target uses a part of them")]
mod cli {
    pub mod formats;
}
use cli::formats;

use tidekv_testkit::allocation;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

#[test]
fn targets_accept_their_seeds() {
    corpus::plant(&import::seeds());
}

#[test]
fn corpora_give_errors_or_correct_data() {
    assert!(allocation::is_counting(), "otherwise no limit is checked");
    for &target in import::TARGETS {
        assert!(corpus::replay(target) > 3, "{} has hardly a corpus", target.0);
    }
}
