//! Object caches behind a socket as subjects: TideKV's own server, and memcached.
//!
//! Each is a separate process, started by the open and ended by the close, at the latest when the
//! worker ends. All use the memcached protocol through the same client, over a Unix socket, with
//! one connection per thread; so the cost of a socket is the same for all. The process is a child
//! of the worker and shares its memory limit.
//!
//! Threads may use a subject concurrently. Its opener must outlive it: the server ends with it.

mod client;
mod directory;
mod process;
mod memcached;
mod cache_server;
mod flat;
mod own;
mod resized;
mod driven;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::subject::{Counts, Hold, Settings, Subject, SubjectRecord};
use crate::subjects::served::cache_server::Control;
use crate::subjects::served::client::Connection;
use crate::subjects::served::memcached::Behind;
use crate::subjects::tiered::{TIDEKV_CACHE, cannot};

pub(crate) use crate::subjects::served::cache_server::{COMMAND, serve};
pub(crate) use crate::subjects::served::directory::Directory;
pub(crate) use crate::subjects::served::driven::{Drivers, Turn, Turns};
pub(crate) use crate::subjects::served::flat::{Asked, Kind, OfAPrediction};
pub(crate) use crate::subjects::served::own::Target;
pub(crate) use crate::subjects::served::process::ServerProcess;
pub(crate) use crate::subjects::served::resized::{Clients, Course, Stage, Stretch};

/// TideKV's cache behind its own server.
pub const TIDEKV_CACHE_SERVED: SubjectRecord = SubjectRecord {
    name: "tidekv:cache-served",
    about: "TideKV's cache tier behind its own server, over a Unix socket: memory and flash as \
            `tidekv:cache`, one server thread per processor (its default)",
    format: "tidekv-cache-served",
    open: |path, settings| open_ours(path, settings),
    ..TIDEKV_CACHE
};

/// memcached with flash behind it.
pub const MEMCACHED_EXTSTORE: SubjectRecord = SubjectRecord {
    name: "memcached:extstore",
    about: "memcached with extstore, over a Unix socket, 4 threads (its default). -m is the \
            whole memory: it includes the headers of objects on flash, while the hash table and \
            20 MiB of buffers are in addition. 16 threads read flash (its default is 1), one per \
            concurrent get; pages of 8 MiB, the minimum for its default write buffers, so that \
            small flash has many. The rest has defaults: values from 512 bytes on go to flash \
            when memory is full (from 64 on where objects are smaller than 1 KiB), one get in 2000 of those twice within a minute brings its \
            object back, a quarter of the pages is kept free by rewriting. Objects that arrive \
            faster than its one writer can write them to flash are evicted, with any settings. \
            It reads through the kernel's page cache, which is limited with the process",
    format: "memcached-extstore",
    open: |path, settings| {
        open_memcached(MEMCACHED_EXTSTORE.name, Behind::Extstore, path, settings)
    },
    ..TIDEKV_CACHE
};

/// memcached in memory alone.
pub const MEMCACHED: SubjectRecord = SubjectRecord {
    name: "memcached",
    about: "memcached without flash, over a Unix socket: objects that do not fit its memory are \
            evicted; 4 threads (its default), -m is the whole memory",
    format: "memcached",
    open: |path, settings| open_memcached(MEMCACHED.name, Behind::Nothing, path, settings),
    ..TIDEKV_CACHE
};

/// memcached with more memory than there is.
pub const MEMCACHED_SWAP: SubjectRecord = SubjectRecord {
    name: "memcached:swap",
    about: "memcached, over a Unix socket, with as much memory as others have flash, so that the \
            kernel swaps it out (-m is the size of flash); fails on a machine with less swap. 4 \
            threads (its default)",
    format: "memcached-swap",
    open: |path, settings| open_memcached(MEMCACHED_SWAP.name, Behind::Swap, path, settings),
    ..TIDEKV_CACHE
};

/// The source of a server's counters.
enum Counting {
    /// Pipes, for ours: all of them.
    Control(Mutex<Control>),
    /// `stats`, for memcached.
    Stats,
}

struct Served {
    /// The idle connections.
    connections: Mutex<Vec<Connection<UnixStream>>>,
    counting: Counting,
    server: ServerProcess,
}

fn open_ours(directory: &Path, settings: &Settings) -> Result<Box<dyn Subject>> {
    let command = cache_server::command()?;
    let mut server = ServerProcess::start(TIDEKV_CACHE_SERVED.name, command, directory)?;
    let pipes = server.take_pipes().expect("the command has pipes");
    let control = Control::new(pipes, settings);
    let connections = Mutex::new(vec![server.when_listening()?]);
    let counting = Counting::Control(Mutex::new(control));
    Ok(Box::new(Served { connections, counting, server }))
}

fn open_memcached(
    name: &'static str,
    behind: Behind,
    directory: &Path,
    settings: &Settings,
) -> Result<Box<dyn Subject>> {
    let command = memcached::command(behind, settings)?;
    let mut server = ServerProcess::start(name, command, directory)?;
    let connections = Mutex::new(vec![server.when_listening()?]);
    Ok(Box::new(Served { connections, counting: Counting::Stats, server }))
}

impl Served {
    /// Sends a request over a connection that no other thread uses meanwhile.
    fn ask<T>(&self, request: impl FnOnce(&mut Connection<UnixStream>) -> Result<T>) -> Result<T> {
        let idle = || self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let failed = |failure| self.server.with_words(failure);
        let mut connection = match waiting {
            Some(connection) => connection,
            None => self.server.connect().map_err(|error| {
                failed(Failure::system("could not connect to the server of the cache", error))
            })?,
        };
        let answer = request(&mut connection).map_err(failed)?;
        idle().push(connection);
        Ok(answer)
    }
}

impl Subject for Served {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        // A cache may lack room for it.
        self.ask(|connection| connection.set(key, value).map(drop))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.ask(|connection| connection.delete(key))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.ask(|connection| connection.get(key, see))
    }

    fn put_with_flags(&self, key: &[u8], flags: u32, value: &[u8]) -> Result<bool> {
        self.ask(|connection| connection.set_with_flags(key, flags, value))
    }

    fn get_with_flags(&self, key: &[u8], see: &mut dyn FnMut(u32, &[u8])) -> Result<bool> {
        self.ask(|connection| connection.get_with_flags(key, see))
    }

    fn multi_get(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        Err(cannot("read many keys at once"))
    }

    fn scan(&self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Err(cannot("scan"))
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        Err(cannot("take a snapshot"))
    }

    fn settle(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn counts(&self) -> Result<Counts> {
        let counts = match &self.counting {
            Counting::Control(control) => {
                let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
                control.counts().map_err(|failure| self.server.with_words(failure))?
            }
            Counting::Stats => memcached::counts(&self.ask(Connection::stats)?),
        };
        Ok(Counts {
            beside_cpu_ns: Some(self.server.cpu_ns()),
            beside_bytes_max: Some(self.server.resident_bytes_max()),
            ..counts
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { connections, counting, server } = *self;
        drop(connections);
        match counting {
            // It ends with its standard input.
            Counting::Control(control) => {
                drop(control);
                let status = server.when_ended()?;
                match status.success() {
                    true => Ok(()),
                    false => {
                        Err(Failure::new(format!("the server of the cache ended badly: {status}")))
                    }
                }
            }
            Counting::Stats => server.terminate(),
        }
    }
}
