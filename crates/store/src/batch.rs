//! A batch of writes. It is encoded as it is built, in the exact format of the log, so that
//! committing it copies bytes and does not visit operations.
//!
//! ```text
//! SIZE    MEANING                      (repeated, one operation after another)
//! 1       kind: 0 delete, 1 put, 2 put with deadline, 3 range delete
//! varint  keyspace
//! varint+ key (for kind 3: the first key of the range)
//! varint+ value; for kind 2 eight bytes of deadline, then the value; for
//!         kind 3 the end of the range (exclusive). Missing for kind 0.
//! ```
//!
//! A range may have an empty end until its batch is committed: it has no end then. Before the batch
//! goes to the log, the leader replaces it by one with an end behind all keys of the keyspace
//! (`WriteBatch::with_ends`).
//!
//! `varint+` is a LEB128 length and that many bytes. Values on disk: do not change. A batch takes
//! effect completely or not at all, in all its keyspaces.

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::format::coding::{COUNT_MAX, Reader, put_bytes, put_varint};
use crate::format::key::{KEY_BYTES_MAX, Kind, Sequence, VALUE_BYTES_MAX};
use crate::wal::format::RECORD_WRITES;

/// Maximum size of one batch in bytes; also at most a quarter of the memory budget
/// ([`Db::memory_bytes`](crate::Db::memory_bytes)).
pub const BATCH_BYTES_MAX: usize = 1 << 30;

/// The properties of a keyspace that a batch needs; converted from a [`Keyspace`](crate::Keyspace)
/// with `Into`.
#[derive(Debug, Clone, Copy)]
pub struct KeyspaceRef {
    pub(crate) id: u32,
    /// Identifies one open store of this process.
    pub(crate) instance: u64,
    /// The default time to live of the keyspace.
    pub(crate) default_ttl: Option<Ttl>,
}

/// A time to live, which starts when its batch is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ttl {
    pub(crate) ms: u64,
    /// The deadline if it started when this was made: an estimate for those who read the batch
    /// before it is written.
    pub(crate) estimate_ms: u64,
}

/// Bytes of an operation besides its key and payload: the kind and three
/// varints of 32 bits.
const OPERATION_OVERHEAD_BYTES_MAX: usize = 1 + 3 * 5;

/// Writes that take effect together, in one or several keyspaces of a store; committed by
/// [`Db::write`](crate::Db::write). Later writes of a batch win over earlier ones.
///
/// A key, value or batch that exceeds its limit is recorded, and the batch is rejected when it is
/// written.
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// use tidekv::WriteBatch;
///
/// let (users, by_city) = (db.keyspace("users")?, db.keyspace("users-by-city")?);
/// let mut batch = WriteBatch::new();
/// batch.put(&users, "ada", "London");
/// batch.put(&by_city, "London/ada", "");
/// assert_eq!(batch.len(), 2);
/// db.write(batch)?;
/// assert!(users.contains("ada")? && by_city.contains("London/ada")?);
///
/// let mut batch = WriteBatch::new();
/// batch.put(&users, "grace", "New York");
/// batch.put(&users, "", "an empty key");
/// assert_eq!(db.write(batch).unwrap_err().kind(), tidekv::ErrorKind::InvalidInput);
/// assert!(!users.contains("grace")?, "all or nothing");
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    len: usize,
    /// The keyspaces that this batch writes to, each once.
    keyspaces: SmallVec<[u32; 2]>,
    /// The store that the keyspaces belong to; 0 while the batch is empty.
    instance: u64,
    /// The positions in `bytes` of deadlines that depend on when the batch is written, with the
    /// times to live in milliseconds.
    ttls: Vec<(usize, u64)>,
    /// Whether any entry has a deadline.
    has_deadlines: bool,
    /// Whether any range deletion has no end.
    has_open_ranges: bool,
    refused: Option<Error>,
}

/// One operation of a batch, borrowed from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation<'a> {
    pub(crate) kind: Kind,
    pub(crate) keyspace: u32,
    pub(crate) key: &'a [u8],
    /// The payload of the entry; for a range delete the end of the range.
    pub(crate) payload: &'a [u8],
}

