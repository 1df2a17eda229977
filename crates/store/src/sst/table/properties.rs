//! Properties of a table: counts, bounds and build settings.
//!
//! ```text
//! SIZE     MEANING                                (in this order)
//! varint   table id
//! varint   keyspace
//! varint   point entries
//! varint   … of these tombstones
//! varint   … of these with a deadline
//! varint   range tombstones
//! varint   earliest deadline, latest deadline (two varints; 0: none)
//! varint+  smallest and largest user key of entries (empty: no entries)
//! varint+  first key and end of all range tombstones (empty: none)
//! varint   smallest and largest sequence, entries and range tombstones alike
//! varint   bytes of user keys, bytes of payloads, before compression
//! varint   bytes of data blocks on disk, number of data blocks
//! varint   kind of filter (0: none), filter bits per key
//! 8        fingerprint of the contents of the data blocks (0: unknown)
//! …        distribution of the deadlines (`deadlines.rs`), if any entry has one
//! ```
//!
//! New fields are appended: a reader ignores all bytes after the fields that it knows.

use super::deadlines::Deadlines;
use crate::format::checksum::long_checksum;
use crate::format::coding::{Reader, put_bytes, put_varint};
use crate::format::key::{Kind, SEQUENCE_MAX, Sequence, Trailer, split_deadline};
use crate::format::range_tombstones::RangeTombstone;

/// The properties of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableProperties {
    pub(crate) id: u64,
    pub(crate) keyspace: u32,
    /// Point entries, including tombstones and expiring entries.
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) expiring: u64,
    pub(crate) range_tombstones: u64,
    /// Of expiring entries; both 0 if there are none.
    pub(crate) earliest_deadline_ms: u64,
    pub(crate) latest_deadline_ms: u64,
    /// Of point entries; both empty if there are none.
    pub(crate) smallest_key: Box<[u8]>,
    pub(crate) largest_key: Box<[u8]>,
    /// First key and end (exclusive) of all range tombstones; both empty if there are none.
    pub(crate) range_start: Box<[u8]>,
    pub(crate) range_end: Box<[u8]>,
    /// Of point entries and range tombstones; both 0 in an empty table.
    pub(crate) smallest_sequence: Sequence,
    pub(crate) largest_sequence: Sequence,
    pub(crate) raw_key_bytes: u64,
    pub(crate) raw_value_bytes: u64,
    /// Data blocks on disk.
    pub(crate) data_bytes: u64,
    pub(crate) data_blocks: u64,
    /// 0 if there are no filters.
    pub(crate) filter_kind: u8,
    pub(crate) filter_bits_per_key: u8,
    /// A fingerprint of the contents of all data blocks, in their order; 0 if unknown, as in tables
    /// from before this field existed.
    pub(crate) contents: u64,
    /// The deadlines of expiring entries.
    pub(crate) deadlines: Deadlines,
    /// The file's length. Not stored.
    pub(crate) file_bytes: u64,
}

impl TableProperties {
    /// Counts a point entry. Entries are counted in order; the caller sets the key bounds, so that
    /// not every key is copied.
    pub(super) fn count_entry(&mut self, user_key: &[u8], trailer: Trailer, payload: &[u8]) {
        self.count_sequence(trailer.sequence());
        self.entries += 1;
        self.raw_key_bytes += user_key.len() as u64;
        self.raw_value_bytes += payload.len() as u64;
        match trailer.kind() {
            Kind::Delete => self.tombstones += 1,
            Kind::Expiring => {
                let (deadline, _) = split_deadline(payload).unwrap_or_default();
                self.earliest_deadline_ms = if self.expiring == 0 {
                    deadline
                } else {
                    deadline.min(self.earliest_deadline_ms)
                };
                self.latest_deadline_ms = deadline.max(self.latest_deadline_ms);
                self.expiring += 1;
                self.deadlines.add(deadline, (user_key.len() + payload.len()) as u64);
            }
            Kind::Value | Kind::RangeDelete => {}
        }
    }

    /// Counts a data block that takes `bytes` on disk.
    pub(super) fn count_data_block(&mut self, content: &[u8], bytes: u32) {
        self.data_bytes += u64::from(bytes);
        self.data_blocks += 1;
        self.contents = long_checksum(self.contents, content);
    }

    /// Counts a range tombstone that is not empty.
    pub(super) fn count_range_tombstone(&mut self, tombstone: &RangeTombstone) {
        self.count_sequence(tombstone.sequence);
        if self.range_tombstones == 0 || tombstone.start < self.range_start {
            self.range_start = tombstone.start.clone();
        }
        if tombstone.end > self.range_end {
            self.range_end = tombstone.end.clone();
        }
        self.range_tombstones += 1;
    }

