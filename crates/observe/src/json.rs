//! Samples, fields and numbers as JSON, for `/api/stats`.

use serde_json::{Value, json};

use crate::history::{Field, Ring, Sample, Times};

/// Units and descriptions of fields.
pub fn about(fields: &[Field]) -> Value {
    let about =
        |field: &Field| (field.name.to_owned(), json!({ "unit": field.unit, "help": field.help }));
    Value::Object(fields.iter().map(about).collect())
}

/// The samples of a ring after the sample `since`.
pub fn ring<const N: usize, T: Times>(ring: &Ring<N, T>, fields: &[Field; N], since: u64) -> Value {
    json!({
        "interval_s": ring.interval,
        "kept": ring.kept,
        "unix_ms": ring.since(since).map(|sample| sample.unix_ms).collect::<Vec<_>>(),
        "values": values(ring, fields, since),
    })
}

/// Only their values, by field.
pub fn values<const N: usize, T: Times>(
    ring: &Ring<N, T>,
    fields: &[Field; N],
    since: u64,
) -> Value {
    let samples: Vec<&Sample<N>> = ring.since(since).collect();
    let of_field = |(at, field): (usize, &Field)| {
        let numbers = samples.iter().map(|sample| number(f64::from(sample.values[at]))).collect();
        (field.name.into(), Value::Array(numbers))
    };
    Value::Object(fields.iter().enumerate().map(of_field).collect())
}

/// At most three decimals: more are noise, and numbers are most of the response.
pub fn number(value: f64) -> Value {
    let rounded = (value * 1000.0).round() / 1000.0;
    let is_whole = rounded.fract() == 0.0 && (0.0..9e15).contains(&rounded);
    if is_whole { Value::from(rounded as u64) } else { Value::from(rounded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_nan_is_null() {
        let texts = [0.0, 17.0, 0.123_456, 1e9, f64::NAN, 9.9999].map(|v| number(v).to_string());
        assert_eq!(texts, ["0", "17", "0.123", "1000000000", "null", "10"]);
    }
}
