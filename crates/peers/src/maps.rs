//! A concurrent hash map as a subject: what a hit could cost at least.
//!
//! It is no store. A key that it does not have yet gets the value that the drive expects
//! of it, so that what is asked for in the warm-up is a hit from then on.

use std::path::Path;
use std::time::Duration;

use dashmap::DashMap;
use foldhash::fast::RandomState;
use tidekv_lab::failure::{Failure, Result};
use tidekv_lab::subject::{Counts, Hold, Search, Settings, Subject, SubjectRecord};
use tidekv_lab::values::Values;

/// The hash map of the crate `dashmap`, with the hash of `foldhash`.
pub const DASHMAP: SubjectRecord = SubjectRecord {
    name: "map:dashmap",
    about: "no store: a concurrent hash map, without bounds, whose values are found in place",
    is_default: false,
    format: "none",
    search: Search::Nothing,
    open: |_: &Path, _: &Settings| {
        let map = DashMap::with_hasher(RandomState::default());
        Ok(Box::new(Map { map, values: Values::new(VALUE_BYTES) }))
    },
};

/// The length that the drive expects of values.
const VALUE_BYTES: usize = 100;

struct Map {
    map: DashMap<Vec<u8>, Vec<u8>, RandomState>,
    values: Values,
}

fn cannot(what: &str) -> Failure {
    Failure::usage(format!("map:dashmap has no {what}"))
}

impl Subject for Map {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.map.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.map.remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if let Some(value) = self.map.get(key) {
            see(&value);
            return Ok(true);
        }
        let head = key.first_chunk::<8>().ok_or_else(|| cannot("keys of this length"))?;
        let mut value = Vec::new();
        self.values.fill(&mut value, u64::from_be_bytes(*head), 0);
        see(&value);
        self.map.insert(key.to_vec(), value);
        Ok(true)
    }

    fn multi_get(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        Err(cannot("batches"))
    }

    fn scan(&self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Err(cannot("order"))
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        Err(cannot("snapshots"))
    }

    fn settle(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn counts(&self) -> Result<Counts> {
        Ok(Counts::default())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
