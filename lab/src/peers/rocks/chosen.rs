//! The choices of `rocksdb:options`: the options of Table 1 of "Exploring Cache Policies in
//! RocksDB" (Gallardo and Friedman), by name, and their RocksDB settings.
//!
//! | choice | values | default |
//! |---|---|---|
//! | `metadata` | `cache`: the index and the filter of a table are in the block cache; `parts`: in parts of 4 KiB; `beside`: outside of the budget | `cache` |
//! | `priority` | of metadata: `high`, `low` | `high` |
//! | `pinning` | `none`, `flushed` (and similar), `all` | `none` |
//! | `priority_percent` | the part of the cache that is reserved for high priority | 50 |
//! | `shard_bits` | `auto`, or 0 to 19: the cache has two to the power of it shards | `auto` |
//! | `block_cache` | `lru`, `hyperclock` | `lru` |
//! | `entry_bytes` | of a block, the estimate for `hyperclock`; 0: automatic | 0 |
//! | `table_mib` | of a table on level 1 | 64 |
//! | `filter` | `bloom-N`: with N bits per key; `ribbon-N`: as accurate as that, with fewer | `bloom-10` |
//! | `build` | another store of the same entries; its blocks have other cache keys | 1 |
//! | `buffer_mib` | of a write buffer, which becomes a table on level 0 | 64 |
//!
//! The defaults are RocksDB's own, except for metadata, which the paper has in the cache. While a
//! store is filled for other turns, writes stall at [`LEVEL_0_TABLES_MAX`] tables on level 0, so
//! that compactions always merge the same number of tables and two stores of one load have the same
//! shape.
//!
//! Choices are in the order of their effect on a load whose metadata is large compared with the
//! cache's parts (`docs/benchmarks/findings/rocksdb-cache-policies.md`), as a search follows this
//! order.

use std::str::FromStr;

use crate::failure::{Failure, Result};
use crate::subject::{Choices, Choosable};
use rocksdb::{BlockBasedIndexType, BlockBasedOptions, BlockBasedTablePinningTier, Options};

const METADATA: Choosable = Choosable {
    tries: &["cache", "parts", "beside"],
    is_of_tables: |value| value == "parts",
    to_set: |value| {
        let is_in_cache = value != "beside";
        let parts = match value {
            "parts" => {
                ", partition_filters = true, index_type = kTwoLevelIndexSearch, \
                 metadata_block_size = 4096"
            }
            _ => "",
        };
        format!("cache_index_and_filter_blocks = {is_in_cache}{parts}")
    },
    ..choice("metadata", "cache, parts, beside", "cache")
};
const PRIORITY: Choosable = Choosable {
    tries: &["high", "low"],
    to_set: |value| {
        let has_priority = value == "high";
        format!("cache_index_and_filter_blocks_with_high_priority = {has_priority}")
    },
    ..choice("priority", "high, low", "high")
};
const PINNING: Choosable = Choosable {
    tries: &["none", "flushed", "all"],
    to_set: |value| {
        let tier = match value {
            "flushed" => "kFlushedAndSimilar",
            "all" => "kAll",
            _ => "kNone",
        };
        format!("all three tiers of metadata_cache_options = PinningTier::{tier}")
    },
    ..choice("pinning", "none, flushed, all", "none")
};
const PRIORITY_PERCENT: Choosable = Choosable {
    to_set: |value| format!("high_pri_pool_ratio of the block cache = {value} / 100"),
    ..choice("priority_percent", "0 to 100", "50")
};
const SHARD_BITS: Choosable = Choosable {
    tries: &["auto", "0", "2", "4"],
    to_set: |value| {
        let bits = if value == "auto" { "-1" } else { value };
        format!("num_shard_bits of the block cache = {bits}")
    },
    ..choice("shard_bits", "auto, 0 to 19", "auto")
};
const BLOCK_CACHE: Choosable = Choosable {
    tries: &["lru", "hyperclock"],
    to_set: |value| {
        let options = if value == "lru" { "LRUCacheOptions" } else { "HyperClockCacheOptions" };
        format!("block_cache = {options}(...).MakeSharedCache()")
    },
    ..choice("block_cache", "lru, hyperclock", "lru")
};
const ENTRY_BYTES: Choosable = Choosable {
    to_set: |value| format!("estimated_entry_charge of HyperClockCacheOptions = {value}"),
    ..choice("entry_bytes", "0 and more", "0")
};
const TABLE_MIB: Choosable = Choosable {
    is_of_tables: |_| true,
    to_set: |value| format!("target_file_size_base = {value} MiB"),
    ..choice("table_mib", "1 and more", "64")
};

