//! Numbers as text, parsed and formatted as in Redis.
//!
//! Guarantees: [`parse_i64`] takes exactly the canonical form (no sign `+`, no leading zero, no
//! space), so that an integer parsed and formatted again is the same bytes. [`Decimal`] arithmetic
//! is exact for numbers below 10²⁰ with at most 17 decimals; beyond that it is that of `f64`.
//! (Redis computes with the 80-bit floats of x86 and prints 17 decimals; where its result shows
//! their rounding, TideKV's is the exact one.)

use bytes::Bytes;

/// Decimals that Redis prints.
const SCALE_DIGITS: usize = 17;
const SCALE: i128 = 10_i128.pow(SCALE_DIGITS as u32);
/// Digits before the point that fit into 127 bits together with [`SCALE_DIGITS`], with room for a
/// sum.
const INTEGER_DIGITS_MAX: usize = 20;

/// A canonical decimal integer.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    if digits.len() == text.len() && digits.len() < 19 {
        return Some(digits.iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0')));
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A decimal number without a sign, leading zeros allowed.
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The text of an integer.
pub(crate) fn integer_text(number: i64) -> Bytes {
    Bytes::copy_from_slice(itoa::Buffer::new().format(number).as_bytes())
}

/// A decimal number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decimal {
    /// Exact, in units of 10⁻¹⁷.
    Fixed(i128),
    /// Too large or too fine for [`Decimal::Fixed`].
    Float(f64),
}

impl Decimal {
    /// Parses a number like C's `strtod`, without surrounding space.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if let Some(fixed) = parse_fixed(text) {
            return Some(Self::Fixed(fixed));
        }
        if let Some(number) = parse_hexadecimal(text) {
            return Some(Self::exact(number).unwrap_or(Self::Float(number)));
        }
        let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (!number.is_nan()).then_some(Self::Float(number))
    }

    /// `number` as [`Decimal::Fixed`], if that is exact. Units of 10⁻¹⁷ have all fractions of 2¹⁷.
    fn exact(number: f64) -> Option<Self> {
        let parts = number * 2_f64.powi(SCALE_DIGITS as i32);
        let fits = parts.fract() == 0.0 && number.abs() < 10_f64.powi(INTEGER_DIGITS_MAX as i32);
        fits.then(|| Self::Fixed(parts as i128 * 5_i128.pow(SCALE_DIGITS as u32)))
    }

    /// Whether it is neither infinite nor too large for `f64`.
    pub(crate) fn is_finite(self) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Float(number) => number.is_finite(),
        }
    }

    /// The sum; `None` if it is not finite.
    pub(crate) fn checked_add(self, other: Self) -> Option<Self> {
        if let (Self::Fixed(a), Self::Fixed(b)) = (self, other) {
            return a.checked_add(b).map(Self::Fixed);
        }
        let sum = self.to_f64() + other.to_f64();
        sum.is_finite().then_some(Self::Float(sum))
    }

    fn to_f64(self) -> f64 {
        match self {
            Self::Fixed(units) => units as f64 / SCALE as f64,
            Self::Float(number) => number,
        }
    }
}

/// A number like `0x1f.8p3`, as C's `strtod` reads it.
fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let unsigned = text.trim_start_matches(['+', '-']);
    let digits = unsigned.strip_prefix("0x").filter(|_| text.len() - unsigned.len() <= 1)?;
    let (digits, exponent) = match digits.split_once('p') {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut number = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        number = number * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let scaled = number * 2_f64.powi(exponent - 4 * i32::try_from(fraction.len()).ok()?);
    Some(if text.starts_with('-') { -scaled } else { scaled })
}

/// A number with an optional exponent, if units of 10⁻¹⁷ have it exactly.
fn parse_fixed(text: &[u8]) -> Option<i128> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let (digits, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        None => (digits, 0),
        Some(at) => {
            let exponent = std::str::from_utf8(&digits[at + 1..]).ok()?.parse::<i32>().ok()?;
            (&digits[..at], exponent)
        }
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
    if whole.len() + fraction.len() == 0 || whole.len() > INTEGER_DIGITS_MAX {
        return None;
    }
    // The number is that of all digits, in units of a power of ten.
    let shift =
        (SCALE_DIGITS as i32 - i32::try_from(fraction.len()).ok()?).checked_add(exponent)?;
    let mut units = 0_i128;
    for &digit in whole.iter().chain(fraction) {
        if !digit.is_ascii_digit() {
            return None;
        }
        units = units.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    let factor = 10_i128.checked_pow(shift.unsigned_abs())?;
    let units = match shift {
        0.. => units.checked_mul(factor)?,
        _ if units % factor == 0 => units / factor,
        _ => return None,
    };
    let fits = units < 10_i128.pow((INTEGER_DIGITS_MAX + SCALE_DIGITS) as u32);
    fits.then_some(if text.starts_with(b"-") { -units } else { units })
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match *self {
            Self::Fixed(units) => {
                let sign = if units < 0 { "-" } else { "" };
                let units = units.unsigned_abs();
                let scale = SCALE.unsigned_abs();
                format!("{sign}{}.{:0SCALE_DIGITS$}", units / scale, units % scale)
            }
            Self::Float(number) => format!("{number:.SCALE_DIGITS$}"),
        };
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_canonical_integers_are_integers() {
        for text in ["0", "7", "-7", "9223372036854775807", "-9223372036854775808"] {
            let number = parse_i64(text.as_bytes()).unwrap();
            assert_eq!(&integer_text(number)[..], text.as_bytes());
        }
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "abc"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn decimal_sums_are_exact() {
        for (a, b, sum) in [
            ("10.5", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("5.0e3", "200", "5200"),
            ("3", "-3", "0"),
            ("-1.5", "1", "-0.5"),
            (".5", "1.", "1.5"),
            ("99999999999999999999", "1", "100000000000000000000"),
            ("1e30", "1", "1000000000000000019884624838656"),
            ("1e-3", "1", "1.001"),
            ("+1E+2", "2.5e1", "125"),
            ("0x10", "0.1", "16.1"),
            ("-0x1.8p1", "0", "-3"),
        ] {
            let parse = |text: &str| Decimal::parse(text.as_bytes()).unwrap();
            assert_eq!(parse(a).checked_add(parse(b)).unwrap().to_string(), sum);
        }
        assert!(Decimal::parse(b"inf").unwrap().checked_add(Decimal::Fixed(0)).is_none());
        for text in ["", "-", ".", "1x", " 1", "nan", "1 ", "0x", "0xg", "--0x1", "0x.", "0x1p"] {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_survives_a_round_trip(number: i64) {
            prop_assert_eq!(parse_i64(&integer_text(number)), Some(number));
            prop_assert_eq!(Decimal::parse(&integer_text(number)).unwrap().to_string(), number.to_string());
        }

        #[test]
        fn any_bytes_are_parsed_or_rejected(text: Vec<u8>) {
            parse_i64(&text);
            parse_u64(&text);
            Decimal::parse(&text);
        }
    }
}
