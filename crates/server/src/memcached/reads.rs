//! Reads of flash that the event loops begin, and that wake who waits for them when they end.
//!
//! Guarantees:
//! 1. No event loop waits for a read, and no thread does, where the storage has queues of reads.
//! 2. What a queue does not take, a thread reads.
//!
//! There are as many queues as event loops, taken in turn: whoever begins a read holds a queue's
//! lock for as long as the kernel takes to pass it on. May be used from any thread.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidekv_io::{Buffer, ReadQueue, ReadRequest, Result};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;

type Answer = oneshot::Sender<Result<Buffer>>;

/// All queues.
#[derive(Debug)]
pub(crate) struct Reads {
    queues: Box<[Queue]>,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Queue {
    reads: Box<dyn ReadQueue>,
    waiting: Mutex<HashMap<u64, Answer>>,
    tags: AtomicU64,
}

impl Reads {
    /// Queues of the storage, if it has any.
    pub(crate) fn new(queues: impl Iterator<Item = Box<dyn ReadQueue>>) -> Self {
        let queue = |reads| Queue { reads, waiting: Mutex::default(), tags: AtomicU64::new(0) };
        Self { queues: queues.map(queue).collect(), turn: AtomicUsize::new(0) }
    }

    /// Whether there are any queues.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// How many queues there are.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Reads.
    ///
    /// # Errors
    ///
    /// What the storage says.
    pub(crate) async fn read(&self, request: ReadRequest) -> Result<Buffer> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let request = match self.queues.get(turn % self.queues.len().max(1)) {
            Some(queue) => match queue.begin(request) {
                Ok(ended) => match ended.await {
                    Ok(read) => return read,
                    // The runtime ends, and this task with it.
                    Err(_) => return std::future::pending().await,
                },
                Err(request) => request,
            },
            None => request,
        };
        let read = move || request.file.read_at(request.offset, request.len);
        match tokio::task::spawn_blocking(read).await {
            Ok(read) => read,
            Err(_) => std::future::pending().await,
        }
    }

    /// Wakes those who wait for reads of that queue, for as long as the runtime is there.
    pub(crate) async fn answer(&self, number: usize) -> io::Result<()> {
        let queue = &self.queues[number];
        // Not a pipe, but read like one.
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
                    // Whoever asked may be gone.
                    let _ = answer.send(read);
                }
            }
        }
    }
}

impl Queue {
    /// Begins a read, unless it is none for this queue now.
    fn begin(
        &self,
        request: ReadRequest,
    ) -> std::result::Result<oneshot::Receiver<Result<Buffer>>, ReadRequest> {
        let tag = self.tags.fetch_add(1, Ordering::Relaxed);
        let (answer, ended) = oneshot::channel();
        // Before it can end.
        self.waiting.lock().insert(tag, answer);
        match self.reads.begin(tag, request) {
            Ok(()) => Ok(ended),
            Err(request) => {
                self.waiting.lock().remove(&tag);
                Err(request)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use tidekv_io::{Access, File, LocalStorage, MemoryStorage, Storage};

    use super::*;

    fn reads(storage: &dyn Storage, queues: usize) -> Arc<Reads> {
        Arc::new(Reads::new((0..queues).filter_map(|_| storage.read_queue())))
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
    async fn who_waits_for_a_read_is_told_what_it_read() {
        let directory = tempfile::tempdir().expect("there is room");
        let (storage, path) = (LocalStorage::new(), directory.path().join("file"));
        let file = storage.create(&path, Access::Buffered).expect("there is room");
        file.write_at(0, &numbers()).expect("there is room");
        let reads = reads(&storage, 2);
        assert_eq!(reads.is_empty(), !storage.uses_uring());
        read_all(&reads, &file).await;
    }

    #[tokio::test]
    async fn where_there_are_no_queues_threads_read() {
        let storage = MemoryStorage::new();
        storage.write_file("/file", &numbers());
        let file = storage.open(Path::new("/file"), Access::Buffered).expect("it is there");
        let reads = reads(&storage, 2);
        assert!(reads.is_empty());
        read_all(&reads, &file).await;
    }
}
