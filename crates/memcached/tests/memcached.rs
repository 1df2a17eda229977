//! The memcached protocol over sockets: partial requests, floods, idle connections, authentication,
//! and shutdown.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::tls::certificate;
use support::wire::eventually;
use support::{
    CacheClient, PATIENCE, ask_page, open, open_with, options, set, socket, start, start_with,
};
use tidekv_io::{Clock, ManualClock, SystemClock};
use tidekv_memcached::{Address, CacheServer, CacheServerOptions, ErrorKind, OffsetClock, Users};
use tidekv_tiered::{FlashOptions, Options};

fn sleep(duration: Duration) {
    SystemClock::new().sleep(duration);
}

#[test]
fn replies_to_a_pipeline_come_in_order() {
    let server = start();
    let mut requests = String::from("set count 0 0 1\r\n0\r\n");
    let mut expected = String::from("STORED\r\n");
    for i in 0..5000 {
        requests +=
            &format!("{}get key{i}\r\nincr count 1\r\nmn\r\n", set(&format!("key{i}"), "v"));
        expected += &format!("STORED\r\nVALUE key{i} 0 1\r\nv\r\nEND\r\n{}\r\nMN\r\n", i + 1);
        if i % 100 == 0 {
            // The second request leaves the event loop.
            requests += "stats nothing\r\ncache_memlimit 64\r\nset quiet 0 0 1 noreply\r\nq\r\n";
            expected += "ERROR\r\nOK\r\n";
        }
    }
    let mut writer = socket(&server);
    let mut reader = CacheClient::over(Box::new(writer.try_clone().unwrap()));
    requests += "quit\r\n";
    let sender =
        tidekv_io::threads::spawn("sender", move || writer.write_all(requests.as_bytes()).unwrap());
    assert!(reader.rest() == expected, "replies are those of the requests, in their order");
    sender.unwrap().join().unwrap();
}

#[test]
fn requests_may_come_byte_by_byte() {
    let server = start();
    let mut client = CacheClient::connect(&server);
    for byte in "set key 0 0 5\r\nvalue\r\nget key\r\nms m 2 c\r\nxy\r\nmn\r\n".bytes() {
        client.send([byte]);
        sleep(Duration::from_micros(300));
    }
    let answer = client.read_until("MN\r\n");
    assert_eq!(answer, "STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\nHD c2\r\nMN\r\n");
}

#[test]
fn large_values_go_both_ways() {
    let cache_options =
        Options { dram_bytes: 256 << 20, object_bytes_max: 20 << 20, ..Options::default() };
    let cache = open_with(&cache_options, Arc::new(SystemClock::new()));
    let server = CacheServer::start(cache, options()).unwrap();
    let mut client = CacheClient::connect(&server);
    for len in [0, 1, 65_535, 65_536, 65_537, 100_000, 1 << 20, 9_999_999, 20 << 20] {
        let value: String = (0..len).map(|i| char::from(b'a' + (i % 23) as u8)).collect();
        assert_eq!(client.ask(set("big", &value)), "STORED\r\n");
        let found = client.ask("get big\r\n");
        assert!(found == format!("VALUE big 0 {len}\r\n{value}\r\nEND\r\n"), "{len}");
    }
    let value = "x".repeat((20 << 20) + 1);
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(client.ask(set("big", &value)), too_large);
    assert_eq!(client.ask("get big\r\n"), "END\r\n");
    assert_eq!(server.buffered_bytes(), 0);
}

