//! Behaviour of the local storage only: alignment, the ring, refusals of the kernel.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn direct_files_have_the_alignment_of_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new();
    let file = storage.create(&directory.path().join("a"), Access::Direct).unwrap();
    let alignment = file.alignment();
    assert!(alignment.is_power_of_two() && alignment <= buffer::ALIGNMENT);
    let local = file.as_any().downcast_ref::<LocalFile>().unwrap();
    let flags = rustix::fs::fcntl_getfl(&local.file).unwrap();
    assert_eq!(flags.contains(OFlags::DIRECT), alignment > 1, "a refusal is remembered");
    eprintln!("alignment {alignment}");
}

#[test]
fn span_covers_the_requested_range() {
    let directory = tempfile::tempdir().unwrap();
    let file = fs::File::create(directory.path().join("a")).unwrap();
    let file = LocalFile { file, path: "a".into(), alignment: 512 };
    for (offset, len, start, bytes) in
        [(0, 0, 0, 0), (0, 1, 0, 512), (511, 2, 0, 1024), (512, 512, 512, 512), (1000, 0, 512, 512)]
    {
        let span = file.span(offset, len).unwrap();
        assert_eq!((span.start, span.bytes), (start, bytes), "{len} at {offset}");
        assert_eq!(span.start + span.skip as u64, offset);
    }
}

#[test]
fn rings_are_reused_and_refusals_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new();
    let path = directory.path().join("a");
    fs::write(&path, [7; 10_000]).unwrap();
    let file = storage.open_read(&path, Access::Buffered).unwrap();
    let request = |offset| ReadRequest { file: Arc::clone(&file), offset, len: 100 };
    for _ in 0..3 {
        let results = storage.read_batch(&[request(0), request(5000), request(9950)]);
        assert!(results[0].is_ok() && results[1].is_ok() && results[2].is_err());
    }
    let rings = storage.rings.lock().len();
    assert_eq!(rings, usize::from(storage.uses_uring()), "one ring serves one batch at a time");
    eprintln!("io_uring: {}", storage.uses_uring());

    let without = LocalStorage::without_uring();
    assert!(without.read_batch(&[request(0), request(1)]).iter().all(Result::is_ok));
    assert!(without.rings.lock().is_empty());
}

#[test]
fn a_read_that_the_ring_cannot_do_is_finished_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new();
    let path = directory.path().join("a");
    fs::write(&path, [7; 100]).unwrap();
    // Open for writing only: the kernel rejects each read of the ring.
    let write_only = OpenOptions::new().write(true).open(&path).unwrap();
    let broken: Arc<dyn File> =
        Arc::new(LocalFile { file: write_only, path: path.clone(), alignment: 1 });
    let sound = storage.open_read(&path, Access::Buffered).unwrap();
    let request = |file: &Arc<dyn File>| ReadRequest { file: Arc::clone(file), offset: 0, len: 50 };
    let results = storage.read_batch(&[request(&broken), request(&sound), request(&broken)]);
    assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::Failed);
    assert_eq!(&**results[1].as_ref().unwrap(), [7; 50]);
    assert_eq!(results[2].as_ref().unwrap_err().operation(), Operation::Read);
}

/// The ended reads, as soon as there are any.
fn wait(queue: &dyn ReadQueue) -> Vec<(u64, Option<Buffer>)> {
    let event = queue.event();
    let mut ready = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut ready, None).unwrap();
    assert_eq!(rustix::io::read(event, &mut [0; 8]), Ok(8));
    queue.ended()
}

#[test]
fn queued_reads_end_once_with_existing_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new();
    let path = directory.path().join("a");
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&path, &bytes).unwrap();
    let Some(queue) = storage.read_queue() else {
        assert!(!storage.uses_uring(), "a ring of the kernel must be used");
        return;
    };
    for access in [Access::Buffered, Access::Direct] {
        let file = storage.open_read(&path, access).unwrap();
        let request = |tag: u64| {
            let (offset, len) = (tag * 3_917, 1 + tag as usize * 97 % 9_000);
            ReadRequest { file: Arc::clone(&file), offset, len }
        };
        let (mut next, mut seen) = (0, std::collections::BTreeSet::new());
        while seen.len() < 250 {
            while next < 250 && next - (seen.len() as u64) < 60 {
                queue.begin(next, request(next)).expect("there is room");
                next += 1;
            }
            for (tag, read) in wait(&*queue) {
                let ReadRequest { offset, len, .. } = request(tag);
                let expected = &bytes[offset as usize..][..len];
                assert_eq!(&*read.unwrap(), expected);
                assert!(seen.insert(tag), "{tag} has ended twice");
            }
        }
        assert!(queue.ended().is_empty());
    }
}

