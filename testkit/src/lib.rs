//! Shared code of the workspace's tests.
//!
//! - [`evidence`]: rows in which proofs and the lab record their results;
//! - [`golden`]: annotated hex dumps of formats;
//! - [`allocation`]: an allocator that counts a thread's allocations;
//! - `models`, behind the feature of that name: locks and atomics whose interleavings loom and
//!   shuttle explore.
//!
//! Published crates depend on this one only in `[dev-dependencies]`, by path and without a version.
//! The lab, which is not published, writes its rows with it.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod evidence;
pub mod golden;
pub mod allocation;
#[cfg(feature = "models")]
pub mod models;
