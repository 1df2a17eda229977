//! The order of records in a segment. The hash of a record's name gives a few candidate places, and
//! the record is in one of them, so an index only has to store which.
//!
//! A segment of `n` records has `n` places. The order is a maximum matching of records and candidate
//! places, found with augmenting paths: d-ary cuckoo hashing (Fotakis, Pagh, Sanders and Spirakis,
//! STACS 2003) at full load. With six candidates a place is a candidate of no record with a
//! probability of e^-6, so 0.25 % of the records end up elsewhere.
//!
//! Where segments have few records, all places are candidates, and records keep the order in which
//! they were put: moving a megabyte in memory takes about as much processor time as writing it.
//!
//! Recovery does not depend on the order: it reads offsets from the summary. Pure.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::segment::layout::Name;

/// Places examined for a record before it is given one that is left over.
const LOOKED_AT: usize = 4_096;

/// Candidate places in a segment with many records, at most.
const HASHED_MAX: u32 = 8;

/// The number of candidate places of a record, which are numbered from 0. If there are more than
/// `HASHED_MAX`, every place is a candidate in segments with no more records than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choices(pub(crate) u32);

impl Choices {
    /// Candidate number `choice` of a record with this name, in a segment of `records` records.
    pub(crate) fn place(self, name: Name, choice: u32, records: u32) -> Option<u32> {
        if self.are_all(records) {
            return (choice < records).then_some(choice);
        }
        let hash = xxh3_64_with_seed(&name.number().to_le_bytes(), choice.into());
        let place = ((u128::from(hash) * u128::from(records)) >> 64) as u32;
        (choice < self.hashed()).then_some(place)
    }

    /// The number of the candidate that is `place`, if it is one for a record with this name.
    pub(crate) fn choice_of(self, name: Name, place: u32, records: u32) -> Option<u32> {
        if self.are_all(records) {
            return (place < records).then_some(place);
        }
        (0..self.hashed()).find(|choice| self.place(name, *choice, records) == Some(place))
    }

    /// Whether every place of a segment of `records` records is a candidate: records can stay in
    /// the order in which they were put.
    pub(crate) fn are_all(self, records: u32) -> bool {
        self.0 > HASHED_MAX && records <= self.0
    }

    fn hashed(self) -> u32 {
        self.0.min(HASHED_MAX)
    }

    /// The order of records with these names: the number of the record in each place.
    pub(crate) fn order(self, names: &[Name]) -> Vec<u32> {
        const NONE: u32 = u32::MAX;
        let records = names.len() as u32;
        if self.are_all(records) {
            return (0..records).collect();
        }
        let mut owners = vec![NONE; names.len()];
        let mut places = vec![NONE; names.len()];
        // For each place, the last search that reached it, and the record it was reached from.
        let mut looked_at = vec![(NONE, NONE); names.len()];
        let mut queue = VecDeque::new();
        for record in 0..records {
            queue.clear();
            queue.push_back(record);
            let mut count = 0;
            let free = 'search: loop {
                let Some(other) = queue.pop_front().filter(|_| count < LOOKED_AT) else {
                    break None;
                };
                for choice in 0..self.hashed() {
                    let place = self.place(names[other as usize], choice, records);
                    let Some(place) = place.map(|place| place as usize) else { break };
                    if looked_at[place].0 == record {
                        continue;
                    }
                    looked_at[place] = (record, other);
                    count += 1;
                    match owners[place] {
                        NONE => break 'search Some(place as u32),
                        owner => queue.push_back(owner),
                    }
                }
            };
            // Moves each record on the path to the place that was reached from it.
            let mut next = free;
            while let Some(place) = next {
                let mover = looked_at[place as usize].1;
                owners[place as usize] = mover;
                let left = std::mem::replace(&mut places[mover as usize], place);
                next = (left != NONE).then_some(left);
            }
        }
        let mut left = (0..records).filter(|record| places[*record as usize] == NONE);
        let owner = |owner: u32| if owner == NONE { left.next().unwrap_or(NONE) } else { owner };
        owners.into_iter().map(owner).collect()
    }
}

#[cfg(test)]
mod tests {
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
        // A code may be that of another segment.
        assert_eq!(Choices(64).place(name, 50, 50), None);
        assert_eq!(Choices(64).choice_of(name, 50, 50), None);
        // With more records there are a few candidates by hash.
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
}
