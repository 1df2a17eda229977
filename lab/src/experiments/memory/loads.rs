//! What clients do to a server that has much less memory than they ask for.
//!
//! | load | clients |
//! |---|---|
//! | `large-value` | set values of 1 to 255 MiB |
//! | `setrange` | write one byte far behind the end of a string |
//! | `unread-replies` | ask for all keys, entries or fields, and do not read the reply |
//! | `half-requests` | send half of a value, and wait |
//! | `append` | make a long string of many parts |
//! | `long-keys` | write long keys that differ in their first bytes, and read them |
//! | `long-prefixes` | the same, but keys differ in their last bytes |
//! | `large-reads` | read long strings, and ask for what is not their content |
//! | `mix` | all of this at the same time |

use std::io;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};

use crate::experiments::memory::mix;
use crate::experiments::memory::sizes::{Context, MIB, Sizes};
use crate::experiments::memory::tally::{Tally, many, one};
use crate::harness::job::{KeyPart, MemoryJob};
use crate::harness::memory::{DIFFERENT_BYTES, long_key};
use crate::load::dice;
use crate::subjects::databases::{Client, Product, filler};

/// A part of a load, whose memory is measured alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) run: fn(&Context<'_>) -> Tally,
    /// The only product that can do it; `None`: all.
    pub(super) only: Option<Product>,
}

/// A load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) steps: &'static [Step],
    /// The same for an engine without a server, if it can be said in puts and gets.
    pub(super) engine: Option<fn(&Sizes) -> MemoryJob>,
}

const fn step(name: &'static str, run: fn(&Context<'_>) -> Tally) -> Step {
    Step { name, run, only: None }
}

/// All of them.
pub(super) const LOADS: &[Load] = &[
    Load {
        name: "large-value",
        steps: &[
            step("set of 255 MiB", |context| sets(context, &[context.sizes.value_bytes])),
            step("set of 200 MB", |context| sets(context, &[200_000_000])),
            step("sets of 1 to 128 MiB", |context| {
                sets(context, &[0, 1, 2, 3, 4, 5, 6, 7].map(|power| MIB << power))
            }),
        ],
        engine: Some(|sizes| MemoryJob {
            entries: 1,
            key_bytes: DIFFERENT_BYTES,
            different: KeyPart::First,
            value_bytes: sizes.value_bytes as usize,
            puts: true,
            gets: 0,
        }),
    },
    Load {
        name: "setrange",
        steps: &[
            step("six clients, one key", |context| set_ranges(context, false)),
            step("six clients, six keys", |context| set_ranges(context, true)),
        ],
        engine: None,
    },
    Load {
        name: "unread-replies",
        steps: &[
            step("writing keys", write_keys),
            step("writing fields", write_fields),
            step("KEYS *", |context| unread(context, "KEYS *")),
            step("SCAN 0 COUNT of all", |context| {
                unread(context, &format!("SCAN 0 COUNT {}", context.sizes.keys))
            }),
            step("HGETALL", |context| unread(context, "HGETALL hash")),
            Step {
                only: Some(Product::TideKv),
                ..step("TIDE.RANGE - +", |context| unread(context, "TIDE.RANGE - +"))
            },
        ],
        engine: None,
    },
    Load { name: "half-requests", steps: &[step("half of a value", halves)], engine: None },
    Load {
        name: "append",
        steps: &[
            step("APPEND of 1 MiB", |context| appends(context, "appended", context.sizes.appends)),
            step("GET of all", |context| asks(context, 1, 1, "GET appended")),
        ],
        engine: None,
    },
    Load {
        name: "long-keys",
        steps: &[
            step("writing", |context| write_long_keys(context, KeyPart::First)),
            step("reading", |context| read_long_keys(context, KeyPart::First)),
        ],
        engine: Some(|sizes| long_keys_of_engine(sizes, KeyPart::First)),
    },
    Load {
        name: "long-prefixes",
        steps: &[
            step("writing", |context| write_long_keys(context, KeyPart::Last)),
            step("reading", |context| read_long_keys(context, KeyPart::Last)),
        ],
        engine: Some(|sizes| long_keys_of_engine(sizes, KeyPart::Last)),
    },
    Load {
        name: "large-reads",
        steps: &[
            step("writing", |context| {
                let mut tally = appends(context, "long", LONG_MIB);
                tally.add(sets(context, &[LARGE_BYTES; LARGE]));
                tally
            }),
            step("TTL", |context| asks(context, 4, 50, "TTL long")),
            step("EXISTS", |context| asks(context, 4, 50, "EXISTS long")),
            step("TYPE", |context| asks(context, 4, 50, "TYPE long")),
            step("GET", |context| asks(context, 4, 5, "GET long")),
            step("pipeline of 30 GETs", pipeline),
        ],
        engine: None,
    },
    Load { name: "mix", steps: &[step("all at once", mix::run)], engine: None },
];

