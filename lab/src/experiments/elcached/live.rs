//! `elcached-live`: the curve of a running cache (`stats mrc`), compared with the hit ratios of the
//! same cache restarted at other sizes.
//!
//! A cache of 16 MiB with its server gets the requests of a law, each a get and after a miss a set,
//! until some windows of its curve have ended. Then caches of a quarter, half, once and twice that
//! size get the same requests from the beginning, and their hit ratios are measured after a
//! warm-up. Both run in this process, without sockets, except for `stats mrc`.
//!
//! | part | requests |
//! |---|---|
//! | `zipf 0.9`, `zipf 0.7` | the key of rank *r* with a probability proportional to 1 / *r* ^ 0.9, or 0.7 |
//! | `zipf 0.9 and scan` | a tenth of the requests pass through as many other keys, in a circle |
//!
//! There are about eight times as many keys as the cache has objects. `error` is the predicted hit
//! ratio less the measured one, without its sign; rows of the phase `worst` have the largest one of
//! half and twice the size, which are judged. With clients that do nothing else the cache gets about
//! a million requests per second, so that accesses are recorded in bursts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, MemoryStorage, Storage, SystemClock};
use tidekv_memcached::{Address, CacheServer, CacheServerOptions};
use tidekv_testkit::evidence::Value;
use tidekv_tiered::{Cache, Deadline, Environment, Lookup, Object, Options};

use crate::experiment::{
    Experiment, Figure, Found, Model, Params, Point, Rule, Shape, Subjects, Target,
};
use crate::experiments::elcached::cost::modelled;
use crate::failure::{Failure, Result};
use crate::load::dice::Dice;
use crate::load::keys::{Choice, Picker};
use crate::scale::Scale;

const LIVE: &str = "tidekv:live-curve";
/// The size of the observed cache.
const DRAM_BYTES: u64 = 16 << 20;
/// The compared sizes, in quarters of that, and those that are judged.
const QUARTERS: [u64; 4] = [1, 2, 4, 8];
const JUDGED: [u64; 2] = [2, 8];
const WORST: &str = "worst";
/// Requests between two looks at the curve.
const REQUESTS_PER_LOOK: u64 = 5_000;

/// The requests of a part.
#[derive(Debug, Clone, Copy)]
struct Requests {
    alpha: f64,
    /// The part of the requests that scan.
    scan: f64,
    keys: u64,
    value_bytes: usize,
}

/// Clients of a cache.
struct Clients {
    requests: Requests,
    dice: Dice,
    picker: Picker,
    scanned: u64,
    value: Bytes,
}

impl Clients {
    fn new(requests: Requests, seed: u64) -> Self {
        let zipf = Choice::Zipf { alpha: requests.alpha, is_scattered: false };
        let picker = Picker::new(&zipf, requests.keys, seed, 0, 1);
        let value = Bytes::from(vec![0; requests.value_bytes]);
        Self { requests, dice: Dice::new(seed), picker, scanned: 0, value }
    }

    fn next(&mut self) -> u64 {
        let keys = self.requests.keys;
        if self.requests.scan > 0.0 && self.dice.unit() < self.requests.scan {
            self.scanned += 1;
            return keys + self.scanned % keys;
        }
        self.picker.next(&mut self.dice)
    }

    /// The hit ratio of `count` requests.
    fn ask(&mut self, cache: &Cache, count: u64) -> f64 {
        let mut hits = 0;
        for _ in 0..count {
            let key = format!("key:{:012}", self.next());
            if matches!(cache.try_get(key.as_bytes()), Lookup::Hit(_)) {
                hits += 1;
                continue;
            }
            let (value, version) = (self.value.clone(), cache.next_version());
            let object = Object { value, flags: 0, deadline: Deadline::NEVER, version, marks: 0 };
            cache.store(key.as_bytes(), object);
        }
        f64::from(hits) / count as f64
    }
}

fn open(dram_bytes: u64) -> Result<Cache> {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let options = Options { dram_bytes, ..Options::default() };
    Cache::open(&options, &Environment::new(storage, clock))
        .map_err(|error| Failure::system("could not open a cache", error))
}

/// A report of `stats mrc`.
#[derive(Debug, Default)]
struct Report {
    window: u64,
    /// Sizes with their miss ratios.
    curve: Vec<(u64, f64)>,
}

