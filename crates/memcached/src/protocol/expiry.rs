//! Expiry times of the protocol.
//!
//! 0 means never; a negative number has already expired; up to thirty days are seconds from now;
//! more is a second since 1970.

use tidekv_tiered::Deadline;

use crate::protocol::numerals::{signed_32, signed_digits_32};

/// Up to this many seconds count from now.
const RELATIVE_S_MAX: u32 = 60 * 60 * 24 * 30;

/// An expiry time of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// In the past.
    Expired,
    /// 0, seconds from now, or a second since 1970.
    At(u32),
}

impl Default for Expiry {
    fn default() -> Self {
        Self::At(0)
    }
}

impl Expiry {
    /// One of `set` and its relatives, parsed as by C's functions.
    pub(crate) fn parse_leniently(text: &[u8]) -> Option<Self> {
        signed_32(text).map(Self::of_signed)
    }

    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        signed_digits_32(text).map(Self::of_signed)
    }

    /// One of the binary protocol, which has no negative ones.
    pub(crate) fn of_unsigned(seconds: u32) -> Self {
        Self::At(seconds)
    }

    fn of_signed(seconds: i32) -> Self {
        u32::try_from(seconds).map_or(Self::Expired, Self::At)
    }

    /// The deadline, at the time `now_s`.
    pub(crate) fn deadline(self, now_s: u32) -> Deadline {
        match self {
            Self::Expired => Deadline::at(0),
            Self::At(0) => Deadline::NEVER,
            Self::At(seconds) if seconds <= RELATIVE_S_MAX => {
                Deadline::at(u64::from(now_s) + u64::from(seconds))
            }
            Self::At(unix_s) => Deadline::at(u64::from(unix_s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_mean_the_same_as_in_memcached() {
        let deadline =
            |text: &str, now_s| Expiry::parse(text.as_bytes()).unwrap().deadline(now_s).unix_s();
        let now_s = 1_700_000_000;
        assert_eq!(deadline("0", now_s), None);
        assert_eq!(deadline("1", now_s), Some(now_s + 1));
        assert_eq!(deadline("2592000", now_s), Some(now_s + 2_592_000));
        // One more is a day of 1970.
        assert_eq!(deadline("2592001", now_s), Some(2_592_001));
        let hundred_days = now_s + 100 * 86_400;
        assert_eq!(deadline(&hundred_days.to_string(), now_s), Some(hundred_days));
        assert_eq!(deadline("2147483647", now_s), Some(2_147_483_647));
        assert!(Expiry::parse(b"-1").unwrap().deadline(now_s).has_passed(now_s));
        // Its lower 32 bits count.
        let wrapped = Expiry::parse_leniently(b"4294967295").unwrap();
        assert!(wrapped.deadline(now_s).has_passed(now_s));
        assert_eq!(Expiry::parse(b"x"), None);
        let latest = Expiry::of_unsigned(u32::MAX).deadline(now_s);
        assert_eq!(latest.unix_s(), Some(u32::MAX));
    }
}
