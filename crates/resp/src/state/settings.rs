//! The settings that can change while the server runs (`CONFIG SET`), readable
//! from every thread without waiting.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tidekv::Durability;
use tidekv_net::error::{Error, Result};
use tidekv_net::password::{PASSWORD_BYTES_MAX, Password};

use crate::options::ServerOptions;

/// The current settings.
#[derive(Debug)]
pub(crate) struct Settings {
    password: RwLock<Option<Password>>,
    connections_max: AtomicUsize,
    /// 0: no timeout.
    idle_timeout_ms: AtomicU64,
    is_synced: AtomicBool,
    pub(crate) write_timeout: Duration,
    pub(crate) io_threads: usize,
}

impl Settings {
    pub(crate) fn new(options: &ServerOptions) -> Result<Self> {
        let settings = Self {
            password: RwLock::new(None),
            connections_max: AtomicUsize::new(options.connections_max),
            idle_timeout_ms: AtomicU64::new(0),
            is_synced: AtomicBool::new(options.durability == Durability::Sync),
            write_timeout: options.write_timeout,
            io_threads: options.io_threads.max(1),
        };
        settings.set_idle_timeout(options.idle_timeout);
        if let Some(password) = &options.password {
            let password = Password::new(password).ok_or_else(|| {
                Error::invalid(format!("a password must have 1 to {PASSWORD_BYTES_MAX} bytes"))
            })?;
            settings.set_password(Some(password));
        }
        Ok(settings)
    }

    /// The password of clients; `None`: no password.
    pub(crate) fn password(&self) -> Option<Password> {
        self.password.read().clone()
    }

    pub(crate) fn set_password(&self, password: Option<Password>) {
        *self.password.write() = password;
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_connections_max(&self, connections: usize) {
        self.connections_max.store(connections, Ordering::Relaxed);
    }

    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        let ms = self.idle_timeout_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    pub(crate) fn set_idle_timeout(&self, timeout: Option<Duration>) {
        let ms = timeout.map_or(0, |timeout| timeout.as_millis().max(1));
        self.idle_timeout_ms.store(u64::try_from(ms).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn durability(&self) -> Durability {
        match self.is_synced.load(Ordering::Relaxed) {
            true => Durability::Sync,
            false => Durability::Buffered,
        }
    }

    pub(crate) fn set_durability(&self, durability: Durability) {
        self.is_synced.store(durability == Durability::Sync, Ordering::Relaxed);
    }
}
