//! The page, `/metrics`, `/api/stats` and `/healthz` over real sockets: responses, access control,
//! resource limits, and shutdown.

mod support;

use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use support::{Client, PATIENCE, options, start_with};
use tidekv_io::{
    Clock, ErrorKind as StorageError, Fault, FaultRule, MemoryStorage, Operation, SystemClock,
};
use tidekv_resp::{ErrorKind, Server, ServerOptions, TlsFiles};

/// An answer, in parts.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_ascii_lowercase(), body: body.into() }
    }

    #[track_caller]
    fn has(&self, header: &str) {
        assert!(self.head.contains(header), "{header:?} is not in {}", self.head);
    }
}

fn with_page(options: ServerOptions) -> Server {
    start_with(ServerOptions { http: Some("127.0.0.1:0".parse().unwrap()), ..options })
}

fn connect(server: &Server) -> TcpStream {
    let url = server.page_url().unwrap();
    let address = url.split("//").nth(1).unwrap().trim_end_matches('/');
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All bytes until the server closes the connection.
fn rest_of(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // The server closed the connection while the client was sending.
        Err(error) => assert_eq!(error.kind(), IoErrorKind::ConnectionReset),
    }
    String::from_utf8(bytes).unwrap()
}

fn ask_with(server: &Server, method: &str, path: &str, headers: &str) -> Answer {
    let mut stream = connect(server);
    let head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    Answer::parse(&rest_of(stream))
}

fn get(server: &Server, path: &str) -> Answer {
    ask_with(server, "GET", path, "Host: localhost\r\n")
}

fn sleep(ms: u64) {
    SystemClock::new().sleep(Duration::from_millis(ms));
}

#[test]
fn every_path_is_answered() {
    let server = with_page(options());
    for (path, content_type, text) in [
        ("/", "text/html", "<h1"),
        ("/style.css", "text/css", "prefers-color-scheme"),
        ("/page.js", "text/javascript", "/live.js"),
        ("/figures.js", "text/javascript", "svg"),
        ("/live.js", "text/javascript", "/api/stats"),
        ("/words.js", "text/javascript", "MiB"),
        ("/icon.svg", "image/svg+xml", "<svg"),
        ("/healthz", "text/plain", "ok"),
        ("/metrics", "text/plain; version=0.0.4", "# TYPE tidekv_commands_total counter"),
        ("/api/stats", "application/json", "\"policy\":\"adaptive\""),
    ] {
        let answer = get(&server, path);
        assert_eq!(answer.status, 200, "{path}");
        answer.has(content_type);
        answer.has("content-security-policy: default-src 'none'");
        answer.has("x-content-type-options: nosniff");
        assert!(answer.body.contains(text), "{path}: {}", answer.body);
        let head = ask_with(&server, "HEAD", path, "Host: localhost\r\n");
        assert_eq!((head.status, &*head.body), (200, ""), "{path}");
        head.has(content_type);
    }
    assert_eq!(get(&server, "/index.html").status, 404);
    assert_eq!(get(&server, "/../etc/passwd").status, 404);
    assert_eq!(get(&server, "/api/stats?since=x").status, 400);
}

#[test]
fn commands_are_counted() {
    let server = with_page(options());
    let mut client = Client::connect(&server);
    client.ask_all(&["SET a 1", "GET a", "GET b"]);
    let metrics = get(&server, "/metrics").body;
    let has = |line: &str| assert!(metrics.lines().any(|l| l == line), "{line}\n{metrics}");
    has("tidekv_commands_total 3");
    has("tidekv_keyspace_hits_total 1");
    has("tidekv_connected_clients 1");
    // Commands received together are measured together.
    has("tidekv_command_duration_seconds_count{kind=\"write\"} 3");
    // Samples are taken once a second.
    let stats =
        || -> serde_json::Value { serde_json::from_str(&get(&server, "/api/stats").body).unwrap() };
    let mut found = stats();
    for _ in 0..PATIENCE.as_millis() / 100 {
        if found["now"]["counters"]["server.commands"] == 3 {
            break;
        }
        sleep(100);
        found = stats();
    }
    let fine = &found["history"]["fine"];
    let rates = fine["values"]["operations"].as_array().unwrap();
    let times = fine["unix_ms"].as_array().unwrap();
    assert_eq!(rates.len(), times.len());
    assert!(rates.iter().any(|rate| rate.as_f64().unwrap() > 2.0), "{rates:?}");
    assert_eq!(found["fields"]["operations"]["unit"], "1/s");
    let number = found["number"].as_u64().unwrap();
    let later: serde_json::Value =
        serde_json::from_str(&get(&server, &format!("/api/stats?since={number}")).body).unwrap();
    assert!(later["history"]["fine"]["unix_ms"].as_array().unwrap().len() <= 1);
    assert!(later["fields"].is_null(), "they are told once");
}

