//! The commands: one flat list of records, one record per command, in the
//! order of groups and names within them. Lookup, arity errors, `COMMAND`,
//! `COMMAND DOCS` and `docs/reference/commands.md` all come from it.
//!
//! The fields of a record, in this order: name, arity, where it runs, flags,
//! keys, since; syntax; summary; function. [`Command`] explains them.

use std::sync::LazyLock;

use bytes::Bytes;
use hashbrown::HashMap;

use crate::commands::command::{Call, Command, Flag, Group, Keys, Place, Run, Verb};
use crate::commands::errors::wrong_arity;
use crate::commands::{
    configuration, counters, deadlines, hashes, information, introspection, keys, session, strings,
    walks,
};
use crate::protocol::reply::CommandError;

macro_rules! catalogue {
    ($($group:ident {
        $($name:literal $arity:literal $place:ident [$($flag:ident)*] $keys:ident $since:literal
            $syntax:literal $summary:literal $run:ident($run_with:expr);)*
    })*) => {
        &[$($(Command {
            name: $name,
            arity: $arity,
            place: Place::$place,
            flags: &[$(Flag::$flag),*],
            keys: Keys::$keys,
            group: Group::$group,
            since: $since,
            syntax: $syntax,
            summary: $summary,
            run: Run::$run($run_with),
        },)*)*]
    };
}

