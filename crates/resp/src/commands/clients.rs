//! Commands on other connections, and on how the server answers this one.
//!
//! `CLIENT UNBLOCK` finds no blocked client, because no command blocks; `CLIENT NO-EVICT` protects
//! from an eviction of clients, which does not exist.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use tidekv_net::clients::Client;

use crate::commands::errors::{NOT_AN_INTEGER, SYNTAX, integer, is_word};
use crate::data::execution::Execution;
use crate::protocol::number::parse_i64;
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::session::Replies;

/// The types of clients in Redis; here all are of the first.
pub(crate) const CLIENT_TYPES: [&str; 5] = ["normal", "master", "replica", "slave", "pubsub"];

/// Whether clients of the type `kind` are ours; an error if it is no type.
pub(crate) fn is_our_type(kind: &Bytes) -> Result<bool, CommandError> {
    match CLIENT_TYPES.iter().any(|known| is_word(kind, known)) {
        true => Ok(is_word(kind, "normal")),
        false => {
            let shown = String::from_utf8_lossy(kind);
            Err(CommandError::from(format!("ERR Unknown client type '{shown}'")))
        }
    }
}

/// The clients that `CLIENT KILL` is to close.
#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<u64>,
    is_none: bool,
    address: Option<&'a Bytes>,
    local_address: Option<&'a Bytes>,
    takes_self: bool,
}

impl<'a> Filter<'a> {
    fn parse(arguments: &'a [Bytes]) -> Result<Self, CommandError> {
        let mut filter = Self::default();
        let mut pairs = arguments.chunks_exact(2);
        for pair in &mut pairs {
            let (option, value) = (&pair[0], &pair[1]);
            if is_word(option, "ID") {
                let id = parse_i64(value).filter(|&id| id > 0);
                let error = CommandError::text("ERR client-id should be greater than 0");
                filter.id = Some(id.ok_or(error)? as u64);
            } else if is_word(option, "TYPE") {
                filter.is_none |= !is_our_type(value)?;
            } else if is_word(option, "ADDR") {
                filter.address = Some(value);
            } else if is_word(option, "LADDR") {
                filter.local_address = Some(value);
            } else if is_word(option, "USER") {
                if value != "default" {
                    let shown = String::from_utf8_lossy(value);
                    return Err(CommandError::from(format!("ERR No such user '{shown}'")));
                }
            } else if is_word(option, "SKIPME") && is_word(value, "YES") {
                filter.takes_self = false;
            } else if is_word(option, "SKIPME") && is_word(value, "NO") {
                filter.takes_self = true;
            } else {
                return Err(SYNTAX);
            }
        }
        if pairs.remainder().is_empty() { Ok(filter) } else { Err(SYNTAX) }
    }

    fn takes(&self, client: &Client, own_id: u64) -> bool {
        let is = |wanted: Option<&Bytes>, address: &str| wanted.is_none_or(|it| it == address);
        !self.is_none
            && !client.is_killed()
            && self.id.is_none_or(|id| id == client.id)
            && is(self.address, &client.address)
            && is(self.local_address, &client.local_address)
            && (self.takes_self || client.id != own_id)
    }
}

pub(crate) fn kill(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    // The old form has only an address, and takes the own connection too.
    let (filter, is_old) = match arguments {
        [address] => {
            let address = Some(address);
            (Filter { address, takes_self: true, ..Filter::default() }, true)
        }
        _ => (Filter::parse(arguments)?, false),
    };
    let own_id = execution.session.client.id;
    let mut killed = 0;
    for client in execution.state.clients.list() {
        if !filter.takes(&client, own_id) {
            continue;
        }
        killed += 1;
        // The own connection gets its reply first.
        if client.id == own_id {
            execution.session.is_closing = true;
        } else {
            client.kill();
        }
    }
    match (is_old, killed) {
        (true, 0) => Err(CommandError::text("ERR No such client")),
        (true, _) => Ok(Reply::OK),
        (false, _) => Ok(Reply::count(killed)),
    }
}

pub(crate) fn pause(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let is_of_writes = match arguments.get(1) {
        None => false,
        Some(mode) if is_word(mode, "ALL") => false,
        Some(mode) if is_word(mode, "WRITE") => true,
        Some(_) => return Err(CommandError::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let ms = parse_i64(&arguments[0])
        .ok_or(CommandError::text("ERR timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| CommandError::text("ERR timeout is negative"))?;
    let now_ms = execution.state.now_ms();
    execution.state.pause.begin(now_ms, now_ms.saturating_add(ms), is_of_writes);
    Ok(Reply::OK)
}

pub(crate) fn unpause(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    execution.state.pause.end();
    Ok(Reply::OK)
}

pub(crate) fn reply(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let session = &mut execution.session;
    if is_word(&arguments[0], "ON") {
        session.replies = Replies::On;
    } else if is_word(&arguments[0], "OFF") {
        session.replies = Replies::Off;
    } else if is_word(&arguments[0], "SKIP") {
        // This reply and the next one.
        if session.replies != Replies::Off {
            session.replies = Replies::Skipped(2);
        }
    } else {
        return Err(SYNTAX);
    }
    Ok(Reply::OK)
}

pub(crate) fn unblock(_: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if let Some(reason) = arguments.get(1)
        && !is_word(reason, "TIMEOUT")
        && !is_word(reason, "ERROR")
    {
        return Err(CommandError::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    integer(&arguments[0]).map_err(|_| NOT_AN_INTEGER)?;
    Ok(Reply::Integer(0))
}

pub(crate) fn no_evict(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let is_on = match &arguments[0] {
        mode if is_word(mode, "ON") => true,
        mode if is_word(mode, "OFF") => false,
        _ => return Err(SYNTAX),
    };
    execution.session.client.is_kept.store(is_on, Ordering::Relaxed);
    Ok(Reply::OK)
}
