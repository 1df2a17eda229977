//! What a cache is set up with.

use std::path::PathBuf;

use tidekv_cache::Eviction;

use crate::error::{Error, Result};

/// Least DRAM for which there is a cache.
pub const DRAM_BYTES_MIN: u64 = 4 << 20;
/// An object can take at most this part of the DRAM: one in so many.
pub const OBJECT_DRAM_DIVISOR: u64 = 4;
/// Keys are at most so long.
pub const KEY_BYTES_MAX: usize = 250;

/// A flash device, or a file that stands for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashOptions {
    /// Where it is. A file is made if there is none.
    pub path: PathBuf,
    /// How much of it may be used.
    pub bytes: u64,
}

/// What a cache is set up with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Memory for objects, the flash index and the write buffers of flash.
    pub dram_bytes: u64,
    /// Flash behind it; may be empty.
    pub flash: Vec<FlashOptions>,
    /// The largest value that is taken, in bytes.
    pub object_bytes_max: u64,
    /// The order in which objects leave DRAM.
    pub eviction: Eviction,
    /// How large objects are expected to be on average, in bytes: flash has room for as many
    /// index entries as objects of that size fit.
    pub object_bytes_usual: u64,
    /// Of the DRAM, how much copies of index entries may take at most.
    pub index_bytes_max: u64,
    /// How many bytes may be written to flash in a second, on average; no bound when `None`.
    pub flash_writes_bytes_per_s: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dram_bytes: 64 << 20,
            flash: Vec::new(),
            object_bytes_max: 1 << 20,
            eviction: Eviction::S3Fifo,
            object_bytes_usual: 4 << 10,
            index_bytes_max: 4 << 20,
            flash_writes_bytes_per_s: None,
        }
    }
}

impl Options {
    /// Checks the bounds.
    pub fn check(&self) -> Result<()> {
        if self.dram_bytes < DRAM_BYTES_MIN {
            return Err(Error::invalid(format!(
                "the cache needs at least {DRAM_BYTES_MIN} bytes of DRAM, not {}",
                self.dram_bytes
            )));
        }
        if self.object_bytes_max > self.dram_bytes / OBJECT_DRAM_DIVISOR {
            return Err(Error::invalid(format!(
                "objects of {} bytes need at least {} bytes of DRAM",
                self.object_bytes_max,
                self.object_bytes_max * OBJECT_DRAM_DIVISOR
            )));
        }
        if self.object_bytes_max == 0 || self.object_bytes_usual == 0 {
            return Err(Error::invalid("objects have at least one byte"));
        }
        Ok(())
    }
}
