//! The expected content of the server: the commands of a client, their effect on a
//! plain map, and the comparison of the server with that map.
//!
//! Clients have separate keys, and the commands of a client run in the order in which it
//! sent them. So after a kill its data is the result of the acknowledged commands,
//! followed by a prefix of the pending ones: each complete
//! or absent, and none before its predecessor.

use std::collections::{BTreeMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::wire::{Client, Reply, Words};

/// Hashes of a client.
pub const HASHES: usize = 4;

#[derive(Debug, Clone)]
pub enum Command {
    Set {
        key: String,
        value: String,
        deadline_ms: Option<u64>,
    },
    SetMany(Vec<(String, String)>),
    Append {
        key: String,
        more: String,
    },
    Increment {
        key: String,
    },
    Delete {
        keys: Vec<String>,
    },
    HashSet {
        key: String,
        fields: Vec<(String, String)>,
    },
    HashDelete {
        key: String,
        field: String,
    },
    Get {
        key: String,
    },
    /// All of them atomically.
    Transaction(Vec<Command>),
}

impl Command {
    /// Its requests.
    pub fn requests(&self, out: &mut Vec<Words>) {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let pairs = |head: &[&str], pairs: &[(String, String)]| {
            let pairs = pairs.iter().flat_map(|(a, b)| [a.clone(), b.clone()]);
            head.iter().map(|&word| word.to_owned()).chain(pairs).collect()
        };
        let request = match self {
            Self::Set { key, value, deadline_ms: None } => words(&["SET", key, value]),
            Self::Set { key, value, deadline_ms: Some(ms) } => {
                words(&["SET", key, value, "PXAT", &ms.to_string()])
            }
            Self::SetMany(entries) => pairs(&["MSET"], entries),
            Self::Append { key, more } => words(&["APPEND", key, more]),
            Self::Increment { key } => words(&["INCR", key]),
            Self::Delete { keys } => {
                std::iter::once("DEL".to_owned()).chain(keys.iter().cloned()).collect()
            }
            Self::HashSet { key, fields } => pairs(&["HSET", key], fields),
            Self::HashDelete { key, field } => words(&["HDEL", key, field]),
            Self::Get { key } => words(&["GET", key]),
            Self::Transaction(commands) => {
                out.push(words(&["MULTI"]));
                commands.iter().for_each(|command| command.requests(out));
                words(&["EXEC"])
            }
        };
        out.push(request);
    }
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String, Option<u64>),
    Hash(BTreeMap<String, String>),
}

/// The values of a client's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State(pub BTreeMap<String, Value>);

impl State {
    /// The text of a key, empty if it is missing.
    fn text(&self, key: &str) -> &str {
        match self.0.get(key) {
            Some(Value::Text(text, _)) => text,
            _ => "",
        }
    }

    /// Applies `command`; returns its expected reply if it must be checked.
    pub fn apply(&mut self, command: &Command) -> Option<Reply> {
        match command {
            Command::Set { key, value, deadline_ms } => {
                self.0.insert(key.clone(), Value::Text(value.clone(), *deadline_ms));
            }
            Command::SetMany(entries) => {
                for (key, value) in entries {
                    self.0.insert(key.clone(), Value::Text(value.clone(), None));
                }
            }
            Command::Append { key, more } => {
                let text = self.text(key).to_owned() + more;
                let len = text.len() as i64;
                self.0.insert(key.clone(), Value::Text(text, None));
                return Some(Reply::Number(len));
            }
            Command::Increment { key } => {
                let sum = self.text(key).parse().unwrap_or(0) + 1;
                self.0.insert(key.clone(), Value::Text(sum.to_string(), None));
                return Some(Reply::Number(sum));
            }
            Command::Delete { keys } => keys.iter().for_each(|key| {
                self.0.remove(key);
            }),
            Command::HashSet { key, fields } => {
                let hash = self.0.entry(key.clone()).or_insert(Value::Hash(BTreeMap::new()));
                let Value::Hash(hash) = hash else { panic!("{key} is no hash") };
                let before = hash.len();
                hash.extend(fields.iter().cloned());
                return Some(Reply::Number((hash.len() - before) as i64));
            }
            Command::HashDelete { key, field } => {
                let Some(Value::Hash(hash)) = self.0.get_mut(key) else {
                    return Some(Reply::Number(0));
                };
                let was_there = hash.remove(field).is_some();
                if hash.is_empty() {
                    self.0.remove(key);
                }
                return Some(Reply::Number(was_there.into()));
            }
            Command::Get { key } => {
                return Some(match self.0.get(key) {
                    Some(Value::Text(text, _)) => Reply::Text(text.clone()),
                    _ => Reply::Nil,
                });
            }
            Command::Transaction(commands) => commands.iter().for_each(|command| {
                self.apply(command);
            }),
        }
        None
    }

    /// An entry that has expired at `ms`.
    fn expired(&self, ms: u64) -> Option<(&String, &Value)> {
        self.0.iter().find(|(_, value)| matches!(value, Value::Text(_, Some(d)) if *d <= ms))
    }

    /// Removes the entries that have expired at `from_ms` or expire until
    /// `to_ms`; returns the latter.
    fn expire(&mut self, from_ms: u64, to_ms: u64) -> BTreeMap<String, Value> {
        let deadline = |value: &Value| match value {
            Value::Text(_, deadline) => *deadline,
            Value::Hash(_) => None,
        };
        self.0.retain(|_, value| deadline(value).is_none_or(|d| d > from_ms));
        let all = std::mem::take(&mut self.0);
        let (passing, rest) =
            all.into_iter().partition(|(_, value)| deadline(value).is_some_and(|d| d <= to_ms));
        self.0 = rest;
        passing
    }
}

