//! The place of `uring.rs` in a build without the feature `uring`: no ring can be made, so
//! storage reads with `pread`, one thread for each read.

use std::io;
use std::os::fd::BorrowedFd;

use crate::buffer::AlignedVec;

/// As in a build with the feature.
pub(crate) const ROUND_READS_MAX: usize = 64;

/// As in a build with the feature.
pub(crate) const READ_BYTES_MAX: usize = 1 << 30;

/// One read: the whole buffer, from `offset` on.
#[allow(dead_code, reason = "no ring takes it")]
pub(crate) struct RingRead<'a> {
    pub(crate) file: BorrowedFd<'a>,
    pub(crate) offset: u64,
    pub(crate) buffer: AlignedVec,
}

/// A read that completed.
pub(crate) struct RingDone {
    pub(crate) buffer: AlignedVec,
    /// How many bytes came, or none if the read failed.
    pub(crate) filled: usize,
}

/// A value that does not exist.
enum Never {}

/// A ring: there is none.
pub(crate) struct Ring(Never);

impl Ring {
    /// Fails.
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn has_failed(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn round(&mut self, _: Vec<RingRead<'_>>) -> Vec<Option<RingDone>> {
        match self.0 {}
    }
}

/// A queue of reads: there is none.
pub(crate) struct RingQueue<T>(Never, std::marker::PhantomData<T>);

impl<T> RingQueue<T> {
    /// Fails.
    pub(crate) fn new(_: u32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }

    pub(crate) fn begin(&mut self, _: T, _: u64, _: AlignedVec) -> Result<(), (T, AlignedVec)> {
        match self.0 {}
    }

    pub(crate) fn ended(&mut self) -> Vec<(T, Option<RingDone>)> {
        match self.0 {}
    }
}
