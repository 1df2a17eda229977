//! A model of the last object stored under each key.

use std::collections::HashMap;

use tidekv_tiered::{CachedObject, Deadline, Object};

/// Whether an object has expired, implemented independently of the cache.
fn has_passed(deadline: Deadline, now_s: u32) -> bool {
    deadline.unix_s().is_some_and(|second| now_s >= second)
}

/// The possible contents of a key.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Any of these, or nothing: more than one when a kill left it open.
    may_be: Vec<Object>,
    /// The number of restarts before the last one of them was stored.
    run: u64,
}

/// All keys.
#[derive(Debug, Default)]
pub struct Model {
    keys: HashMap<Vec<u8>, Known>,
    /// The number of restarts so far.
    pub run: u64,
}

impl Model {
    /// Records an acknowledged store.
    pub fn store(&mut self, key: &[u8], object: Object) {
        self.keys.insert(key.to_vec(), Known { may_be: vec![object], run: self.run });
    }

    /// Records an acknowledged removal.
    pub fn remove(&mut self, key: &[u8]) {
        self.keys.remove(key);
    }

    /// Records a store that may have happened or not.
    pub fn may_have_stored(&mut self, key: &[u8], object: Object) {
        let known = self.keys.entry(key.to_vec()).or_default();
        known.may_be.push(object);
        known.run = self.run;
    }

    /// Drops all objects stored up to that run.
    pub fn clear(&mut self, run: u64) {
        self.keys.retain(|_, known| known.run > run);
    }

    /// Whether that result is correct; if so, it becomes the known state.
    pub fn accepts(&mut self, key: &[u8], found: Option<&CachedObject>, now_s: u32) -> bool {
        let Some(found) = found else { return true };
        let Some(known) = self.keys.get_mut(key) else { return false };
        let object = &found.object;
        let is_known = known.may_be.contains(object) && !has_passed(object.deadline, now_s);
        if is_known {
            known.may_be = vec![object.clone()];
        }
        is_known
    }

    /// The known last object of a key.
    pub fn expected(&self, key: &[u8], now_s: u32) -> Option<&Object> {
        match &self.keys.get(key)?.may_be[..] {
            [object] if !has_passed(object.deadline, now_s) => Some(object),
            _ => None,
        }
    }
}
