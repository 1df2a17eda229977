//! The options of a cache.

use std::path::PathBuf;

use tidekv_cache::Eviction;

use crate::entry::{FINGERPRINT_BITS_MAX, SEGMENT_BYTES_MAX};
use crate::error::{Error, Result};
use crate::membership::DEVICE_SLOTS_MAX;

/// The least DRAM of a cache, in bytes.
pub const DRAM_BYTES_MIN: u64 = 1 << 20;
/// An object takes at most one part in this many of the DRAM.
pub const OBJECT_DRAM_DIVISOR: u64 = 4;
/// The smallest segment, in bytes.
const SEGMENT_BYTES_LEAST: u64 = 16 << 10;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// A flash device, or a file in place of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashOptions {
    /// Its path. A missing file is created.
    pub path: PathBuf,
    /// How many bytes of it may be used.
    pub bytes: u64,
}

/// How flash makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expiry {
    /// Objects that expire at about the same time share segments, which are dropped together once
    /// they have expired.
    #[default]
    Groups,
    /// Objects are evicted in insertion order; expiry is noticed on lookup. Other caches work this
    /// way; the lab compares both.
    Lazy,
}

/// A tenant that shares the cache and has a part of it for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantOptions {
    /// Its name: up to 32 of a-z, 0-9, - and _.
    pub name: String,
    /// The prefix of its keys. Where two prefixes match, the longer one counts.
    pub prefix: Vec<u8>,
    /// Its DRAM, in bytes.
    pub dram_bytes: u64,
    /// Its flash, in bytes: the same fraction of every device.
    pub flash_bytes: u64,
}

/// The options of a cache.
#[derive(Debug, Clone)]
pub struct Options {
    /// Memory for objects, the flash index and the flash write buffers, in bytes.
    pub dram_bytes: u64,
    /// The flash devices; may be empty.
    pub flash: Vec<FlashOptions>,
    /// Whether the opening fails if a device cannot be used. Otherwise (the default) the cache opens
    /// without it, with DRAM alone if need be, and tries again while it is maintained.
    pub requires_flash: bool,
    /// The largest value that is accepted, in bytes.
    pub object_bytes_max: u64,
    /// The eviction policy of DRAM. Where sizes differ, [`Eviction::GreedyDual`] has fewer misses
    /// than S3-FIFO, the default, and more missed bytes (`docs/adr/0036-cost-aware-eviction.md`).
    pub eviction: Eviction,
    /// Whether objects are evicted from DRAM to make room for others. If not, an object without
    /// room is not stored ([`crate::Cache::has_free_room_for`]). Must be so with flash.
    pub evicts: bool,
    /// The expected average object size, in bytes: flash has room for as many index entries as
    /// objects of that size fit, and DRAM for the index of as many small objects, or of half as many
    /// if the average is not small.
    pub avg_object_bytes: u64,
    /// The most DRAM that locations of records on flash, or cached index entries, and buffered index
    /// changes may take, in bytes; a sixteenth when `None`. All locations take 1.5 to 3
    /// bytes per record, from 1 GiB to 1 TiB of flash; a third is for changes. With 2.5 to 5 bytes,
    /// records of 12 KiB and more are written without a copy.
    pub index_bytes: Option<u64>,
    /// The write limit of flash, in bytes per second, on average; no limit when `None`.
    pub flash_writes_bytes_per_s: Option<u64>,
    /// A file that records the attached devices, on storage that outlives the process but not a
    /// reboot, such as `/dev/shm`. With it, or with more than one device, flash is warm after a
    /// kill as well.
    pub state: Option<PathBuf>,
    /// How flash makes room.
    pub expiry: Expiry,
    /// The tenants that have a part for themselves. Keys of no tenant share the rest.
    pub tenants: Vec<TenantOptions>,
    /// The size of a segment in bytes, a power of two; chosen by the size of the device when
    /// `None`.
    pub segment_bytes: Option<u64>,
    /// Bits of a key's fingerprint in the index, 8 to 40. With few bits keys displace each other:
    /// for tests.
    pub fingerprint_bits: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dram_bytes: 64 << 20,
            flash: Vec::new(),
            requires_flash: false,
            object_bytes_max: 1 << 20,
            eviction: Eviction::S3Fifo,
            evicts: true,
            avg_object_bytes: 4 << 10,
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
        if self.object_bytes_max == 0 || self.avg_object_bytes == 0 {
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
        if !self.evicts && !self.flash.is_empty() {
            return Err(Error::invalid("a cache with flash evicts objects from DRAM"));
        }
        if self.flash.len() > DEVICE_SLOTS_MAX {
            return Err(Error::invalid(format!("there can be {DEVICE_SLOTS_MAX} flash devices")));
        }
        Ok(())
    }
}
