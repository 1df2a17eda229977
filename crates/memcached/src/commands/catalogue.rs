//! All commands: one flat list that produces their lookup, their errors and the table in
//! `docs/reference/memcached.md`.

use bytes::Bytes;

use crate::commands::arithmetic::{self, Arithmetic};
use crate::commands::binary::Binary;
use crate::commands::execution::{Execution, Progress};
use crate::commands::meta_arithmetic::{self, MetaArithmetic};
use crate::commands::meta_debug::{self, MetaDebug};
use crate::commands::meta_delete::{self, MetaDelete};
use crate::commands::meta_get::{self, MetaGet};
use crate::commands::meta_set::{self, MetaSet};
use crate::commands::removal::{self, Delete, Flush, Touch};
use crate::commands::retrieval::{self, Get};
use crate::commands::service::{self, Service};
use crate::commands::statistics::{self, Statistics};
use crate::commands::storing::{self, Refused, Set};
use crate::commands::walk::{self, Walk};
use crate::protocol::request::{
    BAD_CHUNK, BAD_FORMAT, Fits, LINE_END_BYTES, Mode, NO_COMMAND, NO_MEMORY, TOO_LARGE, value_len,
};
use crate::protocol::words::{Line, words_of};
use crate::state::counters::Count;

/// A request that can be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Get(Get),
    Set(Set),
    Refused(Refused),
    Delete(Delete),
    Touch(Touch),
    Flush(Flush),
    Arithmetic(Arithmetic),
    MetaGet(Box<MetaGet>),
    MetaSet(Box<MetaSet>),
    MetaDelete(Box<MetaDelete>),
    MetaArithmetic(Box<MetaArithmetic>),
    MetaDebug(MetaDebug),
    Walk(Walk),
    Statistics(Statistics),
    /// With whether the client wants no reply.
    Service(Service, bool),
    /// One of the binary protocol.
    Binary(Box<Binary>),
}

/// The result of parsing a line.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A complete request.
    Whole(Request),
    /// A request followed by a value of this many bytes.
    Value(Request, u32),
    /// A request that is answered at once, and followed by this many bytes to skip.
    Skip(Request, u64),
    /// An HTTP request, perhaps sent by a browser for a web page: it gets no reply.
    Stranger,
}

type Read = fn(&Line, Fits<'_>) -> Result<Parsed, &'static str>;

/// The group of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Reading,
    Writing,
    Meta,
    Server,
}

/// A command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test makes"))]
    pub(crate) group: Group,
    /// Minimum number of words, the name included.
    words_min: usize,
    /// Its arguments, as in memcached's documentation.
    pub(crate) syntax: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test makes"))]
    pub(crate) summary: &'static str,
    read: Read,
}

const fn command(
    group: Group,
    name: &'static str,
    words_min: usize,
    syntax: &'static str,
    summary: &'static str,
    read: Read,
) -> Command {
    Command { name, group, words_min, syntax, summary, read }
}

use Group::{Meta, Reading, Server, Writing};

