//! `import`: bulk load of records from a file.
//!
//! Correct for any input, in bounded memory: it writes records in batches, and
//! the later of two records with one key wins. If the keyspace is empty and the
//! input begins in order, it ingests the input as tables instead, until a key is
//! not greater than the previous one; the rest is newer than those tables and is
//! written in batches. With `--sorted` such a key is an error, and the command
//! imports nothing.

use std::path::PathBuf;

use tidekv::{Db, KEY_BYTES_MAX, Keyspace, VALUE_BYTES_MAX, WriteBatch};

use super::store_args::StoreArgs;
use crate::failure::{Failure, Result};
use crate::files;
use crate::formats::{Format, ReadError, Record, RecordLimits, RecordReader};
use crate::progress::{Progress, show_rate};
use crate::quantity::{count, parse_size, show_size};
use crate::store;

/// Large enough that the fixed cost of a batch is negligible, small compared with a
/// memtable.
const BATCH_BYTES: usize = 1 << 20;

/// After this number of records in order, the rest is likely in order too.
const SAMPLE_RECORDS: usize = 4096;
const SAMPLE_BYTES: u64 = 1 << 20;

/// Memtables of 64 MiB, the largest: fewer and larger tables on level 0.
const MEMORY_BYTES: u64 = 512 << 20;

/// Load records from a file.
///
/// The later of two records with one key wins. Sorted input into an empty
/// keyspace is ingested as tables, several times faster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv import --data ./data users.tsv\n  \
    zcat users.jsonl.gz | tidekv import --data ./data --format jsonl -")]
pub struct Import {
    #[command(flatten)]
    place: StoreArgs,

    /// Input file; `-` for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Input format.
    #[arg(long, value_enum, default_value_t = Format::Tsv)]
    format: Format,

    /// Require input in strictly ascending key order: otherwise fail and import nothing.
    #[arg(long)]
    sorted: bool,

    /// Skip malformed records and count them.
    #[arg(long)]
    skip_bad: bool,

    /// Memory budget [default: 512MiB]. A record takes an eighth of it at most.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,

    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

/// A record that owns its bytes.
struct Owned {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<u64>,
}

impl Owned {
    fn new(record: Record<'_>) -> Self {
        let Record { key, value, expires_at_ms } = record;
        Self { key: key.to_vec(), value: value.to_vec(), expires_at_ms }
    }

    fn record(&self) -> Record<'_> {
        Record { key: &self.key, value: &self.value, expires_at_ms: self.expires_at_ms }
    }
}

/// The records of the input, counted.
struct Source {
    reader: Box<dyn RecordReader>,
    name: String,
    record_bytes_max: usize,
    skip_bad: bool,
    skipped: u64,
    bytes: u64,
    progress: Progress,
    /// The failure that the next call of [`Source::advance`] returns.
    failure: Option<Failure>,
}

impl Source {
    /// Advances to the next well-formed record; false at the end of the input.
    fn advance(&mut self) -> Result<bool> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        loop {
            let what = match self.reader.advance() {
                Ok(false) => return Ok(false),
                Ok(true) => match check(self.reader.record(), self.record_bytes_max) {
                    Ok(bytes) => {
                        self.bytes += bytes;
                        self.progress.step(self.reader.bytes_read());
                        return Ok(true);
                    }
                    Err(what) => format!("{} {what}", self.reader.place()),
                },
                Err(ReadError::Bad(what)) => what,
                Err(ReadError::Broken(what)) => return Err(self.failure(&what)),
            };
            if !self.skip_bad {
                let what = format!("{what} (use --skip-bad to skip malformed records)");
                return Err(self.failure(&what));
            }
            self.skipped += 1;
        }
    }

    fn record(&self) -> Record<'_> {
        self.reader.record()
    }

    fn failure(&self, what: &str) -> Failure {
        Failure::new(format!("{}: {what}", self.name))
    }
}

