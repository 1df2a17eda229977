//! The subject without an implementation: it measures the cost of the drive.

use std::path::Path;
use std::time::Duration;

use crate::failure::Result;
use crate::load::keys::number_of;
use crate::load::values::Values;
use crate::subject::{Counts, Hold, Search, Settings, Subject, SubjectRecord};

/// Returns the expected results immediately.
pub(crate) const NOTHING: SubjectRecord = SubjectRecord {
    name: "nothing",
    about: "no store: the cost of an operation of the drive itself",
    is_default: true,
    format: "nothing",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[],
    open: |_: &Path, _: &Settings| Ok(Box::new(Nothing { value: value() })),
};

/// The length of values that the drive expects.
pub(crate) const VALUE_BYTES: usize = 100;

struct Nothing {
    value: Vec<u8>,
}

fn value() -> Vec<u8> {
    let mut value = Vec::new();
    Values::new(VALUE_BYTES).fill(&mut value, 0, 0);
    value
}

impl Subject for Nothing {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        std::hint::black_box((key, value));
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        std::hint::black_box(key);
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let number = number_of(key).unwrap_or(0);
        let mut value = [0; VALUE_BYTES];
        value.copy_from_slice(&self.value);
        value[..8].copy_from_slice(&number.to_le_bytes());
        see(&value);
        Ok(number.is_multiple_of(2))
    }

    fn multi_get(&self, keys: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        for (position, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| see(position, value))?;
        }
        Ok(keys.len() as u64)
    }

    fn scan(&self, start: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        for _ in 0..limit {
            see(start, &self.value);
        }
        Ok(limit)
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        Ok(Box::new(()))
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
