//! Requests, one after another, from common trace formats.
//!
//! A [`Reader`] streams: it holds one line or one command. A broken one is returned as
//! [`Fault::Broken`] with its line, and reading continues after it if the format has lines; after a
//! broken RESP command the rest cannot be parsed, so reading ends. Commands that touch no single
//! key are skipped and counted.

mod request;
mod command;
mod lines;
mod monitor;
mod resp;
mod records;
mod blocks;

use std::collections::VecDeque;
use std::io::BufRead;

use self::request::Parts;
pub use self::request::{Fault, Kind, Request};

/// The format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One request per line, with column names in the first line.
    Csv,
    /// Twitter's production caches.
    Twitter,
    /// Consecutive commands of the Redis protocol.
    Resp,
    /// The output of `MONITOR` of a Redis server.
    Monitor,
    /// Records of libCacheSim's `oracleGeneral`.
    Oracle,
    /// Records of libCacheSim's `twr`.
    Twr,
    /// Records of libCacheSim's `lcs`, after a header with the version.
    Lcs,
    /// MSR's block traces of disks.
    Msr,
}

/// A format and its name.
#[derive(Debug, Clone, Copy)]
pub struct FormatRecord {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description.
    pub about: &'static str,
    /// The format.
    pub format: Format,
}

/// All formats.
pub const FORMATS: &[FormatRecord] = &[
    FormatRecord {
        name: "csv",
        about: "a header, then one request per line; columns: key, and op (get, put, delete, scan), \
                key_size, value_size, time, ttl, entries; or libCacheSim's: time, object, size",
        format: Format::Csv,
    },
    FormatRecord {
        name: "kvcache",
        about: "Meta's key-value caches (CacheLib): a header with key, op, size, op_count, key_size",
        format: Format::Csv,
    },
    FormatRecord {
        name: "cdn",
        about: "Meta's content caches: a header with timestamp, cacheKey, objectSize, TTL; all are gets",
        format: Format::Csv,
    },
    FormatRecord {
        name: "twitter",
        about: "timestamp,key,key size,value size,client id,operation,TTL",
        format: Format::Twitter,
    },
    FormatRecord {
        name: "resp",
        about: "commands of the Redis protocol: an append-only file, or client traffic",
        format: Format::Resp,
    },
    FormatRecord {
        name: "monitor",
        about: "the output of MONITOR of a Redis server",
        format: Format::Monitor,
    },
    FormatRecord {
        name: "oracle",
        about: "libCacheSim's oracleGeneral: records of time, object, size and next access",
        format: Format::Oracle,
    },
    FormatRecord {
        name: "twr",
        about: "libCacheSim's binary form of Twitter's caches",
        format: Format::Twr,
    },
    FormatRecord {
        name: "lcs",
        about: "libCacheSim's own, of versions 1 to 8: a header, then records of time, object, size and, from 2 on, \
                operation, from 3 on time to live",
        format: Format::Lcs,
    },
    FormatRecord {
        name: "msr",
        about: "disks of MSR Cambridge: time, host, disk, Read or Write, offset, size, latency; a \
                request for each block of 4 KiB",
        format: Format::Msr,
    },
];

impl Format {
    /// Detects the format from the beginning of a trace; `None` if it matches none.
    pub fn of(head: &[u8]) -> Option<Self> {
        let head = head.strip_prefix(&BYTE_ORDER_MARK).unwrap_or(head);
        let end = head.iter().position(|byte| *byte == b'\n').unwrap_or(head.len());
        let line = String::from_utf8_lossy(&head[..end]);
        let line = line.trim_end();
        match () {
            () if records::is_lcs(head) => Some(Self::Lcs),
            () if line.starts_with('*') || line.starts_with(resp::TIME) => Some(Self::Resp),
            () if monitor::is_line(line) => Some(Self::Monitor),
            () if lines::is_header(line) => Some(Self::Csv),
            () if blocks::is_line(line) || blocks::is_header(line) => Some(Self::Msr),
            () if line.split(',').count() == lines::TWITTER_COLUMNS => Some(Self::Twitter),
            () if records::is_oracle(head) => Some(Self::Oracle),
            () => None,
        }
    }
}

/// Text may begin with it (UTF-8).
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The requests of a trace, in order.
pub struct Reader {
    parts: Box<dyn Parts + Send>,
    waiting: VecDeque<Request>,
    skipped: u64,
}

impl Reader {
    /// Reads the requests of `input`.
    ///
    /// # Errors
    /// A CSV header without a column `key`, an invalid lcs header, or a read error.
    pub fn new(format: Format, mut input: impl BufRead + Send + 'static) -> Result<Self, Fault> {
        if input.fill_buf().map_err(Fault::Io)?.starts_with(&BYTE_ORDER_MARK) {
            input.consume(BYTE_ORDER_MARK.len());
        }
        let parts: Box<dyn Parts + Send> = match format {
            Format::Csv => Box::new(lines::Lines::with_header(input)?),
            Format::Twitter => Box::new(lines::Lines::of_twitter(input)),
            Format::Resp => Box::new(resp::Commands::new(input)),
            Format::Monitor => Box::new(monitor::Lines::new(input)),
            Format::Oracle => Box::new(records::Records::new(records::Layout::Oracle, input)),
            Format::Twr => Box::new(records::Records::new(records::Layout::Twr, input)),
            Format::Lcs => Box::new(records::Records::of_lcs(input)?),
            Format::Msr => Box::new(blocks::Lines::new(input)),
        };
        Ok(Self { parts, waiting: VecDeque::new(), skipped: 0 })
    }

    /// The number of lines and commands so far without a request for a key.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What a reader of the results must know about how the trace was understood, so far; a sentence
    /// each.
    pub fn notes(&self) -> Vec<String> {
        self.parts.notes()
    }
}

impl Iterator for Reader {
    type Item = Result<Request, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(request) = self.waiting.pop_front() {
                return Some(Ok(request));
            }
            match self.parts.next_part()? {
                Ok(requests) if requests.is_empty() => self.skipped += 1,
                Ok(requests) => self.waiting.extend(requests),
                Err(fault) => return Some(Err(fault)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
