//! Expiry times of the protocol.
//!
//! 0 means never; a negative number has already expired; up to thirty days are seconds from now;
//! more is a second since 1970.

use tidekv_tiered::Deadline;

use crate::protocol::numerals::signed_32;

/// Up to this many seconds count from now.
const RELATIVE_S_MAX: u64 = 60 * 60 * 24 * 30;

/// An expiry time of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Expiry(i64);

impl Expiry {
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        signed_32(text).map(|seconds| Self(i64::from(seconds)))
    }

    /// One of the binary protocol, which has no negative ones.
    pub(crate) fn of_unsigned(seconds: u32) -> Self {
        Self(i64::from(seconds))
    }

    /// The deadline, at the time `now_s`.
    pub(crate) fn deadline(self, now_s: u32) -> Deadline {
        match u64::try_from(self.0) {
            Ok(0) => Deadline::NEVER,
            Ok(seconds) if seconds <= RELATIVE_S_MAX => Deadline::at(u64::from(now_s) + seconds),
            Ok(unix_s) => Deadline::at(unix_s),
            Err(_) => Deadline::at(0),
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
        assert!(Expiry::parse(b"4294967295").unwrap().deadline(now_s).has_passed(now_s));
        assert_eq!(Expiry::parse(b"x"), None);
        let latest = Expiry::of_unsigned(u32::MAX).deadline(now_s);
        assert_eq!(latest.unix_s(), Some(u32::MAX));
    }
}
