//! Asks the kernel to begin writing a part of a file to its disk.
//!
//! Guarantee: nothing but speed depends on it. One system call with numbers and
//! a borrowed descriptor: that is all the `unsafe` there is.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Begins to write what is dirty in `bytes` bytes from `offset` on, without
/// waiting for it; what the kernel answers is of no interest.
pub(crate) fn start(file: BorrowedFd<'_>, offset: u64, bytes: u64) {
    #[cfg(target_os = "linux")]
    if let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) {
        // SAFETY: the call takes no memory, and the descriptor is open as long
        // as the borrow lives.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, bytes);
}
