//! Tenants: the shards of one tenant in DRAM with flash behind them, and which key belongs to which tenant.
//!
//! Modules are declared bottom-up.

pub(crate) mod tenants;
pub(crate) mod pool;
