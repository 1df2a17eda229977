//! `cache`: its addresses, its authentication, its shutdown.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use crate::run::{TestDirectory, run, tidekv};
use crate::serving::{Serving, ask};

fn serve(arguments: &[&str]) -> Serving {
    let mut command = tidekv();
    command.arg("cache").args(arguments);
    Serving::start(command)
}

const ANYWHERE: [&str; 2] = ["--listen", "127.0.0.1:0"];

#[test]
fn it_serves_and_ends_cleanly_on_a_signal() {
    for signal in ["-TERM", "-INT"] {
        let arguments = [&ANYWHERE[..], &["--dram", "32MiB", "--object-max", "2MiB"]].concat();
        let serving = serve(&arguments);
        assert!(serving.line.contains("32 MiB of DRAM, values up to 2 MiB"), "{}", serving.line);
        let mut stream = serving.connect();
        assert_eq!(ask(&mut stream, &["set", "k", "0", "0", "1\r\nv"]), "STORED");
        assert_eq!(ask(&mut stream, &["mg", "k", "s"]), "HD s1");
        assert_eq!(ask(&mut stream, &["debugtime", "5"]), "ERROR");
        assert_eq!(ask(&mut stream, &["shutdown"]), "SERVER_ERROR: shutdown not enabled");
        serving.signal(signal);
        let done = serving.wait();
        assert_eq!((done.code, &*done.err), (0, ""));
    }
}

#[test]
fn shutdown_and_debugtime_work_only_if_enabled() {
    let serving = serve(&[&ANYWHERE[..], &["--enable-shutdown", "--debugtime"]].concat());
    let mut stream = serving.connect();
    assert_eq!(ask(&mut stream, &["set", "k", "0", "100", "1\r\nv"]), "STORED");
    assert_eq!(ask(&mut stream, &["debugtime", "100"]), "OK");
    assert_eq!(ask(&mut stream, &["mg", "k"]), "EN");
    stream.write_all(b"shutdown\r\n").unwrap();
    let done = serving.wait();
    assert_eq!((done.code, &*done.err), (0, ""));
}

#[test]
fn it_listens_on_every_address_and_shows_metrics() {
    let place = TestDirectory::new();
    let socket = format!("unix:{}", place.file("socket").display());
    let config = place.write("tidekv.toml", "[cache]\nhttp = \"127.0.0.1:0\"\n");
    let arguments = ["--listen", &socket, "--config", config.to_str().unwrap()];
    let serving = serve(&[&ANYWHERE[..], &arguments].concat());
    assert!(serving.line.contains(&socket), "{}", serving.line);
    assert_eq!(ask(&mut serving.connect(), &["version"]), "VERSION 1.6.45");
    let mut stream = UnixStream::connect(place.file("socket")).unwrap();
    assert_eq!(ask(&mut stream, &["get", "a"]), "END");
    let url = serving.line.split("page at http://").nth(1).unwrap();
    let mut stream = TcpStream::connect(url.split('/').next().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("tidekv_cache_gets_total{outcome=\"miss\"} 1"), "{answer}");
}

#[test]
fn objects_in_dram_are_on_flash_after_a_clean_shutdown() {
    let place = TestDirectory::new();
    let flash = format!("{}:64MiB", place.file("flash").display());
    let arguments = [&ANYWHERE[..], &["--dram", "16MiB", "--flash", &flash]].concat();
    for (number, warm) in [(0, "0 of 1 device warm"), (1, "1 of 1 device warm")] {
        let serving = serve(&arguments);
        assert!(serving.line.contains("64 MiB of flash"), "{}", serving.line);
        assert!(serving.line.contains(warm), "{}", serving.line);
        let mut stream = serving.connect();
        let found = ask(&mut stream, &["mg", "k", "v"]);
        assert_eq!(found, ["EN", "VA 5"][number]);
        if number == 1 {
            assert_eq!(ask(&mut stream, &["mn"]), "hello");
        }
        let stored = ask(&mut stream, &["set", "k", "0", "0", "5\r\nhello"]);
        assert_eq!(stored, ["STORED", "MN"][number]);
        serving.signal("-TERM");
        let done = serving.wait();
        assert_eq!((done.code, &*done.err), (0, ""));
    }
    // While it runs, no other process can open its file.
    let _serving = serve(&arguments);
    run(&[&["cache"], &arguments[..]].concat()).fails(1, &["flash"]);
}