#[test]
fn a_queued_write_counts_as_a_read_and_its_exec_as_a_write() {
    let server = with_page(options());
    let mut client = Client::connect(&server);
    let mut measured = |commands: &[&str]| {
        commands.iter().for_each(|command| drop(client.ask(command)));
        let metrics = get(&server, "/metrics").body;
        ["read", "write"].map(|kind| {
            let name = format!("tidekv_command_duration_seconds_count{{kind=\"{kind}\"}} ");
            let count = metrics.lines().find_map(|line| line.strip_prefix(&*name));
            count.unwrap().parse::<u64>().unwrap()
        })
    };
    assert_eq!(measured(&["MULTI", "SET a 1", "GET a", "EXEC"]), [3, 1]);
    assert_eq!(measured(&["MULTI", "GET a", "EXEC"]), [6, 1]);
    assert_eq!(measured(&["SET b 2", "GET b", "FLUSHALL"]), [7, 3]);
}

#[test]
fn other_methods_and_invalid_requests_are_rejected() {
    let server = with_page(options());
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = ask_with(&server, method, "/", "Host: localhost\r\n");
        assert_eq!(answer.status, 405);
        answer.has("allow: get, head");
    }
    for (garbage, status) in [
        (&b"SET a 1\r\n\r\n"[..], 400),
        (b"\x00\x01\x02\x03\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
    ] {
        let mut stream = connect(&server);
        stream.write_all(garbage).unwrap();
        assert_eq!(Answer::parse(&rest_of(stream)).status, status, "{garbage:?}");
    }
    assert_eq!(get(&server, "/").status, 200);
}

#[test]
fn heads_are_bounded() {
    let server = with_page(options());
    let long = format!("Host: localhost\r\nX: {}\r\n", "x".repeat(100_000));
    let mut stream = connect(&server);
    // The server may close before everything is sent.
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\n{long}\r\n").as_bytes());
    let answer = rest_of(stream);
    assert!(answer.is_empty() || Answer::parse(&answer).status == 431, "{answer}");
    let many = "X: x\r\n".repeat(500);
    assert_eq!(ask_with(&server, "GET", "/", &many).status, 431);
    let path = format!("/{}", "x".repeat(20_000));
    assert!(matches!(get(&server, &path).status, 414 | 431));
}

#[test]
fn slow_clients_are_disconnected() {
    let server = with_page(options());
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    let mut slow = connect(&server);
    slow.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    let silent = connect(&server);
    assert_eq!(get(&server, "/").status, 200, "others are served");
    rest_of(slow);
    assert_eq!(rest_of(silent), "");
    let took = Duration::from_nanos(clock.monotonic_ns() - began_ns);
    assert!(took < PATIENCE, "after {took:?}");
}

