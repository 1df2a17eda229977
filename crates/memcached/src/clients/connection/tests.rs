//! Connections over streams in memory: order, trips to I/O threads, panics.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{LocalStorage, ManualClock, Storage};
use tidekv_net::clients::Arrival;
use tidekv_observe::curves::Curves;
use tidekv_tiered::{Cache, Environment, FlashOptions, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::settings::options::CacheServerOptions;
use crate::state::counters::Counts;

/// Each kind of request, on existing and on absent keys.
const REQUESTS: &str = "set cold1 7 0 5\r\nhello\r\nadd cold1 0 0 1\r\nx\r\nadd cold2 0 0 2\r\n10\r\n\
    replace cold3 0 0 1\r\nx\r\nappend cold1 0 0 1\r\n!\r\nprepend cold1 0 0 1\r\n>\r\n\
    gets cold1 warm cold2 cold3\r\ncas cold1 0 0 1 1\r\nx\r\ncas cold1 0 0 1 6\r\ny\r\n\
    incr cold2 5\r\ndecr cold2 20\r\nincr cold3 1\r\ntouch cold2 100\r\ntouch cold3 100\r\n\
    gat 50 cold2 warm\r\nmg cold2 v t c k\r\nmg cold3 N30 v\r\nmg cold3 v\r\nms cold3 3 MA c\r\nabc\r\n\
    ma cold2 v D3\r\nma cold4 N0 J5 v\r\nmd cold2 I\r\nmg cold2 v\r\nme cold4\r\ndelete cold1\r\n\
    delete cold1 noreply\r\nmd cold1\r\nget cold1 cold2 cold3 cold4\r\nflush_all\r\nget cold2\r\n\
    stats sizes\r\ncache_memlimit 100\r\nmn\r\n";

fn state(cold: Option<fn(&[u8], bool) -> bool>) -> Arc<State> {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new());
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let cache = Cache::open(&Options::default(), &Environment::new(storage, clock)).unwrap();
    let mut state = State::new(cache, CacheServerOptions::default(), Vec::new(), 1, None);
    state.objects.cold.0 = cold;
    Arc::new(state)
}

/// A connection, and a handle that ends it when dropped.
fn connect(state: &Arc<State>) -> (DuplexStream, watch::Sender<bool>) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (stop, stopped) = watch::channel(false);
    let client = state.clients.admit(Arrival::default(), 100).unwrap();
    let connection = Connection::new(Arc::clone(state), Box::new(theirs), client);
    tokio::spawn(connection.serve(stopped));
    (ours, stop)
}

/// All replies to `requests`.
async fn ask(state: &Arc<State>, requests: &str) -> String {
    let (mut stream, _stop) = connect(state);
    stream.write_all(requests.as_bytes()).await.unwrap();
    stream.write_all(b"quit\r\n").await.unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).await.unwrap();
    String::from_utf8(replies).unwrap()
}

fn counts(state: &State) -> Counts {
    state.counters.all()
}

#[tokio::test]
async fn requests_that_miss_in_memory_are_answered() {
    let warm = state(None);
    let expected = ask(&warm, REQUESTS).await;
    assert!(expected.contains("VALUE cold1 7 7 6\r\n>hello!\r\n"), "{expected}");
    assert!(expected.ends_with("MN\r\n"), "{expected}");
    // Only long requests, and those received after them, have left the event loop.
    assert!(counts(&warm).get(Count::Offloaded) <= 6);
    let cold = state(Some(|key, _| key.starts_with(b"cold")));
    assert_eq!(ask(&cold, REQUESTS).await, expected);
    assert!(counts(&cold).get(Count::Offloaded) > 20);
}