/// A server did not start if none of its devices worked.
#[test]
fn without_a_device_that_works_it_serves_from_memory_and_says_so() {
    let place = TestDirectory::new();
    let flash = format!("{}:64MiB", place.file("absent/flash").display());
    let state = place.file("state");
    let arguments = ["--flash", &flash, "--state", state.to_str().unwrap()];
    let arguments = [&ANYWHERE[..], &arguments].concat();
    let serving = serve(&arguments);
    assert!(serving.line.contains("no flash: no device can be used"), "{}", serving.line);
    let mut stream = serving.connect();
    assert_eq!(ask(&mut stream, &["set", "k", "0", "0", "5\r\nhello"]), "STORED");
    assert_eq!(ask(&mut stream, &["mg", "k", "v"]), "VA 5");
    serving.signal("-TERM");
    let done = serving.wait();
    assert_eq!(done.code, 0);
    assert!(done.err.contains("a flash device cannot be used"), "{done:?}");
    let required = run(&[&["cache"], &arguments[..], &["--require-flash"]].concat());
    assert_eq!(required.code, 1, "{required:?}");
    assert!(required.err.contains("absent/flash"), "{required:?}");
    // With one of two, it says which part is missing.
    let other = format!("{}:64MiB", place.file("flash").display());
    let serving = serve(&[&arguments[..], &["--flash", &other]].concat());
    assert!(serving.line.contains("(0 of 2 devices warm, 1 out of use)"), "{}", serving.line);
}

/// The target of a link was overwritten, and the file of another user was trusted.
#[test]
fn a_state_file_that_others_could_have_placed_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let place = TestDirectory::new();
    let flash = format!("{}:64MiB", place.file("flash").display());
    let target = place.write("target", "precious");
    let (linked, dangling) = (place.file("linked"), place.file("dangling"));
    symlink(&target, &linked).unwrap();
    symlink(place.file("nowhere"), &dangling).unwrap();
    let shared = place.write("shared", "trust me");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o666)).unwrap();
    for state in [&linked, &dangling, &shared] {
        let state = state.to_str().unwrap();
        let arguments = [&ANYWHERE[..], &["--flash", &flash, "--state", state]].concat();
        let done = run(&[&["cache"], &arguments[..]].concat());
        let says = "is a link, no regular file, or can be written by other users";
        assert!(done.code == 1 && done.err.contains(says), "{done:?}");
    }
    assert_eq!(std::fs::read_to_string(target).unwrap(), "precious");
    assert_eq!(std::fs::read_to_string(shared).unwrap(), "trust me");
    assert!(!place.file("nowhere").exists());
}

#[test]
fn clients_authenticate_with_a_user_of_the_auth_file() {
    let place = TestDirectory::new();
    let file = place.write("users", "me:secret\n");
    let serving = serve(&[&ANYWHERE[..], &["--auth-file", file.to_str().unwrap()]].concat());
    let mut stream = serving.connect();
    assert_eq!(ask(&mut stream, &["get", "k"]), "CLIENT_ERROR unauthenticated");
    let login = |password: &str| format!("{}\r\nme {password}", 3 + password.len());
    let wrong = login("wrong");
    assert_eq!(
        ask(&mut stream, &["set", "x", "0", "0", &wrong]),
        "CLIENT_ERROR authentication failure"
    );
    assert_eq!(ask(&mut stream, &["set", "x", "0", "0", &login("secret")]), "STORED");
    assert_eq!(ask(&mut stream, &["get", "k"]), "END");
}

#[test]
fn invalid_options_are_rejected_with_their_name() {
    let place = TestDirectory::new();
    run(&["cache", "--listen", "0.0.0.0:0"]).fails(1, &["0.0.0.0", "password"]);
    run(&["cache", "--auth-file", "/no/such/file"]).fails(1, &["/no/such/file"]);
    let file = place.write("users", "me\n");
    let file = file.to_str().unwrap();
    run(&["cache", "--auth-file", file]).fails(1, &[file, "user:password"]);
    run(&["cache", "--dram", "1000KiB"]).fails(1, &["DRAM"]);
    run(&["cache", "--dram", "64MiB", "--object-max", "32MiB"]).fails(1, &["DRAM"]);
    run(&["cache", "--object-max", "2GiB"]).fails(2, &["--object-max", "1 GiB"]);
    run(&["cache", "-I", "512"]).fails(2, &["--object-max", "1 KiB"]);
    let serving = serve(&ANYWHERE);
    run(&["cache", "--listen", serving.address()]).fails(1, &[serving.address()]);
    for arguments in [
        &["--listen", "localhost:port"][..],
        &["--flash", "/mnt/cache"],
        &["--dram", "much"],
        &["--tls-key", "key.pem"],
        &["--idle-timeout", "soon"],
    ] {
        assert_eq!(run(&[&["cache"], arguments].concat()).code, 2, "{arguments:?}");
    }
}

