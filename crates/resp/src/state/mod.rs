//! The state shared by all connections of a server, and the state of each connection.

pub(crate) mod memory;
pub(crate) mod settings;
pub(crate) mod stripes;
pub(crate) mod cursors;
pub(crate) mod slow_disk_breaker;
pub(crate) mod command_statistics;
pub(crate) mod slow_log;
pub(crate) mod latency_monitor;
pub(crate) mod monitors;
pub(crate) mod pause;
pub(crate) mod checkpoints;
pub(crate) mod keyspaces;
pub(crate) mod session;
pub(crate) mod server_state;
pub(crate) mod forecast;