/// The length of a record in bytes, or the reason why the store would reject it.
fn check(record: Record<'_>, bytes_max: usize) -> std::result::Result<u64, String> {
    match record.key.len() {
        0 => Err("has an empty key: a key has at least 1 byte".into()),
        len if len > KEY_BYTES_MAX => {
            Err(format!("has a key of {len} bytes: the limit is {KEY_BYTES_MAX}"))
        }
        _ if record.value.len() > VALUE_BYTES_MAX => {
            let len = record.value.len();
            Err(format!("has a value of {len} bytes: the limit is {VALUE_BYTES_MAX}"))
        }
        len if len + record.value.len() > bytes_max => Err(format!(
            "has {} bytes: with this memory budget the limit is {bytes_max} (raise --memory)",
            len + record.value.len()
        )),
        len => Ok((len + record.value.len()) as u64),
    }
}

/// The sorted prefix of the input, which is ingested as tables.
struct SortedRun<'a> {
    source: &'a mut Source,
    /// Already read; returned first.
    sample: std::vec::IntoIter<Owned>,
    last: Option<Vec<u8>>,
    /// The first record that does not belong to the run.
    first_unsorted: Option<Owned>,
    failure: Option<Failure>,
    /// An unsorted record is an error.
    is_strict: bool,
}

impl SortedRun<'_> {
    fn next_record(&mut self) -> Result<Option<Owned>> {
        if let Some(record) = self.sample.next() {
            return Ok(Some(record));
        }
        Ok(if self.source.advance()? { Some(Owned::new(self.source.record())) } else { None })
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(record) = self.next_record()? else { return Ok(None) };
        // Ingested tables have no expiry times of single entries.
        let is_in_order = self.last.as_ref().is_none_or(|last| *last < record.key);
        if is_in_order && record.expires_at_ms.is_none() {
            self.last.get_or_insert_default().clone_from(&record.key);
            return Ok(Some((record.key, record.value)));
        }
        if self.is_strict {
            let place = self.source.reader.place();
            let what = if is_in_order {
                format!("{place} has an expiry time: import it without --sorted")
            } else {
                format!("{place} is not in order: its key is not greater than the previous one")
            };
            return Err(self.source.failure(&what));
        }
        self.first_unsorted = Some(record);
        Ok(None)
    }
}

impl Iterator for SortedRun<'_> {
    type Item = (Vec<u8>, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.failure.is_some() || self.first_unsorted.is_some() {
            return None;
        }
        match self.step() {
            Ok(item) => item,
            Err(failure) => {
                self.failure = Some(failure);
                // An empty key makes the store reject the whole run.
                self.is_strict.then(|| (Vec::new(), Vec::new()))
            }
        }
    }
}

impl Import {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let (input, bytes) = files::open_input(&self.file)?;
        let name = match self.file.to_str() {
            Some("-") => "standard input".into(),
            _ => self.file.display().to_string(),
        };
        let memory = self.memory.unwrap_or(MEMORY_BYTES);
        let limits = RecordLimits::of_budget(memory);
        let mut source = Source {
            reader: self.format.reader(input, limits),
            record_bytes_max: limits.record_bytes,
            name,
            skip_bad: self.skip_bad,
            skipped: 0,
            bytes: 0,
            progress: Progress::new(bytes),
            failure: None,
        };
        let db = store::open_to_write(&self.place.data, Some(memory))?;
        let keyspace = db.keyspace(&self.place.keyspace)?;
        let loaded = self.load(&db, &keyspace, &mut source);
        db.close()?;
        let imported = match loaded {
            Ok(entries) => entries,
            Err((entries, failure)) if entries > 0 => {
                let (message, entries) = (failure.message, count(entries, "entry", "entries"));
                return Err(Failure::new(format!("{message}; imported before it: {entries}")));
            }
            Err((_, failure)) => return Err(failure),
        };
        self.print_summary(&source, imported)
    }

    /// Loads everything; returns the number of entries, on failure of those before it.
    fn load(
        &self,
        db: &Db,
        keyspace: &Keyspace,
        source: &mut Source,
    ) -> std::result::Result<u64, (u64, Failure)> {
        let is_empty = keyspace.iter().keys_only().next().is_none();
        if !is_empty && !self.sorted {
            return write_batches(db, keyspace, source, Vec::new());
        }
        let (sample, is_in_order) = sample(source);
        if !is_in_order && !self.sorted {
            return write_batches(db, keyspace, source, sample);
        }
        let mut run = SortedRun {
            source,
            sample: sample.into_iter(),
            last: None,
            first_unsorted: None,
            failure: None,
            is_strict: self.sorted,
        };
        let ingested = keyspace.ingest(&mut run);
        let SortedRun { sample, first_unsorted, failure, is_strict, source, .. } = run;
        let ingested = match (ingested, failure) {
            (Ok(entries), None) => entries,
            (_, Some(failure)) if is_strict => return Err((0, failure)),
            (Ok(entries), Some(failure)) => return Err((entries, failure)),
            (Err(error), _) => return Err((0, error.into())),
        };
        let rest: Vec<Owned> = first_unsorted.into_iter().chain(sample).collect();
        write_batches(db, keyspace, source, rest)
            .map(|entries| ingested + entries)
            .map_err(|(entries, failure)| (ingested + entries, failure))
    }

    fn print_summary(&self, source: &Source, imported: u64) -> Result<()> {
        let (seconds, bytes, skipped) = (source.progress.seconds(), source.bytes, source.skipped);
        let text = if self.json {
            serde_json::json!({
                "entries": imported,
                "bytes": bytes,
                "skipped": skipped,
                "seconds": seconds,
                "entries_per_s": (imported as f64 / seconds.max(1e-6)).round(),
            })
            .to_string()
        } else {
            let (size, rate) = (show_size(bytes), show_rate(imported, bytes, seconds));
            let bad = match skipped {
                0 => String::new(),
                _ => format!(", skipped {skipped} malformed"),
            };
            let entries = count(imported, "entry", "entries");
            format!("imported {entries}, {size}, in {seconds:.2} s ({rate}){bad}")
        };
        crate::output::line(&text)
    }
}