#[test]
fn garbage_ends_at_most_its_own_connection() {
    let server = start();
    let mut bystander = CacheClient::connect(&server);
    assert_eq!(bystander.ask(set("a", "1")), "STORED\r\n");
    let bytes = |len: usize| -> Vec<u8> { (0..len).map(|i| (i * 7 % 251) as u8).collect() };
    for garbage in [
        bytes(10),
        bytes(100_000),
        vec![0; 5000],
        vec![b'x'; 100_000],
        vec![b' '; 5_000_000],
        [b"get ".to_vec(), vec![b'k'; 3_000_000]].concat(),
        b"\x80\x00\x00\x01".to_vec(),
        b"set a 0 0 99999999999999999999\r\n".to_vec(),
        b"set \x00\x00 0 0 0\r\n\r\n".to_vec(),
        b"\xff\xfe\xfd\r\n\r\n\r\n".to_vec(),
        b"incr a 99999999999999999999999\r\n".to_vec(),
        b"mg a \x7f\r\nms a 5 \xff\r\n".to_vec(),
    ] {
        let mut stream = socket(&server);
        // The server may close before everything is sent.
        let _ = stream.write_all(&garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(bystander.ask("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    }
    let mut browser = CacheClient::connect(&server);
    browser.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nset a 0 0 1\r\n2\r\n");
    assert_eq!(browser.rest(), "");
    assert_eq!(bystander.ask("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn objects_evicted_from_memory_are_found_on_flash() {
    let flash = vec![FlashOptions { path: "/flash".into(), bytes: 128 << 20 }];
    let cache_options = Options { dram_bytes: 16 << 20, flash, ..Options::default() };
    let cache = open_with(&cache_options, Arc::new(SystemClock::new()));
    let http = Some("127.0.0.1:0".parse().unwrap());
    let server =
        CacheServer::start(cache.clone(), CacheServerOptions { http, ..options() }).unwrap();
    let mut client = CacheClient::connect(&server);
    let value = |i: usize| format!("{i:06}").repeat(2000);
    for i in 0..3000 {
        assert_eq!(client.ask(set(&format!("key{i}"), &value(i))), "STORED\r\n");
        // The thread that writes to flash may not have run yet.
        cache.drain_writes();
    }
    let mut found = 0;
    for batch in (0..3000).collect::<Vec<usize>>().chunks(100) {
        let keys: Vec<String> = batch.iter().map(|i| format!("key{i}")).collect();
        let answer = client.ask(format!("get {}\r\n", keys.join(" ")));
        let mut lines = answer.lines();
        while let Some(key) = lines.next().and_then(|line| line.strip_prefix("VALUE key")) {
            let number: usize = key.split(' ').next().unwrap().parse().unwrap();
            assert!(lines.next() == Some(&value(number)), "another key's value");
            found += 1;
        }
    }
    // A cache may lose objects, but not most of them while there is room.
    assert!(found > 2000, "{found}");
    let figure = |stats: &str, name: &str| -> u64 {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap().parse().unwrap()
    };
    let stats = client.ask("stats\r\n");
    assert!(figure(&stats, "tidekv_flash_hits") > 1000, "{stats}");
    assert!(figure(&stats, "tidekv_flash_objects") > 1000, "{stats}");
    // All other requests find them there as well.
    assert_eq!(client.ask("set n 0 0 1\r\n5\r\n"), "STORED\r\n");
    for i in 3000..4500 {
        client.ask(set(&format!("key{i}"), &value(i)));
        // Without a free buffer, an object is not written.
        cache.drain_writes();
    }
    assert_eq!(
        client.ask("incr n 1\r\nappend n 0 0 1\r\n0\r\nmg n v\r\n"),
        "6\r\nSTORED\r\nVA 2\r\n60\r\n"
    );
    assert_eq!(client.ask("flush_all\r\nget n key1 key2999\r\n"), "OK\r\nEND\r\n");
    let metrics = ask_page(&server, "/metrics", "");
    assert!(metrics.contains("tidekv_cache_device_state{device=\"/flash\"} 0\n"), "{metrics}");
    assert!(ask_page(&server, "/api/stats", "").contains("\"path\":\"/flash\""));
}

#[test]
fn a_half_sent_value_changes_nothing() {
    let server = start();
    let mut client = CacheClient::connect(&server);
    client.ask(set("a", "old"));
    let mut half = socket(&server);
    half.write_all(b"set a 0 0 100000\r\nonly this").unwrap();
    drop(half);
    eventually("it has gone", || server.connections() == 1);
    assert_eq!(client.ask("get a\r\n"), "VALUE a 0 3\r\nold\r\nEND\r\n");
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let cache_options =
        Options { dram_bytes: 512 << 20, object_bytes_max: 128 << 20, ..Options::default() };
    let cache = open_with(&cache_options, Arc::new(SystemClock::new()));
    let server = CacheServer::start(cache, options()).unwrap();
    let mut claimants: Vec<_> = (0..20).map(|_| CacheClient::connect(&server)).collect();
    for client in &mut claimants {
        client.ask("version\r\n");
        client.send("set a 0 0 130000000\r\nonly this");
    }
    // They are being served: later connections are.
    CacheClient::connect(&server).ask("version\r\n");
    assert!(server.buffered_bytes() < 20 * (1 << 20));
}

#[test]
fn values_in_flight_share_a_bound() {
    let cache_options =
        Options { dram_bytes: 64 << 20, object_bytes_max: 4 << 20, ..Options::default() };
    let cache = open_with(&cache_options, Arc::new(SystemClock::new()));
    let server =
        CacheServer::start(cache, CacheServerOptions { buffered_bytes_max: 5 << 20, ..options() })
            .unwrap();
    let mut client = CacheClient::connect(&server);
    assert_eq!(client.ask(set("b", "old")), "STORED\r\n");
    let half = |stream: &mut TcpStream, key: &str| {
        stream.write_all(format!("set {key} 0 0 4000000\r\n").as_bytes()).unwrap();
        stream.write_all(&vec![b'x'; 3_500_000]).unwrap();
    };
    let mut first = socket(&server);
    half(&mut first, "a");
    eventually("the first half is held", || server.buffered_bytes() >= 3_500_000 - (64 << 10));
    // There is no room for another value: it is rejected, and its connection continues.
    let mut second = socket(&server);
    half(&mut second, "b");
    second.write_all(&vec![b'x'; 500_000]).unwrap();
    let mut second = CacheClient::over(Box::new(second));
    let refused = second.ask("\r\nget b\r\n");
    assert_eq!(refused, "SERVER_ERROR out of memory storing object\r\nEND\r\n");
    first.write_all(&[&vec![b'x'; 500_000][..], b"\r\n"].concat()).unwrap();
    assert_eq!(CacheClient::over(Box::new(first)).ask("mg a s\r\n"), "STORED\r\nHD s4000000\r\n");
    eventually("all is let go", || server.buffered_bytes() == 0);
}

#[test]
fn a_client_that_reads_no_replies_is_closed() {
    let patience = Duration::from_millis(300);
    let server = start_with(CacheServerOptions { write_timeout: patience, ..options() });
    let mut bystander = CacheClient::connect(&server);
    bystander.ask(set("big", &"x".repeat(1_000_000)));
    let mut deaf = socket(&server);
    deaf.write_all(&b"get big big big\r\n".repeat(2000)).unwrap();
    // It is being served; before that, it might not be connected.
    deaf.read_exact(&mut [0]).unwrap();
    eventually("the deaf client is closed", || server.connections() == 1);
    assert_eq!(bystander.ask("get a\r\n"), "END\r\n");
}

#[test]
fn a_client_may_send_all_before_it_reads() {
    let server = start();
    let value = "x".repeat(100_000);
    CacheClient::connect(&server).ask(set("big", &value));
    let mut writer = socket(&server);
    let mut reader = CacheClient::over(Box::new(writer.try_clone().unwrap()));
    let sender = tidekv_io::threads::spawn("sender", move || {
        writer.write_all(&b"get big big\r\n".repeat(500)).unwrap();
        writer.write_all(b"quit\r\n").unwrap();
    });
    let one = format!("VALUE big 0 100000\r\n{value}\r\n");
    assert!(reader.rest() == format!("{one}{one}END\r\n").repeat(500));
    sender.unwrap().join().unwrap();
}

#[test]
fn a_thousand_idle_clients_do_not_matter() {
    let server = start();
    let mut idle: Vec<_> = (0..1000).map(|_| CacheClient::connect(&server)).collect();
    eventually("all are connected", || server.connections() == 1000);
    for client in &mut idle {
        assert_eq!(client.ask("version\r\n"), "VERSION 1.6.45\r\n");
    }
    assert_eq!(server.buffered_bytes(), 0);
}

#[test]
fn connections_over_the_limit_get_an_error() {
    let server = start_with(CacheServerOptions { connections_max: 2, ..options() });
    let mut first = CacheClient::connect(&server);
    let second = CacheClient::connect(&server);
    eventually("two are connected", || server.connections() == 2);
    let mut third = CacheClient::connect(&server);
    assert_eq!(third.rest(), "ERROR Too many open connections\r\n");
    drop(second);
    eventually("one is left", || server.connections() == 1);
    assert_eq!(CacheClient::connect(&server).ask("get a\r\n"), "END\r\n");
    assert!(first.ask("stats\r\n").contains("STAT rejected_connections 1\r\n"));
}

#[test]
fn unknown_clients_must_authenticate() {
    let users = Some(Users::parse("me:secret\nyou:other").unwrap());
    let server = start_with(CacheServerOptions { users, ..options() });
    let unauthenticated = "CLIENT_ERROR unauthenticated\r\n";
    let mut client = CacheClient::connect(&server);
    for request in ["version\r\n", "get a\r\n", "\r\n", "set a 0 0\r\n", "flush_all\r\n"] {
        client.send(request);
        assert_eq!(client.read_until("\r\n"), unauthenticated, "{request}");
    }
    for (words, answer) in [
        ("me other", "CLIENT_ERROR authentication failure\r\n"),
        ("me", "CLIENT_ERROR bad authentication token format\r\n"),
        ("", "CLIENT_ERROR bad authentication token format\r\n"),
    ] {
        client.send(set("any", words));
        assert_eq!(client.read_until("\r\n"), answer);
    }
    // Later requests received together have the limits of an authenticated client.
    assert_eq!(
        client.ask(format!("{}{}get a\r\n", set("any", "you other"), set("a", "1"))),
        "STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n"
    );
    let stats = client.ask("stats\r\n");
    assert!(stats.contains("STAT auth_cmds 2\r\nSTAT auth_errors 1\r\n"), "{stats}");
    let mut flood = CacheClient::connect(&server);
    flood.send(vec![b'x'; 3000]);
    assert_eq!(flood.rest(), "CLIENT_ERROR line too long\r\n");
    let mut endless = CacheClient::connect(&server);
    endless.send("set any 0 0 1000000000\r\n");
    assert_eq!(endless.read_until("\r\n"), "CLIENT_ERROR auth token too long\r\n");
    endless.send(set("any", "me secret"));
    assert_eq!(endless.read_until("\r\n"), "STORED\r\n");
}

#[test]
fn public_addresses_need_users() {
    let public = || vec!["0.0.0.0:0".parse().unwrap()];
    let refused = CacheServer::start(open(), CacheServerOptions { listen: public(), ..options() })
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    start_with(CacheServerOptions { listen: public(), insecure: true, ..options() });
    let users = Some(Users::parse("me:secret").unwrap());
    start_with(CacheServerOptions { listen: public(), users, ..options() });
    let taken = start();
    let listen = taken.local_addresses().to_vec();
    let error = CacheServer::start(open(), CacheServerOptions { listen, ..options() });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn unix_sockets_serve_and_clean_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.sock");
    let listen = vec![Address::Unix(path.clone())];
    let server = start_with(CacheServerOptions { listen, ..options() });
    let connect = || CacheClient::over(Box::new(UnixStream::connect(&path).unwrap()));
    assert_eq!(connect().ask(set("a", "1")), "STORED\r\n");
    let mut client = connect();
    assert_eq!(client.ask("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    let shown = format!("addr unix:{}\r\n", path.display());
    assert!(client.ask("stats conns\r\n").contains(&shown));
    assert!(
        client.ask("stats settings\r\n").contains(&format!("domain_socket {}", path.display()))
    );
    drop(client);
    assert!(server.shutdown(PATIENCE));
    assert!(UnixStream::connect(&path).is_err());
}

#[test]
fn connections_show_what_they_do() {
    let server = start();
    let (mut idle, mut half) = (CacheClient::connect(&server), CacheClient::connect(&server));
    assert_eq!(idle.ask("get a\r\n"), "END\r\n");
    half.send("set a 0 0 5\r\nab");
    let mut client = CacheClient::connect(&server);
    eventually("each shows its state", || {
        let lines = client.ask("stats conns\r\n");
        let states = lines.lines().filter_map(|line| line.split_once(":state "));
        let states: Vec<_> = states.map(|(_, state)| state).collect();
        states == ["conn_read", "conn_nread", "conn_parse_cmd"]
    });
}

/// Commands of all three protocols count; a user must have allowed listings.
#[test]
fn requests_are_counted_by_prefix_of_their_keys() {
    let prefix_delimiter = Some(b'/');
    let server = start_with(CacheServerOptions { prefix_delimiter, ..options() });
    let mut client = CacheClient::connect(&server);
    for request in ["set a/1 0 0 1\r\n1\r\n", "mn\r\nms a/2 1\r\n2\r\n"] {
        client.ask(request);
    }
    client.ask("get a/1 a/3 b/1 c\r\n");
    client.ask("mg a/1\r\n");
    client.ask("mg a/4\r\n");
    client.ask("delete a/1\r\n");
    client.ask("md a/2\r\n");
    assert_eq!(
        client.ask("stats detail dump\r\n"),
        "PREFIX a get 4 hit 2 set 2 del 2\r\nPREFIX b get 1 hit 0 set 0 del 0\r\nEND\r\n"
    );
    let settings = client.ask("stats settings\r\n");
    assert!(settings.contains("STAT stat_key_prefix /\r\nSTAT detail_enabled yes\r\n"));
    let server = start_with(CacheServerOptions { allows_dumps: false, ..options() });
    let mut client = CacheClient::connect(&server);
    client.send("stats detail dump\r\n");
    assert_eq!(client.read_until("\r\n"), "CLIENT_ERROR stats detail not allowed\r\n");
}

#[test]
fn idle_connections_are_closed_by_the_timeout() {
    let idle_timeout = Some(Duration::from_millis(1000));
    let server = start_with(CacheServerOptions { idle_timeout, ..options() });
    let mut busy = CacheClient::connect(&server);
    let mut silent = CacheClient::connect(&server);
    let mut half = CacheClient::connect(&server);
    half.send("set a 0 0 5\r\nab");
    // Far more often than necessary, because a loaded machine may be late.
    for _ in 0..24 {
        assert_eq!(busy.ask("get a\r\n"), "END\r\n");
        sleep(Duration::from_millis(50));
    }
    assert_eq!(silent.rest(), "");
    assert_eq!(half.rest(), "");
    assert!(busy.ask("stats\r\n").contains("STAT idle_kicks 2\r\n"));
}

#[test]
fn shutdown_finishes_received_requests() {
    let cache = open();
    let server = CacheServer::start(cache.clone(), options()).unwrap();
    let mut idle = CacheClient::connect(&server);
    assert_eq!(idle.ask("version\r\n"), "VERSION 1.6.45\r\n");
    let mut busy: Vec<_> = (0..8).map(|_| CacheClient::connect(&server)).collect();
    for (number, client) in busy.iter_mut().enumerate() {
        client.ask(set(&format!("key{number}"), "0"));
        client.send(format!("incr key{number} 1\r\n").repeat(500));
    }
    assert!(server.shutdown(PATIENCE));
    assert_eq!(idle.rest(), "");
    for (number, client) in busy.iter_mut().enumerate() {
        let answered = client.rest().lines().last().map_or(0, |line| line.parse().unwrap());
        let stored = cache.get(format!("key{number}").as_bytes()).unwrap();
        let stored: i64 = std::str::from_utf8(&stored.object.value).unwrap().parse().unwrap();
        assert_eq!(stored, answered, "what is answered is there, what is not is not");
    }
}

#[test]
fn clients_may_move_the_clock_only_if_allowed() {
    assert_eq!(CacheClient::connect(&start()).ask("debugtime 5\r\n"), "ERROR\r\n");
    let clock = Arc::new(OffsetClock::new(Arc::new(ManualClock::new(1_700_000_000_000))));
    let cache = open_with(&Options::default(), clock.clone());
    let server =
        CacheServer::start(cache, CacheServerOptions { clock: Some(clock), ..options() }).unwrap();
    let mut client = CacheClient::connect(&server);
    client.ask("set a 0 100 1\r\n1\r\nset b 0 8640001 1\r\n1\r\nset c 0 1708640000 1\r\n1\r\n");
    assert_eq!(client.ask("mg a t\r\nmg b t\r\nmg c t\r\n"), "HD t100\r\nEN\r\nHD t8640000\r\n");
    assert_eq!(client.ask("debugtime 99\r\nget a\r\n"), "OK\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    assert_eq!(client.ask("debugtime 1\r\nget a\r\n"), "OK\r\nEND\r\n");
    assert_eq!(client.ask("debugtime p\r\ndebugtime r\r\ndebugtime\r\n"), "OK\r\nOK\r\nERROR\r\n");
    // A hundred days later.
    assert_eq!(client.ask("debugtime 8639899\r\nmg c t\r\n"), "OK\r\nHD t1\r\n");
    assert_eq!(client.ask("debugtime 1\r\nmg c t\r\n"), "OK\r\nEN\r\n");
}

#[test]
fn flags_of_later_versions_are_supported() {
    let server = start();
    let mut client = CacheClient::connect(&server);
    let asked = client.ask(
        "ms a 5 E77 F3 c\r\nhello\r\nmg a v f c\r\nmd a x k\r\nmg a v f c\r\nmd a x I E99 T30\r\n\
         mg a v c t\r\nmg b N0 E5 c\r\nma n N0 E1234 c\r\nma n E7 c\r\ncas b 0 0 1 5\r\nx\r\n",
    );
    assert_eq!(
        asked,
        "HD c77\r\nVA 5 f3 c77\r\nhello\r\nHD ka\r\nVA 0 f0 c77\r\n\r\nHD\r\n\
         VA 0 c99 t30 X W\r\n\r\nHD c5 W\r\nHD c1234\r\nHD c7\r\nSTORED\r\n"
    );
}

static SHUTDOWNS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn clients_may_stop_the_server_only_if_allowed() {
    let refused = "SERVER_ERROR: shutdown not enabled\r\n";
    assert_eq!(CacheClient::connect(&start()).ask("shutdown\r\n"), refused);
    let on_shutdown: Option<fn()> = Some(|| {
        SHUTDOWNS.fetch_add(1, Ordering::Relaxed);
    });
    let server = start_with(CacheServerOptions { on_shutdown, ..options() });
    let mut client = CacheClient::connect(&server);
    assert_eq!(client.ask("shutdown now\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n");
    assert_eq!(SHUTDOWNS.load(Ordering::Relaxed), 0);
    client.send("shutdown graceful\r\n");
    assert_eq!(client.rest(), "");
    assert_eq!(SHUTDOWNS.load(Ordering::Relaxed), 1);
}

#[test]
fn keys_can_be_listed() {
    let server = start();
    let mut client = CacheClient::connect(&server);
    let keys: Vec<String> = (0..3000).map(|i| format!("key{i}")).collect();
    client.ask(keys.iter().map(|key| set(key, "v")).collect::<String>());
    client.ask("set spa%ce 0 100 1\r\nx\r\nms AP8= 1 b\r\nx\r\nget key7\r\n");
    let dump = client.ask("lru_crawler metadump all\r\n");
    let (lines, end) = dump.rsplit_once('\n').unwrap().0.rsplit_once('\n').unwrap();
    assert_eq!(end, "END\r");
    let mut found: Vec<&str> = lines
        .lines()
        .map(|line| line.split(' ').next().unwrap().split_once('=').unwrap().1)
        .collect();
    found.sort_unstable();
    let mut expected: Vec<&str> = keys.iter().map(String::as_str).collect();
    expected.extend(["spa%25ce", "%00%FF"]);
    expected.sort_unstable();
    assert_eq!(found, expected);
    let of_seven = lines.lines().find(|line| line.starts_with("key=key7 ")).unwrap();
    assert!(of_seven.starts_with("key=key7 exp=-1 la=1"), "{of_seven}");
    assert!(of_seven.ends_with(" cas=8 fetch=yes cls=1 size=5"), "{of_seven}");
    // The other listing consists of requests.
    let requests = client.ask("lru_crawler mgdump all\r\n");
    let requests = requests.strip_suffix("EN\r\n").unwrap();
    assert_eq!(requests.lines().count(), 3002);
    assert!(requests.contains("mg AP8= b\r\n"), "{requests}");
    assert_eq!(client.ask(requests), "HD\r\n".repeat(3002));
    assert_eq!(client.ask("lru_crawler metadump 2\r\n"), "END\r\n");
    let some = client.ask("stats cachedump 1 5\r\n");
    assert_eq!(some.lines().count(), 6, "{some}");
    assert!(some.starts_with("ITEM ") && some.contains(" b; "), "{some}");
}

#[test]
fn statistics_count_the_requests() {
    let server = start();
    let mut client = CacheClient::connect(&server);
    let requests = "set a 0 0 2\r\n10\r\nget a b\r\nincr a 1\r\nincr b 1\r\ndecr a 1\r\ndecr b 1\r\n\
         touch a 0\r\ntouch b 0\r\ncas a 0 0 1 1\r\n1\r\ncas b 0 0 1 1\r\n1\r\ngat 0 a b\r\n\
         delete b\r\nmg a v\r\nmd b\r\nme a\r\n";
    client.ask(format!("{requests}{}", set("a", &"x".repeat(2_000_000))));
    let figure = |stats: &str, name: &str| -> u64 {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {stats}")).parse().unwrap()
    };
    let stats = client.ask("stats\r\n");
    for (name, number) in [
        ("cmd_get", 3),
        ("get_hits", 2),
        ("get_misses", 1),
        ("cmd_set", 3),
        ("incr_hits", 1),
        ("incr_misses", 1),
        ("decr_hits", 1),
        ("decr_misses", 1),
        ("cmd_touch", 4),
        ("touch_hits", 2),
        ("touch_misses", 2),
        ("cas_badval", 1),
        ("cas_misses", 1),
        ("delete_misses", 2),
        ("cmd_meta", 1),
        ("store_too_large", 1),
        ("curr_items", 0),
        ("limit_maxbytes", 64 << 20),
        ("curr_connections", 1),
        ("total_connections", 1),
    ] {
        assert_eq!(figure(&stats, name), number, "{name}");
    }
    assert_eq!(client.ask("stats reset\r\n"), "RESET\r\n");
    let stats = client.ask("get a\r\nstats\r\n");
    assert_eq!((figure(&stats, "cmd_get"), figure(&stats, "cmd_set")), (1, 0));
    assert_eq!(client.ask("stats items\r\n"), "END\r\n");
    client.ask(set("a", &"x".repeat(99)));
    assert_eq!(client.ask("stats sizes\r\n"), "STAT 128 1\r\nEND\r\n");
    assert!(client.ask("stats items\r\n").starts_with("STAT items:1:number 1\r\n"));
    let slabs = client.ask("stats slabs\r\n");
    assert!(slabs.contains("STAT 1:cmd_set 1\r\n") && slabs.contains("STAT active_slabs 1\r\n"));
    let settings = client.ask("verbosity 3\r\nstats settings\r\n");
    assert!(settings.contains("STAT verbosity 3\r\n"), "{settings}");
    assert!(settings.contains("STAT item_size_max 1048576\r\n"), "{settings}");
}

#[test]
fn tls_clients_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let (files, config) = certificate(directory.path());
    let server = start_with(CacheServerOptions { tls: Some(files), ..options() });
    let name = "localhost".try_into().unwrap();
    let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = rustls::StreamOwned::new(session, socket(&server));
    let mut client = CacheClient::over(Box::new(stream));
    let value = "v".repeat(1_000_000);
    assert_eq!(client.ask(set("a", &value)), "STORED\r\n");
    assert!(client.ask("get a\r\n") == format!("VALUE a 0 1000000\r\n{value}\r\nEND\r\n"));
    assert!(client.ask("stats settings\r\n").contains("STAT ssl_enabled yes\r\n"));
    // Plain text ends in an alert, not in commands.
    let mut plain = socket(&server);
    plain.write_all(b"set a 0 0 1\r\n1\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"STORED"));
    assert_eq!(client.ask("mg a s\r\n"), "HD s1000000\r\n");
}

#[test]
fn certificates_are_read_again_without_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (files, old) = certificate(directory.path());
    let server = start_with(CacheServerOptions { tls: Some(files), ..options() });
    let connect = |config: &rustls::ClientConfig| {
        let name = "localhost".try_into().unwrap();
        let session = rustls::ClientConnection::new(Arc::new(config.clone()), name).unwrap();
        rustls::StreamOwned::new(session, socket(&server))
    };
    let mut client = CacheClient::over(Box::new(connect(&old)));
    assert_eq!(client.ask(set("a", "1")), "STORED\r\n");
    let (_, new) = certificate(directory.path());
    assert_eq!(client.ask("refresh_certs\r\n"), "OK\r\n");
    assert_eq!(client.ask("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n", "it stays open");
    let mut renewed = CacheClient::over(Box::new(connect(&new)));
    assert_eq!(renewed.ask("get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    connect(&old).write_all(b"get a\r\n").unwrap_err();
    // If the files cannot be used, the certificate stays.
    support::tls::write(&directory.path().join("cert.pem"), "damaged");
    let refusal = client.ask("refresh_certs\r\n");
    assert_eq!(refusal, "Error certificates cannot be read\r\n");
    server.reload_certificates().unwrap_err();
    let mut renewed = CacheClient::over(Box::new(connect(&new)));
    assert_eq!(renewed.ask("mn\r\n"), "MN\r\n");
}

#[test]
fn requests_are_counted_over_http() {
    let http = Some("127.0.0.1:0".parse().unwrap());
    let server = start_with(CacheServerOptions { http, ..options() });
    let mut client = CacheClient::connect(&server);
    client.ask(format!("{}get a b\r\n", set("a", "1")));
    let metrics = ask_page(&server, "/metrics", "");
    for line in [
        "tidekv_cache_gets_total{outcome=\"hit\"} 1",
        "tidekv_cache_gets_total{outcome=\"miss\"} 1",
        "tidekv_cache_sets_total 1",
        "tidekv_cache_connected_clients 1",
        "tidekv_cache_dram_objects 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    let stats = ask_page(&server, "/api/stats", "");
    let (_, body) = stats.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["numbers"]["server.get_hits"], 1);
    assert!(ask_page(&server, "/", "").contains("\"/cache.js\""));
    assert!(ask_page(&server, "/cache.js", "").contains("/live.js"));
    assert!(ask_page(&server, "/page.js", "").starts_with("HTTP/1.1 404"));
    assert!(ask_page(&server, "/api/stats?since=x", "").starts_with("HTTP/1.1 400"));
    let elsewhere = ask_page(&server, "http://attacker.example/metrics", "");
    assert!(elsewhere.starts_with("HTTP/1.1 421"), "{elsewhere}");
}

#[test]
fn metrics_need_authentication() {
    let http = Some("127.0.0.1:0".parse().unwrap());
    let users = Some(Users::parse("me:secret").unwrap());
    let server = start_with(CacheServerOptions { http, users, ..options() });
    // me:secret, you:secret
    for (credentials, status) in [("bWU6c2VjcmV0", 200), ("eW91OnNlY3JldA==", 401)] {
        let header = format!("Authorization: Basic {credentials}\r\n");
        let answer = ask_page(&server, "/metrics", &header);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    assert!(ask_page(&server, "/api/stats", "").starts_with("HTTP/1.1 401"));
}

#[test]
fn scheduled_work_runs_without_requests() {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let cache = open_with(&Options::default(), Arc::clone(&clock) as Arc<dyn Clock>);
    let server = CacheServer::start(cache.clone(), options()).unwrap();
    let mut client = CacheClient::connect(&server);
    assert_eq!(client.ask("set key 0 0 1\r\nv\r\nflush_all 100\r\n"), "STORED\r\nOK\r\n");
    assert_eq!(cache.stats().dram_objects, 1);
    clock.advance(Duration::from_secs(101));
    eventually("everything is forgotten", || cache.stats().dram_objects == 0);
}
