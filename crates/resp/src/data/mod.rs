//! Data of commands: strings and hashes over the keyspaces of a store.

pub(crate) mod walk;
pub(crate) mod execution;
pub(crate) mod long_replies;
pub(crate) mod head;
pub(crate) mod hash;
pub(crate) mod long_string;
pub(crate) mod values;
pub(crate) mod samples;
pub(crate) mod sweep;
pub(crate) mod watched_key;
