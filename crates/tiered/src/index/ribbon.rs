//! Ribbon retrieval: an immutable map from keys to values of a few bits that does not store the keys
//! and takes about 1.06 bits per bit of a value (Dillinger, Hübschle-Schneider, Sanders and Walzer,
//! "Fast succinct retrieval and approximate membership using ribbon", SEA 2022, section 2).
//!
//! The hash of a key selects a subset of 64 adjacent rows; their XOR is the value. Building solves
//! that system of linear equations. The matrix is stored by column, one per bit of a value, so the
//! first columns can be read on their own and the others dropped.
//!
//! Guarantee: a key of the map has its value. Any other key has an arbitrary one.
//!
//! Pure.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Width of the band: rows that an equation can use.
const WIDTH: usize = 64;
/// Extra rows: one per this many keys, and `ROWS_MORE`.
const ROWS_DIVISOR: usize = 20;
const ROWS_MORE: usize = 8;
/// Seeds tried before rows are added.
const SEEDS: u32 = 4;

/// A map. Empty, it has no heap memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ribbon {
    /// Columns, each `rows` bits long, one after another.
    words: Box<[u64]>,
    rows: u32,
    columns: u32,
    seed: u32,
}

/// The equation of a key.
#[derive(Debug, Clone, Copy)]
struct Equation {
    first: usize,
    /// A bit for each row of the subset, from the first row on, whose bit is set.
    coefficients: u64,
}

impl Ribbon {
    /// Builds the map of distinct keys to values of `columns` bits, at most 64.
    pub(crate) fn of(values: &[(u64, u64)], columns: u32) -> Self {
        if values.is_empty() {
            return Self { columns, ..Self::default() };
        }
        let rows = values.len() + values.len() / ROWS_DIVISOR + ROWS_MORE;
        let mut rows = rows.max(WIDTH);
        loop {
            for seed in 0..SEEDS {
                if let Some(ribbon) = Self::solve(values, columns, rows, seed) {
                    return ribbon;
                }
            }
            rows += rows / 32 + 1;
        }
    }

    fn solve(values: &[(u64, u64)], columns: u32, rows: usize, seed: u32) -> Option<Self> {
        let mut system = vec![(0_u64, 0_u64); rows];
        'values: for (key, value) in values {
            let Equation { mut first, mut coefficients } = equation(*key, rows, seed);
            let mut value = *value;
            while system[first].0 != 0 {
                coefficients ^= system[first].0;
                value ^= system[first].1;
                if coefficients == 0 {
                    match value {
                        0 => continue 'values,
                        _ => return None,
                    }
                }
                first += coefficients.trailing_zeros() as usize;
                coefficients >>= coefficients.trailing_zeros();
            }
            system[first] = (coefficients, value);
        }
        let mut words = vec![0_u64; (rows * columns as usize).div_ceil(64)];
        // Back substitution, all columns at once: of each, the solved rows from this one on, the
        // nearest in the lowest bit.
        let mut known = [0_u64; 64];
        let known = &mut known[..columns as usize];
        for (row, (coefficients, value)) in system.iter().enumerate().rev() {
            for (column, known) in known.iter_mut().enumerate() {
                let before = *known << 1;
                let sum = (before & coefficients).count_ones() & 1;
                *known = before | (u64::from(sum) ^ (value >> column & 1));
            }
            if row.is_multiple_of(WIDTH) {
                let solved = WIDTH.min(rows - row);
                for (column, known) in known.iter().enumerate() {
                    let bits = known & (u64::MAX >> (WIDTH - solved));
                    store(&mut words, column * rows + row, bits);
                }
            }
        }
        Some(Self { words: words.into(), rows: rows as u32, columns, seed })
    }

    /// Whether it has no keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> u32 {
        self.columns
    }

    /// The upper bits of a key's value if its lower `columns` bits equal `lowest`.
    pub(crate) fn rest(&self, key: u64, columns: u32, lowest: u64) -> Option<u64> {
        let equation = self.agreeing(key, columns, lowest)?;
        let bits = (columns..self.columns).enumerate();
        Some(bits.fold(0, |value, (bit, column)| value | self.bit(equation, column) << bit))
    }

    /// Whether the lower `columns` bits of a key's value equal `lowest`.
    pub(crate) fn agrees(&self, key: u64, columns: u32, lowest: u64) -> bool {
        self.agreeing(key, columns, lowest).is_some()
    }

    fn agreeing(&self, key: u64, columns: u32, lowest: u64) -> Option<Equation> {
        if self.is_empty() {
            return None;
        }
        let equation = equation(key, self.rows as usize, self.seed);
        let agrees = |column| self.bit(equation, column) == lowest >> column & 1;
        (0..columns).all(agrees).then_some(equation)
    }

    fn bit(&self, equation: Equation, column: u32) -> u64 {
        let at = column as usize * self.rows as usize + equation.first;
        let (word, shift) = (at / 64, at % 64);
        let low = self.words[word] >> shift;
        let high = if shift > 0 {
            self.words.get(word + 1).map_or(0, |next| next << (64 - shift))
        } else {
            0
        };
        u64::from(((low | high) & equation.coefficients).count_ones() & 1)
    }

    /// Keeps only the first columns.
    pub(crate) fn truncate(&mut self, columns: u32) {
        if columns < self.columns {
            let words = (self.rows as usize * columns as usize).div_ceil(64);
            self.words = self.words[..words].into();
            self.columns = columns;
        }
    }

    /// Its heap size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

