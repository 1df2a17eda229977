//! The order of records in a segment.

use super::*;

fn names(count: u64) -> Vec<Name> {
    (0..count).map(|n| Name { partition: (n % 7) as u32, fingerprint: n * 7_919 }).collect()
}

#[test]
fn every_record_has_a_place_and_nearly_all_one_that_they_chose() {
    for count in [0, 1, 2, 30, 480, 4_000] {
        let names = names(count);
        let order = Choices(6).order(&names);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..count as u32), "{count}");
        let is_chosen = |(place, record): &(usize, &u32)| {
            let name = names[**record as usize];
            let choice = Choices(6).choice_of(name, *place as u32, count as u32);
            choice.is_some_and(|choice| {
                Choices(6).place(name, choice, count as u32) == Some(*place as u32)
            })
        };
        let chosen = order.iter().enumerate().filter(is_chosen).count() as u64;
        assert!(count - chosen <= count / 150 + 1, "{chosen} of {count}");
    }
}

#[test]
fn few_records_keep_their_order() {
    let order = Choices(64).order(&names(64));
    assert!(order.into_iter().eq(0..64));
    let name = names(3)[2];
    assert_eq!(Choices(64).choice_of(name, 63, 64), Some(63));
    assert_eq!(Choices(64).place(name, 63, 64), Some(63));
    // The code of another name may exceed the number of records.
    assert_eq!(Choices(64).place(name, 50, 50), None);
    assert_eq!(Choices(64).choice_of(name, 50, 50), None);
    // A larger segment has candidates by hash.
    let places: Vec<u32> = (0..64).filter_map(|it| Choices(64).place(name, it, 65)).collect();
    assert_eq!(places.len(), HASHED_MAX as usize);
    assert_eq!(
        Choices(64).choice_of(name, places[7], 65).map(|it| places[it as usize]),
        Some(places[7])
    );
    assert!(!Choices(64).order(&names(65)).into_iter().eq(0..65));
}

#[test]
fn records_of_one_name_take_different_places() {
    let names = vec![Name { partition: 3, fingerprint: 5 }; 20];
    let mut order = Choices(6).order(&names);
    order.sort_unstable();
    assert!(order.into_iter().eq(0..20));
}
