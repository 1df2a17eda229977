//! Lines of comma-separated columns.

use std::io::{self, BufRead, Read};

use csv::{ByteRecord, ReaderBuilder, Trim};

use super::request::{Fault, Kind, Parts, Request, Requests};

/// Columns of Twitter's format: `timestamp,key,key size,value size,client id,operation,TTL`.
pub(super) const TWITTER_COLUMNS: usize = 7;

/// The index of each column.
#[derive(Debug, Clone, Copy, Default)]
struct Columns {
    key: usize,
    key_bytes: Option<usize>,
    /// The size is that of the whole object, key included.
    is_whole: bool,
    /// The unit of times by their name, in seconds; `None` if their size tells.
    time_unit_s: Option<f64>,
    operation: Option<usize>,
    value_bytes: Option<usize>,
    seconds: Option<usize>,
    ttl: Option<usize>,
    entries: Option<usize>,
    count: Option<usize>,
}

const OF_TWITTER: Columns = Columns {
    key: 1,
    key_bytes: Some(2),
    is_whole: false,
    time_unit_s: Some(1.0),
    operation: Some(5),
    value_bytes: Some(3),
    seconds: Some(0),
    ttl: Some(6),
    entries: None,
    count: None,
};

/// Column names, in lower case.
const KEY: &[&str] = &["key", "cachekey", "obj_id", "object_id", "objid", "object", "obj", "id"];
const KEY_BYTES: &[&str] = &["key_size", "key_bytes", "keysize"];
const OPERATION: &[&str] = &["op", "operation", "command"];
const VALUE_BYTES: &[&str] = &[
    "value_size",
    "value_bytes",
    "valuesize",
    "size",
    "obj_size",
    "object_size",
    "objsize",
    "objectsize",
];
const SECONDS: &[&str] =
    &["time", "timestamp", "op_time", "seconds", "clock_time", "real_time", "time_stamp", "ts"];
/// Names of times in other units, in seconds.
const OTHER_TIMES: &[(&str, f64)] = &[
    ("time_ms", 1e-3),
    ("timestamp_ms", 1e-3),
    ("time_us", 1e-6),
    ("timestamp_us", 1e-6),
    ("time_ns", 1e-9),
    ("timestamp_ns", 1e-9),
];
/// Names of keys in libCacheSim's traces, whose sizes are those of whole objects.
const KEYS_OF_WHOLE: &[&str] = &["obj_id", "object_id", "objid", "object", "obj"];
/// A time since 1970 from here on cannot be in seconds (it would be the year 5138), in
/// milliseconds, or in microseconds.
const NO_SECONDS: f64 = 1e11;
const NO_MILLISECONDS: f64 = 1e14;
const NO_MICROSECONDS: f64 = 1e17;
const TTL: &[&str] = &["ttl"];
const ENTRIES: &[&str] = &["entries", "limit", "count"];
const COUNT: &[&str] = &["op_count"];

/// The most requests of a line.
const COUNT_MAX: f64 = 1e6;
/// They are produced in batches of about this many bytes.
const COPIES_BYTES: usize = 1 << 20;
/// The largest object, in bytes.
const SIZE_MAX: f64 = (1_u64 << 44) as f64;

/// Whether a line is a header with a key column.
pub(super) fn is_header(line: &str) -> bool {
    columns(line.split(',')).is_some()
}

fn columns<'a>(names: impl Iterator<Item = &'a str>) -> Option<Columns> {
    // libCacheSim's header is a comment.
    let clean = |name: &str| name.trim_start_matches(['#', ' ']).trim().to_ascii_lowercase();
    let names: Vec<String> = names.map(clean).collect();
    // Of several matching names the first of `known`: `key` before a mere `id`.
    let at = |known: &[&str]| known.iter().find_map(|it| names.iter().position(|name| name == it));
    let other_time = OTHER_TIMES.iter().find_map(|(name, unit_s)| Some((at(&[name])?, *unit_s)));
    let key = at(KEY)?;
    Some(Columns {
        key,
        key_bytes: at(KEY_BYTES),
        is_whole: KEYS_OF_WHOLE.contains(&names[key].as_str()),
        time_unit_s: other_time.map(|(_, unit_s)| unit_s),
        operation: at(OPERATION),
        value_bytes: at(VALUE_BYTES),
        seconds: other_time.map(|(at, _)| at).or(at(SECONDS)),
        ttl: at(TTL),
        entries: at(ENTRIES),
        count: at(COUNT),
    })
}

