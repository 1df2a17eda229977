//! All indexes compared with a map, with fingerprints so short that most keys share theirs.

use std::collections::HashMap;

use super::*;
use crate::load::dice::Dice;
use crate::load::keys::key_of;

const FLASH_BYTES: u64 = 8 << 20;
const OBJECT_BYTES: u64 = 1500;
/// A few buckets.
const MEMORY_BYTES: u64 = 4 << 10;

type Kind = fn(&ObjectLog, &Path, u32) -> Box<dyn Index>;

/// The number of fingerprint bits that gives many collisions.
const KINDS: &[(&str, u32, Kind)] = &[
    ("dram", 8, |log, _, bits| Box::new(InDram::new(log.slots(), bits))),
    ("udepot", 1, |log, path, bits| {
        let storage = LocalStorage::new();
        let index = UDepot::new(&storage, path, log.slots(), bits, MEMORY_BYTES).unwrap();
        // Keys with different tags and positions in the table hardly ever collide.
        Box::new(FewHomes(index))
    }),
    ("slickcache", 3, |log, path, bits| {
        let storage = LocalStorage::new();
        Box::new(SlickCache::new(&storage, path, log.slots(), bits, MEMORY_BYTES).unwrap())
    }),
];

/// An index that uses only every sixteenth home.
struct FewHomes(UDepot);

impl FewHomes {
    fn hash_of(hash: u64) -> u64 {
        hash & !15
    }
}

impl Index for FewHomes {
    fn find(&self, hash: u64, reads: &mut u64, is_it: lookup::IsIt<'_>) -> Result<Option<u64>> {
        self.0.find(Self::hash_of(hash), reads, is_it)
    }

    fn set(
        &self,
        hash: u64,
        old: Option<u64>,
        new: u64,
        is_alive: &dyn Fn(u64) -> bool,
    ) -> Result<bool> {
        self.0.set(Self::hash_of(hash), old, new, is_alive)
    }

    fn remove(&self, hash: u64, place: u64) -> Result<()> {
        self.0.remove(Self::hash_of(hash), place)
    }

    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }
}

fn subject(directory: &Path, bits: u32, kind: Kind) -> Indexed {
    let storage = LocalStorage::new();
    let path = directory.join("objects");
    let log = ObjectLog::new(&storage, &path, FLASH_BYTES, OBJECT_BYTES).unwrap();
    let index = kind(&log, &directory.join("index"), bits);
    Indexed::new(log, index)
}

fn value_of(subject: &dyn Subject, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let is_there = subject.get(key, &mut |found| value = Some(found.to_vec())).unwrap();
    assert_eq!(is_there, value.is_some());
    value
}

fn value(number: u64, version: u64) -> Vec<u8> {
    let mut value = [number.to_le_bytes(), version.to_le_bytes()].concat();
    value.resize(16 + (version % 300) as usize, version as u8);
    value
}

/// Random operations on keys `first`, `first + step`, …, all compared with a map. At most `puts`
/// puts: fewer than the capacity of the log, so it overwrites no object.
fn use_at_random(subject: &dyn Subject, seed: u64, keys: u64, step: u64, first: u64, puts: u64) {
    let (mut dice, mut model, mut done) = (Dice::new(seed), HashMap::new(), 0);
    while done < puts {
        let number = first + step * dice.below(keys);
        let key = key_of(number);
        match dice.below(10) {
            0..=4 => {
                done += 1;
                subject.put(&key, &value(number, done)).unwrap();
                model.insert(number, done);
            }
            5 => {
                subject.delete(&key).unwrap();
                model.remove(&number);
            }
            _ => {
                let expected = model.get(&number).map(|version| value(number, *version));
                assert_eq!(value_of(subject, &key), expected, "{number}");
            }
        }
    }
    for number in (0..keys).map(|key| first + step * key) {
        let expected = model.get(&number).map(|version| value(number, *version));
        assert_eq!(value_of(subject, &key_of(number)), expected, "{number}");
    }
}

