//! Identifies the current run of the machine: unsynced writes in the page cache survive as long as
//! it lasts.

#![allow(clippy::disallowed_methods, reason = "this is the seam that the bans point to")]

use crate::random::{Random, SystemRandom};

/// The file in which Linux provides it, as a UUID in text.
const PATH: &str = "/proc/sys/kernel/random/boot_id";

/// A number that stays the same until the machine restarts; a different one for every call if the
/// system does not provide it.
pub fn boot_id() -> u128 {
    let digits = |text: String| text.chars().filter(char::is_ascii_hexdigit).collect::<String>();
    let text = std::fs::read_to_string(PATH).ok().map(digits);
    text.and_then(|digits| u128::from_str_radix(&digits, 16).ok()).unwrap_or_else(|| {
        u128::from(SystemRandom.next_u64()) << 64 | u128::from(SystemRandom.next_u64())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "a file of the system")]
    fn it_stays_the_same() {
        assert_eq!(boot_id(), boot_id());
        assert_ne!(boot_id(), 0);
    }
}