#[test]
fn queue_returns_rejected_reads_and_reports_failures() {
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new();
    let path = directory.path().join("a");
    fs::write(&path, [7; 100]).unwrap();
    let Some(queue) = storage.read_queue() else { return };
    let write_only = OpenOptions::new().write(true).open(&path).unwrap();
    let broken: Arc<dyn File> =
        Arc::new(LocalFile { file: write_only, path: path.clone(), alignment: 1 });
    let sound = storage.open_read(&path, Access::Buffered).unwrap();
    let request =
        |file: &Arc<dyn File>, len| ReadRequest { file: Arc::clone(file), offset: 50, len };
    queue.begin(1, request(&broken, 10)).unwrap();
    queue.begin(2, request(&sound, 60)).unwrap();
    queue.begin(3, request(&sound, 50)).unwrap();
    let mut ended = Vec::new();
    while ended.len() < 3 {
        ended.extend(wait(&*queue));
    }
    ended.sort_by_key(|(tag, _)| *tag);
    let is_there: Vec<_> = ended.iter().map(|(_, read)| read.is_some()).collect();
    assert_eq!(is_there, [false, false, true], "the caller reads the others itself");
    let elsewhere = crate::MemoryStorage::new();
    let other = elsewhere.create(Path::new("/b"), Access::Buffered).unwrap();
    assert!(queue.begin(4, request(&other, 10)).is_err());
    assert!(queue.begin(5, request(&sound, 0)).is_err());
    // Reads that have not begun are not reported, and ended ones need not be polled.
    queue.begin(6, request(&sound, 50)).unwrap();
    drop(queue);
}

#[test]
fn full_queue_accepts_more_after_a_read_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new();
    let path = directory.path().join("a");
    fs::write(&path, [7; 100]).unwrap();
    let Some(queue) = storage.read_queue() else { return };
    let file = storage.open_read(&path, Access::Buffered).unwrap();
    let request = || ReadRequest { file: Arc::clone(&file), offset: 0, len: 50 };
    let tags = 0..u64::from(QUEUE_READS_MAX);
    tags.clone().for_each(|tag| queue.begin(tag, request()).expect("there is room"));
    assert!(queue.begin(9_999, request()).is_err());
    let mut ended = 0;
    while ended < QUEUE_READS_MAX as usize {
        ended += wait(&*queue).len();
    }
    assert!(queue.begin(9_999, request()).is_ok());
    assert_eq!(wait(&*queue)[0].0, 9_999);
}

#[test]
fn a_file_system_in_memory_takes_direct_files_too() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return };
    let storage = LocalStorage::new();
    let file = storage.create(&directory.path().join("a"), Access::Direct).unwrap();
    file.write_at(0, &[1; 4096]).unwrap();
    file.sync().unwrap();
    assert_eq!(&*file.read_at(100, 10).unwrap(), [1; 10]);
}

#[test]
fn a_lock_ends_with_its_holder() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("LOCK");
    let lock = LocalStorage::new().lock(&path).unwrap();
    let other = LocalStorage::new();
    assert_eq!(other.lock(&path).unwrap_err().kind(), ErrorKind::Locked);
    drop(lock);
    assert!(other.lock(&path).is_ok());
}

#[test]
fn hole_reads_as_zeros_and_takes_no_space() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let file = LocalStorage::new().create(&path, Access::Direct).unwrap();
    file.write_at(0, &vec![7; 1 << 20]).unwrap();
    file.sync().unwrap();
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).unwrap());
    let before = blocks();
    match file.punch_hole(256 << 10, 512 << 10) {
        Ok(()) => assert!(blocks() * 10 <= before * 6, "{} of {before} blocks", blocks()),
        Err(error) => return assert_eq!(error.kind(), ErrorKind::Unsupported),
    }
    assert_eq!(file.len().unwrap(), 1 << 20);
    let read = file.read_at(0, 1 << 20).unwrap();
    let is_hole = |at: usize| (256 << 10..768 << 10).contains(&at);
    assert!(read.iter().enumerate().all(|(at, byte)| *byte == if is_hole(at) { 0 } else { 7 }));
    file.write_at(512 << 10, &[8; 4096]).unwrap();
    assert_eq!(*file.read_at(512 << 10, 4096).unwrap(), [8; 4096]);
}

/// Another user could make this process write, or trust, a file of its choice.
#[test]
fn a_private_file_is_neither_a_link_nor_writable_by_others() {
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::new();
    let refused = |path: &Path| {
        let error = storage.open_private(path).expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains("remove it"), "{error}");
    };
    let path = directory.path().join("state");
    storage.open_private(&path).unwrap().write_at(0, b"mine").unwrap();
    assert_eq!(&*storage.open_private(&path).unwrap().read_at(0, 4).unwrap(), b"mine");
    let mode = fs::metadata(&path).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    refused(&link);
    let dangling = directory.path().join("dangling");
    std::os::unix::fs::symlink(directory.path().join("target"), &dangling).unwrap();
    refused(&dangling);
    assert!(!directory.path().join("target").exists());
    let second = directory.path().join("second");
    fs::hard_link(&path, &second).unwrap();
    refused(&second);
    fs::remove_file(&second).unwrap();
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        refused(&path);
    }
}