const BUFFER_MIB: Choosable = Choosable {
    is_of_tables: |_| true,
    to_set: |value| format!("write_buffer_size = {value} MiB"),
    ..choice("buffer_mib", "1 and more", "64")
};

const FILTER: Choosable = Choosable {
    is_of_tables: |_| true,
    to_set: |value| match value.split_once('-') {
        Some(("ribbon", bits)) => format!("filter_policy = NewRibbonFilterPolicy({bits})"),
        Some((_, bits)) => format!("filter_policy = NewBloomFilterPolicy({bits})"),
        None => value.to_owned(),
    },
    ..choice("filter", "bloom-N, with N bits per key; ribbon-N, as accurate with fewer", "bloom-10")
};

const BUILD: Choosable = Choosable { is_of_tables: |_| true, ..choice("build", "1 and more", "1") };

/// The number of tables at which RocksDB compacts level 0.
const LEVEL_0_TABLES_MAX: i32 = 4;

/// All of them.
pub(super) const CHOICES: &[Choosable] = &[
    BLOCK_CACHE,
    ENTRY_BYTES,
    SHARD_BITS,
    METADATA,
    PINNING,
    PRIORITY,
    PRIORITY_PERCENT,
    TABLE_MIB,
    BUFFER_MIB,
    FILTER,
    BUILD,
];

const fn choice(name: &'static str, values: &'static str, usual: &'static str) -> Choosable {
    Choosable {
        name,
        values,
        usual,
        tries: &[],
        is_of_tables: |_| false,
        to_set: |value| format!("nothing that users set: {value}"),
    }
}

