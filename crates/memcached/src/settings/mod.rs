//! The settings of a server: options, users, clock, and automatic resizing.

pub(crate) mod authentication;
pub(crate) mod clock;
pub(crate) mod sizes;
pub(crate) mod options;
