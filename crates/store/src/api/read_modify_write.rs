//! Writes that depend on the present value: [`Keyspace::compare_and_set`], [`Keyspace::increment`].
//!
//! Guarantee: no write of another writer is lost between the read and the write.

use std::sync::Arc;

use crate::api::iter::Entry;
use crate::api::keyspace::{Keyspace, entry_of};
use crate::batch::WriteBatch;
use crate::engine::{Condition, Written};
use crate::error::{Error, Result};

impl Keyspace {
    /// Sets `key` to `new` (deletes it for `None`) if its value is `expected` (`None`: if it has no
    /// value). Returns whether it did. An expiry time is dropped.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// assert!(keyspace.compare_and_set("leader", None, Some(b"node-1"))?);
    /// assert!(!keyspace.compare_and_set("leader", None, Some(b"node-2"))?, "taken");
    /// assert!(keyspace.compare_and_set("leader", Some(b"node-1"), None)?);
    /// assert_eq!(keyspace.get("leader")?, None);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.read_modify_write(key, |current, batch| {
            if current.map(|entry| &*entry.value) != expected {
                return Ok((false, false));
            }
            match new {
                Some(value) => batch.put(self, key, value),
                None => batch.delete(self, key),
            }
            Ok((true, true))
        })
    }

    /// Adds `delta` to the decimal number that is the value of `key` (0 if there is none) and
    /// returns the sum. An expiry time is kept; a new key gets the default time to live.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the value is not a decimal
    /// 64-bit integer or the sum does not fit one; the value is not changed.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// assert_eq!(keyspace.increment("visits", 1)?, 1);
    /// assert_eq!(keyspace.increment("visits", 41)?, 42);
    /// assert_eq!(keyspace.get("visits")?.unwrap(), "42");
    /// keyspace.put("name", "Ada")?;
    /// assert!(keyspace.increment("name", 1).is_err());
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn increment(&self, key: impl AsRef<[u8]>, delta: i64) -> Result<i64> {
        let key = key.as_ref();
        self.read_modify_write(key, |current, batch| {
            let number = match current {
                None => 0,
                Some(entry) => std::str::from_utf8(&entry.value)
                    .ok()
                    .and_then(|text| text.parse::<i64>().ok())
                    .ok_or_else(|| Error::invalid("the value is not a decimal 64-bit integer"))?,
            };
            let sum = number
                .checked_add(delta)
                .ok_or_else(|| Error::invalid("the sum does not fit a 64-bit integer"))?;
            let text = sum.to_string();
            match current.and_then(|entry| entry.expires_at_ms) {
                Some(deadline) => batch.put_until(self, key, text.as_bytes(), deadline),
                None if current.is_some() => batch.put_without_ttl(self, key, text.as_bytes()),
                None => batch.put(self, key, text.as_bytes()),
            }
            Ok((sum, true))
        })
    }

    /// Reads `key`, lets `modify` fill a batch, and writes the batch if the key has not changed
    /// meanwhile; otherwise starts over. Each failed attempt means that another writer has
    /// succeeded.
    fn read_modify_write<T>(
        &self,
        key: &[u8],
        mut modify: impl FnMut(Option<&Entry>, &mut WriteBatch) -> Result<(T, bool)>,
    ) -> Result<T> {
        let engine = self.engine();
        engine.check_writable()?;
        loop {
            let (resolved, seen) = self.resolve(key, None)?;
            let current = entry_of(resolved, engine);
            let mut batch = WriteBatch::new();
            let (outcome, writes) = modify(current.as_ref(), &mut batch)?;
            if !writes {
                return Ok(outcome);
            }
            let condition = Condition {
                tree: Arc::clone(self.tree()),
                key: key.into(),
                unchanged_since: seen,
                ignores_range_deletions: false,
            };
            if engine.write(batch, engine.options.durability, vec![condition])? == Written::Done {
                return Ok(outcome);
            }
        }
    }
}
