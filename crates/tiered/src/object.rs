//! What the cache keeps: objects, with what goes along with their bytes, and what is to
//! become of one ([`Change`]).
//!
//! Plain data. Times are whole seconds since 1970-01-01 UTC.

use std::num::NonZeroU32;

use bytes::Bytes;

/// When an object stops being served: at a second, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Deadline(Option<NonZeroU32>);

impl Deadline {
    /// The object stays until there is no room for it.
    pub const NEVER: Self = Self(None);

    /// The object is served before the second `unix_s` only. What is later than 32 bits can
    /// say is never.
    pub fn at(unix_s: u64) -> Self {
        match u32::try_from(unix_s) {
            // Second 0 has long passed, and so has second 1.
            Ok(second) => Self(NonZeroU32::new(second.max(1))),
            Err(_) => Self::NEVER,
        }
    }

    /// The first second in which the object is not served any more.
    pub fn unix_s(self) -> Option<u32> {
        self.0.map(NonZeroU32::get)
    }

    /// Whether an object with this deadline may not be served at `now_s`.
    pub fn has_passed(self, now_s: u32) -> bool {
        self.0.is_some_and(|second| second.get() <= now_s)
    }

    /// How many seconds are left at `now_s`; `None` for never.
    pub fn left_s(self, now_s: u32) -> Option<u32> {
        self.0.map(|second| second.get().saturating_sub(now_s))
    }
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its bytes. They must not share their memory with something larger: what they are
    /// charged is their length.
    pub value: Bytes,
    /// What the client wants to have back with them.
    pub flags: u32,
    /// Until when it is served.
    pub deadline: Deadline,
    /// A number that no other state of this object has ([`crate::Cache::next_version`]), or
    /// one that the client has chosen.
    pub version: u64,
    /// What a protocol wants to remember about the object; nothing to the cache.
    pub marks: u8,
}

/// An object as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The object; cheap to clone.
    pub object: Object,
    /// Whether it has been fetched since it was stored.
    pub was_fetched: bool,
    /// The second in which it was last fetched or, if never, stored.
    pub accessed_s: u32,
}

/// What is to become of what stands under a key.
#[derive(Debug)]
pub enum Change {
    /// Nothing.
    Keep,
    /// It counts as fetched.
    Fetch,
    /// This comes in its place, as something new.
    Store(Object),
    /// This comes in its place, and what is known of fetches stays.
    Revise(Object),
    /// As `Revise`, and it counts as fetched.
    ReviseAndFetch(Object),
    /// It goes.
    Remove,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_has_passed_from_its_second_on() {
        let deadline = Deadline::at(100);
        assert!(!deadline.has_passed(99));
        assert!(deadline.has_passed(100));
        assert_eq!((deadline.left_s(70), deadline.left_s(200)), (Some(30), Some(0)));
    }

    #[test]
    fn the_edges_of_time_are_deadlines_too() {
        assert!(Deadline::at(0).has_passed(1));
        assert_eq!(Deadline::at(u64::from(u32::MAX) + 1), Deadline::NEVER);
        assert!(!Deadline::NEVER.has_passed(u32::MAX));
    }
}