#[tokio::test]
async fn many_keys_take_one_trip() {
    let state = state(Some(|key, _| key.starts_with(b"cold")));
    let mut requests = String::new();
    let mut expected = String::new();
    for i in 0..100 {
        let key = if i % 2 == 0 { format!("cold{i}") } else { format!("warm{i}") };
        requests += &format!("set {key} 0 0 1 noreply\r\nx\r\n");
        expected += &format!("VALUE {key} 0 1\r\nx\r\n");
    }
    ask(&state, &requests).await;
    assert_eq!(counts(&state).get(Count::Offloaded), 0);
    let keys: Vec<_> = expected.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let found = ask(&state, &format!("get {}\r\n", keys.join(" "))).await;
    assert_eq!(found, format!("{expected}END\r\n"));
    // The `quit` follows it.
    assert_eq!(counts(&state).get(Count::Offloaded), 2);
    // Separate requests received together share it, and are answered in order.
    let gets: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
    let found = ask(&state, &gets).await;
    let expected: String = keys.iter().map(|k| format!("VALUE {k} 0 1\r\nx\r\nEND\r\n")).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_panic_ends_its_connection_and_no_other() {
    let state = state(Some(|key, is_waiting| {
        assert!(key != b"here" && (key != b"there" || !is_waiting), "a panic on purpose");
        key == b"there"
    }));
    let (mut bystander, _stop) = connect(&state);
    for key in ["here", "there"] {
        let answered = ask(&state, &format!("version\r\nget {key}\r\nversion\r\n")).await;
        assert_eq!(answered, "VERSION 1.6.45\r\nSERVER_ERROR internal error\r\n", "{key}");
        bystander.write_all(b"get a\r\n").await.unwrap();
        let mut reply = [0; 5];
        bystander.read_exact(&mut reply).await.unwrap();
        assert_eq!(&reply, b"END\r\n");
    }
    assert_eq!(counts(&state).get(Count::Panics), 2);
    assert_eq!(state.clients.len(), 1);
}

#[tokio::test]
async fn a_long_reply_waits_for_its_client() {
    let state = state(None);
    let value = "x".repeat(100_000);
    ask(&state, &format!("set a 0 0 100000\r\n{value}\r\n")).await;
    let (ours, theirs) = tokio::io::duplex(1000);
    let client = state.clients.admit(Arrival::default(), 100).unwrap();
    let mut connection = Connection::new(Arc::clone(&state), Box::new(theirs), client);
    connection.buffer.extend_from_slice(format!("get{}\r\n", " a".repeat(1000)).as_bytes());
    // The client reads nothing: the connection is stuck, with a part of its reply.
    let work = timeout(std::time::Duration::from_millis(200), connection.work()).await;
    assert!(work.is_err());
    assert!(
        connection.replies.len() < REPLY_BYTES_MAX + 2 * 100_000,
        "{}",
        connection.replies.len()
    );
    drop(ours);
}

#[tokio::test]
async fn idle_connections_hold_no_buffers() {
    let state = state(None);
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let client = state.clients.admit(Arrival::default(), 100).unwrap();
    let mut connection = Connection::new(Arc::clone(&state), Box::new(theirs), client);
    let value = "x".repeat(100_000);
    ours.write_all(format!("set a 0 0 100000\r\n{value}\r\nget a\r\n").as_bytes()).await.unwrap();
    while !connection.replies.is_empty() || counts(&state).get(Count::Requests) < 2 {
        assert!(connection.read().await);
        connection.work().await.unwrap();
    }
    let reading = timeout(std::time::Duration::from_millis(50), connection.read()).await;
    assert!(reading.is_err(), "nothing comes any more");
    assert_eq!((connection.buffer.capacity(), connection.parser.value_bytes()), (0, 0));
    assert_eq!(state.budget.used_bytes(), 0);
}

/// A server of a cache with flash in `directory`, and the tasks that complete its reads.
fn state_with_flash(directory: &Path) -> Arc<State> {
    state_with_curves(directory, None)
}

/// The same, with curves that measure flash latency.
fn state_with_curves(directory: &Path, curves: Option<Arc<Curves>>) -> Arc<State> {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new());
    let flash = vec![FlashOptions { path: directory.join("flash"), bytes: 64 << 20 }];
    let options = Options {
        dram_bytes: 4 << 20,
        object_bytes_max: 256 << 10,
        segment_bytes: Some(64 << 10),
        flash,
        ..Options::default()
    };
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let cache = Cache::open(&options, &Environment::new(storage, clock)).unwrap();
    let state = Arc::new(State::new(cache, CacheServerOptions::default(), Vec::new(), 2, curves));
    for number in 0..state.reads.len() {
        let state = Arc::clone(&state);
        tokio::spawn(async move { state.reads.answer(number).await });
    }
    state
}