/// All commands.
#[rustfmt::skip]
pub(crate) static COMMANDS: [Command; 32] = [
    command(Reading, "get", 2, "key [key ...]", "Returns the values of keys.", |line, _| whole(retrieval::read(line), Request::Get)),
    command(Reading, "gets", 2, "key [key ...]", "The same, with versions for `cas`.", |line, _| whole(retrieval::read(line), Request::Get)),
    command(Reading, "gat", 3, "seconds key [key ...]", "Returns the values of keys and sets their time to live.", |line, _| whole(retrieval::read(line), Request::Get)),
    command(Reading, "gats", 3, "seconds key [key ...]", "The same, with versions.", |line, _| whole(retrieval::read(line), Request::Get)),
    command(Writing, "set", 5, "key flags seconds length [noreply]", "Stores the value that follows.", set),
    command(Writing, "add", 5, "key flags seconds length [noreply]", "Stores the value if the key does not exist.", set),
    command(Writing, "replace", 5, "key flags seconds length [noreply]", "Stores the value if the key exists.", set),
    command(Writing, "append", 5, "key flags seconds length [noreply]", "Appends to the value of an existing key.", set),
    command(Writing, "prepend", 5, "key flags seconds length [noreply]", "Prepends to the value of an existing key.", set),
    command(Writing, "cas", 5, "key flags seconds length version [noreply]", "Stores the value if the object still has this version.", set),
    command(Writing, "delete", 2, "key [noreply]", "Removes a key.", |line, _| whole(removal::read_delete(line), Request::Delete)),
    command(Writing, "incr", 3, "key number [noreply]", "Adds to a 64-bit number and returns the result.", |line, _| whole(arithmetic::read(line), Request::Arithmetic)),
    command(Writing, "decr", 3, "key number [noreply]", "Subtracts from a number, down to 0, and returns the result.", |line, _| whole(arithmetic::read(line), Request::Arithmetic)),
    command(Writing, "touch", 3, "key seconds [noreply]", "Changes the time to live of a key.", |line, _| whole(removal::read_touch(line), Request::Touch)),
    command(Writing, "flush_all", 1, "[seconds] [noreply]", "Removes all objects, now or later.", |line, _| whole(removal::read_flush(line), Request::Flush)),
    command(Meta, "mg", 2, "key [flag ...]", "Returns the requested attributes of a key.", |line, _| whole(meta_get::read(line).map(Box::new), Request::MetaGet)),
    command(Meta, "ms", 3, "key length [flag ...]", "Stores the value that follows.", meta_set),
    command(Meta, "md", 2, "key [flag ...]", "Removes a key, or marks it as stale.", |line, _| whole(meta_delete::read(line).map(Box::new), Request::MetaDelete)),
    command(Meta, "ma", 2, "key [flag ...]", "Increments or decrements a number.", |line, _| whole(meta_arithmetic::read(line).map(Box::new), Request::MetaArithmetic)),
    command(Meta, "me", 2, "key [b]", "Returns information about a key, for debugging.", |line, _| whole(meta_debug::read(line), Request::MetaDebug)),
    command(Meta, "mn", 1, "", "Returns `MN`: all earlier requests have been answered.", |_, _| say("MN")),
    command(Server, "stats", 1, "[settings | items | slabs | sizes | conns | tenants | mrc | reset | detail on|off|dump | cachedump class limit]", "Returns statistics.", stats),
    command(Server, "lru_crawler", 1, "metadump all | mgdump all", "Lists all keys in DRAM, with information about them, or as requests.", |line, _| whole(walk::read_crawler(line), Request::Walk)),
    command(Server, "version", 1, "", "Returns the version of memcached whose protocol this is.", version),
    command(Server, "verbosity", 1, "level [noreply]", "Is stored and has no effect.", |line, _| service(service::read_verbosity(line), line.is_quiet())),
    command(Server, "cache_memlimit", 1, "mebibytes [noreply]", "Changes the DRAM budget.", |line, _| service(service::read_memory(line), line.is_quiet())),
    command(Server, "debugtime", 1, "seconds | p | r", "Moves, stops or resumes the clock, if the server was started with `--debugtime`.", |line, _| service(service::read_time(line), line.is_quiet())),
    command(Server, "shutdown", 1, "[graceful]", "Stops the server, if it was started with `--enable-shutdown`.", |line, _| service(service::read_shutdown(line), line.is_quiet())),
    command(Server, "slabs", 1, "reassign", "Rejected: there are no slabs.", slabs),
    command(Server, "watch", 1, "", "Rejected: there is no such log.", |_, _| Err("CLIENT_ERROR watch commands not allowed")),
    command(Server, "refresh_certs", 1, "[noreply]", "Reads the TLS certificate and key again, for new connections.", |line, _| service(Ok(Service::RefreshCerts), line.is_quiet())),
    command(Server, "quit", 1, "", "Closes the connection.", |_, _| Ok(Parsed::Whole(Request::Service(Service::Quit, true)))),
];

/// Commands whose name may have spaces before it, which check the number of their words, and which
/// `noreply` silences, whether their syntax has it or not.
const LENIENT: [&str; 8] = [
    "flush_all",
    "lru_crawler",
    "verbosity",
    "cache_memlimit",
    "debugtime",
    "shutdown",
    "slabs",
    "refresh_certs",
];

/// The result of parsing a line.
pub(crate) fn read(line: &Line, fits: Fits<'_>) -> Parsed {
    let is_named = |command: &&Command| {
        let is_lenient = LENIENT.contains(&command.name);
        let name = if is_lenient { line.word(0) } else { line.name() };
        command.name.as_bytes() == name
    };
    let Some(command) = COMMANDS.iter().find(is_named) else {
        return match line.last_word().starts_with(b"HTTP/") {
            true => Parsed::Stranger,
            false => refusal(NO_COMMAND, line.is_quiet()),
        };
    };
    if line.len() < command.words_min {
        return refusal(BAD_FORMAT, false);
    }
    let may_be_quiet = command.syntax.ends_with("[noreply]") || LENIENT.contains(&command.name);
    let is_quiet = || may_be_quiet && line.is_quiet();
    (command.read)(line, fits).unwrap_or_else(|message| refusal(message, is_quiet()))
}

fn refusal(message: &'static str, is_quiet: bool) -> Parsed {
    Parsed::Whole(Request::Service(Service::Say(message), is_quiet))
}

fn say(line: &'static str) -> Result<Parsed, &'static str> {
    Ok(refusal(line, false))
}

fn whole<T>(
    read: Result<T, &'static str>,
    request: impl FnOnce(T) -> Request,
) -> Result<Parsed, &'static str> {
    read.map(|read| Parsed::Whole(request(read)))
}

