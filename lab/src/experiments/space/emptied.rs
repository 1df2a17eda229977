//! The time of `SCAN 0` and `DBSIZE` of a server whose keys were all deleted or have expired: the
//! first calls after that, after a quiet time, after a restart, and after a kill. Redis counts expired keys until it has
//! removed them (`keys_left`).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};
use tidekv_testkit::evidence::Value;

use crate::experiment::{Found, Model, Params, Point};
use crate::experiments::engine::filling;
use crate::failure::{Failure, Result};
use crate::load::dice::mix;
use crate::load::keys::Choice;
use crate::scale::{Scale, Shape};
use crate::subjects::databases::{Client, Database, Home, Product, Said, filler};
use crate::subjects::served::Directory;

/// The budget of TideKV, and what Redis may take, which keeps all data in memory.
const MEMORY_BYTES: u64 = 64 << 20;
const REDIS_BYTES: u64 = 1 << 30;
/// Bytes of a value.
const VALUE_BYTES: usize = 100;

/// Requests that are sent at once.
const BATCH: u64 = 500;

/// How keys go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Delete,
    Expire,
    FlushAll,
}

#[derive(Debug)]
struct Emptied {
    way: Way,
    keys: u64,
    /// How long keys live that expire.
    life_s: f64,
    /// How long nothing is done before the second measurement.
    quiet_s: f64,
}

fn failed(error: io::Error) -> Failure {
    Failure::system("lost the server", error)
}

impl Emptied {
    fn of(&self, product: Product, directory: &Directory) -> Result<Vec<Found>> {
        let folder = directory.folder(product.name())?;
        let memory_bytes = match product {
            Product::TideKv => MEMORY_BYTES,
            Product::Redis => REDIS_BYTES,
        };
        let home = match Home::new(product, memory_bytes, &folder, None) {
            Ok(home) => home,
            Err(failure) => {
                let mut params = of_step("skipped");
                params.insert("why".into(), failure.message.into());
                return Ok(vec![Found { subject: product.name(), params, metrics: Vec::new() }]);
            }
        };
        let database = home.start()?;
        self.empty(&database)?;
        let mut found = vec![measured(product, "emptied", &database)?];
        SystemClock::new().sleep(Duration::from_secs_f64(self.quiet_s));
        found.push(measured(product, "after a quiet time", &database)?);
        database.terminate()?;
        let database = home.start()?;
        found.push(measured(product, "restarted", &database)?);
        database.kill();
        found.push(measured(product, "killed and restarted", &home.start()?)?);
        Ok(found)
    }

    /// Writes all keys, and lets them go.
    fn empty(&self, database: &Database) -> Result<()> {
        let clock = SystemClock::new();
        let mut client = Client::connect(database.port()).map_err(failed)?;
        let life_ms = format!("{}", (self.life_s * 1e3) as u64);
        let value = &filler()[..VALUE_BYTES];
        self.each(&mut client, |client, key| match self.way {
            Way::Expire => client.push(&[b"SET", key, value, b"PX", life_ms.as_bytes()]),
            Way::Delete | Way::FlushAll => client.push(&[b"SET", key, value]),
        })?;
        match self.way {
            Way::Expire => clock.sleep(Duration::from_secs_f64(self.life_s)),
            Way::Delete => self.each(&mut client, |client, key| client.push(&[b"DEL", key]))?,
            Way::FlushAll => drop(client.ask_line("FLUSHALL").map_err(failed)?),
        }
        Ok(())
    }

    fn each(&self, client: &mut Client, push: impl Fn(&mut Client, &[u8])) -> Result<()> {
        for first in (0..self.keys).step_by(BATCH as usize) {
            let some = first..(first + BATCH).min(self.keys);
            some.clone().for_each(|at| push(client, format!("key:{:016x}", mix(at)).as_bytes()));
            client.send_pushed().map_err(failed)?;
            for _ in some {
                if let Said::Error(error) = client.answer().map_err(failed)?.said {
                    return Err(Failure::new(format!("the server refuses: {error}")));
                }
            }
        }
        Ok(())
    }
}

fn of_step(name: &str) -> Params {
    [("step".to_owned(), Value::from(name))].into()
}

/// The first requests to a server.
fn measured(product: Product, step: &str, database: &Database) -> Result<Found> {
    let clock = SystemClock::new();
    let mut client = Client::connect(database.port()).map_err(failed)?;
    let mut timed = |line: &str| {
        let begun_ns = clock.monotonic_ns();
        let answer = client.ask_line(line).map_err(failed)?;
        Ok::<_, Failure>((answer, (clock.monotonic_ns() - begun_ns) as f64 / 1e6))
    };
    let (_, scan_ms) = timed("SCAN 0")?;
    let (size, dbsize_ms) = timed("DBSIZE")?;
    let Said::Integer(keys_left) = size.said else {
        return Err(Failure::new(format!("{} does not say its size", product.name())));
    };
    let metrics =
        vec![("scan_ms", scan_ms), ("dbsize_ms", dbsize_ms), ("keys_left", keys_left as f64)];
    Ok(Found { subject: product.name(), params: of_step(step), metrics })
}

impl Model for Emptied {
    fn run(&self, _: u64) -> Result<Vec<Found>> {
        let directory = Directory::new()?;
        let found = [Product::TideKv, Product::Redis].map(|product| self.of(product, &directory));
        Ok(found.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }
}

pub(super) fn points(scale: &Scale) -> Vec<Point> {
    let ways = [(Way::Delete, "delete"), (Way::Expire, "expire"), (Way::FlushAll, "flushall")];
    let of = |(way, name): (Way, &str)| {
        let keys = (scale.entries / 25).max(1000);
        // Longer than it takes to write them.
        let life_s = (keys as f64 / 1e5).max(1.0);
        let model = Emptied { way, keys, life_s, quiet_s: scale.seconds * 2.0 };
        let value_bytes = VALUE_BYTES as u64;
        let params: Params = [
            ("emptied", Value::from(name)),
            ("entries", keys.into()),
            ("value_bytes", value_bytes.into()),
            ("memory_bytes", MEMORY_BYTES.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let shape = Shape { entries: keys, value_bytes, is_compressed: false };
        let model: Option<Arc<dyn Model>> = Some(Arc::new(model));
        let alternations = if scale.is_quick { 1 } else { scale.long_alternations() };
        let point = filling(scale, shape, 1, Choice::Sequential, 1);
        Point { params, store: None, model, alternations, ..point }
    };
    ways.map(of).into()
}