/// All commands.
pub(crate) static COMMANDS: &[Command] = catalogue! {
    String {
        "append" 3 Write [Write DenyOom Fast] ONE "2.0.0" "key value"
            "Appends to the string of a key, which is made if there is none." Data(strings::append);
        "decr" 2 Write [Write DenyOom Fast] ONE "1.0.0" "key"
            "Takes one from the integer of a key, 0 if there is none." Data(counters::decr);
        "decrby" 3 Write [Write DenyOom Fast] ONE "1.0.0" "key decrement"
            "Takes a number from the integer of a key." Data(counters::decrby);
        "get" 2 Point [ReadOnly Fast] ONE "1.0.0" "key"
            "Returns the string of a key." Data(strings::get);
        "getdel" 2 Write [Write Fast] ONE "6.2.0" "key"
            "Returns the string of a key and removes the key." Data(strings::getdel);
        "getex" -2 Write [Write Fast] ONE "6.2.0"
            "key [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | PERSIST]"
            "Returns the string of a key and changes its deadline." Data(strings::getex);
        "getrange" 4 Point [ReadOnly] ONE "2.4.0" "key start end"
            "Returns a part of the string of a key; negative places count from the end."
            Data(strings::getrange);
        "getset" 3 Write [Write DenyOom Fast] ONE "1.0.0" "key value"
            "Sets the string of a key and returns the one before." Data(strings::getset);
        "incr" 2 Write [Write DenyOom Fast] ONE "1.0.0" "key"
            "Adds one to the integer of a key, 0 if there is none." Data(counters::incr);
        "incrby" 3 Write [Write DenyOom Fast] ONE "1.0.0" "key increment"
            "Adds a number to the integer of a key." Data(counters::incrby);
        "incrbyfloat" 3 Write [Write DenyOom Fast] ONE "2.6.0" "key increment"
            "Adds a decimal number to the one of a key." Data(counters::incrbyfloat);
        "mget" -2 Point [ReadOnly Fast] ALL "1.0.0" "key [key ...]"
            "Returns the strings of several keys, as they are at one moment." Data(strings::mget);
        "mset" -3 Write [Write DenyOom] PAIRS "1.0.1" "key value [key value ...]"
            "Sets the strings of several keys at once." Data(strings::mset);
        "msetnx" -3 Write [Write DenyOom] PAIRS "1.0.1" "key value [key value ...]"
            "Sets the strings of several keys if none of them exists." Data(strings::msetnx);
        "psetex" 4 Write [Write DenyOom] ONE "2.6.0" "key milliseconds value"
            "Sets the string of a key for a time in milliseconds." Data(strings::psetex);
        "set" -3 Write [Write DenyOom] ONE "1.0.0"
            "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL]"
            "Makes a key hold a string, whatever it has held." Data(strings::set);
        "setex" 4 Write [Write DenyOom] ONE "2.0.0" "key seconds value"
            "Sets the string of a key for a time in seconds." Data(strings::setex);
        "setnx" 3 Write [Write DenyOom Fast] ONE "1.0.0" "key value"
            "Sets the string of a key that does not exist." Data(strings::setnx);
        "setrange" 4 Write [Write DenyOom] ONE "2.2.0" "key offset value"
            "Overwrites a part of the string of a key." Data(strings::setrange);
        "strlen" 2 Point [ReadOnly Fast] ONE "2.2.0" "key"
            "Returns the length of the string of a key in bytes." Data(strings::strlen);
    }
    Generic {
        "copy" -3 Write [Write DenyOom] TWO "6.2.0" "source destination [DB 0] [REPLACE]"
            "Copies what a key holds to another key." Data(keys::copy);
        "del" -2 Write [Write] ALL "1.0.0" "key [key ...]"
            "Removes keys and returns how many there were." Data(keys::del);
        "exists" -2 Point [ReadOnly Fast] ALL "1.0.0" "key [key ...]"
            "Returns how many of the keys exist." Data(keys::exists);
        "expire" -3 Write [Write Fast] ONE "1.0.0" "key seconds [NX | XX | GT | LT]"
            "Gives a key a deadline, in seconds from now." Data(deadlines::expire);
        "expireat" -3 Write [Write Fast] ONE "1.2.0" "key unix-seconds [NX | XX | GT | LT]"
            "Gives a key a deadline, in seconds since 1970." Data(deadlines::expireat);
        "expiretime" 2 Point [ReadOnly Fast] ONE "7.0.0" "key"
            "Returns the deadline of a key in seconds since 1970; -1 without one, -2 without the key."
            Data(deadlines::expiretime);
        "keys" 2 Walk [ReadOnly] NONE "1.0.0" "pattern"
            "Returns all keys that match a pattern, in order." Data(walks::keys);
        "persist" 2 Write [Write Fast] ONE "2.2.0" "key"
            "Takes the deadline from a key." Data(deadlines::persist);
        "pexpire" -3 Write [Write Fast] ONE "2.6.0" "key milliseconds [NX | XX | GT | LT]"
            "Gives a key a deadline, in milliseconds from now." Data(deadlines::pexpire);
        "pexpireat" -3 Write [Write Fast] ONE "2.6.0" "key unix-milliseconds [NX | XX | GT | LT]"
            "Gives a key a deadline, in milliseconds since 1970." Data(deadlines::pexpireat);
        "pexpiretime" 2 Point [ReadOnly Fast] ONE "7.0.0" "key"
            "Returns the deadline of a key in milliseconds since 1970; -1 without one, -2 without the key."
            Data(deadlines::pexpiretime);
        "pttl" 2 Point [ReadOnly Fast] ONE "2.6.0" "key"
            "Returns the milliseconds that a key has left; -1 without a deadline, -2 without the key."
            Data(deadlines::pttl);
        "randomkey" 1 Alone [ReadOnly] NONE "1.0.0" ""
            "Returns a key at a random place; keys behind wide gaps come more often."
            Data(walks::randomkey);
        "rename" 3 Write [Write] TWO "1.0.0" "key new-key"
            "Renames a key, over any other of the new name." Data(keys::rename);
        "renamenx" 3 Write [Write Fast] TWO "1.0.0" "key new-key"
            "Renames a key unless the new name exists." Data(keys::renamenx);
        "scan" -2 Walk [ReadOnly] NONE "2.8.0" "cursor [MATCH pattern] [COUNT count] [TYPE type]"
            "Returns some keys, in order, and a cursor for more; 0 at the end." Data(walks::scan);
        "tide.range" -3 Walk [ReadOnly] NONE "0.1.0"
            "start end [LIMIT count] [REVERSE] [KEYSONLY]"
            "Returns the keys from start to end that hold strings, in order, each followed by its string. Bounds: `key` or `[key` with the key, `(key` without, `-` and `+` for the ends; start comes before end in reverse, too."
            Data(walks::tide_range);
        "ttl" 2 Point [ReadOnly Fast] ONE "1.0.0" "key"
            "Returns the seconds that a key has left; -1 without a deadline, -2 without the key."
            Data(deadlines::ttl);
        "type" 2 Point [ReadOnly Fast] ONE "1.0.0" "key"
            "Returns what a key holds: string, hash or none." Data(keys::type_of);
        "unlink" -2 Write [Write Fast] ALL "4.0.0" "key [key ...]"
            "Removes keys, the same as DEL." Data(keys::del);
    }
    Hash {
        "hdel" -3 Write [Write Fast] ONE "2.0.0" "key field [field ...]"
            "Removes fields and returns how many there were." Data(hashes::hdel);
        "hexists" 3 Point [ReadOnly Fast] ONE "2.0.0" "key field"
            "Returns whether a field exists." Data(hashes::hexists);
        "hget" 3 Point [ReadOnly Fast] ONE "2.0.0" "key field"
            "Returns the value of a field." Data(hashes::hget);
        "hgetall" 2 Point [ReadOnly] ONE "2.0.0" "key"
            "Returns all fields with their values, in the order of fields." Data(hashes::hgetall);
        "hincrby" 4 Write [Write DenyOom Fast] ONE "2.0.0" "key field increment"
            "Adds a number to the integer of a field." Data(hashes::hincrby);
        "hincrbyfloat" 4 Write [Write DenyOom Fast] ONE "2.6.0" "key field increment"
            "Adds a decimal number to the one of a field." Data(hashes::hincrbyfloat);
        "hkeys" 2 Point [ReadOnly] ONE "2.0.0" "key"
            "Returns all fields in order." Data(hashes::hkeys);
        "hlen" 2 Point [ReadOnly Fast] ONE "2.0.0" "key"
            "Returns the number of fields." Data(hashes::hlen);
        "hmget" -3 Point [ReadOnly Fast] ONE "2.0.0" "key field [field ...]"
            "Returns the values of several fields." Data(hashes::hmget);
        "hmset" -4 Write [Write DenyOom Fast] ONE "2.0.0" "key field value [field value ...]"
            "Sets several fields." Data(hashes::hmset);
        "hscan" -3 Alone [ReadOnly] ONE "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
            "Returns some fields with their values, in order, and a cursor for more; 0 at the end."
            Data(walks::hscan);
        "hset" -4 Write [Write DenyOom Fast] ONE "2.0.0" "key field value [field value ...]"
            "Sets fields and returns how many are new." Data(hashes::hset);
        "hsetnx" 4 Write [Write DenyOom Fast] ONE "2.0.0" "key field value"
            "Sets a field that does not exist." Data(hashes::hsetnx);
        "hstrlen" 3 Point [ReadOnly Fast] ONE "3.2.0" "key field"
            "Returns the length of the value of a field in bytes." Data(hashes::hstrlen);
        "hvals" 2 Point [ReadOnly] ONE "2.0.0" "key"
            "Returns all values, in the order of fields." Data(hashes::hvals);
    }
    Transactions {
        "discard" 1 Loop [NoScript Loading Stale Fast AllowBusy] NONE "2.0.0" ""
            "Forgets the commands since MULTI." Transaction(Verb::Discard);
        "exec" 1 Alone [NoScript Loading Stale] NONE "1.2.0" ""
            "Runs the commands since MULTI at once, unless a watched key has changed."
            Transaction(Verb::Exec);
        "multi" 1 Loop [NoScript Loading Stale Fast AllowBusy] NONE "1.2.0" ""
            "Begins to gather commands for EXEC." Transaction(Verb::Multi);
        "unwatch" 1 Loop [NoScript Loading Stale Fast AllowBusy] NONE "2.2.0" ""
            "Forgets the watched keys." Transaction(Verb::Unwatch);
        "watch" -2 Alone [NoScript Loading Stale Fast AllowBusy] ALL "2.2.0" "key [key ...]"
            "Makes the next EXEC fail if one of the keys changes before it." Transaction(Verb::Watch);
    }
    Connection {
        "auth" -2 Loop [NoScript Loading Stale Fast NoAuth AllowBusy] NONE "1.0.0"
            "[username] password" "Tells the password." Data(session::auth);
        "client" -2 Loop [] NONE "2.4.0" "" "Commands on connections." Container(());
        "client|getname" 2 Loop [NoScript Loading Stale] NONE "2.6.9" ""
            "Returns the name of the connection." Data(session::client_getname);
        "client|id" 2 Loop [NoScript Loading Stale] NONE "5.0.0" ""
            "Returns the number of the connection." Data(session::client_id);
        "client|info" 2 Loop [NoScript Loading Stale] NONE "6.2.0" ""
            "Returns what is known of the connection." Data(session::client_info);
        "client|list" -2 Loop [Admin NoScript Loading Stale] NONE "2.4.0"
            "[TYPE normal | ID id [id ...]]" "Returns what is known of all connections."
            Data(session::client_list);
        "client|setinfo" 4 Loop [NoScript Loading Stale] NONE "7.2.0"
            "LIB-NAME name | LIB-VER version" "Tells which library the client uses."
            Data(session::client_setinfo);
        "client|setname" 3 Loop [NoScript Loading Stale] NONE "2.6.9" "name"
            "Gives the connection a name." Data(session::client_setname);
        "echo" 2 Loop [Loading Stale Fast] NONE "1.0.0" "message" "Returns the message."
            Data(session::echo);
        "hello" -1 Loop [NoScript Loading Stale Fast NoAuth AllowBusy] NONE "6.0.0"
            "[version [AUTH username password] [SETNAME name]]"
            "Chooses the protocol: 2 or 3." Data(session::hello);
        "ping" -1 Loop [Fast] NONE "1.0.0" "[message]" "Returns PONG, or the message."
            Data(session::ping);
        "quit" -1 Loop [NoScript Loading Stale Fast NoAuth AllowBusy] NONE "1.0.0" ""
            "Closes the connection." Data(session::quit);
        "select" 2 Loop [Loading Stale Fast] NONE "1.0.0" "0"
            "Chooses the database; there is one." Data(session::select);
    }
    Server {
        "command" -1 Loop [Loading Stale] NONE "2.8.13" ""
            "Describes all commands." Catalogue(introspection::command);
        "command|count" 2 Loop [Loading Stale] NONE "2.8.13" ""
            "Returns the number of commands." Catalogue(introspection::count);
        "command|docs" -2 Loop [Loading Stale] NONE "7.0.0" "[name ...]"
            "Documents commands." Catalogue(introspection::docs);
        "command|info" -2 Loop [Loading Stale] NONE "2.8.13" "[name ...]"
            "Describes some commands." Catalogue(introspection::info);
        "command|list" -2 Loop [Loading Stale] NONE "7.0.0"
            "[FILTERBY ACLCAT category | FILTERBY PATTERN pattern]"
            "Returns the names of commands." Catalogue(introspection::list);
        "config" -2 Loop [] NONE "2.0.0" "" "Commands on settings." Container(());
        "config|get" -3 Loop [Admin NoScript Loading Stale] NONE "2.0.0" "pattern [pattern ...]"
            "Returns the settings whose names match." Data(configuration::get);
        "config|set" -4 Alone [Admin NoScript Loading Stale] NONE "2.0.0"
            "name value [name value ...]" "Changes settings until the server ends."
            Data(configuration::set);
        "dbsize" 1 Walk [ReadOnly Fast] NONE "1.0.0" ""
            "Counts the keys, one by one." Data(walks::dbsize);
        "flushall" -1 Alone [Write] NONE "1.0.0" "[ASYNC | SYNC]" "Removes all keys."
            Data(keys::flushall);
        "flushdb" -1 Alone [Write] NONE "1.0.0" "[ASYNC | SYNC]" "Removes all keys."
            Data(keys::flushdb);
        "info" -1 Alone [Loading Stale] NONE "1.0.0" "[section ...]"
            "Returns what the server knows of itself." Data(information::info);
    }
};

