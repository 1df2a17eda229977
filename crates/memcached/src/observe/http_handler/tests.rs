//! The page uses existing fields and the numbers of device states.

#[path = "../../../../observe/tests/support/field_names.rs"]
mod field_names;

use field_names::names_of_fields;
use tidekv_tiered::DeviceState;

use super::*;
use crate::observe::fields::{CACHE_FIELDS, DEVICE_FIELDS, state_number};

#[test]
fn the_page_uses_existing_fields() {
    let names = names_of_fields(&CACHE_PAGE);
    let fields = || CACHE_FIELDS.iter().chain(&DEVICE_FIELDS);
    for name in &names {
        assert!(fields().any(|field| field.name == *name), "{name} is no field");
    }
    assert!(names.len() >= 12, "{names:?}");
}

#[test]
fn the_page_knows_the_numbers_of_states() {
    let mut states =
        [DeviceState::Ok, DeviceState::Suspect, DeviceState::Warming, DeviceState::Out];
    states.sort_unstable_by_key(|state| state_number(*state));
    let script = CACHE_PAGE[1].text;
    let places = states.map(|state| script.find(&format!("{{ name: \"{}\"", state.name())));
    assert!(places.is_sorted() && places[0].is_some(), "{places:?}");
}
