//! Clients that read slowly.

use tokio::io::AsyncReadExt;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);
const SENT: usize = 1 << 20;

/// How sending ends, and the seconds until then, for a client that reads `bytes` every `every`.
async fn send_to(bytes: usize, every: Duration, is_needed: bool) -> (io::Result<()>, u64) {
    let (mut server, mut client) = tokio::io::duplex(16);
    let reader = tokio::spawn(async move {
        let mut buffer = vec![0; bytes];
        loop {
            tokio::time::sleep(every).await;
            if client.read_exact(&mut buffer).await.is_err() {
                return;
            }
        }
    });
    let mut outgoing = Outgoing::default();
    outgoing.put(&vec![b'x'; SENT]);
    let began = Instant::now();
    let result = send_unless(&mut server, &mut outgoing, PATIENCE, || is_needed, |_| {}).await;
    reader.abort();
    (result, began.elapsed().as_secs())
}

/// Runs `test` with a clock that passes only while it waits.
fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test);
}

#[test]
fn a_client_that_reads_too_slowly_gives_way_if_memory_is_needed() {
    run(async {
        for bytes in [1, 100, 4 << 10] {
            let (result, seconds) = send_to(bytes, Duration::from_secs(2), true).await;
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
            assert_eq!(seconds, PACE_TIME.as_secs(), "{bytes}");
        }
        let (result, _) = send_to(PACE_BYTES, Duration::from_secs(2), true).await;
        result.unwrap();
    });
}

#[test]
fn a_client_that_reads_slowly_is_served_otherwise() {
    run(async {
        let (result, seconds) = send_to(4 << 10, Duration::from_secs(2), false).await;
        result.unwrap();
        assert!(seconds > 500, "{seconds}");
        let (result, seconds) = send_to(1, 2 * PATIENCE, false).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(seconds, PATIENCE.as_secs());
    });
}
