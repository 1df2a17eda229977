//! Compares a set of tombstones with the list that it was built from.

use super::*;
use proptest::prelude::*;

#[test]
fn nested_ranges_take_linear_memory() {
    let tombstones: Vec<_> =
        (1..=20_000u32).map(|n| RangeTombstone::new(b"", &n.to_be_bytes(), n.into())).collect();
    let sequences = |snapshots: &[Sequence]| -> usize {
        let set = RangeTombstones::newest(&tombstones, snapshots);
        set.fragments().iter().map(|fragment| fragment.sequences.len()).sum()
    };
    assert_eq!(sequences(&[]), 20_000);
    assert!(sequences(&[5_000, 10_000]) <= 3 * 20_000);
}

proptest! {
    #[test]
    fn fragments_agree_with_the_list_of_tombstones(
        list in prop::collection::vec((0u8..40, 0u8..40, 1u64..60), 0..24),
        at in 0u64..64,
    ) {
        let tombstones: Vec<_> = list.iter()
            .map(|&(a, b, s)| RangeTombstone::new(&[a], &[b], s)).collect();
        let set = RangeTombstones::new(&tombstones);
        for key in 0u8..42 {
            let expected = list.iter()
                .filter(|&&(a, b, s)| a <= key && key < b && s <= at)
                .map(|t| t.2).max().unwrap_or(0);
            prop_assert_eq!(set.newest_over(&[key], at), expected);
            let newest = RangeTombstones::newest(&tombstones, &[at / 2, at]);
            prop_assert_eq!(newest.newest_over(&[key], at), expected);
            let present = set.newest_over(&[key], SEQUENCE_MAX);
            prop_assert_eq!(newest.newest_over(&[key], SEQUENCE_MAX), present);
        }
        let again = RangeTombstones::new(&set.tombstones().collect::<Vec<_>>());
        prop_assert_eq!(again, set);
    }
}
