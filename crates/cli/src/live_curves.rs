//! Miss-ratio curves of a running server: `stats mrc` of a cache, or `INFO mrc` of a store's server if it
//! rejects the former.
//!
//! Responses are limited in time and size and are validated.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};
use tidekv_memcached::{Address, DEFAULT_CACHE_PORT};

use crate::curve_file::{BYTES, CurveFile};
use crate::failure::{Failure, Result};

/// The timeout of a server.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum length of a response.
const RESPONSE_BYTES_MAX: usize = 4 << 20;

/// A server's measurements of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveTenant {
    /// Its name.
    pub name: String,
    /// The miss-ratio curve of its requests.
    pub file: CurveFile,
    /// Its DRAM for objects and its flash, in bytes, if the server reports them.
    pub has: Option<(u64, u64)>,
    /// The latency of the backend, in microseconds.
    pub backend_us: Option<f64>,
}

/// A server's measurements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Live {
    /// Tenants that had requests.
    pub tenants: Vec<LiveTenant>,
    /// The latency of DRAM, in microseconds.
    pub memory_us: Option<f64>,
    /// The additional latency of flash, in microseconds.
    pub flash_us: Option<f64>,
}

/// Fetches the curves of the server at `text`; authenticates if `user` is set.
///
/// # Errors
/// If no server listens there, or the server computes no curves.
pub fn fetch(text: &str, user: Option<&str>) -> Result<Live> {
    let address = Address::with_port(text, DEFAULT_CACHE_PORT);
    let address = address.map_err(|error| Failure::usage(error.to_string()))?;
    let failed =
        |error: std::io::Error| Failure::system(format!("could not query {address}"), &error);
    let mut lines = query_cache(connect(&address).map_err(failed)?, None).map_err(failed)?;
    let first = lines.first().map_or("", String::as_str);
    // Authenticate only if the server requires it: otherwise it would store the login under a key.
    if let (Some(user), true) = (user, first.starts_with("CLIENT_ERROR")) {
        lines = query_cache(connect(&address).map_err(failed)?, Some(user)).map_err(failed)?;
    } else if first.starts_with('-') {
        // A Redis error reply: it is a store's server.
        lines = query_store(connect(&address).map_err(failed)?, user).map_err(failed)?;
    }
    let live = read(&lines).map_err(|what| Failure::new(format!("{address} {what}")))?;
    if live.tenants.is_empty() {
        let what =
            "has no curves yet: it had no requests, or profiling is off (--profile-window 0)";
        return Err(Failure::new(format!("{address} {what}")));
    }
    Ok(live)
}

/// A connection.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

fn connect(address: &Address) -> std::io::Result<Box<dyn Stream>> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(Box::new(stream))
        }
        Address::Tcp(host, port) => {
            let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
            for address in (host.trim_matches(['[', ']']), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, TIMEOUT) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(TIMEOUT))?;
                        stream.set_write_timeout(Some(TIMEOUT))?;
                        return Ok(Box::new(stream));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// The lines of a cache's response, with the terminating one.
fn query_cache(mut stream: impl Stream, user: Option<&str>) -> std::io::Result<Vec<String>> {
    if let Some(user) = user {
        let login = user.replacen(':', " ", 1);
        write!(stream, "set auth 0 0 {}\r\n{login}\r\n", login.len())?;
    }
    stream.write_all(b"stats mrc\r\n")?;
    let is_end = |text: &str| {
        let mut lines = text.lines().filter(|line| *line != "STORED");
        text.ends_with('\n') && lines.any(|line| !line.starts_with("STAT "))
    };
    let text = read_until(&mut stream, is_end)?;
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| *line != "STORED") {
        lines.push(line.to_owned());
        if !line.starts_with("STAT ") {
            break;
        }
    }
    Ok(lines)
}

