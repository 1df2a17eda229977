//! Asynchronous flash reads: event loops submit them, and a completed read wakes its task.
//!
//! Guarantees:
//! 1. If the storage has read queues, neither an event loop nor a thread blocks on a read.
//! 2. A thread does the reads that a queue rejects or does not complete.
//! 3. [`Reads::permit`] bounds the number of objects read concurrently: neither their memory nor
//!    the time that a device takes for one grows with the number of clients.
//!
//! There is one queue per event loop, used round-robin: submitting a read holds the lock of a queue
//! for the time of the system call. All methods may be called from any thread.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidekv_io::{Buffer, ReadQueue, ReadRequest, Result};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Maximum number of concurrent objects: enough to keep any device busy.
const PERMITS_MAX: u64 = 128;
/// Bound on the bytes of concurrent objects: if objects may be large, fewer are read concurrently.
const PERMITTED_BYTES: u64 = 32 << 20;
const PERMITS_MIN: u64 = 16;

/// Receives the result of a queue; `None` if the queue could not read.
type Answer = oneshot::Sender<Option<Buffer>>;

/// All queues.
#[derive(Debug)]
pub struct Reads {
    queues: Box<[Queue]>,
    turn: AtomicUsize,
    permits: Arc<Semaphore>,
}

#[derive(Debug)]
struct Queue {
    reads: Box<dyn ReadQueue>,
    waiting: Mutex<HashMap<u64, Answer>>,
    /// Its completions are no longer handled.
    is_dead: AtomicBool,
    tags: AtomicU64,
}

impl Reads {
    /// Uses the read queues of the storage, if it has any, for objects of up to `object_bytes_max`.
    pub fn new(queues: impl Iterator<Item = Box<dyn ReadQueue>>, object_bytes_max: u64) -> Self {
        let queue = |reads| Queue {
            reads,
            waiting: Mutex::default(),
            is_dead: AtomicBool::new(false),
            tags: AtomicU64::new(0),
        };
        let permits = PERMITTED_BYTES / object_bytes_max.max(1);
        let permits = permits.clamp(PERMITS_MIN, PERMITS_MAX) as usize;
        let permits = Arc::new(Semaphore::new(permits));
        Self { queues: queues.map(queue).collect(), turn: AtomicUsize::new(0), permits }
    }

    /// Waits for the permit to read one more object; hold it during the read.
    pub async fn permit(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.permits).acquire_owned().await {
            Ok(permit) => permit,
            Err(_) => unreachable!("nobody closes it"),
        }
    }

    /// Returns a permit if one is available.
    pub fn try_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Whether there are any queues.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Number of queues.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Reads from storage.
    ///
    /// # Errors
    ///
    /// The error of the storage.
    pub async fn read(&self, request: ReadRequest) -> Result<Buffer> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if let Some(queue) = self.queues.get(turn % self.queues.len().max(1))
            && let Some(ended) = queue.begin(request.clone())
            && let Ok(Some(read)) = ended.await
        {
            return Ok(read);
        }
        let read = move || request.file.read_at(request.offset, request.len);
        match tokio::task::spawn_blocking(read).await {
            Ok(read) => read,
            // The runtime shuts down before the read has started, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Handles the completions of a queue and wakes the waiting tasks, until the runtime ends.
    pub async fn answer(&self, number: usize) -> io::Result<()> {
        let queue = &self.queues[number];
        let _end = End(queue);
        // An eventfd, read like a pipe.
        let event = queue.reads.event().try_clone_to_owned()?;
        let event = Receiver::from_owned_fd_unchecked(event)?;
        loop {
            event.readable().await?;
            match event.try_read(&mut [0; 8]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                read => read?,
            };
            for (tag, read) in queue.reads.ended() {
                if let Some(answer) = queue.waiting.lock().remove(&tag) {
                    // The waiting task may have been cancelled.
                    let _ = answer.send(read);
                }
            }
        }
    }
}

impl Queue {
    /// Submits a read; `None` if the queue cannot take it now.
    fn begin(&self, request: ReadRequest) -> Option<oneshot::Receiver<Option<Buffer>>> {
        let tag = self.tags.fetch_add(1, Ordering::Relaxed);
        let (answer, ended) = oneshot::channel();
        // Before it can complete.
        {
            let mut waiting = self.waiting.lock();
            if self.is_dead.load(Ordering::Acquire) {
                return None;
            }
            waiting.insert(tag, answer);
        }
        if self.reads.begin(tag, request).is_err() {
            self.waiting.lock().remove(&tag);
            return None;
        }
        Some(ended)
    }
}

