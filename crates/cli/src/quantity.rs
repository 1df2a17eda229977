//! Parses and prints sizes and times: `512MiB`, `4GiB`, `64K`, `30s`.

use std::time::Duration;

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Parses a size: a number of bytes, or a number with a unit (`K`, `KB` and `KiB`
/// are all 1024 bytes, and so on up to `T`). `1.5GiB` is valid.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let refused =
        || format!("{text:?} is not a size: write 512MiB, 4GiB, 64K or a number of bytes");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().to_ascii_lowercase();
    let power = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(refused()),
    };
    let factor = 1u64 << (10 * power);
    if let Ok(number) = number.parse::<u64>() {
        return number.checked_mul(factor).ok_or_else(refused);
    }
    let number: f64 = number.parse().map_err(|_| refused())?;
    let bytes = number * factor as f64;
    if power == 0 || !(0.0..9e18).contains(&bytes) {
        return Err(refused());
    }
    Ok(bytes as u64)
}

/// Formats a size with the largest unit that gives a number of at least 1.
pub fn show_size(bytes: u64) -> String {
    let power = (63 - bytes.max(1).leading_zeros() as usize) / 10;
    let power = power.min(UNITS.len() - 1);
    let whole = bytes >> (10 * power);
    if whole << (10 * power) == bytes {
        return format!("{whole} {}", UNITS[power]);
    }
    format!("{:.1} {}", bytes as f64 / (1u64 << (10 * power)) as f64, UNITS[power])
}

/// A number with its noun: `1 table`, `2 tables`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Parses a time: seconds, or a number with `ms`, `s`, `m`, `h` or `d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is not a time: write 500ms, 30s, 5m, 2h or 1d");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| refused())?;
    let unit_ms = match unit.trim_start() {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(refused()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(refused)
}

/// Parses a time as microseconds: a number with `us`, `ms` or `s`.
pub fn parse_micros(text: &str) -> Result<f64, String> {
    let refused = || format!("{text:?} is not a time: write 700us, 1.5ms or 1s");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| refused())?;
    match unit.trim() {
        "us" | "µs" => Ok(number),
        "ms" => Ok(number * 1e3),
        "s" => Ok(number * 1e6),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("123", 123),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("512MiB", 512 << 20),
            ("4GB", 4 << 30),
            ("1.5 GiB", 3 << 29),
            ("2T", 2 << 40),
            ("7B", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "x", "1.5", "1X", "-1", "99999999999T", "1KiBx", "."] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (512 << 20, "512 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(show_size(bytes), text);
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "s", "1w", "-3s", "99999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn short_times_are_read_as_microseconds() {
        let read = ["700us", "1.5ms", "2 s", "0us"].map(parse_micros);
        assert_eq!(read, [Ok(700.0), Ok(1_500.0), Ok(2e6), Ok(0.0)]);
        for text in ["700", "ms", "-1us", "1.2.3us", "1h"] {
            assert!(parse_micros(text).is_err(), "{text}");
        }
    }
}
