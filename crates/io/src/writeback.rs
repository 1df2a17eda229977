//! Makes the kernel begin to write a part of a file to its disk.
//!
//! One system call with numbers and a borrowed descriptor is all the `unsafe` code. A system
//! without the call does nothing.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Begins to write the dirty pages in `bytes` bytes from `offset` on, without waiting. An error
/// means that pages were lost.
pub(crate) fn start(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) {
        // SAFETY: the call takes no memory, and the descriptor is open as long
        // as the borrow lives.
        let answer = unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE)
        };
        let error = io::Error::last_os_error();
        let is_unknown = matches!(
            error.raw_os_error(),
            Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE | libc::EPERM)
        );
        if answer != 0 && !is_unknown {
            return Err(error);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, bytes);
    Ok(())
}