/// The first records, and whether they can be ingested as tables. The next read
/// returns a failure that occurs here.
fn sample(source: &mut Source) -> (Vec<Owned>, bool) {
    let mut sample: Vec<Owned> = Vec::new();
    let mut is_in_order = true;
    while is_in_order && sample.len() < SAMPLE_RECORDS && source.bytes < SAMPLE_BYTES {
        match source.advance() {
            Ok(true) => {}
            Ok(false) => break,
            Err(failure) => {
                source.failure = Some(failure);
                break;
            }
        }
        let record = Owned::new(source.record());
        is_in_order = sample.last().is_none_or(|last| last.key < record.key)
            && record.expires_at_ms.is_none();
        sample.push(record);
    }
    (sample, is_in_order)
}

/// Writes `first` and then the rest of the input in batches; returns the number of
/// entries, on failure of those before it.
fn write_batches(
    db: &Db,
    keyspace: &Keyspace,
    source: &mut Source,
    first: Vec<Owned>,
) -> std::result::Result<u64, (u64, Failure)> {
    let mut batch = WriteBatch::new();
    let mut written = 0;
    for owned in first {
        put(&mut batch, keyspace, owned.record());
        written += write_if(db, &mut batch, BATCH_BYTES).map_err(|failure| (written, failure))?;
    }
    loop {
        match source.advance() {
            Ok(true) => put(&mut batch, keyspace, source.record()),
            Ok(false) => break,
            Err(failure) => {
                written += write_if(db, &mut batch, 0).map_err(|failure| (written, failure))?;
                return Err((written, failure));
            }
        }
        written += write_if(db, &mut batch, BATCH_BYTES).map_err(|failure| (written, failure))?;
    }
    written += write_if(db, &mut batch, 0).map_err(|failure| (written, failure))?;
    Ok(written)
}

fn put(batch: &mut WriteBatch, keyspace: &Keyspace, record: Record<'_>) {
    match record.expires_at_ms {
        Some(deadline) => batch.put_until(keyspace, record.key, record.value, deadline),
        None => batch.put(keyspace, record.key, record.value),
    }
}

/// Writes the batch if it has at least `bytes` bytes; returns the number of entries written.
fn write_if(db: &Db, batch: &mut WriteBatch, bytes: usize) -> Result<u64> {
    if batch.is_empty() || batch.bytes_len() < bytes {
        return Ok(0);
    }
    let full = std::mem::take(batch);
    let entries = full.len() as u64;
    db.write(full)?;
    Ok(entries)
}
