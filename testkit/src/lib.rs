//! What the tests of the workspace share.
//!
//! - [`evidence`]: the rows in which proofs and the lab record what they found;
//! - [`golden`]: annotated hex dumps of formats;
//! - [`allocation`]: an allocator that counts what a thread takes;
//! - `models`, behind the feature of that name: locks and atomics that loom and shuttle can take
//!   apart.
//!
//! Crates that are published name this one in `[dev-dependencies]` only, by path and without a
//! version. The lab, which is not published, writes its rows with it.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod evidence;
pub mod golden;
pub mod allocation;
#[cfg(feature = "models")]
pub mod models;