/// Most objects are on flash, some of them in parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_event_loop_answers_from_flash_after_an_asynchronous_read() {
    let directory = tempfile::tempdir().unwrap();
    let state = state_with_flash(directory.path());
    let value =
        |i: usize| format!("{i:05}").repeat(if i.is_multiple_of(40) { 20_000 } else { 1_000 });
    for i in 0..1_000 {
        let value = value(i);
        ask(&state, &format!("set key{i} 7 0 {} noreply\r\n{value}\r\n", value.len())).await;
        state.objects.cache.drain_writes();
    }
    let hit = |i: usize| format!("VALUE key{i} 7 {}\r\n{}\r\n", value(i).len(), value(i));
    let offloaded = counts(&state).get(Count::Offloaded);
    for i in (0..1_000).step_by(10) {
        let numbers = [i, (i + 500) % 1_000, i + 3];
        let [first, second, third] = numbers;
        let requests = format!(
            "get key{first} none{i} key{second}\r\nget key{second}\r\ngat 0 key{third}\r\n\
             append key{first} 0 0 1\r\n!\r\nget key{first}\r\n"
        );
        let longer = hit(first).replace(
            &format!(" 7 {}\r\n{}", value(first).len(), value(first)),
            &format!(" 7 {}\r\n{}!", value(first).len() + 1, value(first)),
        );
        let expected = [
            &hit(first),
            &hit(second),
            "END\r\n",
            &hit(second),
            "END\r\n",
            &hit(third),
            "END\r\n",
            "STORED\r\n",
            &longer,
            "END\r\n",
        ]
        .concat();
        let replies = ask(&state, &requests).await;
        assert!(replies == expected, "{i}: {} bytes for {}", replies.len(), expected.len());
        // Restored, for later requests of it.
        let value = value(first);
        let back = format!("set key{first} 7 0 {} noreply\r\n{value}\r\n", value.len());
        ask(&state, &back).await;
        state.objects.cache.drain_writes();
    }
    let hits = state.objects.cache.stats().flash_hits;
    assert!(hits > 200, "{hits} were on flash");
    if !state.reads.is_empty() {
        assert_eq!(counts(&state).get(Count::Offloaded), offloaded);
    }
}

