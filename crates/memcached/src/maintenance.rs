//! Runs the maintenance of a cache once a second, also without requests: scheduled flushes, and
//! retries of devices out of service.
//!
//! It runs on an I/O thread, because it may write to devices, and ends with the server.

use std::time::Duration;

use tidekv_tiered::Cache;
use tokio::sync::watch;

const PERIOD: Duration = Duration::from_secs(1);

/// Runs until `stopped` becomes true.
pub(crate) async fn run(cache: Cache, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        let cache = cache.clone();
        // A panic does not end the loop; the next second tries again.
        let _ = tokio::task::spawn_blocking(move || cache.run_maintenance()).await;
    }
}
