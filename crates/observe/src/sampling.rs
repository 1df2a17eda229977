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
        if tokio::task::spawn_blocking(move || sample()).await.is_err() {
            break;
        }
    }
    drop(alive);
}
