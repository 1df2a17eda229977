//! The possible contents of a store after faults: for every key, all values that may be found. An
//! acknowledged write leaves one possibility; a failed write adds one, because it may or may not
//! have reached the disk.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};

use tidekv::Db;

use crate::support::{Model, Value, alive};

/// The keyspaces of the workload. The third has a default time to live and is cleared occasionally.
pub const KEYSPACES: [&str; 3] = ["a", "b", "c"];

/// The contents of all keyspaces.
pub type Found = [Vec<(Vec<u8>, Value)>; 3];

/// One change of one keyspace.
#[derive(Debug, Clone)]
pub enum Write {
    Put(usize, Vec<u8>, Value),
    Delete(usize, Vec<u8>),
    /// From the first key up to the second (exclusive).
    DeleteRange(usize, Vec<u8>, Vec<u8>),
}

impl Write {
    /// Applies it to the visible contents.
    pub fn apply(&self, live: &mut [Model; 3]) {
        match self {
            Self::Put(s, key, value) => {
                live[*s].insert(key.clone(), value.clone());
            }
            Self::Delete(s, key) => {
                live[*s].remove(key);
            }
            Self::DeleteRange(s, start, end) => live[*s].retain(|k, _| !(start <= k && k < end)),
        }
    }
}

/// When contents were read.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    now_ms: u64,
    /// Entries may have been dropped that had expired at this time.
    latest_ms: u64,
}

impl Times {
    /// By a clock that has not gone back.
    pub fn at(now_ms: u64) -> Self {
        Self { now_ms, latest_ms: now_ms }
    }

    /// At `now_ms` of the clock of a store that had been open until `ended_ms`.
    pub fn after(ended_ms: u64, now_ms: u64) -> Self {
        Self { now_ms, latest_ms: now_ms.max(ended_ms) }
    }
}

/// All possible contents.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    keys: [BTreeMap<Vec<u8>, Vec<Option<Value>>>; 3],
}

impl Expected {
    /// Exactly `live`.
    pub fn exactly(live: &[Model; 3]) -> Self {
        let certain = |model: &Model| {
            model.iter().map(|(key, value)| (key.clone(), vec![Some(value.clone())])).collect()
        };
        Self { keys: [certain(&live[0]), certain(&live[1]), certain(&live[2])] }
    }

    /// An acknowledged write.
    pub fn apply(&mut self, write: &Write) {
        match write {
            Write::Put(s, key, value) => {
                self.keys[*s].insert(key.clone(), vec![Some(value.clone())]);
            }
            Write::Delete(s, key) => {
                self.keys[*s].remove(key);
            }
            Write::DeleteRange(s, start, end) => {
                self.keys[*s].retain(|k, _| !(start <= k && k < end));
            }
        }
    }

    /// A failed write: it may be present or not.
    pub fn apply_perhaps(&mut self, write: &Write) {
        let mut add = |s: usize, key: &Vec<u8>, value: Option<Value>| {
            let may_be = self.keys[s].entry(key.clone()).or_insert_with(|| vec![None]);
            if !may_be.contains(&value) {
                may_be.push(value);
            }
        };
        match write {
            Write::Put(s, key, value) => add(*s, key, Some(value.clone())),
            Write::Delete(s, key) => add(*s, key, None),
            Write::DeleteRange(s, start, end) => {
                for (_, may_be) in self.keys[*s].range_mut(start.clone()..end.clone()) {
                    if !may_be.contains(&None) {
                        may_be.push(None);
                    }
                }
            }
        }
    }

    /// The first key at which `found` is not possible at `times`.
    pub fn contradiction(&self, found: &Found, times: Times) -> Option<String> {
        for (s, may_be) in self.keys.iter().enumerate() {
            let there: BTreeMap<&[u8], &Value> =
                found[s].iter().map(|(key, value)| (&key[..], value)).collect();
            let keys: BTreeSet<&[u8]> =
                may_be.keys().map(|key| &key[..]).chain(there.keys().copied()).collect();
            for key in keys {
                let found = there.get(key).copied();
                let fits_at = |value: &Option<Value>, ms: u64| {
                    let is_living = |value: &&Value| value.1.is_none_or(|deadline| deadline > ms);
                    value.as_ref().filter(is_living) == found
                };
                let fits = match may_be.get(key) {
                    None => found.is_none(),
                    Some(values) => values.iter().any(|value| {
                        fits_at(value, times.now_ms) || fits_at(value, times.latest_ms)
                    }),
                };
                if !fits {
                    let short = |value: &Value| {
                        let end = value.0.len().min(12);
                        (value.0.len(), String::from_utf8_lossy(&value.0[..end]).into_owned())
                    };
                    let expected = may_be.get(key).map(|values| {
                        values.iter().map(|v| v.as_ref().map(short)).collect::<Vec<_>>()
                    });
                    return Some(format!(
                        "{}/{} holds {:?} instead of {expected:?}",
                        KEYSPACES[s],
                        String::from_utf8_lossy(key),
                        found.map(short),
                    ));
                }
            }
        }
        None
    }

    /// Whether `found` is possible at `times`.
    pub fn admits(&self, found: &Found, times: Times) -> bool {
        self.contradiction(found, times).is_none()
    }
}

/// The visible contents of a model at `now_ms`.
pub fn shown(live: &[Model; 3], now_ms: u64) -> Found {
    [alive(&live[0], now_ms), alive(&live[1], now_ms), alive(&live[2], now_ms)]
}

/// The current contents of a store. Keyspaces that do not exist count as empty and are not created.
pub fn found_in(db: &Db) -> tidekv::Result<Found> {
    let names = db.keyspace_names();
    let mut found = Found::default();
    for (name, entries) in KEYSPACES.iter().zip(&mut found) {
        if names.iter().any(|n| n == name) {
            for item in db.keyspace(name)?.iter() {
                let (key, entry) = item?;
                entries.push((key.to_vec(), (entry.value.to_vec(), entry.expires_at_ms)));
            }
        }
    }
    Ok(found)
}

/// Converts the contents to models.
pub fn as_live(found: &Found) -> [Model; 3] {
    let model = |entries: &Vec<(Vec<u8>, Value)>| entries.iter().cloned().collect();
    [model(&found[0]), model(&found[1]), model(&found[2])]
}