/// Stores objects of 5000 bytes; returns the keys of those that only flash has.
async fn fill(state: &Arc<State>, objects: usize) -> Vec<String> {
    for i in 0..objects {
        let value = format!("{i:05}").repeat(1_000);
        ask(state, &format!("set key{i} 0 0 5000 noreply\r\n{value}\r\n")).await;
        state.objects.cache.drain_writes();
    }
    let keys = (0..objects).map(|i| format!("key{i}"));
    keys.filter(|key| state.objects.cache.needs_flash_read(key.as_bytes())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_long_flash_is_waited_for_is_told_by_who_waits_for_one_key() {
    let directory = tempfile::tempdir().unwrap();
    let curves = Arc::new(Curves::new(1, Duration::from_secs(60)));
    let state = state_with_curves(directory.path(), Some(Arc::clone(&curves)));
    if state.reads.is_empty() {
        return;
    }
    let keys = fill(&state, 1_000).await;
    assert_eq!(curves.waits().count, 0, "memory has answered");
    let [one, other, pair @ .., last] = &keys[..5] else { panic!("{} on flash", keys.len()) };
    let began_ns = state.monotonic_ns();
    ask(&state, &format!("get {one}\r\nget none\r\nget {one}\r\n")).await;
    ask(&state, &format!("mg {other} v\r\n")).await;
    let took_ns = state.monotonic_ns() - began_ns;
    let waits = curves.waits();
    assert_eq!(
        waits.count, 2,
        "what memory knows by then, or knows not to be there, waits for nothing"
    );
    assert!((2_000..took_ns).contains(&waits.sum_ns), "{waits:?} in {took_ns} ns");
    // Many keys are read together, so no single time can be measured.
    ask(&state, &format!("get {}\r\n", pair.join(" "))).await;
    assert_eq!(curves.waits().count, 2);
    ask(&state, &format!("delete {last}\r\n")).await;
    assert_eq!(curves.waits().count, 2, "only fetches are timed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flash_is_not_blamed_for_a_client_who_takes_no_reply() {
    let directory = tempfile::tempdir().unwrap();
    let curves = Arc::new(Curves::new(1, Duration::from_secs(60)));
    let state = state_with_curves(directory.path(), Some(Arc::clone(&curves)));
    if state.reads.is_empty() {
        return;
    }
    let keys = fill(&state, 1_000).await;
    let (ours, theirs) = tokio::io::duplex(1000);
    let client = state.clients.admit(Arrival::default(), 100).unwrap();
    let mut connection = Connection::new(Arc::clone(&state), Box::new(theirs), client);
    // Replies are nearly at the limit when flash is read.
    let warm = " key999".repeat(REPLY_BYTES_MAX / 5_040);
    connection.buffer.extend_from_slice(format!("get{warm}\r\nget {}\r\n", keys[0]).as_bytes());
    {
        let mut work = pin!(connection.work());
        for _ in 0..2_000 {
            assert!(timeout(Duration::from_millis(10), &mut work).await.is_err(), "it is stuck");
            if curves.waits().count > 0 {
                break;
            }
        }
    }
    assert_eq!(curves.waits().count, 1);
    assert!(connection.replies.len() >= REPLY_BYTES_MAX - 1000, "{}", connection.replies.len());
    drop(ours);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_later_requests_are_prefetched() {
    let directory = tempfile::tempdir().unwrap();
    let state = state_with_flash(directory.path());
    if state.reads.is_empty() {
        return;
    }
    let keys = fill(&state, 1_000).await;
    let (cache, reads) = (&state.objects.cache, &state.reads);
    let permits = || std::iter::from_fn(|| reads.try_permit()).collect::<Vec<_>>();
    let all = permits().len();
    let mut prefetched = PrefetchedReads::default();
    let mut ready = async |range: std::ops::Range<usize>, is_cleared: bool| {
        let keys = &keys[range];
        let mut behind = keys.iter().map(String::as_bytes);
        let first = behind.next().unwrap().into();
        // Some keys are repeated, and hits in memory need no read.
        let behind = behind.flat_map(|key| [b"none", key, key]);
        assert!(prefetched.read(cache, reads, first, behind).await);
        let held = all - permits().len();
        if is_cleared {
            prefetched.clear();
        }
        let read = keys.iter().filter(|key| prefetched.take(key.as_bytes()).is_some()).count();
        assert_eq!(permits().len(), all, "those that are taken or cleared need none any more");
        (held, read)
    };
    // Now their size is known.
    assert_eq!(ready(0..3, false).await, (3, 3));
    assert_eq!(ready(10..40, false).await, (16, 16));
    assert_eq!(ready(40..60, true).await, (16, 0));
    let mut held = permits();
    held.truncate(all - 2);
    let behind = keys[71..80].iter().map(String::as_bytes);
    assert!(prefetched.read(cache, reads, keys[70].as_bytes().into(), behind).await);
    let read: Vec<bool> =
        keys[70..80].iter().map(|key| prefetched.take(key.as_bytes()).is_some()).collect();
    assert_eq!(read.iter().filter(|read| **read).count(), 2, "{read:?}");
    assert!(read[0]);
    // Two connections hold prefetched reads, and no permit is left.
    let behind = keys[81..90].iter().map(String::as_bytes);
    assert!(prefetched.read(cache, reads, keys[80].as_bytes().into(), behind).await);
    assert!(permits().is_empty());
    let another = prefetched.read(cache, reads, keys[90].as_bytes().into(), std::iter::empty());
    let is_read = tokio::time::timeout(Duration::from_secs(20), another).await;
    assert_eq!(is_read, Ok(true), "who waits for a permit holds none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_run_in_their_order_whatever_was_read_along() {
    let directory = tempfile::tempdir().unwrap();
    let state = state_with_flash(directory.path());
    let keys = fill(&state, 1_000).await;
    let value = |key: &str| format!("{:05}", key[3..].parse::<u32>().unwrap()).repeat(1_000);
    let hit = |key: &str| format!("VALUE {key} 0 5000\r\n{}\r\n", value(key));
    for keys in keys.chunks_exact(40).take(10) {
        let changed = &keys[20];
        let requests = format!(
            "get {}\r\nmg {} v\r\nset {changed} 0 0 3\r\nnew\r\nget {changed} {}\r\n\
             delete {}\r\nget {changed} {}\r\n",
            keys[..20].join(" "),
            keys[30],
            keys[31],
            keys[32],
            keys[32],
        );
        let new = format!("VALUE {changed} 0 3\r\nnew\r\n");
        let expected = [
            &keys[..20].iter().map(|key| hit(key)).collect::<String>(),
            "END\r\n",
            &format!("VA 5000\r\n{}\r\nSTORED\r\n", value(&keys[30])),
            &new,
            &hit(&keys[31]),
            "END\r\nDELETED\r\n",
            &new,
            "END\r\n",
        ]
        .concat();
        let replies = ask(&state, &requests).await;
        assert!(replies == expected, "{} bytes for {}", replies.len(), expected.len());
    }
}

/// Many clients request the same keys while others change them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_changed_during_a_read_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let state = state_with_flash(directory.path());
    let set = |i: usize, n: usize| {
        format!("set key{i} 0 0 8000 noreply\r\n{}\r\n", format!("{n:08}").repeat(1_000))
    };
    for i in 0..1_000 {
        ask(&state, &set(i, 0)).await;
        state.objects.cache.drain_writes();
    }
    let mut tasks = Vec::new();
    for task in 0..8_usize {
        let state = Arc::clone(&state);
        tasks.push(tokio::spawn(async move {
            let mut found = 0;
            for turn in 1..200 {
                let i = turn * 7 % 40;
                let set = if turn % 8 == task { set(i, turn) } else { String::new() };
                let reply = ask(&state, &format!("{set}get key{i} key{}\r\n", turn + 500)).await;
                let ends = reply.ends_with("END\r\n");
                assert!(ends, "{}", &reply[reply.len().saturating_sub(100)..]);
                for value in reply.lines().filter(|line| line.len() == 8_000) {
                    assert_eq!(value.replace(&value[..8], ""), "", "a value is one of those set");
                    found += 1;
                }
            }
            found
        }));
    }
    for task in tasks {
        assert!(task.await.unwrap() > 300);
    }
}

#[tokio::test]
async fn a_connection_uses_little_memory() {
    let state = state(None);
    let (_ours, theirs) = tokio::io::duplex(10);
    let client = state.clients.admit(Arrival::default(), 100).unwrap();
    let (_stop, stopped) = watch::channel(false);
    let connection = Connection::new(state, Box::new(theirs), client);
    // The memory of a task for its whole life, idle or not.
    let bytes = size_of_val(&connection.serve(stopped));
    assert!(bytes <= 2048, "{bytes}");
}
