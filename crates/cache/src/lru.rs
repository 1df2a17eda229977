//! An LRU list.
