//! Random entries of a keyspace: [`Keyspace::draw`].
//!
//! A draw chooses one of the stored versions at random and rejects it unless it is what a reader
//! sees of its key. Each key has one version that readers see, so all keys are equally likely,
//! however often they were written and wherever they lie among the others. Entries of tables are
//! only about equally likely: their blocks differ in size.

use bytes::Bytes;

use crate::api::iter::{Entry, key_range};
use crate::api::keyspace::Keyspace;
use crate::error::Result;
use crate::format::key::Sequence;
use crate::sst::cursor::Cursor;
use crate::sst::table::{Reading, TableCursor};
use crate::version::levels::TableHandle;
use crate::version::view::View;

/// Tries in one memtable or table, of which about half succeed. To choose another one after a try
/// would prefer those in which tries succeed more often.
const TRIES_MAX: usize = 64;

/// The outcome of [`Keyspace::draw`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draw {
    /// The keyspace stores nothing.
    Empty,
    /// The choice fell on no version, which is rare: draw again.
    Missed,
    /// The choice fell on a version that was overwritten or has expired, or on a deletion: draw
    /// again.
    Stale,
    /// A key with its entry.
    Entry(Bytes, Entry),
}

impl Keyspace {
    /// The number of stored versions: entries, also overwritten and expired ones, and deletions.
    pub fn versions(&self) -> u64 {
        versions_of(&self.tree().view())
    }

    /// Chooses a stored version at random and returns its entry if it is the present one of its
    /// key. `random` returns random numbers. Among the draws that do not miss, the share of entries
    /// is about the share of the [`versions`](Keyspace::versions) that are present entries.
    ///
    /// Reads a few blocks.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// use tidekv::{Draw, Random, SeededRandom};
    ///
    /// keyspace.ingest([("a", "1"), ("b", "2")])?;
    /// let random = SeededRandom::new(7);
    /// let key = loop {
    ///     match keyspace.draw(|| random.next_u64())? {
    ///         Draw::Entry(key, _) => break key,
    ///         Draw::Missed | Draw::Stale => {}
    ///         Draw::Empty => unreachable!("there are entries"),
    ///     }
    /// };
    /// assert!(key == "a" || key == "b");
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn draw(&self, mut random: impl FnMut() -> u64) -> Result<Draw> {
        let mut iter = self.iter();
        iter.check_refused()?;
        let versions = versions_of(iter.view());
        if versions == 0 {
            return Ok(Draw::Empty);
        }
        let mut below = |end: usize| ((u128::from(random()) * end as u128) >> 64) as usize;
        let chosen = below(usize::try_from(versions).unwrap_or(usize::MAX)) as u64;
        let Some((key, sequence)) = self.version(iter.view(), chosen, &mut below)? else {
            return Ok(Draw::Missed);
        };
        let mut cursor = iter.cursor_over(key_range(&(&key[..]..=&key[..])));
        if !cursor.next()? || cursor.entry_sequence() != sequence {
            return Ok(Draw::Stale);
        }
        let (value, expires_at_ms) = cursor.value_bytes();
        Ok(Draw::Entry(key, Entry { value, expires_at_ms }))
    }

    /// A random version in the memtable or table that has the version number `chosen` if all of
    /// them are counted in order: its key and sequence; `None` if the choice failed.
    fn version(
        &self,
        view: &View,
        mut chosen: u64,
        below: &mut dyn FnMut(usize) -> usize,
    ) -> Result<Option<(Bytes, Sequence)>> {
        for memtable in view.memtables() {
            let entries = memtable.entries() as u64;
            if chosen < entries {
                let found = (0..TRIES_MAX).find_map(|_| memtable.random_entry(below));
                return Ok(found.map(|(key, at)| (Bytes::copy_from_slice(key), at)));
            }
            chosen -= entries;
        }
        for handle in view.version.tables() {
            if chosen < handle.meta().entries {
                return self.version_in(handle, below);
            }
            chosen -= handle.meta().entries;
        }
        // Memtables have grown meanwhile.
        Ok(None)
    }

    fn version_in(
        &self,
        handle: &TableHandle,
        below: &mut dyn FnMut(usize) -> usize,
    ) -> Result<Option<(Bytes, Sequence)>> {
        let (table, blocks) = (handle.table(), &self.engine().reads.blocks);
        let reading = Reading::Cached(Default::default());
        let mut cursor = TableCursor::new(table.clone(), blocks.clone(), reading);
        for _ in 0..TRIES_MAX {
            cursor.move_to_random(below)?;
            if cursor.valid() {
                let sequence = match handle.meta().sequence_override {
                    0 => cursor.trailer().sequence(),
                    ingested => ingested,
                };
                return Ok(Some((Bytes::copy_from_slice(cursor.user_key()), sequence)));
            }
        }
        Ok(None)
    }
}

fn versions_of(view: &View) -> u64 {
    let in_memtables: u64 = view.memtables().map(|memtable| memtable.entries() as u64).sum();
    in_memtables + view.version.tables().map(|table| table.meta().entries).sum::<u64>()
}

#[cfg(test)]
mod tests;
