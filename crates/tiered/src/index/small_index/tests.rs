//! The index compared with a list, its memory, and how many keys are mistaken.

use proptest::prelude::*;

use super::*;

fn tag(n: u64) -> Tag {
    Tag::of_number(xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn inserted_objects_are_found_until_they_are_removed(
        chunks in 1..4_u32,
        numbers in 1..2_000_u32,
        steps in prop::collection::vec((0..400_u64, any::<u32>(), 0..8_u8), 1..600),
    ) {
        let index = SmallIndex::new(chunks, numbers);
        let mut model = Vec::<(u64, SmallLocation)>::new();
        for (n, number, step) in steps {
            let place = SmallLocation { number: number % numbers, choice: (number >> 31) as Choice };
            match step {
                // Removing a tag removes others that the index takes for it, too.
                0 => {
                    index.remove(tag(n), |other| other.number == place.number);
                    let home = index.home(tag(n));
                    model.retain(|(m, other)| {
                        let its = index.home(tag(*m));
                        (its.chunk, its.list, its.remainder)
                            != (home.chunk, home.list, home.remainder)
                            || other.number != place.number
                    });
                }
                1 => {
                    for chunk in 0..index.chunks() {
                        index.purge(chunk, |number| number == place.number);
                    }
                    model.retain(|(_, other)| other.number != place.number);
                }
                _ => {
                    index.insert(tag(n), place);
                    model.push((n, place));
                }
            }
            let mut expected: Vec<SmallLocation> =
                model.iter().filter(|(m, _)| *m == n).map(|(_, place)| *place).collect();
            expected.reverse();
            let mut found = index.find(tag(n));
            // In their order, with others in between.
            prop_assert!(expected.iter().all(|place| found.any(|other| other == *place)));
        }
        let all: usize = index.chunks.iter().map(|chunk| {
            let chunk = chunk.lock();
            chunk.entries.len() / index.width() as usize
        }).sum();
        prop_assert_eq!(all, model.len());
        let memory: usize = index.chunks.iter().map(|it| it.lock().memory_bytes()).sum();
        prop_assert_eq!(index.memory_bytes.load(Ordering::Relaxed), memory);
    }
}

#[test]
fn object_takes_less_than_two_bytes_and_few_keys_are_mistaken() {
    let objects = 200_000;
    let index = SmallIndex::new((objects as u32).div_ceil(2_048), 250);
    for n in 0..objects {
        let place = SmallLocation { number: (n / 800) as u32, choice: (n & 1) as Choice };
        index.insert(tag(n), place);
    }
    let bytes = index.memory_bytes() as f64 / objects as f64;
    assert!(bytes < 2.0, "{bytes}");
    let absent = (objects..2 * objects).map(|n| index.find(tag(n)).count()).sum::<usize>();
    let part = absent as f64 / objects as f64;
    // One entry in a list, and four bits.
    assert!((0.055..0.07).contains(&part), "{part}");
    index.clear();
    assert_eq!(index.find(tag(1)).count(), 0);
}
