//! Batches of reads with one system call, and asynchronous reads, through io_uring.
//!
//! Guarantees:
//! 1. The kernel writes only to memory that lives until the kernel is done with it: a buffer is
//!    owned by the table of its round, or of its queue, until its completion has arrived. When a
//!    ring fails, or the stack unwinds, the remaining buffers in the table are leaked and the ring
//!    is not used again.
//! 2. A round ends when all its reads have completed or the ring has failed; a completion is never
//!    attributed to another round.
//! 3. A read of a queue ends once: completed, or when the ring has failed.
//!
//! There are no retries: the caller finishes short, interrupted or missing reads with `pread`. A
//! ring belongs to one thread at a time. The contract tests of [`crate::LocalStorage`] cover it.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use io_uring::{IoUring, Probe, opcode, types};
use rustix::event::EventfdFlags;

use crate::buffer::AlignedVec;

/// Most reads per round. A device serves a few dozen at a time; a larger ring would only cost
/// memory.
pub(crate) const ROUND_READS_MAX: usize = 64;

/// The longest single read; longer ones gain nothing from a ring.
pub(crate) const READ_BYTES_MAX: usize = 1 << 30;

/// Most retries of a round without progress.
const STALLS_MAX: u32 = 1000;

/// One read of the whole buffer, from `offset` on.
pub(crate) struct RingRead<'a> {
    pub(crate) file: BorrowedFd<'a>,
    pub(crate) offset: u64,
    pub(crate) buffer: AlignedVec,
}

/// A read that completed.
pub(crate) struct RingDone {
    pub(crate) buffer: AlignedVec,
    /// The number of bytes read, or none if the read failed.
    pub(crate) filled: usize,
}

/// A submission and a completion queue shared with the kernel.
pub(crate) struct Ring {
    ring: IoUring,
    failed: bool,
}

impl Ring {
    /// A ring, if the kernel provides one that supports reads.
    pub(crate) fn new() -> io::Result<Self> {
        let entries = u32::try_from(ROUND_READS_MAX).expect("a small constant");
        let ring = IoUring::builder().dontfork().build(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self { ring, failed: false })
    }

    /// Whether a round has failed; drop the ring then.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Executes the reads, at most [`ROUND_READS_MAX`], and waits for them. `None` is a read that
    /// did not complete because the ring failed.
    pub(crate) fn round(&mut self, reads: Vec<RingRead<'_>>) -> Vec<Option<RingDone>> {
        assert!(reads.len() <= ROUND_READS_MAX && !self.failed, "a round fits a working ring");
        // Set first and reset at the end, so that it stays set on unwinding.
        self.failed = true;
        let mut table = InFlight::new(reads.len());
        for (tag, read) in (0..).zip(reads) {
            let RingRead { file, offset, mut buffer } = read;
            let len = buffer.len();
            assert!(len <= READ_BYTES_MAX, "the caller reads {len} bytes without a ring");
            let entry = opcode::Read::new(
                types::Fd(file.as_raw_fd()),
                buffer.as_mut_ptr(),
                u32::try_from(len).expect("at most READ_BYTES_MAX"),
            );
            table.slots.push(Slot { buffer, filled: None });
            let entry = entry.offset(offset).build().user_data(tag);
            // SAFETY: the buffer is in the table, which frees it only after its completion; its
            // memory does not move with it. The file is open at least until the entry is submitted,
            // after which the kernel holds it: the borrow outlives this function, and unsubmitted
            // entries of a failed ring are never submitted.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            assert!(pushed.is_ok(), "a round fits the ring");
        }
        if self.complete(&mut table) {
            self.failed = false;
        }
        table.finish()
    }

    /// Submits and waits until the table is complete; false if the ring has failed.
    fn complete(&mut self, table: &mut InFlight) -> bool {
        let mut stalls = 0;
        while table.left > 0 {
            match self.ring.submit_and_wait(table.left) {
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::EBUSY) if stalls < STALLS_MAX => {
                        stalls += 1;
                        std::thread::yield_now();
                    }
                    _ => return false,
                },
            }
            for completion in self.ring.completion() {
                let slot = usize::try_from(completion.user_data())
                    .ok()
                    .and_then(|tag| table.slots.get_mut(tag))
                    .filter(|slot| slot.filled.is_none());
                let slot = slot.expect("a completion answers a read of its round");
                slot.filled = Some(usize::try_from(completion.result()).unwrap_or(0));
                table.left -= 1;
                stalls = 0;
            }
        }
        true
    }
}

