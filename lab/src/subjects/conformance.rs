//! The conformance test of subjects, for the tests of modules that define one.

use crate::subject::Subject;

/// Tests all operations of the lab on a store that `open` opens, in the same directory every time.
///
/// # Panics
/// If it deviates.
pub fn check(open: impl Fn() -> Box<dyn Subject>) {
    write(open());
    read(open());
}

/// A hundred entries except one, settled.
fn write(subject: Box<dyn Subject>) {
    for number in 0..100u8 {
        subject.put(&[b'k', number], &[number; 50]).expect("a put succeeds");
    }
    subject.delete(&[b'k', 7]).expect("a delete succeeds");
    let hold = subject.hold(&[b'k', 20]).expect("a snapshot is taken");
    subject.put(&[b'k', 20], &[20; 50]).expect("a put beside a snapshot succeeds");
    drop(hold);
    subject.settle().expect("it settles");
    let table_bytes = subject.counts().expect("it counts").table_bytes;
    assert!(table_bytes.expect("tables are counted") > 1000, "{table_bytes:?}");
    subject.close().expect("it closes");
}

/// The same entries, after a reopen.
fn read(subject: Box<dyn Subject>) {
    let mut seen = Vec::new();
    let is_there = subject.get(&[b'k', 8], &mut |value| seen = value.to_vec());
    assert!(is_there.expect("a get succeeds") && seen == [8; 50], "{seen:?}");
    let is_there = subject.get(&[b'k', 7], &mut |value| panic!("deleted, but {value:?}"));
    assert!(!is_there.expect("a get of an absent key succeeds"));

    let mut scanned = Vec::new();
    let count = subject.scan(&[b'k', 6], 3, &mut |key, value| scanned.push((key[1], value[0])));
    assert_eq!(count.expect("a scan succeeds"), 3);
    assert_eq!(scanned, [(6, 6), (8, 8), (9, 9)]);
    let count = subject.scan(&[b'k', 98], 10, &mut |_, _| ());
    assert_eq!(count.expect("a scan to the end succeeds"), 2);

    let keys: [&[u8]; 3] = [b"k\x63", b"k\x07", b"k\x01"];
    let mut found = Vec::new();
    let count = subject.multi_get(&keys, &mut |at, value| found.push((at, value[0])));
    assert_eq!(count.expect("a multi-get succeeds"), 2);
    assert_eq!(found, [(0, 99), (2, 1)]);
    subject.close().expect("it closes");
}
