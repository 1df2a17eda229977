//! Numbers parsed as in memcached, which uses C's functions.
//!
//! Guarantees: accepts exactly the numbers that memcached accepts, with the same result: leading
//! space, a sign, digits, and then the end or a space followed by anything. A number of 32 bits is
//! truncated from one of 64. A negative unsigned number is rejected unless it wraps around to a
//! small positive one.

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
    let has_minus = || is_negative || text.contains(&b'-');
    (number as i64 >= 0 || !has_minus()).then_some(number)
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
            ("18446744073709551615 -", None),
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
