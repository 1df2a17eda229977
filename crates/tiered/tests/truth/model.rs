//! What was stored last under each key.

use std::collections::HashMap;

use tidekv_tiered::{Deadline, Found, Object};

/// Whether an object may not be served any more, in the words of the test and not of the cache's.
fn has_passed(deadline: Deadline, now_s: u32) -> bool {
    deadline.unix_s().is_some_and(|second| now_s >= second)
}

/// What may be found under a key.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Any of these, or nothing: more than one when a kill left it open.
    may_be: Vec<Object>,
    /// How many restarts there had been when the last one of them came.
    run: u64,
}

/// All keys.
#[derive(Debug, Default)]
pub struct Model {
    keys: HashMap<Vec<u8>, Known>,
    /// How many restarts there have been.
    pub run: u64,
}

impl Model {
    /// An object was stored, and that was acknowledged.
    pub fn store(&mut self, key: &[u8], object: Object) {
        self.keys.insert(key.to_vec(), Known { may_be: vec![object], run: self.run });
    }

    /// What stood there was removed, and that was acknowledged.
    pub fn remove(&mut self, key: &[u8]) {
        self.keys.remove(key);
    }

    /// An object was stored, or not.
    pub fn may_have_stored(&mut self, key: &[u8], object: Object) {
        let known = self.keys.entry(key.to_vec()).or_default();
        known.may_be.push(object);
        known.run = self.run;
    }

    /// Everything was forgotten that was stored up to that run.
    pub fn clear(&mut self, run: u64) {
        self.keys.retain(|_, known| known.run > run);
    }

    /// Whether that may be found; if so, it is what is there.
    pub fn accepts(&mut self, key: &[u8], found: Option<&Found>, now_s: u32) -> bool {
        let Some(found) = found else { return true };
        let Some(known) = self.keys.get_mut(key) else { return false };
        let object = &found.object;
        let is_known = known.may_be.contains(object) && !has_passed(object.deadline, now_s);
        if is_known {
            known.may_be = vec![object.clone()];
        }
        is_known
    }

    /// What is known to have been stored last under a key.
    pub fn expected(&self, key: &[u8], now_s: u32) -> Option<&Object> {
        match &self.keys.get(key)?.may_be[..] {
            [object] if !has_passed(object.deadline, now_s) => Some(object),
            _ => None,
        }
    }
}
