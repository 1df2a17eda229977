//! Looks after a cache once a second, so that what is due happens also while nobody asks for
//! anything: everything is forgotten in time, and devices that are out are tried again.
//!
//! Done on an I/O thread, for it may write to devices. Ends when the server does.

use std::time::Duration;

use tidekv_tiered::Cache;
use tokio::sync::watch;

const PERIOD: Duration = Duration::from_secs(1);

/// Goes on until `stopped` turns true.
pub(crate) async fn run(cache: Cache, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        let cache = cache.clone();
        // A panic in there ends nothing else; it is looked after again in a second.
        let _ = tokio::task::spawn_blocking(move || cache.look_after()).await;
    }
}
