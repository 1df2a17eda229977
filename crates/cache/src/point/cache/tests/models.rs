//! A reader concurrent with writes, flushes and other readers, under many schedules.

use std::sync::Arc;

use tidekv_testkit::models::{explore, shuttle};

use super::*;

/// A tree of one key: its version in the tables, and in the memtable (0: none), packed together as
/// a view.
struct Scene {
    cache: PointCache,
    view: AtomicU64,
}

/// A version as a value longer than a pointer.
fn value_of(version: u64) -> [u8; 32] {
    let mut value = [0; 32];
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

fn view(in_tables: u64, in_memtable: u64) -> u64 {
    in_tables << 32 | in_memtable
}

impl Scene {
    fn new(cache: PointCache) -> Arc<Self> {
        Arc::new(Self { cache, view: AtomicU64::new(view(1, 0)) })
    }

    /// Writes `version` and flushes it.
    fn write_and_flush(&self, version: u64) {
        let in_tables = self.view.load(Ordering::Acquire) >> 32;
        self.view.store(view(in_tables, version), Ordering::Release);
        let hash = hash_of(name(b"k"));
        self.cache.advance_epoch();
        let bytes = value_of(version);
        if self.cache.update(hash, name(b"k"), Some(entry(b"k", &bytes))) {
            self.cache.redirect(hash, KpEntry { pointer: place(version, 0), level: 0 });
        }
        self.view.store(view(version, 0), Ordering::Release);
    }

    /// Ingests `version` into the tables without the memtable.
    fn ingest(&self, version: u64) {
        let change = self.cache.begin_change();
        self.cache.forget(|_| true, |_| true);
        self.view.store(view(version, 0), Ordering::Release);
        drop(change);
    }

    /// Reads the key as the store does; returns the version.
    fn read(&self) -> u64 {
        let hash = hash_of(name(b"k"));
        let epoch = self.cache.epoch(hash);
        let view = self.view.load(Ordering::Acquire);
        let (in_tables, in_memtable) = (view >> 32, view & 0xFFFF_FFFF);
        if in_memtable > 0 {
            return in_memtable;
        }
        let read = |entry: KvEntry<'_>| entry.value.first_chunk().copied().map(u64::from_le_bytes);
        match self.cache.lookup(hash, name(b"k"), read) {
            PointCacheLookup::Value(version) => {
                assert!(version >= in_tables, "{version} where the tables have {in_tables}");
                return version;
            }
            PointCacheLookup::Pointer(entry) if entry.pointer.table == in_tables => {
                return in_tables;
            }
            PointCacheLookup::Pointer(entry) => {
                let table = entry.pointer.table;
                assert!(table > in_tables, "to {table} where the tables have {in_tables}");
            }
            PointCacheLookup::Miss => {}
        }
        let bytes = value_of(in_tables);
        self.cache.resolved(hash, epoch, &found(entry(b"k", &bytes), place(in_tables, 0)));
        in_tables
    }
}

type Make = fn() -> PointCache;

/// The suffix of the model's name, and the constructor of the cache.
const FORMATS: [(&str, Make); 2] =
    [("", || cache(64 << 10, 8 << 10)), (", hac", || ac_key_cache(64 << 10, 8 << 10))];

#[test]
fn no_stale_insert_during_flushes() {
    for (format, make) in FORMATS {
        explore::shuttle(
            &format!("point cache: two readers beside two flushes{format}"),
            move || {
                beside(make(), |scene| {
                    scene.write_and_flush(2);
                    scene.write_and_flush(3);
                });
            },
        );
    }
}

#[test]
fn no_stale_insert_during_ingests() {
    for (format, make) in FORMATS {
        explore::shuttle(
            &format!("point cache: two readers beside two ingests{format}"),
            move || {
                beside(make(), |scene| {
                    scene.ingest(2);
                    scene.ingest(3);
                });
            },
        );
    }
}

/// Two readers concurrent with two `changes` of the tree.
fn beside(cache: PointCache, changes: impl FnOnce(&Scene)) {
    let scene = Scene::new(cache);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let scene = Arc::clone(&scene);
            shuttle::thread::spawn(move || {
                let (first, second) = (scene.read(), scene.read());
                assert!(first <= second, "{first} and then {second}");
            })
        })
        .collect();
    changes(&scene);
    assert_eq!(scene.read(), 3);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!((scene.read(), scene.read()), (3, 3));
}
