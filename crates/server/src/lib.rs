//! The Redis protocol over the store.
