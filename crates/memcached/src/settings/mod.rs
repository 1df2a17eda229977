//! The settings of a server: its options, its users, its clock and how it changes its sizes.

pub(crate) mod authentication;
pub(crate) mod clock;
pub(crate) mod sizes;
pub(crate) mod options;
