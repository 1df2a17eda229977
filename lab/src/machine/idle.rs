//! Keeps processors out of idle states, as far as this process has permission.
//!
//! On a virtual machine each wake-up of a processor goes through the host, whose other guests may
//! delay it. Clients with sequential requests and pauses then measure the host: over a socket p99
//! was 580 µs, and 84 µs with this.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "asks the kernel, not for data of a store"
)]

use std::fs::File;
use std::io::{Result, Write};

/// The maximum allowed exit latency, in microseconds: a native `i32`.
const EXIT_LATENCY_US: i32 = 0;

/// Keeps processors out of idle states with a slow exit, until dropped: a PM QoS request
/// (`/dev/cpu_dma_latency`, which usually needs root; `cyclictest` does the same).
#[derive(Debug)]
pub(crate) struct Awake(Option<File>);

impl Awake {
    pub(crate) fn hold() -> Self {
        Self(request().ok())
    }

    /// Whether the kernel has granted it.
    pub(crate) fn is_granted(&self) -> bool {
        self.0.is_some()
    }
}

/// It holds until the file is closed.
fn request() -> Result<File> {
    let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&EXIT_LATENCY_US.to_ne_bytes())?;
    Ok(file)
}
