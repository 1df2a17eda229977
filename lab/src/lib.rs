//! The lab: benchmarks and simulations of TideKV and its peers.
//!
//! An *experiment* is a list of points, each a *job* that is the same for all *subjects* (engines
//! with a configuration). The runner lets subjects take turns, each turn in a separate process, and
//! writes the results as rows; reports use rows alone. The binary `tidekv-lab` passes the subjects
//! to [`command::Lab::run`].
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod failure;
mod quantity;
pub mod load;
mod machine;
pub mod simulation;

pub mod subject;
pub mod subjects;
pub mod peers;

mod harness;
mod scale;
mod experiment;
mod groups;
mod experiments;
mod run;

mod report;
pub mod command;