/// The length of the long string, in MiB, and of the values that are read in a pipeline.
const LONG_MIB: u64 = 20;
const LARGE_BYTES: u64 = 4 * MIB;
const LARGE: usize = 30;

/// Clients that do not read.
const DEAF: u64 = 8;

/// Requests that are sent at once.
const BATCH: u64 = 500;

/// Connections that write keys at the same time.
const WRITERS: u64 = 4;

/// Bytes of a long key.
const LONG_KEY_BYTES: usize = 4000;

/// The value of keys and fields that are many.
const SMALL_VALUE: &[u8] = b"a value of 16 B.";

/// Sets values of these lengths, one after another.
fn sets(context: &Context<'_>, lengths: &[u64]) -> Tally {
    let mut sum = Tally::default();
    for (at, &length) in lengths.iter().enumerate() {
        // A server may close the connection of one that it does not want.
        sum.add(one(context.port, |client, tally| {
            let key = format!("value:{at}");
            tally.sent_bytes += length;
            tally.note(&client.ask_with_value(&[b"SET", key.as_bytes()], length)?);
            tally.note(&client.ask(&[b"STRLEN", key.as_bytes()])?);
            Ok(())
        }));
    }
    sum
}

fn set_ranges(context: &Context<'_>, have_own_keys: bool) -> Tally {
    many(context.port, 6, |number, client, tally| {
        let key = if have_own_keys { format!("far:{number}") } else { "far".to_owned() };
        let line = format!("SETRANGE {key} {} x", context.sizes.offset);
        tally.note(&client.ask_line(&line)?);
        Ok(())
    })
}

/// Sends `count` requests in batches, spread over several clients; `push` appends one.
fn batches(context: &Context<'_>, count: u64, push: impl Fn(&mut Client, u64) + Sync) -> Tally {
    many(context.port, WRITERS, |number, client, tally| {
        let own: Vec<u64> = (number..count).step_by(WRITERS as usize).collect();
        for some in own.chunks(BATCH as usize) {
            some.iter().for_each(|&at| push(client, at));
            client.send_pushed()?;
            for _ in some {
                tally.note(&client.answer()?);
            }
        }
        Ok(())
    })
}

fn write_keys(context: &Context<'_>) -> Tally {
    batches(context, context.sizes.keys, |client, at| {
        client.push(&[b"SET", format!("key:{:016x}", dice::mix(at)).as_bytes(), SMALL_VALUE]);
    })
}

fn write_fields(context: &Context<'_>) -> Tally {
    batches(context, context.sizes.fields, |client, at| {
        let field = format!("field:{:016x}", dice::mix(at));
        client.push(&[b"HSET", b"hash", field.as_bytes(), SMALL_VALUE]);
    })
}

/// Several clients that ask and do not read, and one that reads.
fn unread(context: &Context<'_>, line: &str) -> Tally {
    let clock = SystemClock::new();
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    many(context.port, DEAF + 1, |number, client, tally| {
        if number == 0 {
            tally.note(&client.ask(&words)?);
            return Ok(());
        }
        client.send(&words)?;
        clock.sleep(Duration::from_secs_f64(context.sizes.unread_s));
        Ok(())
    })
}

