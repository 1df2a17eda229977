//! The commands, each with its arguments and its implementation.

pub mod store_args;
pub mod point;
pub mod scan;
pub mod import;
pub mod export;
pub mod inspect;
pub mod check;
pub mod upkeep;
pub mod serve;
pub mod cache;
pub mod profile;
pub mod plan;
pub mod bench;
pub mod generate;
