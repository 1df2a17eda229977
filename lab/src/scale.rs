//! The scale of experiments: entries, seconds, alternations, threads.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::load::keys::data_bytes;

/// The named scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Under a minute per experiment, once stores are built.
    Quick,
    /// The scale of published results.
    Usual,
    /// The proportions of the papers, at a size that fits a machine.
    Full,
}

/// The scale of experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scale {
    /// Entries of 16 + 100 bytes; experiments with larger entries have fewer.
    pub(crate) entries: u64,
    /// The measured time of one turn.
    pub(crate) seconds: f64,
    /// Turns of each subject.
    pub(crate) alternations: u64,
    /// Thread counts.
    pub(crate) threads: Vec<u64>,
    /// Fewer points and shorter warm-ups.
    pub(crate) is_quick: bool,
    /// Directories of files for a corpus; empty: the default ones.
    #[serde(default)]
    pub(crate) corpus: Vec<PathBuf>,
}

impl Scale {
    pub(crate) fn new(size: Size) -> Self {
        let (entries, seconds, alternations) = match size {
            Size::Quick => (1_000_000, 1.0, 2),
            Size::Usual => (10_000_000, 5.0, 5),
            Size::Full => (50_000_000, 10.0, 5),
        };
        Self {
            entries,
            seconds,
            alternations,
            threads: vec![1, 2, 8],
            is_quick: size == Size::Quick,
            corpus: Vec::new(),
        }
    }

    /// Approximate number of operations that warm an object cache up.
    pub(crate) fn warm_up_operations(&self) -> u64 {
        if self.is_quick { 20_000 } else { 200_000 }
    }

    /// Alternations of long turns, which fill a store.
    pub(crate) fn long_alternations(&self) -> u64 {
        self.alternations.min(3)
    }
}

/// The shape of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) entries: u64,
    pub(crate) value_bytes: u64,
    pub(crate) is_compressed: bool,
}

impl Shape {
    /// Small values, not compressed.
    pub(crate) fn small(scale: &Scale) -> Self {
        Self { entries: scale.entries, value_bytes: 100, is_compressed: false }
    }

    /// 1 KiB values and LZ4; fewer of them, for about the same amount of data.
    pub(crate) fn large(scale: &Scale) -> Self {
        Self { entries: (scale.entries / 8).max(1), value_bytes: 1024, is_compressed: true }
    }

    /// Bytes of all keys and values.
    pub(crate) fn data_bytes(&self) -> u64 {
        data_bytes(self.entries, self.value_bytes)
    }
}
