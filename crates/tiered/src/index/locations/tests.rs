//! Codes of locations: found while the record is current and its segment is there.

use super::*;

const MIB: u64 = 1 << 20;

fn layout() -> Layout {
    Layout::of(1_200 * MIB, 4_096, None, 40).expect("it is large enough")
}

fn on() -> Locations {
    let locations = Locations::new(&layout(), 1 << 30);
    locations.set_bytes_max(1 << 30);
    locations.turn(true);
    locations
}

fn names(count: u64) -> Vec<Name> {
    (0..count).map(|n| Name { partition: (n % 30) as u32, fingerprint: n * 7_919 }).collect()
}

/// A segment with records of these names, all current.
fn put(locations: &Locations, id: SegmentId, names: &[Name]) -> Vec<RecordLocation> {
    locations.put(Directory::of_equal(id, names.len() as u32, 4_160));
    let order = locations.choices().order(names);
    let mut found = vec![None; names.len()];
    for (place, record) in (0..).zip(order) {
        let location = RecordLocation {
            slot: id.slot,
            generation: id.generation as u16,
            offset: place * 4_160,
            len: 4_160,
            is_in_buffer: false,
        };
        locations.set_current(location, true);
        found[record as usize] = Some(location);
    }
    found.into_iter().flatten().collect()
}

#[test]
fn codes_lead_to_their_locations() {
    let locations = on();
    assert_eq!(locations.widths().code, 12);
    let (names, id) = (names(480), SegmentId { slot: layout().slots - 1, generation: 3 });
    let found = put(&locations, id, &names);
    let is_located = |(name, location): &(&Name, &RecordLocation)| {
        let code = locations.code(**name, **location);
        assert!(code.0 < 1 << locations.widths().code);
        assert!(code == Code::NONE || locations.find(**name, code) == Some(**location));
        code != Code::NONE
    };
    let located = names.iter().zip(&found).filter(is_located).count();
    assert!(located >= 475, "{located} of 480");
    assert_eq!(locations.find(names[0], Code::NONE), None);
    assert_eq!(locations.find(names[0], Code(4_095)), None);
}

/// Each has one, and keeps its place.
#[test]
fn codes_of_long_records_are_their_numbers() {
    for (record_bytes, codes) in [(32 << 10, 90..=200), (4 << 10, 6..=8)] {
        let layout = Layout::of(1_200 * MIB, record_bytes, None, 40).expect("it is large enough");
        let locations = Locations::new(&layout, 1 << 30);
        assert!(codes.contains(&locations.choices().0), "{:?}", locations.choices());
        assert!(u64::from(layout.slots * locations.choices().0) < 1 << locations.widths.code);
    }
    let layout = Layout::of(1_200 * MIB, 32 << 10, None, 40).expect("it is large enough");
    let locations = Locations::new(&layout, 1 << 30);
    locations.set_bytes_max(1 << 30);
    locations.turn(true);
    let (names, id) = (names(64), SegmentId { slot: layout.slots - 1, generation: 3 });
    let found = put(&locations, id, &names);
    for (n, (name, location)) in (0..).zip(names.iter().zip(&found)) {
        assert_eq!(location.offset, n * 4_160);
        let code = locations.code(*name, *location);
        assert!(code != Code::NONE && code.0 < 1 << locations.widths().code);
        assert_eq!(locations.find(*name, code), Some(*location));
        // A record number beyond the end of the segment.
        assert_eq!(locations.find(*name, Code(code.0 - n + 64)), None);
    }
}

/// With less memory codes have choices by hash, which take fewer bits.
#[test]
fn long_records_are_numbered_where_there_is_memory() {
    let layout = Layout::of(8 << 30, 32 << 10, None, 40).expect("it is large enough");
    let entries = layout.partitions as usize * DEFAULT_ENTRIES as usize;
    let with = |bits: usize| {
        let bytes = entries * bits / 8;
        let locations = Locations::new(&layout, bytes);
        locations.set_bytes_max(bytes);
        (locations.choices().0 > HASHED_MAX, locations.should_be_on())
    };
    assert_eq!([with(12), with(21), with(27)], [(false, false), (false, true), (true, true)]);
}

/// A name that is not in the page may agree with a code that leads to its own former record.
#[test]
fn record_that_is_not_current_is_not_found_by_any_code() {
    let locations = on();
    let (names, id) = (names(480), SegmentId { slot: 7, generation: 3 });
    let found = put(&locations, id, &names);
    for (name, location) in names.iter().zip(&found) {
        locations.set_current(*location, false);
        let by_code = |code| locations.find(*name, Code(code));
        assert!((0..4_096).all(|code| by_code(code) != Some(*location)));
    }
}

#[test]
fn directories_go_with_their_segments_and_when_codes_are_turned_off() {
    let locations = on();
    let names = names(100);
    let (id, next) = (SegmentId { slot: 7, generation: 3 }, SegmentId { slot: 7, generation: 4 });
    let found = put(&locations, id, &names);
    locations.discard(next);
    assert!(locations.has(id) && !locations.has(next));
    put(&locations, next, &names);
    assert_eq!(locations.code(names[0], found[0]), Code::NONE);
    assert!(locations.directory_bytes() > 0);
    locations.turn(false);
    assert_eq!(locations.directory_bytes(), 0);
    locations.put(Directory::of_equal(id, 100, 4_160));
    assert!(!locations.has(id));
}

#[test]
fn codes_are_on_where_there_is_memory_for_nearly_all_of_them() {
    let locations = Locations::new(&layout(), 1 << 30);
    let entries = layout().partitions as usize * DEFAULT_ENTRIES as usize;
    let is_on = |bytes| {
        locations.set_bytes_max(bytes);
        locations.should_be_on()
    };
    assert!(!is_on(entries * 16 / 8) && is_on(entries * 18 / 8));
    // Lengths that differ take memory too, and do so when they come again.
    locations.turn(true);
    let lens = (0..400_000_u32).map(|n| 1_024 + n % 50 * 64);
    locations.put(Directory::of(SegmentId { slot: 0, generation: 1 }, lens));
    assert!(!locations.should_be_on());
    locations.turn(false);
    // They would take as much again.
    assert!(!locations.should_be_on() && !is_on(entries * 18 / 8) && is_on(entries * 30 / 8));
}

#[test]
fn codes_take_no_more_than_their_memory() {
    let locations = on();
    let filters = layout().partitions as usize * layout().filter_bytes_max() as usize;
    locations.set_bytes_max(filters + 1_000);
    assert_eq!(locations.widths().code, 12);
    // Partitions without codes have filters.
    locations.count(0, layout().filter_bytes_max() as usize + 1_000);
    assert_eq!((locations.widths().code, locations.is_over()), (0, false));
    locations.count(0, layout().filter_bytes_max() as usize + 1);
    assert!(locations.is_over());
    locations.count(layout().filter_bytes_max() as usize + 1_000, 0);
    assert_eq!((locations.widths().code, locations.is_over()), (12, false));
}