/// The response of a store's server, converted to the lines of a cache. It has one password for all users.
fn query_store(mut stream: impl Stream, password: Option<&str>) -> std::io::Result<Vec<String>> {
    if let Some(password) = password {
        write!(stream, "*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len())?;
    }
    stream.write_all(b"*2\r\n$4\r\nINFO\r\n$3\r\nmrc\r\n")?;
    // `+OK` for the password, `$` with a length, and that number of bytes.
    let text_of = |text: &str| -> Option<(usize, usize)> {
        let head = text.strip_prefix("+OK\r\n").unwrap_or(text);
        let (len, _) = head.strip_prefix('$')?.split_once("\r\n")?;
        let from = text.len() - head.len() + 1 + len.len() + 2;
        Some((from, len.parse().ok()?))
    };
    let is_end = |text: &str| match text_of(text) {
        Some((from, len)) => text.len() >= from.saturating_add(len),
        None => text.ends_with('\n') && text.starts_with('-'),
    };
    let text = read_until(&mut stream, is_end)?;
    let Some((from, len)) = text_of(&text) else {
        return Ok(text.lines().take(1).map(str::to_owned).collect());
    };
    let info = text.get(from..from + len).unwrap_or_default();
    let stats = info.lines().filter_map(|line| line.rsplit_once(':'));
    let stats = stats.map(|(name, number)| format!("STAT {} {number}", name.replace('/', ":")));
    Ok(stats.chain(["END".to_owned()]).collect())
}

/// Reads until `is_end` accepts the text or the server closes the connection.
///
/// # Errors
/// If the response is too long or takes too long.
fn read_until(stream: &mut impl Read, is_end: impl Fn(&str) -> bool) -> std::io::Result<String> {
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    let (mut bytes, mut part) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let count = stream.read(&mut part)?;
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if count == 0 || is_end(&text) {
            return Ok(text.into_owned());
        }
        if bytes.len() > RESPONSE_BYTES_MAX {
            return Err(std::io::Error::other("the response is too long"));
        }
        if clock.monotonic_ns() - began_ns > TIMEOUT.as_nanos() as u64 {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
    }
}

/// The statistics of a tenant.
#[derive(Default)]
struct Facts {
    numbers: BTreeMap<String, f64>,
    points: Vec<(u64, f64)>,
}

/// Parses a response. An error is the end of a sentence that begins with the server's name.
fn read(lines: &[String]) -> std::result::Result<Live, String> {
    let Some((end, stats)) = lines.split_last() else {
        return Err("sent an empty response".into());
    };
    if end != "END" {
        return Err(format!("has no curves: its response is {end:?}"));
    }
    let (mut live, mut tenants) = (Live::default(), BTreeMap::<&str, Facts>::new());
    for line in stats {
        let broken = || format!("sent an unexpected line: {line:?}");
        let (name, number) = line
            .strip_prefix("STAT ")
            .and_then(|stat| stat.rsplit_once(' '))
            .and_then(|(name, number)| Some((name, number.parse::<f64>().ok()?)))
            .filter(|(_, number)| number.is_finite() && *number >= 0.0)
            .ok_or_else(broken)?;
        if name.contains(char::is_control) {
            return Err(broken());
        }
        match name.split(':').collect::<Vec<_>>()[..] {
            ["memory_us"] => live.memory_us = Some(number),
            ["flash_us"] => live.flash_us = Some(number),
            [tenant, "mr", size] => {
                let size = size.parse().map_err(|_| broken())?;
                tenants.entry(tenant).or_default().points.push((size, number));
            }
            [tenant, fact] => {
                tenants.entry(tenant).or_default().numbers.insert(fact.to_owned(), number);
            }
            _ => {}
        }
    }
    live.tenants = tenants.into_iter().filter_map(|(name, facts)| of_tenant(name, facts)).collect();
    Ok(live)
}

/// A tenant with its curve, if it has one.
fn of_tenant(name: &str, facts: Facts) -> Option<LiveTenant> {
    let Facts { numbers, points } = facts;
    let number = |name: &str| numbers.get(name).copied();
    let file = CurveFile {
        unit: BYTES.to_owned(),
        requests: number("requests")?,
        seconds: number("seconds"),
        object_bytes: number("object_bytes"),
        sampled: number("sampled"),
        points,
        standard_errors: None,
        size_errors: None,
        byte_miss_ratios: None,
    };
    let bytes = |name: &str| number(name).unwrap_or(0.0) as u64;
    let has = number("dram_bytes_max").map(|dram| {
        let memory = (dram as u64).saturating_sub(bytes("flash_dram_bytes"));
        (memory, bytes("flash_bytes_max"))
    });
    let backend_us = number("backend_us");
    (!file.points.is_empty()).then(|| LiveTenant { name: name.to_owned(), file, has, backend_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_response_has_tenants_with_curves() {
        let live = read(&lines(
            "STAT memory_us 12.5\nSTAT web:requests 1000\nSTAT web:seconds 60.5\n\
             STAT web:dram_bytes_max 4096\nSTAT web:flash_bytes_max 8192\nSTAT web:backend_us 900.0\n\
             STAT web:mr:0 1.0\nSTAT web:mr:100 0.5\nSTAT idle:requests 0\n\
             STAT ads:requests 7\nSTAT ads:mr:0 1.0\nSTAT later:what:it:is 3\nEND",
        ))
        .unwrap();
        assert_eq!((live.memory_us, live.flash_us), (Some(12.5), None));
        let [ads, web] = &live.tenants[..] else { panic!("{live:?}") };
        assert_eq!((ads.name.as_str(), ads.file.requests, ads.has), ("ads", 7.0, None));
        assert_eq!(
            (web.file.seconds, web.has, web.backend_us),
            (Some(60.5), Some((4096, 8192)), Some(900.0))
        );
        assert_eq!(web.file.curve().unwrap().miss_ratio(100), 0.5);
    }

    #[test]
    fn errors_quote_the_malformed_response() {
        for (text, what) in [
            ("", "empty response"),
            ("CLIENT_ERROR unauthenticated", "CLIENT_ERROR unauthenticated"),
            ("-ERR unknown command", "-ERR unknown command"),
            ("STAT web:mr:x 1\nEND", "web:mr:x"),
            ("STAT web\nEND", "unexpected line"),
            ("STAT memory_us NaN\nEND", "NaN"),
            ("STAT web:requests -1\nEND", "unexpected line"),
        ] {
            let error = read(&lines(text)).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        assert_eq!(read(&lines("END")).unwrap(), Live::default());
    }

    #[test]
    fn the_client_authenticates_before_the_query() {
        struct Fake(std::io::Cursor<Vec<u8>>, Vec<u8>);
        impl Read for Fake {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(buffer)
            }
        }
        impl Write for Fake {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.1.write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let answer = b"STORED\r\nSTAT a 1\r\nEND\r\nmore\r\n".to_vec();
        let mut fake = Fake(std::io::Cursor::new(answer), Vec::new());
        assert_eq!(query_cache(&mut fake, Some("me:se:cret")).unwrap(), ["STAT a 1", "END"]);
        assert_eq!(fake.1, b"set auth 0 0 10\r\nme se:cret\r\nstats mrc\r\n");
        let answer = b"+OK\r\n$35\r\n# Mrc\r\na.b/requests:7\r\na.b/mr/0:1\r\nmore\r\n".to_vec();
        let mut fake = Fake(std::io::Cursor::new(answer), Vec::new());
        let lines = query_store(&mut fake, Some("se:cret")).unwrap();
        assert_eq!(lines, ["STAT a.b:requests 7", "STAT a.b:mr:0 1", "END"]);
        let auth = b"*2\r\n$4\r\nAUTH\r\n$7\r\nse:cret\r\n";
        assert!(fake.1.starts_with(auth) && fake.1.ends_with(b"mrc\r\n"));
        let answer = b"-NOAUTH Authentication required.\r\n".to_vec();
        let lines = query_store(Fake(std::io::Cursor::new(answer), Vec::new()), None).unwrap();
        assert_eq!(lines, ["-NOAUTH Authentication required."]);
    }
}