/// Reads that end in any order. Reads still running at the drop are leaked.
pub(crate) struct RingQueue<T> {
    ring: IoUring,
    /// Signalled by the kernel whenever a read has completed.
    event: OwnedFd,
    flying: Vec<Option<(T, InFlight)>>,
    free: Vec<usize>,
    failed: bool,
}

impl<T: AsFd> RingQueue<T> {
    /// A queue of up to `reads_max` concurrent reads, if the kernel provides a ring.
    pub(crate) fn new(reads_max: u32) -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(reads_max)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = rustix::event::eventfd(0, flags)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let flying = (0..reads_max).map(|_| None).collect();
        let free = (0..reads_max as usize).rev().collect();
        Ok(Self { ring, event, flying, free, failed: false })
    }

    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Begins a read of the file that `what` keeps open; both are returned at its end, or at once
    /// if there is no room.
    pub(crate) fn begin(
        &mut self,
        what: T,
        offset: u64,
        mut buffer: AlignedVec,
    ) -> Result<(), (T, AlignedVec)> {
        let len = u32::try_from(buffer.len()).ok();
        let (Some(len), false, Some(&place)) = (len, self.failed, self.free.last()) else {
            return Err((what, buffer));
        };
        let file = types::Fd(what.as_fd().as_raw_fd());
        let entry = opcode::Read::new(file, buffer.as_mut_ptr(), len);
        let entry = entry.offset(offset).build().user_data(place as u64);
        let mut table = InFlight::new(1);
        table.slots.push(Slot { buffer, filled: None });
        self.free.pop();
        self.flying[place] = Some((what, table));
        // SAFETY: the buffer is in the table, which frees it only after its completion, and so is
        // the owner of the open file; neither moves. The queue has as many slots as the ring has
        // entries, and a pushed entry is submitted before the next one is.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "a queue fits its ring");
        self.submit();
        Ok(())
    }

    /// Submits pushed entries to the kernel.
    fn submit(&mut self) {
        for _ in 0..STALLS_MAX {
            match self.ring.submit() {
                Ok(_) if self.ring.submission().is_empty() => return,
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => std::thread::yield_now(),
                    _ => break,
                },
            }
        }
        self.failed = true;
        // No completion may arrive to report it.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// The reads that have ended; `None` is one that did not complete because the ring failed.
    pub(crate) fn ended(&mut self) -> Vec<(T, Option<RingDone>)> {
        let mut ended = Vec::new();
        for completion in self.ring.completion() {
            let place = usize::try_from(completion.user_data()).expect("a place in the table");
            // Ignores one that was given up when the ring failed.
            let Some((what, mut table)) = self.flying[place].take() else { continue };
            self.free.push(place);
            table.slots[0].filled = Some(usize::try_from(completion.result()).unwrap_or(0));
            ended.extend(table.finish().pop().map(|done| (what, done)));
        }
        if self.failed {
            let left = self.flying.iter_mut().filter_map(Option::take);
            ended.extend(left.map(|(what, table)| (what, table.finish().pop().flatten())));
        }
        ended
    }
}

/// A buffer that the kernel may write to until `filled` is known.
struct Slot {
    buffer: AlignedVec,
    filled: Option<usize>,
}

/// Owns the buffers of a round. Dropped before the round is complete, it leaks those that the
/// kernel may still write to.
struct InFlight {
    slots: Vec<Slot>,
    left: usize,
}

impl InFlight {
    fn new(reads: usize) -> Self {
        Self { slots: Vec::with_capacity(reads), left: reads }
    }

    fn finish(mut self) -> Vec<Option<RingDone>> {
        std::mem::take(&mut self.slots).into_iter().map(Slot::finish).collect()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        std::mem::take(&mut self.slots).into_iter().for_each(|slot| drop(slot.finish()));
    }
}

impl Slot {
    fn finish(self) -> Option<RingDone> {
        let buffer = ManuallyDrop::new(self.buffer);
        let filled = self.filled?;
        Some(RingDone { buffer: ManuallyDrop::into_inner(buffer), filled })
    }
}