#[test]
fn a_get_returns_the_last_put() {
    for (name, bits, kind) in KINDS {
        let directory = tempfile::tempdir().unwrap();
        let subject = subject(directory.path(), *bits, *kind);
        use_at_random(&subject, 1, 1000, 1, 0, 3000);
        let counts = subject.counts().unwrap().objects.unwrap();
        assert!(
            counts.object_reads_of_misses * 10 > counts.misses,
            "{name}: collisions, {counts:?}"
        );
        assert!(counts.flash_hits > 0 && counts.memory_hits > 0, "{name}: {counts:?}");
    }
}

#[test]
fn many_threads_find_their_objects() {
    for (_, bits, kind) in KINDS {
        let directory = tempfile::tempdir().unwrap();
        let subject = subject(directory.path(), *bits, *kind);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let subject = &subject;
                scope.spawn(move || use_at_random(subject, thread, 250, 4, thread, 800));
            }
        });
    }
}

#[test]
fn a_full_log_overwrites_the_oldest_and_returns_no_wrong_object() {
    for (name, bits, kind) in KINDS {
        let directory = tempfile::tempdir().unwrap();
        let subject = subject(directory.path(), 4 + bits, *kind);
        let slots = subject.log.slots();
        let last = 2 * slots;
        for number in 0..last {
            subject.put(&key_of(number), &value(number, number)).unwrap();
        }
        let mut there = 0;
        for number in (0..last).step_by(7) {
            let found = value_of(&subject, &key_of(number));
            assert!(found.is_none_or(|found| found == value(number, number)), "{name}");
        }
        // The last half exists, except objects without room.
        for number in last - slots / 2..last {
            there += u64::from(value_of(&subject, &key_of(number)).is_some());
        }
        assert!(there * 100 >= slots / 2 * 99, "{name}: {there} of {}", slots / 2);
    }
}

#[test]
fn a_lookup_in_memory_reads_only_the_object() {
    let directory = tempfile::tempdir().unwrap();
    let subject = subject(directory.path(), 64, KINDS[0].2);
    let objects = subject.log.slots() / 2;
    (0..objects).for_each(|number| subject.put(&key_of(number), &value(number, 1)).unwrap());
    (0..objects).for_each(|number| assert!(value_of(&subject, &key_of(number)).is_some()));
    (objects..2 * objects).for_each(|n| assert!(value_of(&subject, &key_of(n)).is_none()));
    let counts = subject.counts().unwrap().objects.unwrap();
    assert_eq!(counts.object_reads_of_hits, counts.flash_hits);
    assert_eq!((counts.index_reads_of_hits, counts.object_reads_of_misses), (0, 0));
    assert_eq!(counts.flash_objects, objects);
}

#[test]
fn cold_lookups_read_buckets() {
    for (name, _, kind) in &KINDS[1..] {
        let directory = tempfile::tempdir().unwrap();
        let subject = subject(directory.path(), 8, *kind);
        let objects = subject.log.slots() * 9 / 10;
        (0..objects).for_each(|number| subject.put(&key_of(number), &value(number, 1)).unwrap());
        let before = subject.counts().unwrap();
        (0..objects).for_each(|number| assert!(value_of(&subject, &key_of(number)).is_some()));
        let counts = subject.counts().unwrap().since(&before).objects.unwrap();
        let reads = counts.index_reads_of_hits as f64 / objects as f64;
        assert!((0.8..1.8).contains(&reads), "{name}: {reads}");
    }
}

#[test]
fn numbers_are_places() {
    let directory = tempfile::tempdir().unwrap();
    let flash = FlashSettings {
        bytes: FLASH_BYTES,
        devices: 1,
        object_bytes: OBJECT_BYTES,
        index_bytes: None,
    };
    let settings = Settings { flash: Some(flash), ..Settings::usual(1 << 20) };
    let subject = (DEVICE_OBJECTS.open)(directory.path(), &settings).unwrap();
    for number in (0..200).step_by(2) {
        subject.put(&key_of(number), &value(number, 7)).unwrap();
    }
    subject.delete(&key_of(20)).unwrap();
    // An absent key has the location of an existing one.
    subject.delete(&key_of(31)).unwrap();
    for number in 0..200 {
        let is_there = number % 2 == 0 && number != 20;
        assert_eq!(value_of(&*subject, &key_of(number)), is_there.then(|| value(number, 7)));
    }
    assert!(subject.put(&key_of(0), &[0; 2000]).is_err());
}
