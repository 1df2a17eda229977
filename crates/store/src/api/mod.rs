//! The public types: databases, keyspaces, snapshots, transactions and iterators.
//!
//! Modules are declared bottom-up.

pub(crate) mod iter;
pub(crate) mod keyspace;
pub(crate) mod read_modify_write;
pub(crate) mod sampling;
pub(crate) mod snapshot;
pub(crate) mod transaction;
pub(crate) mod db;
