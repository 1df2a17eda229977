//! End-to-end tests of the binary: output, exit codes, messages, and the files
//! on disk.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the binary is tested on the real disk, from outside"
)]

#[path = "commands/run.rs"]
mod run;
#[path = "commands/point.rs"]
mod point;
#[path = "commands/transfer.rs"]
mod transfer;
#[path = "commands/config.rs"]
mod config;
#[path = "commands/damage.rs"]
mod damage;
#[path = "commands/serving.rs"]
mod serving;
#[path = "commands/serve.rs"]
mod serve;
#[path = "commands/terminal.rs"]
mod terminal;
#[path = "commands/log.rs"]
mod log;
#[path = "commands/cache.rs"]
mod cache;
#[path = "commands/plan.rs"]
mod plan;
#[path = "commands/profile.rs"]
mod profile;
#[path = "commands/traces.rs"]
mod traces;
#[path = "commands/bench.rs"]
mod bench;
#[path = "commands/generate.rs"]
mod generate;
