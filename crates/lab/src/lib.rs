//! The lab: is it better, by how much, and why.
//!
//! An *experiment* is a list of points, each a *job* that is the same for all
//! *subjects* (engines with a setting). The runner lets subjects take turns, every
//! turn in a process of its own, and writes what they did as rows; reports are made
//! of rows alone. Whoever builds a binary around this hands in the subjects and
//! calls [`command::run`].
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod failure;
mod quantity;
mod dice;
mod parallel;
pub mod keys;
pub mod values;
pub mod workload;
mod kernel;
pub mod modelled_tree;
pub mod simulation;
mod modelled_trace;
pub mod bound;
pub mod foresight;

pub mod subject;
pub mod conformance;
pub mod device;
pub mod tide;
pub mod tiered;
mod idle;
pub mod indexes;
pub mod served;
mod nothing;
pub mod own;

mod latency;
pub mod job;
mod replay;
mod corpus;
mod lane;
mod drive;
mod phases;
mod worker;

mod scale;
mod experiment;
mod engine;
mod ackey;
mod changing;
mod restart;
mod limit;
mod question;
mod groups;
mod policy;
mod spotkv;
mod bigkv;
mod elcached;
mod catalogue;
mod sweep;

mod place;
mod turn;
mod splits;
mod summary;
mod runner;

mod workload_source;
mod advise;
mod show;
mod report;
pub mod command;