#[test]
fn connections_are_bounded() {
    let server = with_page(options());
    let idle: Vec<TcpStream> = (0..64).map(|_| connect(&server)).collect();
    // Accepted in order, so the last response means that all are accepted.
    let mut last = &idle[63];
    last.write_all(b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(last.read(&mut [0; 16]).unwrap() > 0);
    let refused = Answer::parse(&rest_of(connect(&server)));
    assert_eq!(refused.status, 503);
    assert_eq!(Client::connect(&server).ask("PING"), "PONG", "clients have places of their own");
    drop(idle);
    for _ in 0..PATIENCE.as_millis() / 20 {
        let mut stream = connect(&server);
        let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
        if rest_of(stream).contains(" 200 OK") {
            return;
        }
        sleep(20);
    }
    panic!("places are not given back");
}

#[test]
fn requests_need_the_password() {
    let server = with_page(ServerOptions { password: Some("se:cret".into()), ..options() });
    // me:se:cret, me:wrong, :se:cret
    let (right, wrong, nameless) = ("bWU6c2U6Y3JldA==", "bWU6d3Jvbmc=", "OnNlOmNyZXQ=");
    for path in ["/", "/page.js", "/metrics", "/api/stats", "/none"] {
        for headers in ["", &format!("Authorization: Basic {wrong}\r\n"), "Authorization: x\r\n"] {
            let answer = ask_with(&server, "GET", path, headers);
            assert_eq!(answer.status, 401, "{path} {headers}");
            answer.has("www-authenticate: basic realm=\"tidekv\"");
            assert!(!answer.body.contains("tidekv_"));
        }
    }
    for credentials in [right, nameless] {
        let headers = format!("Authorization: Basic {credentials}\r\n");
        assert_eq!(ask_with(&server, "GET", "/metrics", &headers).status, 200);
    }
    // It can be changed while the server runs.
    let mut client = Client::connect(&server);
    client.ask("AUTH se:cret");
    assert_eq!(client.ask("CONFIG SET requirepass wrong"), "OK");
    let headers = format!("Authorization: Basic {wrong}\r\n");
    assert_eq!(ask_with(&server, "GET", "/metrics", &headers).status, 200);
}

#[test]
fn health_check_needs_no_password() {
    let server = with_page(ServerOptions { password: Some("secret".into()), ..options() });
    for headers in ["", "Host: attacker.example\r\n"] {
        let answer = ask_with(&server, "GET", "/healthz", headers);
        assert_eq!((answer.status, &*answer.body), (200, "ok\n"), "{headers}");
    }
    assert_eq!(ask_with(&server, "HEAD", "/healthz", "").status, 200);
    assert_eq!(ask_with(&server, "POST", "/healthz", "").status, 405);
    assert_eq!(ask_with(&server, "GET", "/metrics", "").status, 401);
}

#[test]
fn health_check_fails_while_flushes_fail_and_recovers_without_writes() {
    let storage = MemoryStorage::new();
    let http = Some("127.0.0.1:0".parse().unwrap());
    let db = support::open_db_on(&storage);
    let server = Server::start(db.clone(), ServerOptions { http, ..options() }).unwrap();
    assert_eq!(Client::connect(&server).ask("SET a 1"), "OK");
    assert_eq!(get(&server, "/healthz").status, 200);
    storage.add_fault(
        FaultRule::always(Operation::Create, Fault::Fail(StorageError::Full)).on_path(".table"),
    );
    db.flush().unwrap_err();
    let answer = get(&server, "/healthz");
    assert_eq!(answer.status, 503);
    assert!(answer.body.starts_with("writes are stopped"), "{}", answer.body);
    storage.clear_faults();
    let is_healthy = |_| {
        sleep(20);
        get(&server, "/healthz").status == 200
    };
    assert!((0..PATIENCE.as_millis() / 20).any(is_healthy), "the flush was not tried again");
}

#[test]
fn dns_rebinding_is_rejected() {
    let server = with_page(options());
    for (host, status) in [
        ("localhost", 200),
        ("localhost:8379", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8379", 200),
        ("[::1]:8379", 200),
        ("attacker.example", 421),
        ("attacker.example:8379", 421),
        ("localhost.attacker.example", 421),
    ] {
        let answer = ask_with(&server, "GET", "/api/stats", &format!("Host: {host}\r\n"));
        assert_eq!(answer.status, status, "{host}");
    }
    assert_eq!(ask_with(&server, "GET", "http://attacker.example/api/stats", "").status, 421);
}

#[test]
fn public_addresses_need_authentication() {
    let public = |insecure, password: Option<&str>| {
        let http = Some("0.0.0.0:0".parse().unwrap());
        let password = password.map(str::to_owned);
        Server::start(support::open_db(), ServerOptions { http, insecure, password, ..options() })
    };
    let refused = public(false, None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("0.0.0.0"), "{refused}");
    public(true, None).unwrap();
    public(false, Some("secret")).unwrap();
    let unix = Some("unix:/tmp/no-page".parse().unwrap());
    let refused = Server::start(support::open_db(), ServerOptions { http: unix, ..options() });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    let taken = with_page(options());
    let url = taken.page_url().unwrap().trim_start_matches("http://").trim_end_matches('/');
    let http = Some(url.parse().unwrap());
    let refused = Server::start(support::open_db(), ServerOptions { http, ..options() });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(start_with(options()).page_url(), None);
}

#[test]
fn shutdown_does_not_wait_for_browsers() {
    let server = with_page(options());
    let mut kept = connect(&server);
    kept.write_all(b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(kept.read(&mut [0; 16]).unwrap() > 0);
    let mut half = connect(&server);
    half.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let silent = connect(&server);
    sleep(50);
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    assert!(server.shutdown(PATIENCE));
    let took = Duration::from_nanos(clock.monotonic_ns() - began_ns);
    assert!(took < Duration::from_secs(8), "{took:?}");
    for stream in [kept, half, silent] {
        rest_of(stream);
    }
}

#[test]
fn the_page_has_tls_if_the_server_has() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    write(&certificate, &made.cert.pem());
    write(&key, &made.signing_key.serialize_pem());
    let tls = Some(TlsFiles { certificate, key, client_authorities: None });
    let server = with_page(ServerOptions { tls, ..options() });
    assert!(server.page_url().unwrap().starts_with("https://127.0.0.1:"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = rustls::StreamOwned::new(session, connect(&server));
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert!(String::from_utf8(bytes).unwrap().contains("tidekv_commands_total 0"));
    let mut plain = connect(&server);
    plain.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP"), "plain text was answered");
}

#[expect(clippy::disallowed_methods, reason = "files of the test's own")]
fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
}
