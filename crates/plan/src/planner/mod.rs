//! Plans: how much DRAM and flash to buy for given latencies or a given budget (ElCached).
//!
//! Modules are declared bottom-up.

pub(crate) mod model;
pub(crate) mod question;
pub(crate) mod choices;
pub(crate) mod solver;
pub(crate) mod elastic;
