//! TideKV's cache behind its own server in this process, over a Unix socket, with flash in a real file.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{LocalStorage, Storage, SystemClock};
use tidekv_memcached::{Address, CacheServer, CacheServerOptions};
use tidekv_tiered::{Cache, Environment, FlashOptions, Options};

use crate::failure::{Failure, Result};
use crate::subjects::served::client::Connection;
use crate::subjects::served::directory::Directory;

/// The time limit of a shutdown.
const DRAIN: Duration = Duration::from_secs(10);

/// The sizes of a cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// DRAM, in bytes.
    pub(crate) dram_bytes: u64,
    /// Flash, in bytes.
    pub(crate) flash_bytes: u64,
}

/// A served cache, until dropped.
#[derive(Debug)]
pub(crate) struct OwnServer {
    cache: Cache,
    server: Option<CacheServer>,
    socket: PathBuf,
}

impl OwnServer {
    /// Starts one in `directory`, under a name that is unique there, for values of this number of
    /// bytes.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(
        directory: &Directory,
        name: &str,
        target: &Target,
        value_bytes: usize,
        options: CacheServerOptions,
    ) -> Result<Self> {
        let path = |what: &str| directory.path().join(format!("{name}.{what}"));
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new());
        let around = Environment::new(storage, Arc::new(SystemClock::new()));
        let flash = FlashOptions { path: path("flash"), bytes: target.flash_bytes };
        let of_cache = Options {
            dram_bytes: target.dram_bytes,
            flash: if target.flash_bytes > 0 { vec![flash] } else { Vec::new() },
            avg_object_bytes: value_bytes as u64,
            object_bytes_max: (value_bytes as u64).next_power_of_two(),
            ..Options::default()
        };
        let failed = |what: &str| {
            let what = format!("could not start the cache: {what}");
            Failure::new(what)
        };
        let cache = Cache::open(&of_cache, &around).map_err(|error| failed(&error.to_string()))?;
        let socket = path("socket");
        let options = CacheServerOptions { listen: vec![Address::Unix(socket.clone())], ..options };
        let server = CacheServer::start(cache.clone(), options)
            .map_err(|error| failed(&error.to_string()))?;
        Ok(Self { cache, server: Some(server), socket })
    }

    /// Turns its curves off or on.
    pub(super) fn set_profiling(&self, is_on: bool) {
        if let Some(server) = &self.server {
            server.set_profiling(is_on);
        }
    }

    /// The served cache.
    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// A new connection to it.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn connect(&self) -> Result<Connection<UnixStream>> {
        let stream = UnixStream::connect(&self.socket);
        let stream =
            stream.map_err(|error| Failure::system("could not connect to the cache", error))?;
        Ok(Connection::new(stream))
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown(DRAIN);
        }
        self.cache.close();
    }
}