/// The parsed choices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Chosen {
    metadata: Metadata,
    has_priority: bool,
    pinning: Pinning,
    priority_percent: u32,
    shard_bits: i32,
    pub(super) is_hyperclock: bool,
    pub(super) entry_bytes: usize,
    table_bytes: u64,
    buffer_bytes: usize,
    is_ribbon: bool,
    filter_bits: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Metadata {
    Whole,
    Parts,
    Beside,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pinning {
    None,
    Flushed,
    All,
}

impl Chosen {
    /// # Errors
    /// Usage errors, for an unknown choice or value.
    pub(super) fn read(choices: &Choices) -> Result<Self> {
        if let Some(name) = choices.keys().find(|name| CHOICES.iter().all(|c| c.name != **name)) {
            return Err(Failure::usage(format!("rocksdb:options leaves no {name:?} to choose")));
        }
        let of = |choosable: &Choosable| {
            choices.get(choosable.name).map_or(choosable.usual, String::as_str)
        };
        let is = |choosable: &Choosable, yes: &str, no: &str| match of(choosable) {
            value if value == yes => Ok(true),
            value if value == no => Ok(false),
            value => Err(unknown(choosable, value)),
        };
        let unknown_filter = || unknown(&FILTER, of(&FILTER));
        let (filter, filter_bits) = of(&FILTER).split_once('-').ok_or_else(unknown_filter)?;
        Ok(Self {
            is_ribbon: match filter {
                "bloom" => false,
                "ribbon" => true,
                _ => return Err(unknown_filter()),
            },
            filter_bits: number(&FILTER, filter_bits, 1.0..=100.0)?,
            metadata: match of(&METADATA) {
                "cache" => Metadata::Whole,
                "parts" => Metadata::Parts,
                "beside" => Metadata::Beside,
                value => return Err(unknown(&METADATA, value)),
            },
            has_priority: is(&PRIORITY, "high", "low")?,
            pinning: match of(&PINNING) {
                "none" => Pinning::None,
                "flushed" => Pinning::Flushed,
                "all" => Pinning::All,
                value => return Err(unknown(&PINNING, value)),
            },
            priority_percent: number(&PRIORITY_PERCENT, of(&PRIORITY_PERCENT), 0..=100)?,
            shard_bits: match of(&SHARD_BITS) {
                "auto" => -1,
                value => number(&SHARD_BITS, value, 0..=19)?,
            },
            is_hyperclock: is(&BLOCK_CACHE, "hyperclock", "lru")?,
            entry_bytes: number(&ENTRY_BYTES, of(&ENTRY_BYTES), 0..=1 << 30)?,
            table_bytes: number(&TABLE_MIB, of(&TABLE_MIB), 1..=1 << 20)? << 20,
            buffer_bytes: number(&BUFFER_MIB, of(&BUFFER_MIB), 1..=1 << 12)? << 20,
        })
    }

    /// The table options, and the caching of their metadata.
    pub(super) fn set_tables(
        &self,
        table: &mut BlockBasedOptions,
        options: &mut Options,
        is_filling: bool,
    ) {
        table.set_cache_index_and_filter_blocks(self.metadata != Metadata::Beside);
        table.set_cache_index_and_filter_blocks_with_high_priority(self.has_priority);
        let tier = || match self.pinning {
            Pinning::None => BlockBasedTablePinningTier::None,
            Pinning::Flushed => BlockBasedTablePinningTier::FlushAndSimilar,
            Pinning::All => BlockBasedTablePinningTier::All,
        };
        table.set_unpartitioned_pinning_tier(tier());
        table.set_top_level_index_pinning_tier(tier());
        table.set_partition_pinning_tier(tier());
        if self.metadata == Metadata::Parts {
            table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            table.set_partition_filters(true);
            table.set_metadata_block_size(4096);
        }
        match self.is_ribbon {
            true => table.set_ribbon_filter(self.filter_bits),
            false => table.set_bloom_filter(self.filter_bits, false),
        }
        options.set_target_file_size_base(self.table_bytes);
        options.set_write_buffer_size(self.buffer_bytes);
        if is_filling {
            options.set_level_zero_file_num_compaction_trigger(LEVEL_0_TABLES_MAX);
            options.set_level_zero_slowdown_writes_trigger(LEVEL_0_TABLES_MAX);
            options.set_level_zero_stop_writes_trigger(LEVEL_0_TABLES_MAX);
        }
    }

    /// `options` with an LRU cache of this size. Its high-priority part can only be set by text.
    pub(super) fn with_lru(
        &self,
        mut options: Options,
        bytes_max: usize,
    ) -> std::result::Result<Options, rocksdb::Error> {
        let ratio = f64::from(self.priority_percent) / 100.0;
        let text = format!(
            "block_based_table_factory={{block_cache={{capacity={bytes_max};\
             num_shard_bits={};strict_capacity_limit=false;high_pri_pool_ratio={ratio};\
             low_pri_pool_ratio=0}}}}",
            self.shard_bits
        );
        options.get_options_from_string(text)
    }
}

fn number<T: FromStr + PartialOrd>(
    choosable: &Choosable,
    value: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| unknown(choosable, value))
}

fn unknown(choosable: &Choosable, value: &str) -> Failure {
    let Choosable { name, values, .. } = choosable;
    Failure::usage(format!("{name} cannot be {value:?}: {values}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Chosen> {
        let pairs = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Chosen::read(&pairs.collect())
    }

    #[test]
    fn missing_choices_have_defaults_and_unknown_ones_are_errors() {
        let usual = read(&[]).unwrap();
        assert!(usual.metadata == Metadata::Whole && usual.has_priority);
        assert_eq!((usual.pinning, usual.shard_bits), (Pinning::None, -1));
        let all = CHOICES.iter().map(|choice| (choice.name, choice.usual)).collect::<Vec<_>>();
        assert_eq!(read(&all).unwrap(), usual);
        assert_eq!(read(&[("pinning", "all")]).unwrap().pinning, Pinning::All);
        for choice in CHOICES {
            let words: Vec<String> =
                choice.tries.iter().map(|value| (choice.to_set)(value)).collect();
            let is_told_apart = |at: usize| !words[..at].contains(&words[at]);
            assert!((0..words.len()).all(is_told_apart), "{words:?}");
        }
        for wrong in [("pinning", "most"), ("priority_percent", "101"), ("shards", "1")] {
            let error = read(&[wrong]).unwrap_err();
            assert!(error.is_usage && error.message.contains(wrong.0), "{error}");
        }
    }
}
