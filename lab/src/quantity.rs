//! Numbers as text for people.

const BYTE_UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A formatted quantity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// The number that a reader takes from the text, in the unit of the input.
    pub(crate) read: f64,
}

impl Shown {
    /// `scaled` is in units of this size.
    fn new(scaled: f64, digits: usize, unit: f64, name: &str) -> Self {
        let text = format!("{scaled:.digits$}");
        let read = text.parse::<f64>().unwrap_or(scaled) * unit;
        Self { text: format!("{text}{name}"), read }
    }

    /// With a suffix for this unit.
    pub(crate) fn of(self, unit: f64, name: &str) -> Self {
        Self { text: format!("{} {name}", self.text), read: self.read * unit }
    }
}

/// A size with the largest unit that gives a number of at least 1.
pub(crate) fn show_bytes(bytes: f64) -> String {
    bytes_with(bytes, 0).text
}

/// The same with additional digits.
pub(crate) fn bytes_with(bytes: f64, more: usize) -> Shown {
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < BYTE_UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value.fract() == 0.0 {
        true => 0,
        false => usize::from(unit > 0) + more,
    };
    Shown::new(value, digits, 1024f64.powi(unit as i32), "").of(1.0, BYTE_UNITS[unit])
}

/// A number with three significant digits, and thousands as `k`, `M`, `G`.
pub(crate) fn show_number(number: f64) -> String {
    number_with(number, 0).text
}

/// The same with additional digits.
pub(crate) fn number_with(number: f64, more: usize) -> Shown {
    let (unit, name) = match number.abs() {
        m if m >= 1e9 => (1e9, " G"),
        m if m >= 1e6 => (1e6, " M"),
        m if m >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let scaled = number / unit;
    let digits = match scaled.abs() {
        _ if scaled.fract() == 0.0 => 0,
        m if m >= 100.0 => more,
        m if m >= 10.0 => 1 + more,
        m if m >= 0.01 => 2 + more,
        _ => 4 + more,
    };
    Shown::new(scaled, digits, unit, name)
}

/// Minimum, maximum and median of numbers, as in `0.97 to 1.04 (median 1.0)`.
pub(crate) fn show_range(numbers: &[f64]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match &sorted[..] {
        [] => "nothing".to_owned(),
        [one] => show_number(*one),
        [least, .., most] => {
            let middle = show_number(sorted[sorted.len() / 2]);
            match (show_number(*least), show_number(*most)) {
                (least, most) if least == most => most,
                (least, most) => format!("{least} to {most} (median {middle})"),
            }
        }
    }
}

/// An approximate time, as `40 s`, `12 min`, `3 h 20 min`.
pub(crate) fn show_duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match (seconds, minutes / 60, minutes % 60) {
        (seconds, ..) if seconds < 90.0 => format!("{seconds:.0} s"),
        (_, 0, minutes) => format!("{minutes} min"),
        (_, hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// A whole number with a comma between thousands.
pub(crate) fn show_count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_digits_are_shown_if_present() {
        let texts = |number: f64| [0, 2].map(|more| number_with(number, more).text);
        assert_eq!(texts(0.998), ["1.00", "0.9980"]);
        assert_eq!(texts(3.0), ["3", "3"]);
        assert_eq!(texts(123.25), ["123", "123.25"]);
        assert_eq!(texts(16_649.0), ["16.6 k", "16.649 k"]);
        assert_eq!(number_with(16_649.0, 0).read, 16_600.0);
        assert_eq!(bytes_with(1000.5 * 1024.0, 1).text, "1000.50 KiB");
        assert_eq!(bytes_with(1.5 * 1024.0 * 1024.0, 0).read, 1_572_864.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(show_bytes(512.0), "512 B");
        assert_eq!(show_bytes(1.5 * 1024.0 * 1024.0), "1.5 MiB");
        assert_eq!(show_number(0.0), "0");
        assert_eq!(show_number(0.0021), "0.0021");
        assert_eq!(show_number(1.018), "1.02");
        assert_eq!(show_number(16_600.0), "16.6 k");
        assert_eq!(show_number(2_345_678.0), "2.35 M");
        assert_eq!(show_count(1_234_567), "1,234,567");
        assert_eq!(show_count(12), "12");
        assert_eq!(show_range(&[1.04, 0.97, 1.0]), "0.97 to 1.04 (median 1)");
        assert_eq!(show_range(&[0.998, 1.001]), "1.00");
        assert_eq!(show_duration(12.4), "12 s");
        assert_eq!(show_duration(1000.0), "17 min");
        assert_eq!(show_duration(12_000.0), "3 h 20 min");
    }
}