/// Whether a range deletion from `start` to `end` deletes `key`. An empty `end` is none.
pub(crate) fn is_in_range(key: &[u8], start: &[u8], end: &[u8]) -> bool {
    start <= key && (end.is_empty() || key < end)
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key` to `value`. If the keyspace has a default time to live, it starts when the batch is
    /// written.
    pub fn put(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        let (keyspace, key, value) = (keyspace.into(), key.as_ref(), value.as_ref());
        match keyspace.default_ttl {
            Some(ttl) => self.put_for(keyspace, key, value, ttl),
            None => self.put_without_ttl(keyspace, key, value),
        }
    }

    /// Sets `key` to `value` for the time to live `ttl`.
    pub(crate) fn put_for(&mut self, keyspace: KeyspaceRef, key: &[u8], value: &[u8], ttl: Ttl) {
        let operations = self.len;
        self.put_until(keyspace, key, value, ttl.estimate_ms);
        if self.len > operations {
            let at = self.bytes.len() - value.len() - size_of::<u64>();
            self.ttls.push((at, ttl.ms));
        }
    }

    /// Whether any entry has a deadline.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.has_deadlines
    }

    /// Starts the times to live: the batch is written at `now_ms`.
    pub(crate) fn start_ttls(&mut self, now_ms: u64) {
        for &(at, ttl_ms) in &self.ttls {
            let deadline = now_ms.saturating_add(ttl_ms).to_le_bytes();
            self.bytes[at..at + deadline.len()].copy_from_slice(&deadline);
        }
    }

    /// Sets `key` to `value` until the deadline `expires_at_ms` (milliseconds since 1970, on the
    /// clock of [`Db::unix_ms`](crate::Db::unix_ms)). For a time to live see
    /// [`WriteBatch::put_with_ttl`].
    pub fn put_until(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: u64,
    ) {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.admits(key, value.len()) {
            let deadline = expires_at_ms.to_le_bytes();
            self.has_deadlines = true;
            self.push(Kind::Expiring, keyspace.into(), key, &deadline, value);
        }
    }

    /// Sets `key` to `value` without a deadline, whatever the default of the keyspace.
    pub fn put_without_ttl(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.admits(key, value.len()) {
            self.push(Kind::Value, keyspace.into(), key, &[], value);
        }
    }

    /// Deletes `key`. Not an error if it does not exist.
    pub fn delete(&mut self, keyspace: impl Into<KeyspaceRef>, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        if self.admits(key, 0) {
            self.push(Kind::Delete, keyspace.into(), key, &[], &[]);
        }
    }

    /// Deletes every key from `start` (inclusive) to `end` (exclusive); no effect if `end` is not
    /// after `start`. Does not delete keys that the batch puts later.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// let mut batch = tidekv::WriteBatch::new();
    /// batch.put(&keyspace, "a", "before");
    /// batch.delete_range(&keyspace, "a", "z");
    /// batch.put(&keyspace, "b", "after");
    /// db.write(batch)?;
    /// assert_eq!(keyspace.get("a")?, None);
    /// assert_eq!(keyspace.get("b")?.unwrap(), "after");
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn delete_range(
        &mut self,
        keyspace: impl Into<KeyspaceRef>,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) {
        let (start, end) = (start.as_ref(), end.as_ref());
        if start >= end {
            return;
        }
        // A range may begin before every key and end just after the longest.
        if start.len() > KEY_BYTES_MAX || end.len() > KEY_BYTES_MAX + 1 {
            self.refuse(format!(
                "a bound of a range deletion is longer than {KEY_BYTES_MAX} bytes"
            ));
            return;
        }
        self.push(Kind::RangeDelete, keyspace.into(), start, &[], end);
    }

    /// Deletes every key from `start` on; an empty `start` deletes all keys of the keyspace. Does not
    /// delete keys that the batch puts later, or that are written after it.
    ///
    /// Takes a few bytes of log, however long the keys are, and none if there is nothing to delete, so
    /// it works on a full disk, too.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// keyspace.put("old", "value")?;
    /// let mut batch = tidekv::WriteBatch::new();
    /// batch.delete_from(&keyspace, "");
    /// batch.put(&keyspace, "new", "value");
    /// db.write(batch)?;
    /// assert_eq!(keyspace.iter().count(), 1);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn delete_from(&mut self, keyspace: impl Into<KeyspaceRef>, start: impl AsRef<[u8]>) {
        let start = start.as_ref();
        if start.len() > KEY_BYTES_MAX {
            self.refuse(format!(
                "the start of a range deletion is longer than {KEY_BYTES_MAX} bytes"
            ));
            return;
        }
        self.has_open_ranges = true;
        self.push(Kind::RangeDelete, keyspace.into(), start, &[], &[]);
    }

    /// Whether any range deletion has no end.
    pub(crate) fn has_open_ranges(&self) -> bool {
        self.has_open_ranges
    }

    /// The same writes, with the end `end_of(keyspace)` for the range deletions that have none; without
    /// those of them that begin behind it.
    pub(crate) fn with_ends<'e>(&self, end_of: impl Fn(u32) -> &'e [u8]) -> Self {
        let mut closed = Self { bytes: Vec::with_capacity(self.bytes.len()), ..Self::default() };
        for operation in Operations::new(&self.bytes).flatten() {
            let Operation { kind, keyspace: id, key, payload } = operation;
            let is_open = kind == Kind::RangeDelete && payload.is_empty();
            let payload = if is_open { end_of(id) } else { payload };
            if !is_open || key < payload {
                let keyspace = KeyspaceRef { id, instance: self.instance, default_ttl: None };
                closed.push(kind, keyspace, key, &[], payload);
            }
        }
        closed
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the batch holds no operation.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size of the batch in the log, in bytes.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all operations and keeps the allocated memory.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// let mut batch = tidekv::WriteBatch::new();
    /// batch.put(&keyspace, "key", "value");
    /// assert!(batch.bytes_len() > 8);
    /// batch.clear();
    /// assert!(batch.is_empty());
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.len = 0;
        self.keyspaces.clear();
        self.instance = 0;
        self.ttls.clear();
        self.has_deadlines = false;
        self.has_open_ranges = false;
        self.refused = None;
    }

    /// The encoded operations, or the reason why the batch is rejected.
    pub(crate) fn encoded(&self) -> Result<&[u8]> {
        match &self.refused {
            Some(error) => Err(error.clone()),
            None => Ok(&self.bytes),
        }
    }

    /// The encoded operations that were within limits.
    pub(crate) fn accepted(&self) -> &[u8] {
        &self.bytes
    }

    /// The store whose keyspaces the batch names; 0 if it names none.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// The keyspaces that this batch writes to.
    pub(crate) fn keyspaces(&self) -> &[u32] {
        &self.keyspaces
    }

    fn admits(&mut self, key: &[u8], value_len: usize) -> bool {
        if key.is_empty() {
            self.refuse("a key must have at least 1 byte".into());
        } else if key.len() > KEY_BYTES_MAX {
            self.refuse(format!(
                "a key of {} bytes is longer than {KEY_BYTES_MAX} bytes",
                key.len()
            ));
        } else if value_len > VALUE_BYTES_MAX {
            self.refuse(format!(
                "a value of {value_len} bytes is longer than {VALUE_BYTES_MAX} bytes"
            ));
        } else if self.bytes.len() + key.len() + value_len + 32 > BATCH_BYTES_MAX {
            self.refuse(format!("a batch is larger than {BATCH_BYTES_MAX} bytes"));
        } else {
            return true;
        }
        false
    }

    fn refuse(&mut self, why: String) {
        self.refused.get_or_insert_with(|| Error::invalid(why));
    }

    fn push(
        &mut self,
        kind: Kind,
        keyspace: KeyspaceRef,
        key: &[u8],
        deadline: &[u8],
        value: &[u8],
    ) {
        if self.instance != 0 && self.instance != keyspace.instance {
            self.refuse("a batch writes to keyspaces of two stores".into());
            return;
        }
        self.instance = keyspace.instance;
        let keyspace = keyspace.id;
        if self.keyspaces.last() != Some(&keyspace) && !self.keyspaces.contains(&keyspace) {
            self.keyspaces.push(keyspace);
        }
        self.bytes.reserve(OPERATION_OVERHEAD_BYTES_MAX + key.len() + deadline.len() + value.len());
        self.bytes.push(kind as u8);
        put_varint(&mut self.bytes, u64::from(keyspace));
        put_bytes(&mut self.bytes, key);
        if kind != Kind::Delete {
            put_varint(&mut self.bytes, (deadline.len() + value.len()) as u64);
            self.bytes.extend_from_slice(deadline);
            self.bytes.extend_from_slice(value);
        }
        self.len += 1;
    }
}

/// Begins a log record of writes whose first operation has sequence `first`; the encoded operations
/// of the batches follow.
///
/// ```text
/// SIZE    MEANING
/// 1       1 (record kind "writes", `wal/format.rs`)
/// varint  sequence of the first operation; the others count up from it
/// n       operations
/// ```
pub(crate) fn begin_record(out: &mut Vec<u8>, first: Sequence) {
    out.push(RECORD_WRITES);
    put_varint(out, first);
}

/// The sequence of the first operation of a log record and its operations, or the reason why the
/// record is malformed.
pub(crate) fn decode_record(
    record: &[u8],
) -> std::result::Result<(Sequence, Operations<'_>), &'static str> {
    let mut reader = Reader::new(record);
    if reader.u8() != Some(RECORD_WRITES) {
        return Err("is of an unknown kind");
    }
    let first = reader.varint().ok_or("has no sequence")?;
    if first > COUNT_MAX {
        return Err("has a sequence out of range");
    }
    Ok((first, Operations::new(reader.rest())))
}

/// Walks the operations of encoded batches; `None` at the end, `Some(None)` where the bytes are not
/// an operation.
#[derive(Debug, Clone)]
pub(crate) struct Operations<'a> {
    reader: Reader<'a>,
}

impl<'a> Operations<'a> {
    pub(crate) fn new(encoded: &'a [u8]) -> Self {
        Self { reader: Reader::new(encoded) }
    }

    fn decode(&mut self) -> Option<Operation<'a>> {
        let reader = &mut self.reader;
        let kind = Kind::from_u8(reader.u8()?)?;
        let keyspace = u32::try_from(reader.varint()?).ok()?;
        let key = reader.bytes()?;
        let payload = if kind == Kind::Delete { &[][..] } else { reader.bytes()? };
        if key.len() > KEY_BYTES_MAX || (kind != Kind::RangeDelete && key.is_empty()) {
            return None;
        }
        if kind == Kind::Expiring && payload.len() < 8 {
            return None;
        }
        Some(Operation { kind, keyspace, key, payload })
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Option<Operation<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let operation = self.decode();
        if operation.is_none() {
            self.reader = Reader::new(&[]);
        }
        Some(operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidekv_testkit::golden::Dump;

    fn keyspace(id: u32) -> KeyspaceRef {
        KeyspaceRef { id, instance: 1, default_ttl: None }
    }

    #[test]
    fn operations_are_decoded_in_order() {
        let mut batch = WriteBatch::new();
        batch.put(keyspace(1), b"a", b"x");
        batch.put_until(keyspace(300), b"b", b"y", 77);
        batch.delete(keyspace(1), b"a");
        batch.delete_range(keyspace(1), b"", b"zz");
        let got: Vec<_> = Operations::new(batch.encoded().unwrap()).map(Option::unwrap).collect();
        assert_eq!(got.len(), batch.len());
        assert_eq!((got[0].kind, got[0].key, got[0].payload), (Kind::Value, &b"a"[..], &b"x"[..]));
        assert_eq!(
            (got[1].kind, got[1].keyspace, &got[1].payload[8..]),
            (Kind::Expiring, 300, &b"y"[..])
        );
        assert_eq!(got[2].kind, Kind::Delete);
        assert_eq!((got[3].key, got[3].payload), (&b""[..], &b"zz"[..]));
    }

    #[test]
    fn record_matches_golden_bytes() {
        let mut batch = WriteBatch::new();
        batch.put(keyspace(1), b"tide/high", b"spring");
        batch.put_until(keyspace(300), b"tide/slack", b"calm", 1_800_000_000_000);
        batch.delete(keyspace(1), b"tide/low");
        batch.delete_range(keyspace(1), b"", b"tide");
        let mut record = Vec::new();
        begin_record(&mut record, 300);
        let mut parts = vec![(record.len(), "Kind of record, first sequence")];
        record.extend_from_slice(batch.encoded().unwrap());
        for name in ["Put", "Put with deadline", "Delete", "Range delete"] {
            let mut walk = Operations::new(&record[parts.last().unwrap().0..]);
            walk.next();
            parts.push((record.len() - walk.reader.rest().len(), name));
        }
        let mut dump = Dump::new("A record of writes. See crates/store/src/batch.rs.");
        dump.parts(&record, &parts);
        let released = dump.hold_against("batch");
        let (first, operations) = decode_record(&released[0].1).unwrap();
        assert_eq!(first, 300);
        let operation = |kind, keyspace, key, payload| Operation { kind, keyspace, key, payload };
        let expiring = [&1_800_000_000_000u64.to_le_bytes()[..], b"calm"].concat();
        assert!(operations.map(Option::unwrap).eq([
            operation(Kind::Value, 1, b"tide/high", b"spring"),
            operation(Kind::Expiring, 300, b"tide/slack", &expiring),
            operation(Kind::Delete, 1, b"tide/low", b""),
            operation(Kind::RangeDelete, 1, b"", b"tide"),
        ]));
    }

    #[test]
    fn errors_name_the_exceeded_limit() {
        for (key, value_len, says) in [
            (vec![], 0, "at least 1 byte"),
            (vec![0; KEY_BYTES_MAX + 1], 0, "65537 bytes"),
            (vec![0; 1], VALUE_BYTES_MAX + 1, "268435457 bytes"),
        ] {
            let mut batch = WriteBatch::new();
            batch.put(keyspace(0), &key, vec![0; value_len]);
            let error = batch.encoded().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn malformed_operations_are_detected() {
        let mut batch = WriteBatch::new();
        batch.put(keyspace(1), b"key", b"value");
        let bytes = batch.encoded().unwrap();
        for cut in 1..bytes.len() {
            assert!(Operations::new(&bytes[..cut]).any(|o| o.is_none()));
        }
        assert_eq!(Operations::new(&[9, 0, 1, 1]).next(), Some(None));
    }
}