/// Clients that each send half of a value, as far as the server accepts it.
fn halves(context: &Context<'_>) -> Tally {
    let clock = SystemClock::new();
    let until_ns = clock.monotonic_ns() + (context.sizes.unread_s * 4e9) as u64;
    let mut tally = Tally::default();
    let mut clients: Vec<(Client, u64)> = Vec::new();
    for number in 0..context.sizes.halves {
        let key = format!("half:{number}");
        let begun = Client::connect(context.port).and_then(|mut client| {
            client.begin(&[b"SET", key.as_bytes()], context.sizes.halves_bytes)?;
            client.set_waits(false)?;
            Ok(client)
        });
        match begun {
            Ok(client) => clients.push((client, context.sizes.halves_bytes / 2)),
            Err(_) => tally.closed += 1,
        }
    }
    while clock.monotonic_ns() < until_ns && clients.iter().any(|(_, left)| *left > 0) {
        let mut moved = 0;
        clients.retain_mut(|(client, left)| {
            let some = (*left).min(filler().len() as u64) as usize;
            match client.offer(&filler()[..some]) {
                Ok(sent) => {
                    *left -= sent as u64;
                    moved += sent as u64;
                    true
                }
                Err(_) => {
                    tally.closed += 1;
                    false
                }
            }
        });
        tally.sent_bytes += moved;
        if moved == 0 {
            clock.sleep(Duration::from_millis(10));
        }
    }
    // All of them are still waiting.
    clock.sleep(Duration::from_secs_f64(context.sizes.unread_s));
    for (mut client, _) in clients {
        match client.sip() {
            Ok(0) => tally.closed += 1,
            Ok(bytes) => {
                tally.refused += 1;
                tally.reply_bytes += bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tally.waiting += 1,
            Err(_) => tally.closed += 1,
        }
    }
    tally
}

fn appends(context: &Context<'_>, key: &str, count: u64) -> Tally {
    one(context.port, |client, tally| {
        for _ in 0..count {
            tally.sent_bytes += MIB;
            tally.note(&client.ask_with_value(&[b"APPEND", key.as_bytes()], MIB)?);
        }
        Ok(())
    })
}

/// Several clients that ask the same, one request after another.
fn asks(context: &Context<'_>, clients: u64, times: u64, line: &str) -> Tally {
    many(context.port, clients, |_, client, tally| {
        for _ in 0..times {
            tally.note(&client.ask_line(line)?);
        }
        Ok(())
    })
}

fn pipeline(context: &Context<'_>) -> Tally {
    many(context.port, 4, |_, client, tally| {
        let keys: Vec<String> = (0..LARGE).map(|at| format!("value:{at}")).collect();
        keys.iter().for_each(|key| client.push(&[b"GET", key.as_bytes()]));
        client.send_pushed()?;
        for _ in &keys {
            tally.note(&client.answer()?);
        }
        Ok(())
    })
}

fn long_keys(sizes: &Sizes) -> u64 {
    sizes.key_bytes / LONG_KEY_BYTES as u64
}

fn long_keys_of_engine(sizes: &Sizes, different: KeyPart) -> MemoryJob {
    let entries = long_keys(sizes);
    MemoryJob {
        entries,
        key_bytes: LONG_KEY_BYTES,
        different,
        value_bytes: SMALL_VALUE.len(),
        puts: true,
        gets: entries,
    }
}

fn write_long_keys(context: &Context<'_>, different: KeyPart) -> Tally {
    batches(context, long_keys(context.sizes), |client, at| {
        client.push(&[b"SET", &long_key(at, LONG_KEY_BYTES, different), SMALL_VALUE]);
    })
}

fn read_long_keys(context: &Context<'_>, different: KeyPart) -> Tally {
    let count = long_keys(context.sizes);
    batches(context, count, |client, at| {
        let at = dice::mix(at ^ context.seed) % count;
        client.push(&[b"GET", &long_key(at, LONG_KEY_BYTES, different)]);
    })
}
