//! What a cache is set up with.

use std::path::PathBuf;

use tidekv_cache::Eviction;

use crate::entry::{FINGERPRINT_BITS_MAX, SEGMENT_BYTES_MAX};
use crate::error::{Error, Result};
use crate::membership::SEATS_MAX;

/// Least DRAM for which there is a cache.
pub const DRAM_BYTES_MIN: u64 = 1 << 20;
/// An object can take at most this part of the DRAM: one in so many.
pub const OBJECT_DRAM_DIVISOR: u64 = 4;
/// No segment is smaller.
const SEGMENT_BYTES_LEAST: u64 = 16 << 10;
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

/// How flash makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expiry {
    /// Objects that expire at about the same time stand together, and go together when they
    /// have expired.
    #[default]
    Groups,
    /// Objects go in the order in which they came; that one has expired is noticed when it is
    /// asked for. What other caches do, for the lab to measure.
    Lazy,
}

/// Somebody who shares the cache with others, and has a part of it for himself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantOptions {
    /// What he is called: up to 32 of a-z, 0-9, - and _.
    pub name: String,
    /// What his keys begin with. Where the prefixes of two do, the longer counts.
    pub prefix: Vec<u8>,
    /// How much of the DRAM is his.
    pub dram_bytes: u64,
    /// How much of all flash is his: of each device as large a part.
    pub flash_bytes: u64,
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
    /// The order in which objects leave DRAM. Where sizes differ, [`Eviction::GreedyDual`] has
    /// fewer misses than S3-FIFO, the default, and more missed bytes
    /// (`docs/adr/0036-cost-aware-eviction.md`).
    pub eviction: Eviction,
    /// How large objects are expected to be on average, in bytes: flash has room for as many
    /// index entries as objects of that size fit.
    pub object_bytes_usual: u64,
    /// How much of the DRAM copies of index entries and changes of the index may take; a
    /// sixteenth when `None`.
    pub index_bytes: Option<u64>,
    /// How many bytes may be written to flash in a second, on average; no bound when `None`.
    pub flash_writes_bytes_per_s: Option<u64>,
    /// A file in which it is kept which devices are there, on something that outlives the
    /// process and not the machine's run, such as `/dev/shm`. With it, or with more than one
    /// device, flash is warm after a kill as well.
    pub state: Option<PathBuf>,
    /// How flash makes room.
    pub expiry: Expiry,
    /// Those who have a part of it for themselves. Keys that are nobody's share what is left.
    pub tenants: Vec<TenantOptions>,
    /// The size of a segment in bytes, a power of two; chosen by the size of the device when
    /// `None`.
    pub segment_bytes: Option<u64>,
    /// Bits of a key's fingerprint in the index, 8 to 40. With few of them keys push each
    /// other out: for tests.
    pub fingerprint_bits: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dram_bytes: 64 << 20,
            flash: Vec::new(),
            object_bytes_max: 1 << 20,
            eviction: Eviction::S3Fifo,
            object_bytes_usual: 4 << 10,
            index_bytes: None,
            flash_writes_bytes_per_s: None,
            state: None,
            expiry: Expiry::Groups,
            tenants: Vec::new(),
            segment_bytes: None,
            fingerprint_bits: FINGERPRINT_BITS_MAX,
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
        if !(8..=FINGERPRINT_BITS_MAX).contains(&self.fingerprint_bits) {
            return Err(Error::invalid("a fingerprint has 8 to 40 bits"));
        }
        let is_segment = |bytes: u64| {
            bytes.is_power_of_two()
                && (SEGMENT_BYTES_LEAST..=SEGMENT_BYTES_MAX as u64).contains(&bytes)
        };
        if !self.segment_bytes.is_none_or(is_segment) {
            return Err(Error::invalid(format!(
                "a segment has {SEGMENT_BYTES_LEAST} to {SEGMENT_BYTES_MAX} bytes, a power of two"
            )));
        }
        if self.flash.len() > SEATS_MAX {
            return Err(Error::invalid(format!("there can be {SEATS_MAX} flash devices")));
        }
        Ok(())
    }
}