pub(super) struct Lines<R> {
    reader: csv::Reader<Bounded<R>>,
    record: ByteRecord,
    columns: Columns,
    /// The remaining requests of the last line.
    rest: Option<(Request, usize)>,
    /// The unit of times, in seconds, once the first one has been read.
    time_unit_s: Option<f64>,
}

impl<R: BufRead> Lines<R> {
    /// Reads a header, then lines with its columns.
    pub(super) fn with_header(input: R) -> Result<Self, Fault> {
        let mut reader = reader().from_reader(Bounded::new(input));
        let header = reader.byte_headers().map_err(|error| fault(error, 1))?;
        let names = header.iter().map(|name| std::str::from_utf8(name).unwrap_or_default());
        let columns = columns(names).ok_or_else(|| Fault::Broken {
            line: 1,
            what: format!("there is no column {}", KEY[0]),
        })?;
        Ok(Self::of(reader, columns))
    }

    pub(super) fn of_twitter(input: R) -> Self {
        // A quote is part of a key.
        let reader = reader().has_headers(false).quoting(false).from_reader(Bounded::new(input));
        Self::of(reader, OF_TWITTER)
    }

    fn of(reader: csv::Reader<Bounded<R>>, columns: Columns) -> Self {
        let time_unit_s = columns.time_unit_s;
        Self { reader, record: ByteRecord::new(), columns, rest: None, time_unit_s }
    }

    /// The request of a line, and its number of repetitions.
    fn request(&self) -> Result<Option<(Request, usize)>, String> {
        let field = |at: usize| self.record.get(at).ok_or_else(|| format!("no column {}", at + 1));
        let number = |at: Option<usize>, what: &str| -> Result<Option<f64>, String> {
            let Some(at) = at else { return Ok(None) };
            let text = std::str::from_utf8(field(at)?).unwrap_or_default();
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
                _ if text.is_empty() => Ok(None),
                _ => Err(format!("{text:?} is not a {what}")),
            }
        };
        let Columns { key, key_bytes, is_whole, operation, value_bytes, .. } = self.columns;
        let Columns { seconds, ttl, entries, count, .. } = self.columns;
        let kind = match operation {
            None => Kind::Get,
            Some(at) => match kind_of(field(at)?) {
                Some(Some(kind)) => kind,
                Some(None) => return Ok(None),
                None => {
                    let text = String::from_utf8_lossy(field(at)?).into_owned();
                    return Err(format!("{text:?} is not an operation"));
                }
            },
        };
        let whole = |number: Option<f64>| number.map(|number| number as u64);
        let size = number(value_bytes, "value size")?;
        if size.is_some_and(|size| size > SIZE_MAX) {
            return Err("it is larger than any object".to_owned());
        }
        let times = number(count, "number of requests")?.map_or(1.0, |times| times.min(COUNT_MAX));
        let request = Request {
            key_bytes: whole(number(key_bytes, "key size")?),
            value_bytes: whole(size),
            seconds: number(seconds, "time")?,
            // 0 means that the value lives for ever.
            ttl_seconds: whole(number(ttl, "time to live")?).filter(|ttl| *ttl > 0),
            entries: whole(number(entries, "number of entries")?),
            ..Request::new(kind, field(key)?)
        };
        let request = match request.value_bytes {
            _ if !is_whole => request,
            Some(bytes) => request.with_whole_bytes(bytes),
            None => Request { key_bytes: Some(0), ..request },
        };
        Ok(Some((request, times as usize)))
    }
}

