//! Objects, their metadata, and the change that an update makes to one ([`Change`]).
//!
//! Plain data. Times are whole seconds since 1970-01-01 UTC.

use std::num::NonZeroU32;

use bytes::Bytes;

/// When an object expires: at a second, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Deadline(Option<NonZeroU32>);

impl Deadline {
    /// The object stays until it is evicted.
    pub const NEVER: Self = Self(None);

    /// The object is served only before the second `unix_s`. A second beyond 32 bits means never.
    pub fn at(unix_s: u64) -> Self {
        match u32::try_from(unix_s) {
            // Seconds 0 and 1 are both long past.
            Ok(second) => Self(NonZeroU32::new(second.max(1))),
            Err(_) => Self::NEVER,
        }
    }

    /// The first second in which the object is no longer served.
    pub fn unix_s(self) -> Option<u32> {
        self.0.map(NonZeroU32::get)
    }

    /// Whether an object with this deadline has expired at `now_s`.
    pub fn has_passed(self, now_s: u32) -> bool {
        self.0.is_some_and(|second| second.get() <= now_s)
    }

    /// Seconds until the deadline at `now_s`; `None` for never.
    pub fn remaining_s(self, now_s: u32) -> Option<u32> {
        self.0.map(|second| second.get().saturating_sub(now_s))
    }
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its bytes. They must not share their memory with a larger allocation: the charge is their
    /// length.
    pub value: Bytes,
    /// Opaque flags that are returned to the client.
    pub flags: u32,
    /// When it expires.
    pub deadline: Deadline,
    /// A number that no other state of this object has ([`crate::Cache::next_version`]), or one
    /// that the client chose.
    pub version: u64,
    /// Protocol metadata; the cache does not interpret it.
    pub marks: u8,
}

/// An object as a lookup returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedObject {
    /// The object; cheap to clone.
    pub object: Object,
    /// Whether it has been fetched since it was stored.
    pub was_fetched: bool,
    /// The second in which it was last fetched or, if never, stored.
    pub accessed_s: u32,
}

/// The change that an update makes to a key.
#[derive(Debug)]
pub enum Change {
    /// Leaves it as it is.
    Keep,
    /// Marks the object as fetched.
    Fetch,
    /// Stores this object as a new one.
    Store(Object),
    /// Replaces the object and keeps its fetch history.
    Revise(Object),
    /// As `Revise`, and marks it as fetched.
    ReviseAndFetch(Object),
    /// Removes the object.
    Remove,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_passes_at_its_second() {
        let deadline = Deadline::at(100);
        assert!(!deadline.has_passed(99));
        assert!(deadline.has_passed(100));
        assert_eq!((deadline.remaining_s(70), deadline.remaining_s(200)), (Some(30), Some(0)));
    }

    #[test]
    fn deadlines_at_the_limits_of_time_are_valid() {
        assert!(Deadline::at(0).has_passed(1));
        assert_eq!(Deadline::at(u64::from(u32::MAX) + 1), Deadline::NEVER);
        assert!(!Deadline::NEVER.has_passed(u32::MAX));
    }
}
