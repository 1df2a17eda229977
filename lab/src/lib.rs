//! The lab: is it better, by how much, and why.
//!
//! An *experiment* is a list of points, each a *job* that is the same for all
//! *subjects* (engines with a setting). The runner lets subjects take turns, every
//! turn in a process of its own, and writes what they did as rows; reports are made
//! of rows alone. The binary `tidekv-lab` hands the subjects to [`command::Lab::run`].
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
