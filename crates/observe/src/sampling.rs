//! Takes samples once a second, while a server runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

/// The interval of samples.
const TICK: Duration = Duration::from_secs(1);

/// Takes a sample once a second, on an I/O thread, until `stopped` becomes true.
pub async fn every_second(
    sample: impl Fn() + Send + Sync + 'static,
    mut stopped: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
) {
    let sample = Arc::new(sample);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            _ = ticks.tick() => {}
        }
        let sample = Arc::clone(&sample);
        let sampled = tokio::task::spawn_blocking(move || sample()).await;
        // After a panic, which the panic hook reports, the next second tries again.
        if sampled.is_err_and(|error| error.is_cancelled()) {
            break;
        }
    }
    drop(alive);
}