/// How much of an unknown command its error shows.
const SHOWN_BYTES_MAX: usize = 128;

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command>> =
    LazyLock::new(|| COMMANDS.iter().map(|command| (command.name.as_bytes(), command)).collect());

/// The longest name; anything longer need not be looked up.
const NAME_BYTES_MAX: usize = 64;

fn find(name: &[u8]) -> Option<&'static Command> {
    let mut small = [0; NAME_BYTES_MAX];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    // The separator is ours: a client writes a space.
    if small.contains(&b'|') {
        return None;
    }
    BY_NAME.get(&*small).copied()
}

fn find_subcommand(container: &str, name: &[u8]) -> Option<&'static Command> {
    let full = [container.as_bytes(), b"|", &name.to_ascii_lowercase()].concat();
    BY_NAME.get(&full[..]).copied()
}

/// The command that `words` (at least one) call, with the right number of
/// arguments. It often is that of the call before, the `likely` one.
pub(crate) fn resolve(
    words: Vec<Bytes>,
    likely: Option<&'static Command>,
) -> Result<Call, CommandError> {
    // The separator of a subcommand is ours, as in `find`.
    let is_likely = |command: &&Command| {
        words[0].eq_ignore_ascii_case(command.name.as_bytes()) && !words[0].contains(&b'|')
    };
    let mut command = match likely.filter(is_likely) {
        Some(command) => command,
        None => find(&words[0]).ok_or_else(|| unknown(&words))?,
    };
    if matches!(command.run, Run::Container(()) | Run::Catalogue(_)) && words.len() > 1 {
        command = find_subcommand(command.name, &words[1])
            .ok_or_else(|| unknown_subcommand(command.name, &words[1]))?;
    }
    if !command.takes(words.len()) {
        return Err(wrong_arity(command.name));
    }
    Ok(Call { command, words })
}

fn unknown(words: &[Bytes]) -> CommandError {
    let shown = |word: &Bytes, len: usize| {
        String::from_utf8_lossy(&word[..word.len().min(len)]).into_owned()
    };
    let mut arguments = String::new();
    for word in &words[1..] {
        if arguments.len() >= SHOWN_BYTES_MAX {
            break;
        }
        arguments += &format!("'{}' ", shown(word, SHOWN_BYTES_MAX - arguments.len()));
    }
    CommandError::from(format!(
        "ERR unknown command '{}', with args beginning with: {arguments}",
        shown(&words[0], SHOWN_BYTES_MAX)
    ))
}

fn unknown_subcommand(container: &str, name: &Bytes) -> CommandError {
    let name = String::from_utf8_lossy(&name[..name.len().min(SHOWN_BYTES_MAX)]);
    CommandError::from(format!(
        "ERR unknown subcommand '{name}'. Try {} HELP.",
        container.to_ascii_uppercase()
    ))
}

#[cfg(test)]
mod tests;
