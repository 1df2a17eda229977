//! The connected clients: the limit of their number, and `CLIENT LIST` and `CLIENT INFO`.
//!
//! Only its connection writes a [`Client`]; any thread may read it. It is in the list from its
//! creation until its [`Registration`] is dropped with the connection.
//!
//! A client that must authenticate and has not is a *stranger*, and so is one whose TLS handshake has
//! not ended. Guarantees:
//! 1. Strangers never keep out clients that authenticate: at the limit, a new connection takes the
//!    place of the stranger that has waited longest, and of those that have had a second to
//!    authenticate, at most a quarter of the limit stays.
//! 2. A stranger is closed after [`AUTH_PATIENCE`].
//! 3. Connections that are being closed for others are at most [`LEAVING_MAX`] above the limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// The time that a client has to authenticate.
pub const AUTH_PATIENCE: Duration = Duration::from_secs(30);
/// The time in which a stranger counts as one that is about to authenticate.
const GRACE: Duration = Duration::from_secs(1);
/// The part of the connection limit that strangers may keep.
const STRANGERS_DIVISOR: usize = 4;
/// How often strangers are looked at.
const TICK: Duration = Duration::from_secs(1);
/// The time that clients take at most to leave; they mostly need microseconds.
const DEPARTURE: Duration = Duration::from_millis(100);
/// Strangers that may be closing at once in favour of other connections.
pub const LEAVING_MAX: usize = 32;

/// What a connection does, for lists of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It waits for a request, or for the rest of one.
    Waiting,
    /// It waits for the rest of a value.
    Receiving,
    /// It executes requests and sends replies.
    Executing,
}

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
    activity: AtomicU8,
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
    /// Its number among the strangers, written under the lock of [`Connected`]; 0: it is none.
    stranger: AtomicU64,
    is_killed: AtomicBool,
    is_evicted: AtomicBool,
    /// Signals a change of the two flags.
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

    /// Records what the connection does.
    pub fn set_activity(&self, activity: Activity) {
        self.activity.store(activity as u8, Ordering::Relaxed);
    }

    /// What the connection does, if its protocol records that.
    pub fn activity(&self) -> Activity {
        match self.activity.load(Ordering::Relaxed) {
            number if number == Activity::Receiving as u8 => Activity::Receiving,
            number if number == Activity::Executing as u8 => Activity::Executing,
            _ => Activity::Waiting,
        }
    }

    /// Makes the connection end as soon as it has executed the requests that it has begun.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
        self.kill.notify_waiters();
    }

    /// Whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// Waits until it is killed.
    pub async fn killed(&self) {
        self.wait_for(&self.is_killed).await;
    }

    /// Waits until it must make room for others at once, whatever it does.
    pub async fn evicted(&self) {
        self.wait_for(&self.is_evicted).await;
    }

    async fn wait_for(&self, flag: &AtomicBool) {
        loop {
            // Before the look at the flag, so that no signal is missed.
            let signal = self.kill.notified();
            if flag.load(Ordering::SeqCst) {
                return;
            }
            signal.await;
        }
    }

    fn evict(&self) {
        self.is_evicted.store(true, Ordering::SeqCst);
        self.kill();
    }

    /// Milliseconds since the last command.
    pub fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.active_ms.load(Ordering::Relaxed))
    }

    /// A line in the form of `CLIENT LIST`. What is not known of a client (its descriptor, its
    /// buffers) has a neutral value.
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
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub=0 psub=0 \
             ssub=0 multi={queued} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 \
             omem=0 tot-mem=0 events=r watch={} cmd={} user=default redir=-1 lib-name={} lib-ver={} \
             resp={}",
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
    connected: Mutex<Connected>,
    last_id: AtomicU64,
    closed_strangers: AtomicU64,
    /// Signals that a client has left that was closed in favour of others.
    departed: Notify,
}

#[derive(Debug, Default)]
struct Connected {
    all: BTreeMap<u64, Arc<Client>>,
    /// The strangers, by the number of the event that made them so: the oldest first.
    strangers: BTreeMap<u64, (Arc<Client>, Instant)>,
    events: u64,
    /// Strangers that were told to end and have not yet.
    leaving: BTreeSet<u64>,
}

/// How a client arrives.
#[derive(Debug, Clone, Default)]
pub struct Arrival {
    /// The client's address.
    pub address: String,
    /// The server's address.
    pub local_address: String,
    /// The time, for the client's age.
    pub now_ms: u64,
    /// Whether it must authenticate, or complete a handshake.
    pub is_stranger: bool,
}

impl Connected {
    fn add_stranger(&mut self, client: &Arc<Client>) {
        self.remove_stranger(client);
        self.events += 1;
        client.stranger.store(self.events, Ordering::Relaxed);
        self.strangers.insert(self.events, (Arc::clone(client), Instant::now()));
    }

