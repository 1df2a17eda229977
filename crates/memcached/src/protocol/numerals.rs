//! Numbers parsed as in memcached, which has two ways.
//!
//! Guarantees: accepts exactly the numbers that memcached accepts, with the same result. Most are
//! digits alone, with a minus where they may be negative. Flags and expiry times of `set` and its
//! relatives, values of counters and what names classes are parsed as by C's functions: leading
//! space, a sign, digits, and then the end or a space followed by anything; a number of 32 bits is
//! truncated from one of 64, and a negative unsigned number is rejected unless it wraps around to a
//! small positive one.

/// Maximum bytes of a number of 32 bits.
const BYTES_MAX_32: usize = 11;
/// Maximum bytes of a number of 64 bits.
const BYTES_MAX_64: usize = 22;

/// A number of digits alone.
pub(crate) fn digits_64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > BYTES_MAX_64 {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// A number of 32 bits, of digits alone.
pub(crate) fn digits_32(text: &[u8]) -> Option<u32> {
    let is_short = text.len() <= BYTES_MAX_32;
    digits_64(text).filter(|_| is_short)?.try_into().ok()
}

/// A signed number of 32 bits: digits, perhaps with a minus before them.
pub(crate) fn signed_digits_32(text: &[u8]) -> Option<i32> {
    if text.len() > BYTES_MAX_32 {
        return None;
    }
    match text.strip_prefix(b"-") {
        // A minus alone is 0, as in memcached.
        Some(b"") => Some(0),
        Some(digits) => i32::try_from(-i64::try_from(digits_64(digits)?).ok()?).ok(),
        None => digits_64(text)?.try_into().ok(),
    }
}

/// A signed number, truncated to 32 bits.
pub(crate) fn signed_32(text: &[u8]) -> Option<i32> {
    let (is_negative, magnitude) = scan(text)?;
    let number = if is_negative { -magnitude } else { magnitude };
    i64::try_from(number).ok().map(|number| number as i32)
}

/// A signed number.
pub(crate) fn signed_64(text: &[u8]) -> Option<i64> {
    let (is_negative, magnitude) = scan(text)?;
    i64::try_from(if is_negative { -magnitude } else { magnitude }).ok()
}

/// An unsigned number, truncated to 32 bits.
pub(crate) fn unsigned_32(text: &[u8]) -> Option<u32> {
    unsigned_64(text).map(|number| number as u32)
}

/// A number.
pub(crate) fn unsigned_64(text: &[u8]) -> Option<u64> {
    let (is_negative, magnitude) = scan(text)?;
    let magnitude = u64::try_from(magnitude).ok()?;
    let number = if is_negative { magnitude.wrapping_neg() } else { magnitude };
    (number as i64 >= 0 || !is_negative).then_some(number)
}

/// The sign and the digits, saturating beyond 64 bits.
fn scan(text: &[u8]) -> Option<(bool, i128)> {
    let start = text.iter().position(|&byte| !is_space(byte))?;
    let (is_negative, digits) = match text[start] {
        b'-' => (true, &text[start + 1..]),
        b'+' => (false, &text[start + 1..]),
        _ => (false, &text[start..]),
    };
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at(len);
    if digits.is_empty() || rest.first().is_some_and(|&byte| !is_space(byte) && byte != 0) {
        return None;
    }
    let mut number = 0_i128;
    for digit in digits {
        number = number * 10 + i128::from(digit - b'0');
        if number > i128::from(u64::MAX) {
            return None;
        }
    }
    Some((is_negative, number))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_as_in_c() {
        for (text, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            (" \t+12", Some(12)),
            ("12 34", Some(12)),
            ("12\r", Some(12)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-0", Some(0)),
            ("-1", None),
            ("-18446744073709551615", Some(1)),
            ("18446744073709551615 -", Some(u64::MAX)),
            ("", None),
            ("-", None),
            ("12x", None),
            ("x", None),
            ("1.5", None),
        ] {
            assert_eq!(unsigned_64(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!(unsigned_32(b"4294967297"), Some(1));
        assert_eq!(unsigned_32(b"-1"), None);
        assert_eq!(signed_32(b"-5"), Some(-5));
        assert_eq!(signed_32(b"4294967295"), Some(-1));
        assert_eq!(signed_32(b"9223372036854775808"), None);
        assert_eq!(signed_32(b"-9223372036854775808"), Some(0));
        assert_eq!(signed_64(b"-9223372036854775809"), None);
        assert_eq!(unsigned_64(&[b'9'; 1000]), None);
    }

    #[test]
    fn digits_are_parsed_strictly() {
        assert_eq!(digits_64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(digits_64(b"000000000000000000007"), Some(7));
        assert_eq!((digits_32(b"4294967295"), digits_32(b"4294967296")), (Some(u32::MAX), None));
        assert_eq!(signed_digits_32(b"-2147483648"), Some(i32::MIN));
        assert_eq!(signed_digits_32(b"2147483648"), None);
        assert_eq!(signed_digits_32(b"-"), Some(0));
        for text in ["", "+1", " 1", "1 ", "1x", "--1", "18446744073709551616", "1.5"] {
            assert_eq!(digits_64(text.as_bytes()), None, "{text:?}");
            assert_eq!(signed_digits_32(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(signed_digits_32(b"000000000001"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_parsed_or_rejected(text: Vec<u8>) {
            let (signed, unsigned) = (signed_64(&text), unsigned_64(&text));
            if let (Some(signed), Some(unsigned)) = (signed, unsigned) {
                proptest::prop_assert!(signed as u64 == unsigned);
            }
            proptest::prop_assert_eq!(signed_32(&text), signed.map(|number| number as i32));
        }
    }
}
