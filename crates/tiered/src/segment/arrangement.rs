//! The order of records in a segment. The hash of a record's name gives a few candidate places, and
//! the record is in one of them, so an index only has to store which.
//!
//! A segment of `n` records has `n` places. The order is a maximum matching of records and candidate
//! places, found with augmenting paths: d-ary cuckoo hashing (Fotakis, Pagh, Sanders and Spirakis,
//! STACS 2003) at full load. With six candidates a place is a candidate of no record with a
//! probability of e^-6, so 0.25 % of the records end up elsewhere.
//!
//! In a segment of few, long records every place is a candidate and records keep the order in which
//! they were put. Copying them took more than half of the writer's processor time.
//!
//! Recovery does not depend on the order: it reads offsets from the summary. Pure.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::segment::layout::Name;

/// Places examined for a record before it is given one that is left over.
const LOOKED_AT: usize = 4_096;

/// The most candidate places that the hash of a record gives.
pub(crate) const HASHED_MAX: u32 = 8;

/// The number of candidate places of a record. With more than `HASHED_MAX`, every place is a candidate
/// in a segment of at most that many records; larger segments use `HASHED_MAX`.
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

    /// Whether every place of a segment of `records` records is a candidate.
    fn are_all(self, records: u32) -> bool {
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
mod tests;