    fn remove_stranger(&mut self, client: &Client) {
        self.strangers.remove(&client.stranger.swap(0, Ordering::Relaxed));
    }

    /// Tells the oldest stranger to end, if there is one that came before `latest`.
    fn close_oldest(&mut self, latest: Instant) -> bool {
        let Some(oldest) = self.strangers.first_entry() else { return false };
        if oldest.get().1 > latest {
            return false;
        }
        let (client, _) = oldest.remove();
        self.leaving.insert(client.id);
        client.evict();
        true
    }
}

impl Clients {
    /// Number of clients.
    pub fn len(&self) -> usize {
        self.connected.lock().all.len()
    }

    /// Whether no client is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Strangers that were closed in favour of other connections, or for being late.
    pub fn closed_strangers(&self) -> u64 {
        self.closed_strangers.load(Ordering::Relaxed)
    }

    /// Adds a client to the list, if there are fewer than `connections_max`, or a stranger can be
    /// closed in its favour.
    pub fn admit(
        self: &Arc<Self>,
        arrival: Arrival,
        connections_max: usize,
    ) -> Option<Registration> {
        let mut connected = self.connected.lock();
        let staying = connected.all.len() - connected.leaving.len();
        if staying >= connections_max {
            let has_room = connected.leaving.len() < LEAVING_MAX;
            if !has_room || !connected.close_oldest(Instant::now()) {
                return None;
            }
            self.closed_strangers.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "a client that has not authenticated is closed: {connections_max} are connected"
            );
        }
        let client = Arc::new(Client {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            address: arrival.address,
            local_address: arrival.local_address,
            connected_ms: arrival.now_ms,
            active_ms: AtomicU64::new(arrival.now_ms),
            activity: AtomicU8::new(Activity::Waiting as u8),
            queued: AtomicI64::new(-1),
            watched: AtomicUsize::new(0),
            protocol: AtomicU64::new(2),
            database: AtomicUsize::new(0),
            is_kept: AtomicBool::new(false),
            stranger: AtomicU64::new(0),
            is_killed: AtomicBool::new(false),
            is_evicted: AtomicBool::new(false),
            kill: Notify::new(),
            said: Mutex::default(),
        });
        connected.all.insert(client.id, client.clone());
        if arrival.is_stranger {
            connected.add_stranger(&client);
        }
        Some(Registration { clients: self.clone(), client })
    }

    /// Waits until fewer than [`LEAVING_MAX`] clients are being closed in favour of others, so that
    /// another one may be accepted; at most 100 ms.
    pub async fn wait_for_room(&self) {
        let has_room = || self.connected.lock().leaving.len() < LEAVING_MAX;
        let room = async {
            loop {
                // Before the look, so that no signal is missed.
                let departed = self.departed.notified();
                if has_room() {
                    return;
                }
                departed.await;
            }
        };
        if !has_room() {
            let _ = timeout(DEPARTURE, room).await;
        }
    }

    /// All clients in order of arrival.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.connected.lock().all.values().cloned().collect()
    }

    /// Closes strangers that are late, and the oldest of those that are more than their share of
    /// `connections_max`; once a second, until `stopped` becomes true.
    pub async fn watch_strangers(
        self: Arc<Self>,
        connections_max: impl Fn() -> usize,
        mut stopped: watch::Receiver<bool>,
    ) {
        loop {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(TICK) => {}
            }
            self.close_strangers(Instant::now(), connections_max());
        }
    }

    fn close_strangers(&self, now: Instant, connections_max: usize) {
        let share = (connections_max / STRANGERS_DIVISOR).max(1);
        let mut connected = self.connected.lock();
        let before = |age: Duration| now.checked_sub(age);
        let mut closed = 0;
        while before(AUTH_PATIENCE).is_some_and(|then| connected.close_oldest(then))
            || connected.strangers.len() > share
                && before(GRACE).is_some_and(|then| connected.close_oldest(then))
        {
            closed += 1;
        }
        drop(connected);
        if closed > 0 {
            self.closed_strangers.fetch_add(closed, Ordering::Relaxed);
            tracing::warn!("{closed} clients that have not authenticated are closed");
        }
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

    /// Records whether the client has authenticated, or need not.
    pub fn set_known(&self, is_known: bool) {
        let mut connected = self.clients.connected.lock();
        match is_known {
            true => connected.remove_stranger(&self.client),
            false => connected.add_stranger(&self.client),
        }
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
        let id = self.client.id;
        let mut connected = self.clients.connected.lock();
        connected.all.remove(&id);
        if connected.leaving.remove(&id) {
            self.clients.departed.notify_waiters();
        }
        connected.remove_stranger(&self.client);
    }
}

#[cfg(test)]
mod tests;
