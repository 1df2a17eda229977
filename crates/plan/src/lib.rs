//! What requests say of how much memory a store needs.
//!
//! So far: [`trace`], readers of the formats in which people keep requests. Nothing here does
//! I/O of its own, reads a clock or knows a store: whoever has a trace hands in its bytes.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod trace;
