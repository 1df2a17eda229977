//! How handles are divided.

use super::*;

#[test]
fn files_get_their_handles_first() {
    let open = 40;
    let fixed = open + FIXED;
    for (limit, allowed) in [
        (fixed + FILES + 10_000, 10_000),
        (fixed + FILES + 3_000, 3_000),
        (fixed + 900, 450),
        (fixed + 100, 50),
        // The system would not even let the server start.
        (10, 1),
    ] {
        assert_eq!(connections(limit, open, 0), allowed, "{limit}");
    }
    assert_eq!(connections(fixed + 164, open, 64), 50);
    assert!(connections(u64::MAX, open, 64) > 1 << 60);
    assert_eq!((lowered(20, 50), lowered(50, 20)), (20, 20));
}

#[test]
fn table_files_take_what_connections_leave() {
    for (free, connections_max, tables) in [
        (100_000, 10_000, 90_000 - 2 * OTHER_FILES),
        (10_500, 10_000, FILES - 2 * OTHER_FILES),
        (1_000, 10_000, 500 - 2 * OTHER_FILES),
        (0, 10_000, 1),
    ] {
        let open_max = files(free, connections_max);
        assert_eq!(open_max as u64, tables, "{free}");
        let connections = left(free, open_max as u64 + OTHER_FILES) as u64;
        assert!(connections + open_max as u64 + OTHER_FILES <= free.max(OTHER_FILES + 2));
        assert!(connections >= (connections_max as u64).min(free / 2));
    }
}

#[test]
fn connections_leave_the_handles_of_files() {
    let limit = raise_limit();
    let files = limit.min(100_000) / 2;
    let without = connections_limit_beside(0, (0, 0));
    let beside = connections_limit_beside(0, (files as usize, 0));
    // Other tests open and close a few meanwhile.
    assert!(beside as u64 + files <= without as u64 + 50, "{beside} of {without}, {limit}");
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    raise_limit();
    let limit = getrlimit(Resource::Nofile);
    assert_eq!(limit.current, limit.maximum);
    assert!(open_handles() > 2);
}