fn service(read: Result<Service, &'static str>, is_quiet: bool) -> Result<Parsed, &'static str> {
    whole(read, |service| Request::Service(service, is_quiet))
}

fn set(line: &Line, fits: Fits<'_>) -> Result<Parsed, &'static str> {
    let Some(len) = value_len(line.word(4)) else { return Ok(refusal(BAD_FORMAT, false)) };
    let refused = match storing::read(line) {
        Ok(set) if fits(set.store.key.len(), len as usize) => {
            return Ok(Parsed::Value(Request::Set(set), len));
        }
        Ok(set) => Request::Set(set).refused(TOO_LARGE, Count::TooLarge),
        Err(message) => Request::Service(Service::Say(message), line.is_quiet()),
    };
    Ok(Parsed::Skip(refused, u64::from(len) + LINE_END_BYTES))
}

fn meta_set(line: &Line, fits: Fits<'_>) -> Result<Parsed, &'static str> {
    let len = meta_set::read_len(line)?;
    let refused = match meta_set::read(line) {
        Ok(set) if fits(set.store.key.len(), len as usize) => {
            return Ok(Parsed::Value(Request::MetaSet(Box::new(set)), len));
        }
        Ok(set) => Request::MetaSet(Box::new(set)).refused(TOO_LARGE, Count::TooLarge),
        Err(message) => Request::Service(Service::Say(message), false),
    };
    Ok(Parsed::Skip(refused, u64::from(len) + LINE_END_BYTES))
}

fn stats(line: &Line, _: Fits<'_>) -> Result<Parsed, &'static str> {
    if statistics::expanded(line.word(1)) == b"cachedump" {
        return whole(walk::read_cachedump(line), Request::Walk);
    }
    whole(statistics::read(line).ok_or(NO_COMMAND), Request::Statistics)
}

fn slabs(line: &Line, _: Fits<'_>) -> Result<Parsed, &'static str> {
    match (line.word(1), line.len()) {
        (b"reassign", 4) => Err("CLIENT_ERROR slab reassignment disabled"),
        _ => Err(NO_COMMAND),
    }
}

fn version(_: &Line, _: Fits<'_>) -> Result<Parsed, &'static str> {
    say(VERSION)
}

impl Request {
    /// A request that is answered with a line.
    pub(crate) fn say(line: &'static str) -> Self {
        Self::Service(Service::Say(line), false)
    }

    /// The keys that it will look up, in order.
    pub(crate) fn fetches(&self) -> impl Iterator<Item = &[u8]> {
        let (keys, key) = match self {
            Self::Get(get) => (get.keys(), None),
            // The key may contain spaces.
            Self::MetaGet(get) => (&b""[..], Some(get.key())),
            Self::Binary(binary) => (&b""[..], binary.fetched_key()),
            _ => (&b""[..], None),
        };
        words_of(keys).chain(key)
    }

    /// Executes or continues it.
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        match self {
            Self::Get(get) => get.run(execution),
            Self::Set(set) => set.run(execution),
            Self::Refused(refused) => refused.run(execution),
            Self::Delete(delete) => delete.run(execution),
            Self::Touch(touch) => touch.run(execution),
            Self::Flush(flush) => flush.run(execution),
            Self::Arithmetic(arithmetic) => arithmetic.run(execution),
            Self::MetaGet(get) => get.run(execution),
            Self::MetaSet(set) => set.run(execution),
            Self::MetaDelete(delete) => delete.run(execution),
            Self::MetaArithmetic(arithmetic) => arithmetic.run(execution),
            Self::MetaDebug(debug) => debug.run(execution),
            Self::Walk(walk) => walk.run(execution),
            Self::Statistics(statistics) => statistics.run(execution),
            Self::Service(service, is_quiet) => service.run(execution, *is_quiet),
            Self::Binary(binary) => binary.run(execution),
        }
    }

    /// Sets the value that followed it.
    pub(crate) fn put_value(&mut self, value: Bytes) {
        match self {
            Self::Set(set) => set.store.value = value,
            Self::MetaSet(set) => set.store.value = value,
            Self::Binary(binary) => binary.put_value(value),
            _ => unreachable!("only these have values"),
        }
    }

    /// The request that remains if its value is rejected.
    pub(crate) fn refused(self, message: &'static str, count: Count) -> Self {
        let (store, is_quiet, removes) = match self {
            // The existing object is removed only if the value would have replaced it
            // unconditionally.
            Self::Set(set) => {
                let removes = set.store.mode == Mode::Set;
                (set.store, set.is_quiet, removes)
            }
            Self::MetaSet(set) => (set.store, false, true),
            _ => unreachable!("only these have values"),
        };
        Self::Refused(Refused { key: store.key, message, count, removes, is_quiet })
    }

    /// The request that remains if its value is rejected for lack of room.
    pub(crate) fn without_room(self) -> Self {
        match self {
            Self::Binary(binary) => Self::Binary(Box::new(binary.without_room())),
            text => text.refused(NO_MEMORY, Count::NoMemory),
        }
    }

    /// The request that remains if no line end follows its value.
    pub(crate) fn with_bad_value(self) -> Self {
        let is_quiet = matches!(&self, Self::Set(set) if set.is_quiet);
        Self::Service(Service::Say(BAD_CHUNK), is_quiet)
    }
}

/// The reply of `version`: the version of memcached whose protocol is implemented.
const VERSION: &str = "VERSION 1.6.45";
/// The error of a line that is too long.
pub(crate) const LINE_TOO_LONG: &str = "CLIENT_ERROR line too long";
/// The error of an unauthenticated request.
pub(crate) const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";

#[cfg(test)]
mod tests;
