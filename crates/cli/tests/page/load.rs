//! The load of the clients: fill the store, scan, get.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tidekv_io::SeededRandom;

pub const KEYS: u64 = 120_000;
/// One key in this number is hot; its neighbours are not. All hot values together take three
/// quarters of the caches: with fewer, blocks would keep the rest of the budget.
const HOT: u64 = 5;
const CLIENTS: u64 = 2;
const PIPELINE: usize = 16;

/// The load of all clients at a time.
#[derive(Debug, Clone, Copy)]
pub enum Load {
    /// Scans of 50 neighbours each, most of them in a twentieth of the keys.
    Scans,
    /// Gets, nine of ten of scattered hot keys.
    Gets,
}

/// Clients that run until stopped.
pub struct Running {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Running {
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
    }
}

impl Load {
    pub fn start(self, address: &str) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |seed| {
            let (address, stop) = (address.to_owned(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let (mut client, dice) = (Client::new(&address), SeededRandom::new(seed));
                while !stop.load(Ordering::Relaxed) {
                    let commands = (0..PIPELINE).map(|_| self.command(&dice)).collect::<String>();
                    client.run(&commands, PIPELINE);
                }
            })
        };
        let clients = (0..CLIENTS).map(client).collect();
        Running { stop, clients }
    }

    fn command(self, dice: &SeededRandom) -> String {
        match self {
            Self::Scans => {
                let near = KEYS / 3 + dice.below(KEYS / 20);
                let start = if dice.below(4) == 0 { dice.below(KEYS - 100) } else { near };
                format!("TIDE.RANGE {} {} LIMIT 50\r\n", key(start), key(start + 60))
            }
            Self::Gets => {
                let hot = dice.below(KEYS / HOT) * HOT;
                let number = if dice.below(10) == 0 { dice.below(KEYS) } else { hot };
                format!("GET {}\r\n", key(number))
            }
        }
    }
}

fn key(number: u64) -> String {
    format!("user{number:08}")
}

/// Sets all keys.
pub fn fill(address: &str) {
    let (mut client, dice) = (Client::new(address), SeededRandom::new(7));
    for first in (0..KEYS).step_by(500) {
        let set = |number| {
            let value: String = (0..10).map(|_| format!("{:016x}", dice.below(1 << 62))).collect();
            format!("SET {} {value}\r\n", key(number))
        };
        client.run(&(first..first + 500).map(set).collect::<String>(), 500);
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: &str) -> Self {
        Self(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    /// Sends `count` commands and reads their replies.
    fn run(&mut self, commands: &str, count: usize) {
        self.0.get_mut().write_all(commands.as_bytes()).unwrap();
        (0..count).for_each(|_| self.skip_reply());
    }

    fn skip_reply(&mut self) {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let number = || std::str::from_utf8(&line[1..line.len() - 2]).unwrap().parse::<i64>();
        match line[0] {
            b'$' => {
                let len = number().unwrap();
                if len >= 0 {
                    let mut bytes = vec![0; len as usize + 2];
                    self.0.read_exact(&mut bytes).unwrap();
                }
            }
            b'*' => (0..number().unwrap()).for_each(|_| self.skip_reply()),
            b'+' | b':' => {}
            _ => panic!("{}", String::from_utf8_lossy(&line)),
        }
    }
}