    fn count_sequence(&mut self, sequence: Sequence) {
        let first = self.entries + self.range_tombstones == 0;
        self.smallest_sequence =
            if first { sequence } else { sequence.min(self.smallest_sequence) };
        self.largest_sequence = sequence.max(self.largest_sequence);
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = [
            self.id,
            u64::from(self.keyspace),
            self.entries,
            self.tombstones,
            self.expiring,
            self.range_tombstones,
            self.earliest_deadline_ms,
            self.latest_deadline_ms,
        ];
        numbers.into_iter().for_each(|n| put_varint(&mut out, n));
        for key in [&self.smallest_key, &self.largest_key, &self.range_start, &self.range_end] {
            put_bytes(&mut out, key);
        }
        let numbers = [
            self.smallest_sequence,
            self.largest_sequence,
            self.raw_key_bytes,
            self.raw_value_bytes,
            self.data_bytes,
            self.data_blocks,
            u64::from(self.filter_kind),
            u64::from(self.filter_bits_per_key),
        ];
        numbers.into_iter().for_each(|n| put_varint(&mut out, n));
        out.extend_from_slice(&self.contents.to_le_bytes());
        if self.expiring > 0 && !self.deadlines.is_assumed() {
            self.deadlines.encode(&mut out);
        }
        out
    }

    /// Reads properties from untrusted bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let r = &mut Reader::new(bytes);
        let mut properties = Self {
            id: r.varint()?,
            keyspace: u32::try_from(r.varint()?).ok()?,
            entries: r.varint()?,
            tombstones: r.varint()?,
            expiring: r.varint()?,
            range_tombstones: r.varint()?,
            earliest_deadline_ms: r.varint()?,
            latest_deadline_ms: r.varint()?,
            smallest_key: r.bytes()?.into(),
            largest_key: r.bytes()?.into(),
            range_start: r.bytes()?.into(),
            range_end: r.bytes()?.into(),
            smallest_sequence: r.varint()?,
            largest_sequence: r.varint()?,
            raw_key_bytes: r.varint()?,
            raw_value_bytes: r.varint()?,
            data_bytes: r.varint()?,
            data_blocks: r.varint()?,
            filter_kind: u8::try_from(r.varint()?).ok()?,
            filter_bits_per_key: u8::try_from(r.varint()?).ok()?,
            contents: if r.is_empty() { 0 } else { r.u64()? },
            deadlines: Deadlines::default(),
            file_bytes: 0,
        };
        properties.deadlines = match (properties.expiring, r.is_empty()) {
            (0, _) => Deadlines::default(),
            (_, false) => Deadlines::decode(r)?,
            // Written before the distribution was stored.
            (expiring, true) => {
                let bytes = properties.raw_key_bytes.saturating_add(properties.raw_value_bytes);
                let share = u128::from(bytes) * u128::from(expiring)
                    / u128::from(properties.entries.max(1));
                let share = u64::try_from(share).unwrap_or(u64::MAX);
                Deadlines::whole(properties.latest_deadline_ms, expiring, share)
            }
        };
        (properties.largest_sequence <= SEQUENCE_MAX).then_some(properties)
    }

    /// Bytes of DRAM held beyond the struct.
    pub(crate) fn charge(&self) -> usize {
        [&self.smallest_key, &self.largest_key, &self.range_start, &self.range_end]
            .iter()
            .map(|key| key.len())
            .sum::<usize>()
            + self.deadlines.charge()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables from before the distribution of deadlines was stored end after the fingerprint.
    #[test]
    fn properties_without_a_distribution_of_deadlines_are_read() {
        let mut properties = TableProperties { id: 3, ..TableProperties::default() };
        for i in 0..10u64 {
            let payload = [&(1000 + i).to_le_bytes()[..], b"value"].concat();
            let trailer = Trailer::new(i, if i < 4 { Kind::Expiring } else { Kind::Value });
            properties.count_entry(b"key", trailer, &payload);
        }
        properties.deadlines.compress();
        let new = properties.encode();
        assert_eq!(TableProperties::decode(&new), Some(properties.clone()));
        let mut distribution = Vec::new();
        properties.deadlines.encode(&mut distribution);
        let old = TableProperties::decode(&new[..new.len() - distribution.len()]).unwrap();
        assert_eq!((old.expiring, old.latest_deadline_ms), (4, 1003));
        assert_eq!(old.deadlines.expired(1002).entries, 0, "it may be any of them");
        assert_eq!(old.deadlines.expired(1003).entries, 4);
    }
}
