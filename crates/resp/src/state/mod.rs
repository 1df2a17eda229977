//! What all connections of a server share, and what each remembers between commands.

pub(crate) mod settings;
pub(crate) mod stripes;
pub(crate) mod cursors;
pub(crate) mod detour;
pub(crate) mod keyspaces;
pub(crate) mod session;
pub(crate) mod server_state;
pub(crate) mod forecast;
