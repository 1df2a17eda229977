//! What reaches standard error, and that no caller notices when nothing can.

use std::io;
use std::sync::mpsc;

use super::*;

/// A log whose lines go to `sink`, as the subscriber of one thread.
fn with_log(sink: Sink, messages: impl FnOnce(&Log)) -> Log {
    let log = Log::new(sink);
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .log_internal_errors(false)
        .finish();
    tracing::subscriber::with_default(subscriber, || messages(&log));
    log
}

/// A sink that keeps what it is given.
fn kept() -> (Arc<Mutex<String>>, Sink) {
    let text = Arc::new(Mutex::new(String::new()));
    let inner = Arc::clone(&text);
    let sink = move |bytes: &[u8]| {
        inner.lock().push_str(std::str::from_utf8(bytes).expect("it is text"));
        Ok(bytes.len())
    };
    (text, Box::new(sink))
}

#[test]
fn lines_are_written_in_order_and_repeated_ones_are_counted() {
    let (text, sink) = kept();
    let log = with_log(sink, |_| {
        for n in 0..100 {
            tracing::warn!("a flush failed: {n}");
        }
        tracing::error!("the store is closed");
    });
    log.finish();
    let text = text.lock();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), repeats::BURST as usize + 2, "{lines:?}");
    assert!(lines[0].contains("a flush failed: 0"), "{lines:?}");
    assert!(lines[repeats::BURST as usize].contains("the store is closed"), "{lines:?}");
    let last = lines.last().expect("there is one");
    assert!(last.ends_with("a flush failed: 99 (90 more of these in 10 s)"), "{last}");
}

/// A full disk, or a pipe without a reader: the formatter of `tracing-subscriber` printed its own
/// error on standard error, which panicked in the thread that logged.
#[test]
fn lines_that_cannot_be_written_are_counted_and_said_later() {
    let (text, sink) = kept();
    let is_full = Arc::new(Mutex::new(true));
    let full = Arc::clone(&is_full);
    let failing = move |bytes: &[u8]| match *full.lock() {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => sink(bytes),
    };
    let log = with_log(Box::new(failing), |log| {
        tracing::error!("one");
        tracing::error!("two");
        log.finish();
        *is_full.lock() = false;
        tracing::error!("three");
    });
    log.finish();
    let text = text.lock();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "tidekv: 2 lines of the log were lost");
    assert!(lines[1].ends_with("three"), "{lines:?}");
}

#[test]
fn a_reader_that_reads_nothing_holds_up_no_caller_and_bounds_the_memory() {
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let stuck = move |bytes: &[u8]| {
        let _ = gate.lock().recv();
        Ok(bytes.len())
    };
    let line = "x".repeat(QUEUE_BYTES_MAX / 100);
    let log = with_log(Box::new(stuck), |log| {
        for _ in 0..300 {
            log.accept(None, line.as_bytes());
        }
    });
    let (bytes, lost) = {
        let queue = log.0.queue.lock();
        (queue.bytes, queue.lost)
    };
    assert!(bytes <= QUEUE_BYTES_MAX, "{bytes}");
    assert!(lost >= 199, "{lost}");
    log.finish();
    drop(release);
}

#[test]
fn a_write_that_is_cut_short_or_interrupted_goes_on() {
    let (text, sink) = kept();
    let turn = Mutex::new(0);
    let halting = move |bytes: &[u8]| {
        let mut turn = turn.lock();
        *turn += 1;
        match *turn % 3 {
            0 => Err(io::ErrorKind::Interrupted.into()),
            1 => Err(io::ErrorKind::WouldBlock.into()),
            _ => sink(&bytes[..1]),
        }
    };
    let log = with_log(Box::new(halting), |log| log.accept(None, b"word\n"));
    log.finish();
    assert_eq!(*text.lock(), "word\n");
}