/// Marks a queue as dead when dropped: tasks that wait for its reads, now or later, fall back to a
/// thread.
struct End<'q>(&'q Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        self.0.is_dead.store(true, Ordering::Release);
        waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidekv_io::{Access, File, LocalStorage, MemoryStorage, Storage};

    use super::*;

    fn reads(storage: &dyn Storage, queues: usize) -> Arc<Reads> {
        Arc::new(Reads::new((0..queues).filter_map(|_| storage.read_queue()), 1 << 20))
    }

    async fn read_all(reads: &Arc<Reads>, file: &Arc<dyn File>) {
        let mut tasks = Vec::new();
        for number in 0..reads.len() {
            let reads = Arc::clone(reads);
            tokio::spawn(async move { reads.answer(number).await });
        }
        for n in 0..1_000_u64 {
            let (reads, file) = (Arc::clone(reads), Arc::clone(file));
            tasks.push(tokio::spawn(async move {
                let read = reads.read(ReadRequest { file, offset: n * 4, len: 4 }).await;
                assert_eq!(&*read.expect("it is there"), (n as u32).to_le_bytes());
            }));
        }
        for task in tasks {
            task.await.expect("no read went wrong");
        }
        let (file, offset) = (Arc::clone(file), 1 << 30);
        let beyond = reads.read(ReadRequest { file, offset, len: 4 }).await;
        assert!(beyond.is_err());
        assert!(reads.queues.iter().all(|queue| queue.waiting.lock().is_empty()));
    }

    fn numbers() -> Vec<u8> {
        (0..1_000_u32).flat_map(u32::to_le_bytes).collect()
    }

    #[tokio::test]
    async fn a_waiting_task_receives_the_bytes_of_its_read() {
        let directory = tempfile::tempdir().expect("there is room");
        let (storage, path) = (LocalStorage::new(), directory.path().join("file"));
        let file = storage.create(&path, Access::Buffered).expect("there is room");
        file.write_at(0, &numbers()).expect("there is room");
        let reads = reads(&storage, 2);
        assert_eq!(reads.is_empty(), !storage.uses_uring());
        read_all(&reads, &file).await;
    }

    #[tokio::test]
    async fn threads_read_when_completions_are_no_longer_handled() {
        let directory = tempfile::tempdir().expect("there is room");
        let (storage, path) = (LocalStorage::new(), directory.path().join("file"));
        let file = storage.create(&path, Access::Buffered).expect("there is room");
        file.write_at(0, &numbers()).expect("there is room");
        let reads = reads(&storage, 1);
        let request = || ReadRequest { file: Arc::clone(&file), offset: 40, len: 4 };
        let waiting = tokio::spawn({
            let (reads, request) = (Arc::clone(&reads), request());
            async move { reads.read(request).await }
        });
        tokio::task::yield_now().await;
        let answering = tokio::spawn({
            let reads = Arc::clone(&reads);
            async move { if reads.is_empty() { Ok(()) } else { reads.answer(0).await } }
        });
        answering.abort();
        let _ = answering.await;
        // A read submitted before is completed, or repeated by a thread.
        reads.queues.iter().for_each(|queue| drop(End(queue)));
        for read in [waiting.await.expect("it ends"), reads.read(request()).await] {
            assert_eq!(&*read.expect("it is there"), 10_u32.to_le_bytes());
        }
    }

    #[tokio::test]
    async fn the_size_of_objects_bounds_concurrent_reads() {
        for (object_bytes_max, permits) in [(4 << 10, 128), (1 << 20, 32), (1 << 30, 16)] {
            let reads = Reads::new(std::iter::empty(), object_bytes_max);
            assert_eq!(reads.permits.available_permits(), permits);
            let held = reads.permit().await;
            assert_eq!(reads.permits.available_permits(), permits - 1);
            drop(held);
            assert_eq!(reads.permits.available_permits(), permits);
        }
    }

    #[tokio::test]
    async fn threads_read_where_there_are_no_queues() {
        let storage = MemoryStorage::new();
        storage.write_file("/file", &numbers());
        let file = storage.open(Path::new("/file"), Access::Buffered).expect("it is there");
        let reads = reads(&storage, 2);
        assert!(reads.is_empty());
        read_all(&reads, &file).await;
    }
}
