//! Many clients of one server, with values of 1 byte to 64 MiB, long replies, and slow readers.
//!
//! | of ten clients | |
//! |---|---|
//! | 4 | write: `SET`, `APPEND`, `HSET`, `SETRANGE` and `DEL` on a few hundred keys |
//! | 4 | read: `GET`, `MGET`, `GETRANGE`, `HGETALL`, `KEYS *` and `TTL` |
//! | 2 | ask the same as the readers, and read some KiB a tenth of a second |

use std::io;
use std::time::Duration;

use tidekv_io::{Clock, SystemClock};

use crate::experiments::memory::sizes::{Context, MIB};
use crate::experiments::memory::tally::{Tally, many};
use crate::load::dice::Dice;
use crate::subjects::databases::Client;

/// Keys of strings, and of hashes.
const STRINGS: u64 = 300;
const HASHES: u64 = 4;

/// The largest value.
const VALUE_BYTES_MAX: u64 = 64 * MIB;

/// The largest field.
const FIELD_BYTES_MAX: u64 = 64 << 10;

const BETWEEN_SIPS: Duration = Duration::from_millis(100);

/// A slow reader asks the next question after this number of pauses in which nothing came.
const IDLE_SIPS: u32 = 10;

/// Runs all clients until the time is over; lost connections are made anew.
pub(super) fn run(context: &Context<'_>) -> Tally {
    let clock = SystemClock::new();
    let until_ns = clock.monotonic_ns() + (context.sizes.mix_s * 1e9) as u64;
    let is_over = || clock.monotonic_ns() >= until_ns;
    many(context.port, context.sizes.clients, |number, client, tally| {
        let mut dice = Dice::of_thread(context.seed, number);
        let mut attempt = |client: &mut Client, tally: &mut Tally| -> io::Result<()> {
            while !is_over() {
                match number % 10 {
                    0..4 => write(client, &mut dice, tally)?,
                    4..8 => {
                        let words = question(&mut dice);
                        tally.note(&client.ask(&as_slices(&words))?);
                    }
                    _ => {
                        client.send(&as_slices(&question(&mut dice)))?;
                        sip(client, tally, || {
                            clock.sleep(BETWEEN_SIPS);
                            is_over()
                        })?;
                    }
                }
            }
            Ok(())
        };
        while attempt(client, tally).is_err() && !is_over() {
            tally.closed += 1;
            clock.sleep(BETWEEN_SIPS);
            *client = Client::connect(context.port)?;
        }
        Ok(())
    })
}

fn as_slices(words: &[String]) -> Vec<&[u8]> {
    words.iter().map(String::as_bytes).collect()
}

/// Reads a reply slowly, until `pauses` says that the time is over or nothing more comes.
fn sip(client: &mut Client, tally: &mut Tally, pauses: impl Fn() -> bool) -> io::Result<()> {
    client.set_waits(false)?;
    let mut idle = 0;
    while !pauses() && idle < IDLE_SIPS {
        match client.sip() {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                idle = 0;
                tally.reply_bytes += bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => idle += 1,
            Err(error) => return Err(error),
        }
    }
    tally.accepted += 1;
    client.set_waits(true)
}

/// A length, each power of two as often as any other.
fn length(dice: &mut Dice, most: u64) -> u64 {
    (most as f64).powf(dice.unit()) as u64
}

fn string(dice: &mut Dice) -> String {
    format!("mix:{}", dice.below(STRINGS))
}

fn write(client: &mut Client, dice: &mut Dice, tally: &mut Tally) -> io::Result<()> {
    let key = string(dice);
    let answer = match dice.below(10) {
        0..5 => {
            let bytes = length(dice, VALUE_BYTES_MAX);
            tally.sent_bytes += bytes;
            client.ask_with_value(&[b"SET", key.as_bytes()], bytes)
        }
        5..7 => {
            let bytes = length(dice, MIB);
            tally.sent_bytes += bytes;
            client.ask_with_value(&[b"APPEND", key.as_bytes()], bytes)
        }
        7..9 => {
            let (hash, field) = (dice.below(HASHES), dice.next());
            let (hash, field) = (format!("hash:{hash}"), format!("field:{field}"));
            let bytes = length(dice, FIELD_BYTES_MAX);
            tally.sent_bytes += bytes;
            client.ask_with_value(&[b"HSET", hash.as_bytes(), field.as_bytes()], bytes)
        }
        _ => match dice.below(2) {
            0 => client.ask_line(&format!("SETRANGE {key} {} x", length(dice, VALUE_BYTES_MAX))),
            _ => client.ask_line(&format!("DEL {key}")),
        },
    };
    tally.note(&answer?);
    Ok(())
}

/// A request that reads.
fn question(dice: &mut Dice) -> Vec<String> {
    let line = match dice.below(10) {
        0..4 => format!("GET {}", string(dice)),
        4 => format!("MGET {} {} {}", string(dice), string(dice), string(dice)),
        5 => format!("GETRANGE {} {} -1", string(dice), length(dice, VALUE_BYTES_MAX)),
        6 | 7 => format!("HGETALL hash:{}", dice.below(HASHES)),
        8 => "KEYS *".to_owned(),
        _ => format!("TTL {}", string(dice)),
    };
    line.split(' ').map(str::to_owned).collect()
}
