//! The connected clients, for `CLIENT LIST` and `CLIENT INFO`.
//!
//! Only its connection writes a [`Client`]; any thread may read it. It is in the list from its
//! creation until its [`Registration`] is dropped with the connection.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// A connection.
#[derive(Debug)]
pub struct Client {
    /// Its number, from 1 in order of arrival.
    pub id: u64,
    /// The client's address.
    pub address: String,
    /// The server's address.
    pub local_address: String,
    connected_ms: u64,
    active_ms: AtomicU64,
    /// Commands queued by `MULTI`; -1 outside of it.
    pub queued: AtomicI64,
    /// Keys watched by `WATCH`.
    pub watched: AtomicUsize,
    /// The protocol version.
    pub protocol: AtomicU64,
    /// The selected database.
    pub database: AtomicUsize,
    /// Whether the client asked not to be evicted. (No server here evicts clients.)
    pub is_kept: AtomicBool,
    is_killed: AtomicBool,
    kill: Notify,
    said: Mutex<Said>,
}

/// The information that a client sets about itself.
#[derive(Debug, Default, Clone)]
pub struct Said {
    /// The name of the connection.
    pub name: Bytes,
    /// The name of the client library.
    pub library: Bytes,
    /// The version of the library.
    pub library_version: Bytes,
    /// The last command; empty before the first.
    pub last_command: &'static str,
}

impl Client {
    /// Changes the information that the client has set.
    pub fn update(&self, update: impl FnOnce(&mut Said)) {
        update(&mut self.said.lock());
    }

    /// The information that the client has set.
    pub fn said(&self) -> Said {
        self.said.lock().clone()
    }

    /// Records `command` as the last command.
    pub fn touch(&self, now_ms: u64, command: &'static str) {
        self.active_ms.store(now_ms, Ordering::Relaxed);
        self.said.lock().last_command = command;
    }

    /// Makes the connection end as soon as it has executed the requests that it has begun.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
        self.kill.notify_one();
    }

    /// Whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// Waits until it is killed. Only for the connection itself.
    pub async fn killed(&self) {
        while !self.is_killed() {
            self.kill.notified().await;
        }
    }

    /// Milliseconds since the last command.
    pub fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.active_ms.load(Ordering::Relaxed))
    }

    /// A line in the form of `CLIENT LIST`.
    pub fn line(&self, now_ms: u64) -> String {
        let said = self.said();
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let seconds_since = |then: u64| now_ms.saturating_sub(then) / 1000;
        let queued = self.queued.load(Ordering::Relaxed);
        let mut flags = String::from(if queued >= 0 { "x" } else { "N" });
        if self.is_kept.load(Ordering::Relaxed) {
            flags = flags.replace('N', "") + "e";
        }
        let mut line = String::new();
        let _ = write!(
            line,
            "id={} addr={} laddr={} name={} age={} idle={} flags={flags} db={} sub=0 psub=0 ssub=0 \
             multi={queued} watch={} cmd={} user=default lib-name={} lib-ver={} resp={}",
            self.id,
            self.address,
            self.local_address,
            text(&said.name),
            seconds_since(self.connected_ms),
            seconds_since(self.active_ms.load(Ordering::Relaxed)),
            self.database.load(Ordering::Relaxed),
            self.watched.load(Ordering::Relaxed),
            if said.last_command.is_empty() { "NULL" } else { said.last_command },
            text(&said.library),
            text(&said.library_version),
            self.protocol.load(Ordering::Relaxed),
        );
        line
    }
}

/// All connected clients.
#[derive(Debug, Default)]
pub struct Clients {
    connected: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
}

impl Clients {
    /// Number of clients.
    pub fn len(&self) -> usize {
        self.connected.lock().len()
    }

    /// Whether no client is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a client to the list.
    pub fn register(
        self: &Arc<Self>,
        address: String,
        local_address: String,
        now_ms: u64,
    ) -> Registration {
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            address,
            local_address,
            connected_ms: now_ms,
            active_ms: AtomicU64::new(now_ms),
            queued: AtomicI64::new(-1),
            watched: AtomicUsize::new(0),
            protocol: AtomicU64::new(2),
            database: AtomicUsize::new(0),
            is_kept: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            kill: Notify::new(),
            said: Mutex::default(),
        });
        self.connected.lock().insert(client.id, client.clone());
        Registration { clients: self.clone(), client }
    }

    /// All clients in order of arrival.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.connected.lock().values().cloned().collect()
    }
}

/// A client's entry in the list; dropping it removes the entry.
#[derive(Debug)]
pub struct Registration {
    clients: Arc<Clients>,
    client: Arc<Client>,
}

impl Registration {
    /// The client, for others to hold.
    pub fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client)
    }
}

impl std::ops::Deref for Registration {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.clients.connected.lock().remove(&self.client.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_listed_while_they_are_connected() {
        let clients = Arc::new(Clients::default());
        let first = clients.register("1.2.3.4:5".into(), "1.2.3.4:6379".into(), 1000);
        let second = clients.register("b".into(), "c".into(), 1000);
        first.update(|said| said.name = Bytes::from_static(b"worker"));
        first.touch(3000, "get");
        let line = first.line(4500);
        assert!(
            line.starts_with("id=1 addr=1.2.3.4:5 laddr=1.2.3.4:6379 name=worker age=3 idle=1 "),
            "{line}"
        );
        assert!(line.contains(" cmd=get "), "{line}");
        assert_eq!(clients.len(), 2);
        drop(first);
        assert_eq!(clients.list()[0].id, second.id);
    }
}
