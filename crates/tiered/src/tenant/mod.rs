//! Tenants: the shards of one tenant in DRAM with flash behind them, and the assignment of keys to
//! tenants.
//!
//! Modules are declared bottom-up.

pub(crate) mod tenants;
pub(crate) mod pool;
pub(crate) mod scaled_dram;