/// The reply to `stats settings`.
fn settings(stream: &mut (impl Read + Write)) -> String {
    stream.write_all(b"stats settings\r\n").unwrap();
    let mut text = String::new();
    while !text.ends_with("END\r\n") {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "cut off after {text}");
        text.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    text
}

/// They were refused: a value of 1 MiB, the default maximum, needs four times as much.
#[test]
fn the_default_of_the_largest_value_fits_a_small_dram() {
    for (dram, values) in [("2", "512 KiB"), ("1", "256 KiB"), ("64", "1 MiB")] {
        let serving = serve(&["-m", dram, "-l", "127.0.0.1:0"]);
        assert!(serving.line.contains(&format!("values up to {values}")), "{}", serving.line);
    }
    run(&["cache", "-m", "2", "-I", "1m"]).fails(1, &["DRAM"]);
}

#[test]
fn one_protocol_can_be_chosen() {
    let serving = serve(&[&ANYWHERE[..], &["-B", "ascii", "-C", "-D", "/"]].concat());
    let mut stream = serving.connect();
    let text = settings(&mut stream);
    for line in ["binding_protocol ascii", "stat_key_prefix /", "detail_enabled yes"] {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{line}: {text}");
    }
    let mut noop = [0; 24];
    (noop[0], noop[1]) = (0x80, 0x0a);
    let mut answer = [0; 4];
    stream.write_all(&noop).and_then(|()| stream.write_all(b"\r\n")).unwrap();
    stream.read_exact(&mut answer).unwrap();
    // The opcode is the end of a line.
    assert_eq!(&answer, b"CLIE");
    let serving = serve(&[&ANYWHERE[..], &["-B", "binary"]].concat());
    let mut stream = serving.connect();
    stream.write_all(&noop).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..2], [0x81, 0x0a]);
    let mut stream = serving.connect();
    stream.write_all(b"get a key that is as long as a header\r\n").unwrap();
    assert_eq!(stream.read(&mut answer).unwrap_or(0), 0);
}

#[test]
fn memcached_options_of_tls_work() {
    let place = TestDirectory::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = place.write("cert.pem", made.cert.pem());
    let key = place.write("key.pem", made.signing_key.serialize_pem());
    let files = format!("ssl_chain_cert={},ssl_key={}", certificate.display(), key.display());
    let socket = format!("unix:{}", place.file("socket").display());
    let serving = serve(&[&ANYWHERE[..], &["--listen", &socket, "-Z", "-o", &files]].concat());
    let mut stream = UnixStream::connect(place.file("socket")).unwrap();
    assert!(settings(&mut stream).contains("STAT ssl_enabled yes\r\n"));
    drop(serving);
    let both = ["-Z", "-o", "ssl_key=k", "--tls-cert", "c", "--tls-key", "k"];
    assert_eq!(run(&[&["cache"][..], &both].concat()).code, 2);
}

#[test]
fn it_runs_as_another_user_if_root_starts_it() {
    let serving = serve(&[&ANYWHERE[..], &["-u", "nobody"]].concat());
    let status = format!("/proc/{}/status", serving.child.id());
    let status = std::fs::read_to_string(status).unwrap();
    let groups = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let of_root = "0".to_owned();
    assert!(!groups("Uid:").contains(&of_root) && !groups("Groups:").contains(&of_root));
    if rustix::process::geteuid().is_root() {
        assert!(!groups("Gid:").contains(&of_root));
        run(&["cache", "-u", "no-such-user"]).fails(2, &["no-such-user"]);
    }
}

#[test]
fn a_pid_file_lives_as_long_as_the_server() {
    let place = TestDirectory::new();
    let file = place.write("pid", "1\n");
    let serving = serve(&[&ANYWHERE[..], &["-P", file.to_str().unwrap()]].concat());
    let pid = serving.child.id();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{pid}\n"));
    serving.signal("-TERM");
    let done = serving.wait();
    assert_eq!((done.code, &*done.err), (0, ""));
    assert!(!file.exists());
}

