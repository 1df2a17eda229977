//! A scale of histogram buckets for numbers of any size: exact below a bound, and with a constant
//! relative precision beyond it.
//!
//! Guarantees: buckets rise with numbers; the largest number of a bucket exceeds any other of it by
//! less than one part in 2^(`BITS` - 1), and numbers below 2^`BITS` have buckets of their own.

/// The bucket of a number: it covers a single number, or those up to a number of `BITS` bits and
/// zeros.
#[inline]
pub(crate) fn place_of<const BITS: u32>(number: u64) -> usize {
    let bits = (u64::BITS - number.leading_zeros()).saturating_sub(BITS);
    // Rounded up, which may take one bit more.
    let rounded = (number >> bits) + u64::from(number & ((1 << bits) - 1) > 0);
    (bits as usize) * (1 << (BITS - 1)) + rounded as usize
}

/// The largest number of a bucket.
pub(crate) fn number_of<const BITS: u32>(place: usize) -> u64 {
    let half = 1_usize << (BITS - 1);
    // Numbers of one bit length are in the upper half.
    let bits = (place / half).saturating_sub(1);
    let rounded = (place - bits * half) as u64;
    rounded
        .checked_shl(bits as u32)
        .filter(|shifted| shifted >> bits == rounded)
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_number_is_told_as_at_most_a_little_more<const BITS: u32>() {
        let near = |power: u32| [-1_i64, 0, 1].map(|by| (1_u64 << power).wrapping_add_signed(by));
        let all = (0..5_000).chain((12..63).flat_map(near)).chain([12_345_678_901, u64::MAX]);
        for number in all {
            let told = number_of::<BITS>(place_of::<BITS>(number));
            assert!(told >= number, "{number} as {told}");
            let more = (told - number) as f64;
            assert!(more <= number as f64 / f64::from(1 << (BITS - 1)), "{number} as {told}");
            if number < 1 << BITS {
                assert_eq!(told, number);
            }
        }
        let places: Vec<usize> = (0..100_000).map(place_of::<BITS>).collect();
        assert!(places.is_sorted());
    }

    #[test]
    fn buckets_round_up_by_a_bounded_fraction() {
        a_number_is_told_as_at_most_a_little_more::<10>();
        a_number_is_told_as_at_most_a_little_more::<8>();
    }
}
