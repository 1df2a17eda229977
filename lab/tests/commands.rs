//! End-to-end tests of the binary: rows and reports, exit codes and messages.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the binary is tested on the real disk, from outside"
)]

#[path = "commands/run.rs"]
mod run;
#[path = "commands/experiments.rs"]
mod experiments;
#[path = "commands/advise.rs"]
mod advise;
#[path = "commands/sweep.rs"]
mod sweep;
