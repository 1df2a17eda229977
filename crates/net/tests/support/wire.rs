//! Connections of test clients, and timeouts. Tests of servers include this file.

use std::io::{Read, Write};
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};

/// The timeout of tests.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let pause = Duration::from_millis(20);
    for _ in 0..PATIENCE.as_millis() / pause.as_millis() {
        if condition() {
            return;
        }
        SystemClock::new().sleep(pause);
    }
    panic!("never: {what}");
}

/// A bidirectional connection.
pub trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}
