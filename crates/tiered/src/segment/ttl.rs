//! Groups of objects that expire at about the same time after they are written (BigKV, "TTL-aware
//! object grouping").
//!
//! A segment of flash is filled with objects of one group, and is dropped as a whole: nothing is
//! read or moved to find its expired objects.
//!
//! 1. Groups are geometric: the times to live of one are within a factor of 5/4.
//! 2. A segment may be dropped from [`may_go_at_s`] of each of its objects on: no object is dropped
//!    before three quarters of its time to live have passed. That bound holds for any mix of
//!    objects in a segment.
//! 3. Only an object's own deadline decides whether it is served.
//!
//! **What we changed.** In the paper a group is dropped at the time of its first object plus the
//! group's time to live. Here each object determines from when on its segment may be dropped, so
//! that the bound also holds for groups that fill a segment slowly, and for groups that share one.
//!
//! Pure.

use crate::object::Deadline;

/// A group; the lower, the shorter the times to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Group(u8);

/// Times to live from here on are one group: a hundred days.
const LONG_S: u32 = 100 * 24 * 60 * 60;
/// The shortest times to live of the groups but the last two, in seconds.
const FIRST_S: [u32; 76] = first_s();

/// Each a quarter above the one before, and at least one second.
const fn first_s() -> [u32; 76] {
    let mut first_s = [1; 76];
    let mut group = 1;
    while group < first_s.len() {
        let before = first_s[group - 1];
        first_s[group] = if before < 4 { before + 1 } else { before + before / 4 };
        group += 1;
    }
    first_s
}

impl Group {
    /// Objects that do not expire.
    pub(crate) const NEVER: Self = Self(u8::MAX);

    /// The group of an object with this deadline, at `now_s`.
    pub(crate) fn of(deadline: Deadline, now_s: u32) -> Self {
        let Some(remaining_s) = deadline.remaining_s(now_s) else { return Self::NEVER };
        let remaining_s = remaining_s.min(LONG_S);
        Self(FIRST_S.partition_point(|first_s| *first_s <= remaining_s) as u8)
    }

    /// The distance of two groups; groups that never expire are far from all others.
    pub(crate) fn distance(self, other: Self) -> u8 {
        self.0.abs_diff(other.0)
    }

    /// The number in a segment's header.
    pub(crate) fn number(self) -> u8 {
        self.0
    }

    /// The group with a number.
    pub(crate) fn with_number(number: u8) -> Self {
        Self(number)
    }
}

/// The first second in which a segment with such an object, written at `now_s`, may be dropped;
/// `u32::MAX` for never.
pub(crate) fn may_go_at_s(deadline: Deadline, now_s: u32) -> u32 {
    match (deadline.unix_s(), deadline.remaining_s(now_s)) {
        (Some(unix_s), Some(remaining_s)) => unix_s - remaining_s / 4,
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group_of(remaining_s: u64) -> Group {
        Group::of(Deadline::at(1_000_000_000 + remaining_s), 1_000_000_000)
    }

    #[test]
    fn times_to_live_of_a_group_are_within_a_quarter() {
        let mut first_s = 1;
        for remaining_s in 1..u64::from(LONG_S) {
            if group_of(remaining_s) != group_of(first_s) {
                assert!(group_of(remaining_s) > group_of(first_s));
                first_s = remaining_s;
            }
            assert!(remaining_s * 4 <= first_s * 5, "{first_s} and {remaining_s}");
        }
        assert!(FIRST_S[75] >= LONG_S, "{}", FIRST_S[75]);
        assert!(FIRST_S[70] < LONG_S, "there are no more groups than it takes");
    }

    #[test]
    fn extreme_times_to_live_have_groups() {
        assert_eq!(Group::of(Deadline::NEVER, 5), Group::NEVER);
        assert_eq!(group_of(u64::from(LONG_S)), group_of(10 * u64::from(LONG_S)));
        assert!(group_of(10 * u64::from(LONG_S)) < Group::NEVER);
        assert_eq!(Group::of(Deadline::at(3), 10), group_of(0));
    }

    #[test]
    fn no_object_is_dropped_before_three_quarters_of_its_time() {
        for remaining_s in [0, 1, 2, 3, 4, 100, 86_400] {
            let at_s = may_go_at_s(Deadline::at(1_000 + remaining_s), 1_000);
            let lived_s = u64::from(at_s) - 1_000;
            assert!(
                lived_s * 4 >= remaining_s * 3 && lived_s <= remaining_s,
                "{remaining_s}: {lived_s}"
            );
        }
        assert_eq!(may_go_at_s(Deadline::NEVER, 7), u32::MAX);
    }
}
