//! The log of turns: the result of every single turn of every subject. A resumed run takes the
//! results of the same binary from it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a log of the workshop, not data of the store"
)]

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::experiment::Params;
use crate::failure::{Failure, Result};
use crate::harness::job::Measurement;

/// The identity of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnId {
    pub(crate) experiment: String,
    pub(crate) subject: String,
    pub(crate) params: Params,
    pub(crate) seed: u64,
    pub(crate) alternation: u64,
    /// The measured time, if set.
    pub(crate) seconds: f64,
    /// The build of the lab's binary.
    pub(crate) build: String,
    /// The number of concurrent turns, which affects all their times.
    #[serde(default = "one")]
    pub(crate) cells_at_once: usize,
    /// The page cache was not dropped before.
    #[serde(default)]
    pub(crate) keeps_caches: bool,
}

/// For turns from before this field existed.
fn one() -> usize {
    1
}

/// Its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    pub(crate) measurement: Measurement,
}

/// The log, on disk and in memory.
#[derive(Debug)]
pub(crate) struct TurnLog {
    path: PathBuf,
    turns: Vec<Turn>,
}

impl TurnLog {
    /// The log at `path`; an empty one if it is missing. Lines that this version cannot read, such
    /// as one truncated by a crash, count as not measured.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
            Err(e) => return Err(Failure::system(format!("could not read {}", path.display()), e)),
        };
        let turns = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { path: path.to_owned(), turns })
    }

    pub(crate) fn find(&self, id: &TurnId) -> Option<&Measurement> {
        self.turns.iter().rev().find(|turn| turn.id == *id).map(|turn| &turn.measurement)
    }

    /// The number of its turns.
    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn add(&mut self, turn: Turn) -> Result<()> {
        let mut line = serde_json::to_string(&turn).expect("plain data becomes JSON");
        // First a newline, in case the last line was truncated.
        line.insert(0, '\n');
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(|e| Failure::system(format!("could not write {}", self.path.display()), e))?;
        self.turns.push(turn);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_turns_are_found_even_after_a_torn_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("turns.jsonl");
        let id = |alternation| TurnId {
            experiment: "engine-open".into(),
            subject: "tidekv:block-lru".into(),
            params: [("entries".to_owned(), 5.into())].into(),
            seed: 1,
            alternation,
            seconds: 0.1,
            build: "b".into(),
            cells_at_once: 1,
            keeps_caches: false,
        };
        let measurement = Measurement { seconds: 1.0 / 3.0, ..Measurement::default() };
        let mut log = TurnLog::open(&path).unwrap();
        log.add(Turn { id: id(0), measurement: measurement.clone() }).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\n{\"id\":").unwrap();
        log.add(Turn { id: id(1), measurement: measurement.clone() }).unwrap();

        let log = TurnLog::open(&path).unwrap();
        assert_eq!(log.find(&id(0)), Some(&measurement));
        assert_eq!(log.find(&id(1)), Some(&measurement));
        assert_eq!(log.find(&id(2)), None);
        for other in [
            TurnId { build: "other".into(), ..id(0) },
            TurnId { cells_at_once: 2, ..id(0) },
            TurnId { keeps_caches: true, ..id(0) },
        ] {
            assert_eq!(log.find(&other), None, "{other:?}");
        }
        // An earlier format of logs.
        let mut line = serde_json::to_value(id(0)).unwrap();
        line.as_object_mut()
            .unwrap()
            .retain(|name, _| !name.contains("caches") && !name.contains("cells"));
        assert_eq!(serde_json::from_value::<TurnId>(line).unwrap(), id(0));
    }
}