#[test]
fn it_runs_in_the_background() {
    let place = TestDirectory::new();
    let (socket, file) = (place.file("socket"), place.file("pid"));
    let arguments = ["-s", socket.to_str().unwrap(), "-A", "-P", file.to_str().unwrap()];
    let done = run(&[&["cache", "-d"][..], &arguments].concat());
    assert!(String::from_utf8_lossy(done.ok()).starts_with("listening on unix:"), "{done:?}");
    let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    assert_eq!(rustix::process::getsid(Some(process)).unwrap(), process);
    let out = std::fs::read_link(format!("/proc/{pid}/fd/1")).unwrap();
    assert_eq!(out.to_str(), Some("/dev/null"));
    // The same address is taken: the process that was started says so, and its code is the result.
    let other = serve(&ANYWHERE);
    run(&["cache", "-d", "--listen", other.address()]).fails(1, &[other.address()]);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"shutdown\r\n").unwrap();
    let gone = || !file.exists();
    let clock = tidekv_io::SystemClock::new();
    for _ in 0..500 {
        if gone() {
            break;
        }
        tidekv_io::Clock::sleep(&clock, std::time::Duration::from_millis(20));
    }
    assert!(gone());
}

/// `-m 64` was 64 bytes, and the others were unexpected.
#[test]
fn the_command_line_of_memcached_works() {
    let line = ["-m", "16", "-l", "127.0.0.1:0", "-t", "2", "-c", "1024", "-U", "0"];
    let serving =
        serve(&[&line[..], &["-v", "-F", "-X", "-o", "modern,idle_timeout=300"]].concat());
    assert!(serving.line.contains("16 MiB of DRAM"), "{}", serving.line);
    let mut stream = serving.connect();
    assert_eq!(ask(&mut stream, &["flush_all"]), "CLIENT_ERROR flush_all not allowed");
    assert_eq!(ask(&mut stream, &["lru_crawler", "metadump", "all"]), "ERROR metadump not allowed");
    let text = settings(&mut stream);
    for line in [
        "maxbytes 16777216",
        "maxconns 1024",
        "num_threads 2",
        "verbosity 1",
        "flush_enabled no",
        "dump_enabled no",
        "idle_timeout 300",
        "evictions on",
        "binding_protocol auto-negotiate",
    ] {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{line}: {text}");
    }
    serving.signal("-TERM");
    assert_eq!(serving.wait().code, 0);
    let place = TestDirectory::new();
    let socket = place.file("socket");
    let serving = serve(&["-s", socket.to_str().unwrap(), "-M", "-m", "2", "-I", "64k"]);
    let mut stream = UnixStream::connect(&socket).unwrap();
    let value = "x".repeat(60_000);
    let replies: Vec<String> = (0..50)
        .map(|i| {
            ask(&mut stream, &["set", &format!("k{i}"), "0", "0", &format!("60000\r\n{value}")])
        })
        .collect();
    let refused = "SERVER_ERROR out of memory storing object";
    assert_eq!((&*replies[0], &*replies[49]), ("STORED", refused));
    assert_eq!(ask(&mut stream, &["mg", "k0", "s"]), "HD s60000");
    drop(serving);
    for (arguments, what) in [
        (&["-U", "11211"][..], "UDP"),
        (&["-p", "0"], "-s FILE"),
        (&["-m", "64", "--dram", "64MiB"], "cannot be used with"),
        (&["-c", "0"], "-c"),
        (&["-M", "--flash", "f:64MiB"], "evicts"),
        (&["-S"], "--auth-file"),
        (&["-B", "http"], "auto, ascii or binary"),
        (&["-e", "/dev/shm/memory"], "--flash"),
        (&["-Z"], "ssl_chain_cert"),
        (&["-o", "ssl_chain_cert=c,ssl_key=k"], "-Z"),
        (&["-Z", "-o", "ssl_chain_cert=c,ssl_key=k,ssl_verify_mode=2"], "ssl_ca_cert"),
        (&["-D", "::"], "one character"),
        (&["-d", "-U", "1"], "UDP"),
        (&["-o", "ext_path=/x:1G"], "--flash"),
        (&["-o", "nonsense"], "unknown option"),
        (&["-a", "777", "-s", "socket"], "owner"),
        (&["-t", "0"], "-t"),
    ] {
        let done = run(&[&["cache"], arguments].concat());
        assert_ne!(done.code, 0, "{arguments:?}");
        assert!(done.err.contains(what), "{arguments:?}: {}", done.err);
    }
}
