//! Files, clocks, randomness and threads: every access of TideKV to the outside world, as traits,
//! each with a real implementation and a simulated one.
//!
//! This crate knows nothing about tables or keys. Everything above it reaches the operating system
//! through it (`clippy.toml` bans the other ways), so the whole product runs unchanged on
//! [`memory::MemoryStorage`], where power can be cut after any operation.
//!
//! Modules are declared bottom-up; a module names only modules above it.

#[cfg(not(target_os = "linux"))]
compile_error!("TideKV runs on Linux only: it needs O_DIRECT, `fallocate` and `sync_file_range`");

pub mod error;
pub mod clock;
pub mod random;
mod boot;
mod handles;
mod memory_limit;
pub mod spread;
pub mod latency;
pub mod threads;
pub mod buffer;
pub mod storage;
pub mod append;
#[cfg(feature = "uring")]
mod uring;
#[cfg(not(feature = "uring"))]
#[path = "without_uring.rs"]
mod uring;
mod writeback;
pub mod local;
pub mod faults;
mod content;
mod inode;
mod namespace;
pub mod memory;
pub mod paced;

pub use append::AppendFile;
pub use boot::boot_id;
pub use buffer::Buffer;
pub use clock::{Clock, ManualClock, Moment, SystemClock};
pub use error::{Error, ErrorKind, Operation, Result};
pub use faults::{Fault, FaultRule, Tear};
pub use handles::open_files_limit;
pub use latency::{Histogram, Latency, LatencyCounts};
pub use local::LocalStorage;
pub use memory::{MemoryStorage, OperationRecord};
pub use memory_limit::available_memory_bytes;
pub use paced::{Array, PacedStorage, ServiceTime};
pub use random::{Random, SeededRandom, SystemRandom};
pub use spread::SpreadCounter;
pub use storage::{Access, DirectoryEntry, File, Lock, ReadQueue, ReadRequest, Storage};
pub use threads::{Executor, InlineExecutor, Job, Priority, ThreadPool};
