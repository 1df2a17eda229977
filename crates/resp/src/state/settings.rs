//! The settings that can change while the server runs (`CONFIG SET`), readable
//! from every thread without waiting.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tidekv::Durability;
use tidekv_net::error::{Error, Result};
use tidekv_net::handles;
use tidekv_net::password::{PASSWORD_BYTES_MAX, Password};

use crate::options::ServerOptions;

/// The current settings.
#[derive(Debug)]
pub(crate) struct Settings {
    password: RwLock<Option<Password>>,
    connections_max: AtomicUsize,
    /// As far as file handles allow.
    connections_limit: AtomicUsize,
    /// 0: no timeout.
    idle_timeout_ms: AtomicU64,
    is_synced: AtomicBool,
    /// Commands that take at least this many microseconds are in the slow log; -1: none.
    slow_log_us: AtomicI64,
    slow_log_len: AtomicUsize,
    /// Delays of at least this many milliseconds are in the latency monitor; 0: none.
    latency_threshold_ms: AtomicU64,
    /// The values of Redis's parameters that have no effect here, as far as they were set.
    without_effect: Mutex<BTreeMap<&'static str, String>>,
    pub(crate) write_timeout: Duration,
    pub(crate) io_threads: usize,
}

impl Settings {
    pub(crate) fn new(options: &ServerOptions) -> Result<Self> {
        let settings = Self {
            password: RwLock::new(None),
            connections_max: AtomicUsize::new(options.connections_max),
            connections_limit: AtomicUsize::new(usize::MAX),
            idle_timeout_ms: AtomicU64::new(0),
            is_synced: AtomicBool::new(options.durability == Durability::Sync),
            slow_log_us: AtomicI64::new(10_000),
            slow_log_len: AtomicUsize::new(128),
            latency_threshold_ms: AtomicU64::new(0),
            without_effect: Mutex::default(),
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
        let limit = self.connections_limit.load(Ordering::Relaxed);
        self.connections_max.store(handles::lowered(connections, limit), Ordering::Relaxed);
    }

    /// Sets for how many connections there are file handles.
    pub(crate) fn limit_connections(&self, limit: usize) {
        self.connections_limit.store(limit, Ordering::Relaxed);
        self.set_connections_max(self.connections_max());
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

    /// The threshold of the slow log in microseconds; -1: it is off.
    pub(crate) fn slow_log_us(&self) -> i64 {
        self.slow_log_us.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slow_log_us(&self, us: i64) {
        self.slow_log_us.store(us, Ordering::Relaxed);
    }

    /// The number of entries of the slow log.
    pub(crate) fn slow_log_len(&self) -> usize {
        self.slow_log_len.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slow_log_len(&self, len: usize) {
        self.slow_log_len.store(len, Ordering::Relaxed);
    }

    /// The threshold of the latency monitor; 0: it is off.
    pub(crate) fn latency_threshold_ms(&self) -> u64 {
        self.latency_threshold_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_latency_threshold_ms(&self, ms: u64) {
        self.latency_threshold_ms.store(ms, Ordering::Relaxed);
    }

    /// The value that a parameter without effect was set to.
    pub(crate) fn without_effect(&self, name: &str) -> Option<String> {
        self.without_effect.lock().get(name).cloned()
    }

    pub(crate) fn set_without_effect(&self, name: &'static str, value: String) {
        self.without_effect.lock().insert(name, value);
    }
}