impl Report {
    fn of(server: &CacheServer) -> Result<Self> {
        let is_tcp = |address: &&Address| matches!(address, Address::Tcp(..));
        let address = server.local_addresses().iter().find(is_tcp).map(ToString::to_string);
        let text = (|| {
            let mut stream = TcpStream::connect(address.unwrap_or_default())?;
            stream.write_all(b"stats mrc\r\nquit\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        })()
        .map_err(|error: std::io::Error| Failure::system("could not ask for the curve", error))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            let Some(fact) = line.strip_prefix("STAT default:") else { continue };
            let Some((name, number)) = fact.split_once(' ') else { continue };
            match (name, name.strip_prefix("mr:").and_then(|size| size.parse().ok())) {
                ("window", _) => report.window = number.parse().unwrap_or(0),
                (_, Some(size)) => report.curve.push((size, number.parse().unwrap_or(1.0))),
                _ => {}
            }
        }
        report
    }

    fn hit_ratio(&self, size: u64) -> f64 {
        let before = self.curve.iter().rev().find(|(of, _)| *of <= size);
        1.0 - before.map_or(1.0, |(_, ratio)| *ratio)
    }
}

#[derive(Debug)]
struct Live {
    requests: Requests,
    window: Duration,
    /// The report of this window is compared.
    windows: u64,
    /// Requests that are measured after the warm-up.
    measured: u64,
}

impl Live {
    /// The report of the last window.
    fn predicted(&self, seed: u64) -> Result<Report> {
        let cache = open(DRAM_BYTES)?;
        let options = CacheServerOptions {
            listen: vec!["127.0.0.1:0".parse().map_err(|_| Failure::new("no address"))?],
            event_loops: Some(1),
            profile_window: Some(self.window),
            ..CacheServerOptions::default()
        };
        let server = CacheServer::start(cache.clone(), options)
            .map_err(|error| Failure::system("could not serve the cache", error))?;
        let mut clients = Clients::new(self.requests, seed);
        let clock = SystemClock::new();
        let mut due_ns = clock.monotonic_ns();
        loop {
            clients.ask(&cache, REQUESTS_PER_LOOK);
            if clock.monotonic_ns() < due_ns {
                continue;
            }
            let report = Report::of(&server)?;
            if report.window >= self.windows {
                return Ok(report);
            }
            due_ns = clock.monotonic_ns() + self.window.as_nanos() as u64 / 16;
        }
    }

    fn measured(&self, dram_bytes: u64, seed: u64) -> Result<f64> {
        let cache = open(dram_bytes)?;
        let mut clients = Clients::new(self.requests, seed);
        clients.ask(&cache, (self.requests.keys * 10).max(self.measured / 4));
        Ok(clients.ask(&cache, self.measured))
    }
}

impl Model for Live {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let report = self.predicted(seed)?;
        let found = |phase: &str, quarters: u64, metrics| {
            let size = quarters * DRAM_BYTES / 4;
            let params = [("phase", Value::from(phase)), ("mib", (size >> 20).into())];
            let params: Params = params.map(|(name, value)| (name.to_owned(), value)).into();
            Found { subject: LIVE, params, metrics }
        };
        let (mut all, mut worst) = (Vec::new(), 0.0_f64);
        for quarters in QUARTERS {
            let size = quarters * DRAM_BYTES / 4;
            let (predicted, measured) = (report.hit_ratio(size), self.measured(size, seed)?);
            let error = (predicted - measured).abs();
            if JUDGED.contains(&quarters) {
                worst = worst.max(error);
            }
            let metrics =
                vec![("predicted_hit_ratio", predicted), ("hit_ratio", measured), ("error", error)];
            all.push(found("size", quarters, metrics));
        }
        let params = Params::from([("phase".to_owned(), Value::from(WORST))]);
        all.push(Found { subject: LIVE, params, metrics: vec![("error", worst)] });
        Ok(all)
    }
}

/// The laws: a part, its exponent, and the part of the requests that scan.
const LAWS: [(&str, f64, f64); 3] =
    [("zipf 0.9", 0.9, 0.0), ("zipf 0.7", 0.7, 0.0), ("zipf 0.9 and scan", 0.9, 0.1)];
/// Bytes of a value, and the number of keys.
const OBJECTS: [(usize, u64); 3] = [(100, 400_000), (1 << 10, 100_000), (32 << 10, 4_000)];

fn points(scale: &Scale) -> Vec<Point> {
    let (window, windows, measured) = match scale.is_quick {
        true => (Duration::from_secs(2), 2, 400_000),
        false => (Duration::from_secs(10), 6, 4_000_000),
    };
    let point = |(part, alpha, scan): (&str, f64, f64), (value_bytes, keys): (usize, u64)| {
        let requests = Requests { alpha, scan, keys, value_bytes };
        let live = Live { requests, window, windows, measured };
        let value_bytes = value_bytes as u64;
        let point = modelled(scale, part, 1, Arc::new(live)).with("value_bytes", value_bytes);
        Point { value_bytes, ..point }
    };
    LAWS.into_iter().flat_map(|law| OBJECTS.map(|objects| point(law, objects))).collect()
}

pub(super) const LIVE_CURVES: Experiment = Experiment {
    name: "elcached-live",
    about: "the miss-ratio curve of a running cache of 16 MiB (`stats mrc`), compared with the \
            same cache restarted at a quarter, half and twice that size, for objects of 100 B, \
            1 KiB and 32 KiB",
    paper: "no numbers: the paper profiles traces",
    claim: "the hit ratios at half and twice the size are within 0.01 of those measured",
    subjects: Subjects::Default,
    points,
    targets: &[Target::in_phase(WORST, "error", Rule::AtMost(0.01))],
    figures: &[
        Figure {
            title: "Hit ratio, measured",
            metric: "hit_ratio",
            x: "mib",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "Hit ratio, predicted",
            metric: "predicted_hit_ratio",
            x: "mib",
            y: "",
            shape: Shape::Subjects,
        },
    ],
    ..Experiment::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_of_a_running_cache_predicts_other_sizes() {
        let requests = Requests { alpha: 0.9, scan: 0.0, keys: 4_000, value_bytes: 32 << 10 };
        let window = Duration::from_millis(700);
        let live = Live { requests, window, windows: 3, measured: 200_000 };
        let found = live.run(1).expect("nothing fails");
        let is_worst = |found: &&Found| found.params["phase"] == WORST;
        let worst = found.iter().find(is_worst).expect("it is there").metrics[0].1;
        // By LRU it is 0.08 off.
        assert!(worst < 0.03, "{found:?}");
    }
}