impl Command {
    /// Moves its deadline.
    fn move_deadline(&mut self, by_ms: i64) {
        if let Self::Set { deadline_ms: Some(deadline_ms), .. } = self {
            *deadline_ms = deadline_ms.saturating_add_signed(by_ms);
        }
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// The server's data of `client`'s keys, by a scan and by single reads of
/// the scanned keys.
fn look(connection: &mut Client, client: usize) -> Option<State> {
    let mut state = State::default();
    let (from, to) = (format!("[c{client}:"), format!("(c{client};"));
    let items = connection.ask(&["TIDE.RANGE", &from, &to])?.many();
    let mut texts = items.into_iter().map(Reply::text);
    let mut keys = Vec::new();
    while let (Some(key), Some(text)) = (texts.next(), texts.next()) {
        keys.push(key.clone());
        state.0.insert(key, Value::Text(text, None));
    }
    let read =
        |key: &String| [vec!["GET".into(), key.clone()], vec!["PEXPIRETIME".into(), key.clone()]];
    let requests: Vec<Words> = keys.iter().flat_map(read).collect();
    if !connection.send(&requests) {
        return None;
    }
    for key in keys {
        let (single, deadline) = (connection.reply()?, connection.reply()?);
        let Some(Value::Text(text, known)) = state.0.get_mut(&key) else { unreachable!() };
        // Nil: it has expired since the scan.
        assert!(single == Reply::Text(text.clone()) || single == Reply::Nil, "{key}: {single:?}");
        if let Reply::Number(ms @ 0..) = deadline {
            *known = Some(ms as u64);
        }
        if deadline == Reply::Number(-2) || single == Reply::Nil {
            state.0.remove(&key);
        }
    }
    for number in 0..HASHES {
        let key = format!("c{client}:hash-{number}");
        let mut texts = connection.ask(&["HGETALL", &key])?.many().into_iter().map(Reply::text);
        let mut fields = BTreeMap::new();
        while let (Some(field), Some(value)) = (texts.next(), texts.next()) {
            fields.insert(field, value);
        }
        if !fields.is_empty() {
            state.0.insert(key, Value::Hash(fields));
        }
    }
    Some(state)
}

/// The record of one client.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The result of the acknowledged commands.
    pub state: State,
    /// Sent, not acknowledged, oldest first.
    pub under_way: VecDeque<Command>,
    /// Makes every value unique.
    pub written: u64,
    pub acknowledged: u64,
    pub checked: u64,
}

impl Ledger {
    /// Called when the deadlines of the server have moved.
    pub fn move_deadlines(&mut self, by_ms: i64) {
        for value in self.state.0.values_mut() {
            if let Value::Text(_, Some(deadline_ms)) = value {
                *deadline_ms = deadline_ms.saturating_add_signed(by_ms);
            }
        }
        self.under_way.iter_mut().for_each(|command| command.move_deadline(by_ms));
    }

    /// Compares the server's data with the possible states, and adopts it as the
    /// state from now on. The error explains a mismatch. Entries may expire `slack_ms` too early or
    /// too late.
    pub fn check(
        &mut self,
        connection: &mut Client,
        client: usize,
        slack_ms: u64,
    ) -> Result<(), String> {
        let from_ms = now_ms() - slack_ms;
        let mut found = look(connection, client).ok_or("the server is gone while it is read")?;
        let to_ms = now_ms() + slack_ms;
        if let Some((key, value)) = found.expired(from_ms) {
            return Err(format!("{key} is alive at {from_ms}, after its time: {value:?}"));
        }
        let still_alive = found.expire(from_ms, to_ms);
        self.checked += found.0.len() as u64;
        let first = self.state.clone();
        loop {
            let (mut possible, mut shown) = (self.state.clone(), found.clone());
            let mut passing = possible.expire(from_ms, to_ms);
            for key in passing.keys() {
                // Both are correct.
                shown.0.remove(key);
            }
            if possible == shown {
                self.under_way.clear();
                // What lives on may do so for longer, if the clock is set back.
                passing.retain(|key, value| still_alive.get(key) == Some(value));
                self.state = possible;
                self.state.0.extend(passing);
                return Ok(());
            }
            match self.under_way.pop_front() {
                Some(command) => self.state.apply(&command),
                None => break,
            };
        }
        let mut first = first;
        first.expire(from_ms, to_ms);
        self.state.expire(from_ms, to_ms);
        let differing = |other: &State| -> Vec<String> {
            let keys: std::collections::BTreeSet<_> =
                other.0.keys().chain(found.0.keys()).collect();
            let differs = keys.into_iter().filter(|key| other.0.get(*key) != found.0.get(*key));
            let short =
                |value: Option<&Value>| format!("{value:?}").chars().take(90).collect::<String>();
            differs
                .take(12)
                .map(|key| {
                    format!("{key}: {} for {}", short(found.0.get(key)), short(other.0.get(key)))
                })
                .collect()
        };
        Err(format!(
            "client {client} finds what no prefix of its commands has made; against all \
             acknowledged: {:#?}; against all sent: {:#?}",
            differing(&first),
            differing(&self.state)
        ))
    }
}
