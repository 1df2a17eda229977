//! The functions of the fuzz targets. The same functions replay the committed corpora in the test
//! suite, which includes these files (`crates/*/tests/corpus.rs`).

pub mod input;
pub mod corpus;
pub mod store;
pub mod requests;
pub mod memcached;
pub mod import;

/// The formats of import belong to a program, not to a library.
#[path = "../../crates/cli/src"]
#[allow(dead_code)]
mod cli {
    pub mod formats;
}
pub(crate) use cli::formats;

#[global_allocator]
static ALLOCATOR: tidekv_testkit::allocation::Counting = tidekv_testkit::allocation::Counting;