/// Sets the bits from `at` on, which are zero.
fn store(words: &mut [u64], at: usize, bits: u64) {
    let (word, shift) = (at / 64, at % 64);
    words[word] |= bits << shift;
    let rest = bits >> 1 >> (63 - shift);
    if rest > 0 {
        words[word + 1] |= rest;
    }
}

fn equation(key: u64, rows: usize, seed: u32) -> Equation {
    let hash = xxh3_64_with_seed(&key.to_le_bytes(), seed.into());
    let first = ((u128::from(hash) * (rows - WIDTH + 1) as u128) >> 64) as usize;
    // The multiplication makes the coefficients independent of the row.
    Equation { first, coefficients: hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: u64, columns: u32) -> Vec<(u64, u64)> {
        let value = |n: u64| xxh3_64_with_seed(&n.to_le_bytes(), 99) & (u64::MAX >> (64 - columns));
        (0..count).map(|n| (n * 977, value(n))).collect()
    }

    #[test]
    fn keys_have_their_values() {
        for count in [1, 2, 7, 63, 64, 65, 100, 750, 1_008] {
            for columns in [1, 7, 20, 64] {
                let values = values(count, columns);
                let ribbon = Ribbon::of(&values, columns);
                for (key, value) in &values {
                    assert_eq!(ribbon.rest(*key, 0, 0), Some(*value), "{count}, {columns}");
                    assert_eq!(ribbon.rest(*key, 1, value & 1), Some(value >> 1));
                    assert!(ribbon.agrees(*key, columns, *value));
                    assert!(!ribbon.agrees(*key, columns, value ^ 1));
                }
            }
        }
    }

    #[test]
    fn overhead_is_six_percent_for_a_page() {
        let (mut rows, mut count) = (0, 0);
        for start in 0..200 {
            let values: Vec<(u64, u64)> =
                (0..700 + start).map(|n| (start * 10_000 + n, n)).collect();
            rows += Ribbon::of(&values, 1).rows as usize;
            count += values.len();
        }
        assert!(rows * 100 <= count * 107, "{rows} for {count}");
    }

    #[test]
    fn first_columns_stay_when_others_are_dropped() {
        let values = values(500, 20);
        let mut ribbon = Ribbon::of(&values, 20);
        let whole = ribbon.memory_bytes();
        ribbon.truncate(7);
        assert!(ribbon.memory_bytes() * 20 <= whole * 7 + 20 * 8, "{}", ribbon.memory_bytes());
        assert_eq!(ribbon.columns(), 7);
        assert!(values.iter().all(|(key, value)| ribbon.rest(*key, 0, 0) == Some(value & 127)));
    }

    #[test]
    fn other_keys_have_arbitrary_values() {
        let ribbon = Ribbon::of(&values(750, 7), 7);
        let others = (0..100_000_u64).map(|n| n * 977 + 1 + n % 976);
        let agreeing = others.filter(|other| ribbon.agrees(*other, 7, 55)).count();
        assert!((600..1_000).contains(&agreeing), "{agreeing}");
        let none = Ribbon::of(&[], 7);
        assert!(!none.agrees(5, 7, 0) && none.memory_bytes() == 0);
    }
}
