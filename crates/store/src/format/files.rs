//! The names of a store's files.
//!
//! ```text
//! LOCK              held by the process that has the store open
//! CURRENT           names the current manifest
//! HOT               contents of the caches when the store was closed
//! FILTER-REPAIRS    repairs of filters when the store was closed
//! CLOCK             the time when the store was last open
//! MANIFEST-000007   the tables, logs and keyspaces of the store
//! 000012.log        write-ahead log
//! 000013.table      sorted table
//! *.tmp             unfinished, removed at the next opening
//! ```
//!
//! Numbers come from one counter and are never used twice. One exception: the file of an obsolete
//! log is renamed to become a later log (recycled).

use std::path::{Path, PathBuf};

use tidekv_io::Storage;

use crate::error::Result;
use crate::format::coding::COUNT_MAX;

pub(crate) const LOCK: &str = "LOCK";
pub(crate) const CURRENT: &str = "CURRENT";
pub(crate) const HOT: &str = "HOT";
pub(crate) const FILTER_REPAIRS: &str = "FILTER-REPAIRS";
pub(crate) const CLOCK: &str = "CLOCK";
pub(crate) const CURRENT_TEMPORARY: &str = "CURRENT.tmp";
pub(crate) const CLOCK_TEMPORARY: &str = "CLOCK.tmp";

/// The parsed name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileName {
    Lock,
    Current,
    HotList,
    RepairList,
    Clock,
    Manifest(u64),
    Log(u64),
    Table(u64),
    Temporary,
}

impl FileName {
    /// The file's number, if it has one.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Manifest(number) | Self::Log(number) | Self::Table(number) => Some(number),
            Self::Lock
            | Self::Current
            | Self::HotList
            | Self::RepairList
            | Self::Clock
            | Self::Temporary => None,
        }
    }

    /// `None` for a file that is not part of a store.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let number = |digits: &str| -> Option<u64> {
            (digits.len() >= 6 && digits.bytes().all(|b| b.is_ascii_digit()))
                .then(|| digits.parse().ok())?
                .filter(|&number| number <= COUNT_MAX)
        };
        match name {
            LOCK => return Some(Self::Lock),
            CURRENT => return Some(Self::Current),
            HOT => return Some(Self::HotList),
            FILTER_REPAIRS => return Some(Self::RepairList),
            CLOCK => return Some(Self::Clock),
            CURRENT_TEMPORARY | CLOCK_TEMPORARY => return Some(Self::Temporary),
            _ => {}
        }
        if let Some(digits) = name.strip_prefix("MANIFEST-") {
            return number(digits).map(Self::Manifest);
        }
        match name.rsplit_once('.')? {
            (digits, "log") => number(digits).map(Self::Log),
            (digits, "table") => number(digits).map(Self::Table),
            _ => None,
        }
    }
}

pub(crate) fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

pub(crate) fn log_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(log_name(number))
}

pub(crate) fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

pub(crate) fn table_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(table_name(number))
}

pub(crate) fn table_name(number: u64) -> String {
    format!("{number:06}.table")
}

/// The numbers of the logs in `directory` from `min_log` on, ascending.
pub(crate) fn log_numbers(
    storage: &dyn Storage,
    directory: &Path,
    min_log: u64,
) -> Result<Vec<u64>> {
    let entries = storage.list(directory)?;
    let mut numbers: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match FileName::parse(&entry.name) {
            Some(FileName::Log(number)) if number >= min_log => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_parsed() {
        let dir = Path::new("/d");
        let name = |p: PathBuf| p.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(FileName::parse(&name(log_path(dir, 12))), Some(FileName::Log(12)));
        assert_eq!(
            FileName::parse(&name(table_path(dir, 1_234_567))),
            Some(FileName::Table(1_234_567))
        );
        assert_eq!(FileName::parse(&manifest_name(3)), Some(FileName::Manifest(3)));
        assert_eq!(FileName::parse("LOCK"), Some(FileName::Lock));
        assert_eq!(FileName::parse("HOT"), Some(FileName::HotList));
        assert_eq!(FileName::parse("CLOCK"), Some(FileName::Clock));
        assert_eq!(FileName::parse("FILTER-REPAIRS"), Some(FileName::RepairList));
        for other in ["notes.txt", "12.log", "MANIFEST-", "000001.table.bak", "+00001.log", ".log"]
        {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }
}
