//! The contract of every storage, on disk (with and without io_uring) and in memory: each check
//! runs on all of them, with both kinds of access.

#![cfg(not(miri))]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidekv_io::buffer::AlignedVec;
use tidekv_io::{
    Access, AppendFile, ErrorKind, File, LocalStorage, MemoryStorage, ReadRequest, Storage,
};

/// A storage and an empty directory in it.
struct TestStorage<'a> {
    name: &'a str,
    storage: Arc<dyn Storage>,
    root: PathBuf,
    access: Access,
}

impl TestStorage<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn create(&self, name: &str) -> Arc<dyn File> {
        self.storage.create(&self.path(name), self.access).unwrap()
    }

    /// A new file of `len` bytes with the test pattern.
    fn filled(&self, name: &str, len: usize) -> Arc<dyn File> {
        let file = self.create(name);
        let mut append = AppendFile::new(Arc::clone(&file), 1 << 16);
        append.append(&pattern(0, len)).unwrap();
        assert_eq!(append.finish().unwrap(), len as u64);
        file
    }
}

/// The bytes from `offset` on of the test pattern.
fn pattern(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len).map(|n| (n.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect()
}

fn everywhere(check: impl Fn(&TestStorage<'_>)) {
    for access in [Access::Direct, Access::Buffered] {
        let storages: [(&str, Arc<dyn Storage>); 3] = [
            ("local", Arc::new(LocalStorage::new())),
            ("local without io_uring", Arc::new(LocalStorage::without_uring())),
            ("memory", Arc::new(MemoryStorage::new())),
        ];
        for (name, storage) in storages {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().join("store");
            storage.create_dir_all(&root).unwrap();
            eprintln!("{name}, {access:?}");
            check(&TestStorage { name, storage, root, access });
        }
    }
}

fn kind<T: std::fmt::Debug>(result: Result<T, tidekv_io::Error>) -> ErrorKind {
    result.expect_err("this fails").kind()
}

#[test]
fn bytes_are_read_at_any_offset() {
    everywhere(|place| {
        let len = 20_011;
        let file = place.filled("a", len);
        assert_eq!(file.len().unwrap(), len as u64);
        assert!(!file.is_empty().unwrap());
        for offset in [0, 1, 511, 512, 4095, 4096, 4097, 8192, 19_000, 20_010] {
            for want in [0, 1, 100, 511, 512, 4096, 5000, 12_288, 20_011] {
                let read = file.read_at(offset as u64, want);
                if offset + want <= len {
                    assert_eq!(&*read.unwrap(), pattern(offset, want), "{want} at {offset}");
                } else {
                    assert_eq!(kind(read), ErrorKind::ShortRead, "{want} at {offset}");
                }
            }
        }
    });
}

#[test]
fn reads_past_the_end_are_short_and_allocate_nothing() {
    everywhere(|place| {
        let file = place.filled("a", 4096);
        for (offset, len) in [
            (4096, 1),
            (5000, 1),
            (1 << 40, 10),
            (0, usize::MAX),
            (0, isize::MAX as usize),
            (1, 1 << 45),
            (u64::MAX, 1),
            (u64::MAX - 4096, 4096),
            (i64::MAX as u64 - 1, 1),
        ] {
            assert_eq!(kind(file.read_at(offset, len)), ErrorKind::ShortRead, "{len} at {offset}");
        }
        assert!(file.read_at(4096, 0).unwrap().is_empty());
        let empty = place.create("empty");
        assert!(empty.is_empty().unwrap());
        assert_eq!(kind(empty.read_at(0, 1)), ErrorKind::ShortRead);
    });
}

#[test]
fn aligned_writes_replace_and_grow() {
    everywhere(|place| {
        let file = place.create("a");
        let unit = 4096;
        assert!(
            unit % file.alignment() == 0
                && (place.access == Access::Direct || file.alignment() == 1)
        );
        let mut page = AlignedVec::zeroed(unit);
        for (number, at) in [(1, 0), (2, 2 * unit), (3, unit), (4, 2 * unit)] {
            page.fill(number);
            file.write_at(at as u64, &page).unwrap();
        }
        assert_eq!(file.len().unwrap(), 3 * unit as u64);
        for (page, number) in [(0, 1), (1, 3), (2, 4)] {
            let read = file.read_at((page * unit) as u64, unit).unwrap();
            assert!(read.iter().all(|byte| *byte == number), "page {page}");
        }
        file.write_at(5 * unit as u64, &page).unwrap();
        let hole = file.read_at(3 * unit as u64, 2 * unit).unwrap();
        assert!(hole.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn writes_come_from_any_address() {
    everywhere(|place| {
        let file = place.create("a");
        let bytes = pattern(0, (3 << 20) + 1);
        file.write_at(0, &bytes[1..]).unwrap();
        assert_eq!(&*file.read_at(0, 3 << 20).unwrap(), &bytes[1..]);
        file.write_at(0, &[]).unwrap();
    });
}

#[test]
fn unaligned_direct_write_panics() {
    everywhere(|place| {
        let file = place.create("a");
        if file.alignment() > 1 {
            for (offset, len) in [(0, 100), (100, 4096)] {
                let write = std::panic::AssertUnwindSafe(|| file.write_at(offset, &vec![0; len]));
                assert!(std::panic::catch_unwind(write).is_err(), "{len} at {offset}");
            }
        }
    });
}

#[test]
fn lengths_can_be_set() {
    everywhere(|place| {
        let file = place.filled("a", 10_000);
        file.truncate(5000).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
        assert_eq!(kind(file.read_at(4999, 2)), ErrorKind::ShortRead);
        file.truncate(10_000).unwrap();
        assert_eq!(&*file.read_at(4990, 10).unwrap(), pattern(4990, 10));
        assert!(file.read_at(5000, 5000).unwrap().iter().all(|byte| *byte == 0));
        file.allocate(1 << 20).unwrap();
        file.allocate(100).unwrap();
        file.allocate(0).unwrap();
        assert_eq!(file.len().unwrap(), 1 << 20, "{}", place.name);
        assert!(file.read_at(10_000, 4000).unwrap().iter().all(|byte| *byte == 0));
        file.sync().unwrap();
    });
}

#[test]
fn appended_bytes_are_in_the_file() {
    everywhere(|place| {
        for (number, total) in [0, 1, 4095, 4096, 4097, 65_536, 200_003].into_iter().enumerate() {
            let file = place.create(&format!("append-{number}"));
            let mut append = AppendFile::new(Arc::clone(&file), 10_000);
            let bytes = pattern(0, total);
            for (piece, upto) in bytes.chunks(777).zip(1..) {
                append.append(piece).unwrap();
                assert_eq!(append.offset(), (upto * 777).min(total) as u64);
            }
            assert_eq!(append.finish().unwrap(), total as u64);
            assert_eq!(file.len().unwrap(), total as u64);
            assert_eq!(&*file.read_at(0, total).unwrap(), bytes);
        }
    });
}

#[test]
fn batches_answer_in_order() {
    everywhere(|place| {
        let len = 1 << 20;
        let (one, two) = (place.filled("one", len), place.filled("two", 5000));
        let mut state = 1_usize;
        let mut draw = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for requests in [0, 1, 2, 7, 63, 64, 65, 200] {
            let requests: Vec<ReadRequest> = (0..requests)
                .map(|n| match n % 10 {
                    3 => ReadRequest { file: Arc::clone(&two), offset: 4999, len: 2 },
                    4 => ReadRequest { file: Arc::clone(&two), offset: 4000, len: 1000 },
                    5 => ReadRequest { file: Arc::clone(&one), offset: 0, len: 0 },
                    6 => ReadRequest { file: Arc::clone(&one), offset: 0, len: usize::MAX },
                    _ => {
                        let (offset, len) = (draw(len - 20_000) as u64, draw(20_000));
                        ReadRequest { file: Arc::clone(&one), offset, len }
                    }
                })
                .collect();
            let results = place.storage.read_batch(&requests);
            assert_eq!(results.len(), requests.len());
            for (request, result) in requests.iter().zip(results) {
                let exists = request.offset as usize <= len
                    && request.len <= len
                    && (!Arc::ptr_eq(&request.file, &two)
                        || request.offset + request.len as u64 <= 5000);
                if exists {
                    assert_eq!(&*result.unwrap(), pattern(request.offset as usize, request.len));
                } else {
                    assert_eq!(kind(result), ErrorKind::ShortRead);
                }
            }
        }
    });
}

#[test]
fn batches_run_on_many_threads_at_once() {
    everywhere(|place| {
        let file = place.filled("a", 1 << 18);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..20_usize {
                        let requests: Vec<ReadRequest> = (0..32_usize)
                            .map(|n| ReadRequest {
                                file: Arc::clone(file),
                                offset: ((n * 7919 + round * 31 + thread) % 200_000) as u64,
                                len: 3000,
                            })
                            .collect();
                        let results = place.storage.read_batch(&requests);
                        for (request, result) in requests.iter().zip(results) {
                            let expected = pattern(request.offset as usize, request.len);
                            assert_eq!(&*result.unwrap(), expected);
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn a_batch_may_mix_storages() {
    everywhere(|place| {
        let other = MemoryStorage::new();
        other.write_file("b", &pattern(0, 100));
        let foreign = other.open_read(Path::new("b"), Access::Buffered).unwrap();
        let own = place.filled("a", 100);
        let requests: Vec<ReadRequest> = (0..10)
            .map(|n| if n % 2 == 0 { &own } else { &foreign })
            .map(|file| ReadRequest { file: Arc::clone(file), offset: 10, len: 20 })
            .collect();
        for result in place.storage.read_batch(&requests) {
            assert_eq!(&*result.unwrap(), pattern(10, 20));
        }
    });
}

#[test]
fn names_are_created_renamed_and_removed() {
    everywhere(|place| {
        let storage = &place.storage;
        let (a, b, c) = (place.path("a"), place.path("b"), place.path("c"));
        let file = place.filled("a", 100);
        assert_eq!(kind(storage.create(&a, place.access)), ErrorKind::AlreadyExists);
        storage.hard_link(&a, &b).unwrap();
        assert_eq!(kind(storage.hard_link(&a, &b)), ErrorKind::AlreadyExists);
        assert_eq!(kind(storage.hard_link(&c, &b)), ErrorKind::NotFound);
        place.filled("c", 200);
        storage.rename(&a, &c).unwrap();
        assert!(!storage.exists(&a).unwrap() && storage.exists(&c).unwrap());
        assert_eq!(storage.open(&c, place.access).unwrap().len().unwrap(), 100);
        assert_eq!(kind(storage.rename(&a, &b)), ErrorKind::NotFound);
        storage.rename(&b, &c).unwrap();
        assert!(storage.exists(&b).unwrap(), "two names of one file stay");
        storage.rename(&b, &b).unwrap();
        storage.remove(&b).unwrap();
        storage.remove(&c).unwrap();
        assert_eq!(kind(storage.remove(&c)), ErrorKind::NotFound);
        assert_eq!(kind(storage.open(&c, place.access)), ErrorKind::NotFound);
        assert_eq!(kind(storage.open_read(&c, place.access)), ErrorKind::NotFound);
        assert_eq!(&*file.read_at(50, 50).unwrap(), pattern(50, 50), "an open file lives on");
        assert_eq!(file.path(), a);
        storage.sync_dir(&place.root).unwrap();
    });
}

#[test]
fn directories_are_made_and_listed() {
    everywhere(|place| {
        let storage = &place.storage;
        let deep = place.path("x/y");
        assert_eq!(kind(storage.create(&deep.join("f"), place.access)), ErrorKind::NotFound);
        assert_eq!(kind(storage.list(&deep)), ErrorKind::NotFound);
        assert_eq!(kind(storage.sync_dir(&deep)), ErrorKind::NotFound);
        storage.create_dir_all(&deep).unwrap();
        storage.create_dir_all(&deep).unwrap();
        assert!(storage.exists(&deep).unwrap() && storage.list(&deep).unwrap().is_empty());
        place.filled("x/b", 300);
        place.filled("x/a", 5);
        let entries = storage.list(&place.path("x")).unwrap();
        let seen: Vec<_> =
            entries.iter().map(|e| (e.name.as_str(), e.bytes, e.is_directory)).collect();
        assert_eq!(seen, [("a", 5, false), ("b", 300, false), ("y", 0, true)]);
        let error = storage.create_dir_all(&place.path("x/a"));
        assert_eq!(kind(error), ErrorKind::AlreadyExists);
        assert_eq!(kind(storage.remove(&deep)), ErrorKind::Failed);
        assert_eq!(kind(storage.open(&deep, place.access)), ErrorKind::Failed);
    });
}

#[test]
fn a_lock_is_held_once() {
    everywhere(|place| {
        let path = place.path("LOCK");
        let lock = place.storage.lock(&path).unwrap();
        let second = place.storage.lock(&path);
        assert_eq!(kind(second), ErrorKind::Locked);
        drop(lock);
        let again = place.storage.lock(&path).unwrap();
        assert!(place.storage.exists(&path).unwrap());
        drop(again);
        let nowhere = place.storage.lock(&place.path("none/LOCK"));
        assert_eq!(kind(nowhere), ErrorKind::NotFound);
    });
}

#[test]
fn a_file_opened_for_reading_cannot_be_changed() {
    everywhere(|place| {
        place.filled("a", 8192);
        let file = place.storage.open_read(&place.path("a"), place.access).unwrap();
        assert_eq!(&*file.read_at(4000, 200).unwrap(), pattern(4000, 200));
        assert_eq!(kind(file.write_at(0, &[0; 4096])), ErrorKind::Failed);
        assert_eq!(kind(file.truncate(0)), ErrorKind::Failed);
        assert_eq!(kind(file.allocate(1 << 16)), ErrorKind::Failed);
        assert_eq!(file.len().unwrap(), 8192);
    });
}

#[test]
fn one_handle_sees_what_another_wrote() {
    everywhere(|place| {
        let writer = place.create("a");
        let reader = place.storage.open_read(&place.path("a"), Access::Buffered).unwrap();
        for round in 0..10_u8 {
            writer.write_at(u64::from(round) * 4096, &[round; 4096]).unwrap();
            let read = reader.read_at(u64::from(round) * 4096, 4096).unwrap();
            assert!(read.iter().all(|byte| *byte == round));
        }
    });
}

#[test]
fn errors_name_the_file_in_a_sentence() {
    everywhere(|place| {
        let path = place.path("missing");
        let error = place.storage.open(&path, place.access).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("could not open {}: ", path.display())), "{text}");
        assert_eq!(error.path(), path);
    });
}

#[test]
fn free_space_is_reported() {
    everywhere(|place| assert!(place.storage.free_bytes(&place.root).unwrap() > 1 << 20));
}