impl<R> Lines<R> {
    /// The request with its time in seconds: the first time tells the unit, unless its name does.
    fn in_seconds(&mut self, request: Request) -> Request {
        let Some(time) = request.seconds else { return request };
        let unit_s = *self.time_unit_s.get_or_insert_with(|| unit_of(time));
        Request { seconds: Some(time * unit_s), ..request }
    }

    /// The next requests of the last line, in batches.
    fn copies(&mut self) -> Option<Requests> {
        let (request, times) = self.rest.take().filter(|(_, times)| *times > 0)?;
        let bytes_each = size_of::<Request>() + request.key.len();
        let now = (COPIES_BYTES / bytes_each).clamp(1, times);
        let requests = vec![request.clone(); now];
        self.rest = Some((request, times - now));
        Some(requests)
    }
}

/// The unit of a time since 1970, in seconds.
fn unit_of(time: f64) -> f64 {
    match time {
        time if time < NO_SECONDS => 1.0,
        time if time < NO_MILLISECONDS => 1e-3,
        time if time < NO_MICROSECONDS => 1e-6,
        _ => 1e-9,
    }
}

/// The kind of an operation; an inner `None` for operations without a key request.
fn kind_of(name: &[u8]) -> Option<Option<Kind>> {
    Some(match &*name.to_ascii_lowercase() {
        b"get" | b"gets" | b"get_lease" | b"read" => Some(Kind::Get),
        b"set" | b"set_lease" | b"put" | b"add" | b"replace" | b"cas" | b"append" | b"prepend"
        | b"incr" | b"decr" | b"write" | b"insert" | b"update" => Some(Kind::Put),
        b"delete" | b"del" | b"remove" => Some(Kind::Delete),
        b"scan" | b"range" => Some(Kind::Scan),
        b"touch" | b"flush" | b"stats" => None,
        _ => return None,
    })
}

fn reader() -> ReaderBuilder {
    let mut builder = ReaderBuilder::new();
    builder.flexible(true).trim(Trim::All);
    builder
}

/// The largest record, in bytes, approximately.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// An input that ends in an error if a record is endless, as after a quote that is never closed.
struct Bounded<R> {
    input: R,
    left: usize,
}

impl<R> Bounded<R> {
    fn new(input: R) -> Self {
        Self { input, left: RECORD_BYTES_MAX }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let what = format!("a line is longer than {RECORD_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let read = self.input.read(buffer)?;
        self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}

fn fault(error: csv::Error, line: u64) -> Fault {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Fault::Io(error),
        other => Fault::Broken { line, what: format!("{other:?}") },
    }
}

impl<R: BufRead> Parts for Lines<R> {
    fn notes(&self) -> Vec<String> {
        let named = self.columns.time_unit_s;
        let unit = match self.time_unit_s.filter(|_| named.is_none()) {
            Some(1e-3) => "milliseconds",
            Some(1e-6) => "microseconds",
            Some(1e-9) => "nanoseconds",
            _ => return Vec::new(),
        };
        vec![format!("the times are too large for seconds: they are read as {unit}")]
    }

    fn next_part(&mut self) -> Option<Result<Requests, Fault>> {
        if let Some(requests) = self.copies() {
            return Some(Ok(requests));
        }
        let line = self.reader.position().line();
        self.reader.get_mut().left = RECORD_BYTES_MAX;
        match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => return None,
            Ok(true) => {}
            Err(error) => return Some(Err(fault(error, line))),
        }
        let line = self.record.position().map_or(line, csv::Position::line);
        match self.request() {
            Err(what) => Some(Err(Fault::Broken { line, what })),
            Ok(request) => {
                self.rest = request.map(|(request, times)| (self.in_seconds(request), times));
                Some(Ok(self.copies().unwrap_or_default()))
            }
        }
    }
}
