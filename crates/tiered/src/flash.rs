//! Flash behind DRAM.

use crate::object::Object;

/// All devices.
#[derive(Debug)]
pub(crate) enum Flash {}

/// Where a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place;

impl Flash {
    pub(crate) fn may_hold(&self, _hash: u64) -> bool {
        match *self {}
    }

    pub(crate) fn read(&self, _hash: u64, _key: &[u8], _now_s: u32) -> Option<(Object, Place)> {
        match *self {}
    }

    pub(crate) fn leave(&self, _hash: u64, _key: &[u8], _object: &Object, _copy: Option<Place>) {
        match *self {}
    }

    pub(crate) fn invalidate(&self, _hash: u64) {
        match *self {}
    }

    pub(crate) fn clear(&self) {
        match *self {}
    }
}
