//! The commands: one flat list of records, ordered by group and name. It produces lookup, arity
//! errors, `COMMAND`, `COMMAND DOCS` and `docs/reference/commands.md`.
//!
//! The fields of a record, in this order: name, arity, execution class, flags, keys, since; syntax;
//! summary; function. [`Command`] explains them.

use std::sync::LazyLock;

use bytes::Bytes;
use hashbrown::HashMap;

use crate::commands::command::{Call, Command, ExecutionClass, Flag, Group, Keys, Run, Verb};
use crate::commands::errors::wrong_arity;
use crate::commands::{
    bitfields, bits, clients, configuration, counters, deadlines, diagnostics, hashes, information,
    introspection, keys, lcs, objects, persistence, session, strings, walks,
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
            place: ExecutionClass::$place,
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
            "Appends to the string of a key; creates the key if it does not exist." Data(strings::append);
        "decr" 2 Write [Write DenyOom Fast] ONE "1.0.0" "key"
            "Subtracts one from the integer of a key; a missing key counts as 0." Data(counters::decr);
        "decrby" 3 Write [Write DenyOom Fast] ONE "1.0.0" "key decrement"
            "Subtracts a number from the integer of a key." Data(counters::decrby);
        "get" 2 Point [ReadOnly Fast] ONE "1.0.0" "key"
            "Returns the string of a key." Data(strings::get);
        "getdel" 2 Write [Write Fast] ONE "6.2.0" "key"
            "Returns the string of a key and removes the key." Data(strings::getdel);
        "getex" -2 Write [Write Fast] ONE "6.2.0"
            "key [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | PERSIST]"
            "Returns the string of a key and changes its expiry." Data(strings::getex);
        "getrange" 4 Point [ReadOnly] ONE "2.4.0" "key start end"
            "Returns a part of the string of a key; negative offsets count from the end."
            Data(strings::getrange);
        "getset" 3 Write [Write DenyOom Fast] ONE "1.0.0" "key value"
            "Sets the string of a key and returns the previous one." Data(strings::getset);
        "incr" 2 Write [Write DenyOom Fast] ONE "1.0.0" "key"
            "Adds one to the integer of a key; a missing key counts as 0." Data(counters::incr);
        "incrby" 3 Write [Write DenyOom Fast] ONE "1.0.0" "key increment"
            "Adds a number to the integer of a key." Data(counters::incrby);
        "incrbyfloat" 3 Write [Write DenyOom Fast] ONE "2.6.0" "key increment"
            "Adds a decimal number to the number of a key." Data(counters::incrbyfloat);
        "lcs" -3 Point [ReadOnly] TWO "7.0.0"
            "key key [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]"
            "Returns the longest common subsequence of two strings, its length or its ranges."
            Data(lcs::lcs);
        "mget" -2 Point [ReadOnly Fast] ALL "1.0.0" "key [key ...]"
            "Returns the strings of several keys at one point in time." Data(strings::mget);
        "mset" -3 Write [Write DenyOom] PAIRS "1.0.1" "key value [key value ...]"
            "Sets the strings of several keys atomically." Data(strings::mset);
        "msetnx" -3 Write [Write DenyOom] PAIRS "1.0.1" "key value [key value ...]"
            "Sets the strings of several keys if none of them exists." Data(strings::msetnx);
        "psetex" 4 Write [Write DenyOom] ONE "2.6.0" "key milliseconds value"
            "Sets the string of a key with a time to live in milliseconds." Data(strings::psetex);
        "set" -3 Write [Write DenyOom] ONE "1.0.0"
            "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL]"
            "Sets a key to a string, whatever its previous type." Data(strings::set);
        "setex" 4 Write [Write DenyOom] ONE "2.0.0" "key seconds value"
            "Sets the string of a key with a time to live in seconds." Data(strings::setex);
        "setnx" 3 Write [Write DenyOom Fast] ONE "1.0.0" "key value"
            "Sets the string of a key if it does not exist." Data(strings::setnx);
        "setrange" 4 Write [Write DenyOom] ONE "2.2.0" "key offset value"
            "Overwrites a part of the string of a key." Data(strings::setrange);
        "strlen" 2 Point [ReadOnly Fast] ONE "2.2.0" "key"
            "Returns the length of the string of a key in bytes." Data(strings::strlen);
        "substr" 4 Point [ReadOnly] ONE "1.0.0" "key start end"
            "Returns a part of the string of a key, the same as GETRANGE." Data(strings::getrange);
    }
    Generic {
        "copy" -3 Write [Write DenyOom] TWO "6.2.0" "source destination [DB database] [REPLACE]"
            "Copies the value of a key to another key, in the same or another database." Data(keys::copy);
        "del" -2 Write [Write] ALL "1.0.0" "key [key ...]"
            "Removes keys and returns the number removed." Data(keys::del);
        "exists" -2 Point [ReadOnly Fast] ALL "1.0.0" "key [key ...]"
            "Returns the number of the keys that exist." Data(keys::exists);
        "expire" -3 Write [Write Fast] ONE "1.0.0" "key seconds [NX | XX | GT | LT]"
            "Sets the expiry of a key, in seconds from now." Data(deadlines::expire);
        "expireat" -3 Write [Write Fast] ONE "1.2.0" "key unix-seconds [NX | XX | GT | LT]"
            "Sets the expiry of a key, in seconds since 1970." Data(deadlines::expireat);
        "expiretime" 2 Point [ReadOnly Fast] ONE "7.0.0" "key"
            "Returns the expiry of a key in seconds since 1970; -1 if it has none, -2 if the key does not exist."
            Data(deadlines::expiretime);
        "keys" 2 Walk [ReadOnly] NONE "1.0.0" "pattern"
            "Returns all keys that match a pattern, in order." Data(walks::keys);
        "move" 3 Write [Write Fast] ONE "1.0.0" "key database"
            "Moves a key to another database, unless that has the key." Data(keys::move_key);
        "object" -2 Loop [] NONE "2.2.3" "" "Commands for values as objects." Container(());
        "object|encoding" 3 Alone [ReadOnly] SECOND "2.2.3" "key"
            "Returns how Redis would store the value of a key." Data(objects::encoding);
        "object|freq" 3 Point [ReadOnly] SECOND "4.0.0" "key"
            "Returns an error: access frequencies are not tracked." Data(objects::freq);
        "object|help" 2 Loop [Loading Stale] NONE "6.2.0" "" "Lists the subcommands." Help("object");
        "object|idletime" 3 Point [ReadOnly] SECOND "2.2.3" "key"
            "Returns an error: times of accesses are not tracked." Data(objects::idletime);
        "object|refcount" 3 Point [ReadOnly] SECOND "2.2.3" "key"
            "Returns 1 for a key that exists: values are not shared."
            Data(objects::refcount);
        "persist" 2 Write [Write Fast] ONE "2.2.0" "key"
            "Removes the expiry of a key." Data(deadlines::persist);
        "pexpire" -3 Write [Write Fast] ONE "2.6.0" "key milliseconds [NX | XX | GT | LT]"
            "Sets the expiry of a key, in milliseconds from now." Data(deadlines::pexpire);
        "pexpireat" -3 Write [Write Fast] ONE "2.6.0" "key unix-milliseconds [NX | XX | GT | LT]"
            "Sets the expiry of a key, in milliseconds since 1970." Data(deadlines::pexpireat);
        "pexpiretime" 2 Point [ReadOnly Fast] ONE "7.0.0" "key"
            "Returns the expiry of a key in milliseconds since 1970; -1 if it has none, -2 if the key does not exist."
            Data(deadlines::pexpiretime);
        "pttl" 2 Point [ReadOnly Fast] ONE "2.6.0" "key"
            "Returns the time to live of a key in milliseconds; -1 if it has no expiry, -2 if the key does not exist."
            Data(deadlines::pttl);
        "randomkey" 1 Alone [ReadOnly] NONE "1.0.0" ""
            "Returns a random key; all keys are about equally likely."
            Data(walks::randomkey);
        "rename" 3 Write [Write] TWO "1.0.0" "key new-key"
            "Renames a key and replaces any key with the new name." Data(keys::rename);
        "renamenx" 3 Write [Write Fast] TWO "1.0.0" "key new-key"
            "Renames a key unless the new name exists." Data(keys::renamenx);
        "scan" -2 Walk [ReadOnly] NONE "2.8.0" "cursor [MATCH pattern] [COUNT count] [TYPE type]"
            "Returns some keys in order, and a cursor for the next ones; 0 at the end." Data(walks::scan);
        "tide.range" -3 Walk [ReadOnly] NONE "0.1.0"
            "start end [LIMIT count] [REVERSE] [KEYSONLY]"
            "Returns the string keys from start to end, in order, each followed by its string. Bounds: `key` or `[key` is inclusive, `(key` exclusive, `-` and `+` are the first and the last key; start is the smaller bound in reverse, too."
            Data(walks::tide_range);
        "touch" -2 Point [ReadOnly Fast] ALL "3.2.1" "key [key ...]"
            "Returns the number of the keys that exist." Data(keys::exists);
        "ttl" 2 Point [ReadOnly Fast] ONE "1.0.0" "key"
            "Returns the time to live of a key in seconds; -1 if it has no expiry, -2 if the key does not exist."
            Data(deadlines::ttl);
        "type" 2 Point [ReadOnly Fast] ONE "1.0.0" "key"
            "Returns the type of a key: string, hash or none." Data(keys::type_of);
        "unlink" -2 Write [Write Fast] ALL "4.0.0" "key [key ...]"
            "Removes keys, the same as DEL." Data(keys::del);
    }
    Hash {
        "hdel" -3 Write [Write Fast] ONE "2.0.0" "key field [field ...]"
            "Removes fields and returns the number removed." Data(hashes::hdel);
        "hexists" 3 Point [ReadOnly Fast] ONE "2.0.0" "key field"
            "Returns whether a field exists." Data(hashes::hexists);
        "hget" 3 Point [ReadOnly Fast] ONE "2.0.0" "key field"
            "Returns the value of a field." Data(hashes::hget);
        "hgetall" 2 Point [ReadOnly] ONE "2.0.0" "key"
            "Returns all fields with their values, in the order of fields." Data(hashes::hgetall);
        "hincrby" 4 Write [Write DenyOom Fast] ONE "2.0.0" "key field increment"
            "Adds a number to the integer of a field." Data(hashes::hincrby);
        "hincrbyfloat" 4 Write [Write DenyOom Fast] ONE "2.6.0" "key field increment"
            "Adds a decimal number to the number of a field." Data(hashes::hincrbyfloat);
        "hkeys" 2 Point [ReadOnly] ONE "2.0.0" "key"
            "Returns all fields in order." Data(hashes::hkeys);
        "hlen" 2 Point [ReadOnly Fast] ONE "2.0.0" "key"
            "Returns the number of fields." Data(hashes::hlen);
        "hmget" -3 Point [ReadOnly Fast] ONE "2.0.0" "key field [field ...]"
            "Returns the values of several fields." Data(hashes::hmget);
        "hmset" -4 Write [Write DenyOom Fast] ONE "2.0.0" "key field value [field value ...]"
            "Sets several fields." Data(hashes::hmset);
        "hrandfield" -2 Alone [ReadOnly] ONE "6.2.0" "key [count [WITHVALUES]]"
            "Returns random fields: different ones, or with repetitions if the count is negative."
            Data(hashes::hrandfield);
        "hscan" -3 Alone [ReadOnly] ONE "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
            "Returns some fields with their values in order, and a cursor for the next ones; 0 at the end."
            Data(walks::hscan);
        "hset" -4 Write [Write DenyOom Fast] ONE "2.0.0" "key field value [field value ...]"
            "Sets fields and returns the number of new ones." Data(hashes::hset);
        "hsetnx" 4 Write [Write DenyOom Fast] ONE "2.0.0" "key field value"
            "Sets a field if it does not exist." Data(hashes::hsetnx);
        "hstrlen" 3 Point [ReadOnly Fast] ONE "3.2.0" "key field"
            "Returns the length of the value of a field in bytes." Data(hashes::hstrlen);
        "hvals" 2 Point [ReadOnly] ONE "2.0.0" "key"
            "Returns all values, in the order of fields." Data(hashes::hvals);
    }
    Bitmap {
        "bitcount" -2 Point [ReadOnly] ONE "2.6.0" "key [start end [BYTE | BIT]]"
            "Returns the number of set bits of a string or a part of it." Data(bits::bitcount);
        "bitfield" -2 Write [Write DenyOom] ONE "3.2.0"
            "key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY type offset increment ...]"
            "Reads and changes integers of any width in the bits of a string." Data(bitfields::bitfield);
        "bitfield_ro" -2 Point [ReadOnly Fast] ONE "6.0.0" "key [GET type offset ...]"
            "Reads integers of any width in the bits of a string." Data(bitfields::bitfield_ro);
        "bitop" -4 Write [Write DenyOom] FROM_SECOND "2.6.0"
            "AND | OR | XOR | NOT destination key [key ...]"
            "Combines the bits of strings and stores the result." Data(bits::bitop);
        "bitpos" -3 Point [ReadOnly] ONE "2.8.7" "key bit [start [end [BYTE | BIT]]]"
            "Returns the position of the first set or clear bit." Data(bits::bitpos);
        "getbit" 3 Point [ReadOnly Fast] ONE "2.2.0" "key offset"
            "Returns a bit of a string." Data(bits::getbit);
        "setbit" 4 Write [Write DenyOom] ONE "2.2.0" "key offset value"
            "Sets or clears a bit of a string and returns the previous one." Data(bits::setbit);
    }
    Transactions {
        "discard" 1 Loop [NoScript Loading Stale Fast AllowBusy] NONE "2.0.0" ""
            "Discards the commands since MULTI." Transaction(Verb::Discard);
        "exec" 1 Alone [NoScript Loading Stale] NONE "1.2.0" ""
            "Executes the commands since MULTI atomically, unless a watched key has changed."
            Transaction(Verb::Exec);
        "multi" 1 Loop [NoScript Loading Stale Fast AllowBusy] NONE "1.2.0" ""
            "Starts a transaction: the next commands are queued until EXEC." Transaction(Verb::Multi);
        "unwatch" 1 Loop [NoScript Loading Stale Fast AllowBusy] NONE "2.2.0" ""
            "Clears the watched keys." Transaction(Verb::Unwatch);
        "watch" -2 Alone [NoScript Loading Stale Fast AllowBusy] ALL "2.2.0" "key [key ...]"
            "Makes the next EXEC fail if one of the keys changes before it." Transaction(Verb::Watch);
    }
    Connection {
        "auth" -2 Loop [NoScript Loading Stale Fast NoAuth AllowBusy] NONE "1.0.0"
            "[username] password" "Authenticates the connection." Data(session::auth);
        "client" -2 Loop [] NONE "2.4.0" "" "Commands for connections." Container(());
        "client|getname" 2 Loop [NoScript Loading Stale] NONE "2.6.9" ""
            "Returns the name of the connection." Data(session::client_getname);
        "client|help" 2 Loop [Loading Stale] NONE "5.0.0" "" "Lists the subcommands." Help("client");
        "client|id" 2 Loop [NoScript Loading Stale] NONE "5.0.0" ""
            "Returns the number of the connection." Data(session::client_id);
        "client|info" 2 Loop [NoScript Loading Stale] NONE "6.2.0" ""
            "Returns information about the connection." Data(session::client_info);
        "client|kill" -3 Loop [Admin NoScript Loading Stale] NONE "2.4.0"
            "address | [ID id] [TYPE type] [USER name] [ADDR address] [LADDR address] [SKIPME YES | NO]"
            "Closes connections." Data(clients::kill);
        "client|list" -2 Loop [Admin NoScript Loading Stale] NONE "2.4.0"
            "[TYPE normal | ID id [id ...]]" "Returns information about all connections."
            Data(session::client_list);
        "client|no-evict" 3 Loop [Admin NoScript Loading Stale] NONE "7.0.0" "ON | OFF"
            "Marks the connection as one that must not be evicted; none ever is."
            Data(clients::no_evict);
        "client|pause" -3 Loop [Admin NoScript Loading Stale] NONE "3.0.0"
            "milliseconds [WRITE | ALL]"
            "Makes the commands of all connections wait, or only those that write."
            Data(clients::pause);
        "client|reply" 3 Loop [NoScript Loading Stale] NONE "3.2.0" "ON | OFF | SKIP"
            "Switches the replies to this connection on or off, or skips the next one."
            Data(clients::reply);
        "client|setinfo" 4 Loop [NoScript Loading Stale] NONE "7.2.0"
            "LIB-NAME name | LIB-VER version" "Sets the name or version of the client library."
            Data(session::client_setinfo);
        "client|setname" 3 Loop [NoScript Loading Stale] NONE "2.6.9" "name"
            "Sets the name of the connection." Data(session::client_setname);
        "client|unblock" -3 Loop [Admin NoScript Loading Stale] NONE "5.0.0" "id [TIMEOUT | ERROR]"
            "Returns 0: no command blocks." Data(clients::unblock);
        "client|unpause" 2 Loop [Admin NoScript Loading Stale] NONE "6.2.0" ""
            "Ends a pause." Data(clients::unpause);
        "echo" 2 Loop [Loading Stale Fast] NONE "1.0.0" "message" "Returns the message."
            Data(session::echo);
        "hello" -1 Loop [NoScript Loading Stale Fast NoAuth AllowBusy] NONE "6.0.0"
            "[version [AUTH username password] [SETNAME name]]"
            "Selects the protocol version: 2 or 3." Data(session::hello);
        "ping" -1 Loop [Fast] NONE "1.0.0" "[message]" "Returns PONG, or the message."
            Data(session::ping);
        "quit" -1 Loop [NoScript Loading Stale Fast NoAuth AllowBusy] NONE "1.0.0" ""
            "Closes the connection." Data(session::quit);
        "reset" 1 Loop [NoScript Loading Stale Fast NoAuth AllowBusy] NONE "6.2.0" ""
            "Makes the connection one that has just connected." Transaction(Verb::Reset);
        "select" 2 Loop [Loading Stale Fast] NONE "1.0.0" "database"
            "Selects the database of the connection: 0 to 15." Data(session::select);
    }
    Server {
        "bgsave" -1 Loop [Admin NoScript] NONE "1.0.0" "[SCHEDULE]"
            "Makes a checkpoint in the background, in place of the last one: `dump` in the directory of checkpoints."
            Data(persistence::bgsave);
        "command" -1 Loop [Loading Stale] NONE "2.8.13" ""
            "Describes all commands." Catalogue(introspection::command);
        "command|count" 2 Loop [Loading Stale] NONE "2.8.13" ""
            "Returns the number of commands." Catalogue(introspection::count);
        "command|docs" -2 Loop [Loading Stale] NONE "7.0.0" "[name ...]"
            "Returns the documentation of commands." Catalogue(introspection::docs);
        "command|getkeys" -4 Loop [Loading Stale] NONE "2.8.13" "command [argument ...]"
            "Returns the keys of a command." Catalogue(introspection::getkeys);
        "command|getkeysandflags" -4 Loop [Loading Stale] NONE "7.0.0" "command [argument ...]"
            "Returns the keys of a command and how it uses them."
            Catalogue(introspection::getkeysandflags);
        "command|help" 2 Loop [Loading Stale] NONE "5.0.0" "" "Lists the subcommands."
            Help("command");
        "command|info" -2 Loop [Loading Stale] NONE "2.8.13" "[name ...]"
            "Describes the named commands." Catalogue(introspection::info);
        "command|list" -2 Loop [Loading Stale] NONE "7.0.0"
            "[FILTERBY ACLCAT category | FILTERBY PATTERN pattern]"
            "Returns the names of commands." Catalogue(introspection::list);
        "config" -2 Loop [] NONE "2.0.0" "" "Commands for settings." Container(());
        "config|get" -3 Loop [Admin NoScript Loading Stale] NONE "2.0.0" "pattern [pattern ...]"
            "Returns the settings whose names match a pattern." Data(configuration::get);
        "config|help" 2 Loop [Loading Stale] NONE "5.0.0" "" "Lists the subcommands." Help("config");
        "config|resetstat" 2 Loop [Admin NoScript Loading Stale] NONE "2.0.0" ""
            "Makes the statistics of INFO start at zero." Data(configuration::resetstat);
        "config|rewrite" 2 Loop [Admin NoScript Loading Stale] NONE "2.8.0" ""
            "Returns an error: there is no configuration file." Data(configuration::rewrite);
        "config|set" -4 Alone [Admin NoScript Loading Stale] NONE "2.0.0"
            "name value [name value ...]" "Changes settings until the server stops."
            Data(configuration::set);
        "dbsize" 1 Walk [ReadOnly Fast] NONE "1.0.0" ""
            "Returns the exact number of keys; scans all of them." Data(walks::dbsize);
        "flushall" -1 Alone [Write] NONE "1.0.0" "[ASYNC | SYNC]"
            "Removes all keys of all databases." Data(keys::flushall);
        "flushdb" -1 Alone [Write] NONE "1.0.0" "[ASYNC | SYNC]"
            "Removes all keys of the database." Data(keys::flushdb);
        "info" -1 Alone [Loading Stale] NONE "1.0.0" "[section ...]"
            "Returns statistics and information about the server." Both(information::info);
        "lastsave" 1 Loop [Loading Stale Fast] NONE "1.0.0" ""
            "Returns the time of the last checkpoint, in seconds since 1970; at first of the start."
            Data(persistence::lastsave);
        "latency" -2 Loop [] NONE "2.8.13" "" "Commands for delays." Container(());
        "latency|doctor" 2 Loop [Admin NoScript Loading Stale] NONE "2.8.13" ""
            "Returns a report about the delays that the latency monitor has seen."
            Data(diagnostics::latency_doctor);
        "latency|help" 2 Loop [Loading Stale] NONE "2.8.13" "" "Lists the subcommands."
            Help("latency");
        "latency|histogram" -2 Loop [Admin NoScript Loading Stale] NONE "7.0.0" "[command ...]"
            "Returns how long the executions of commands took." Both(diagnostics::latency_histogram);
        "latency|history" 3 Loop [Admin NoScript Loading Stale] NONE "2.8.13" "event"
            "Returns the delays of an event." Data(diagnostics::latency_history);
        "latency|latest" 2 Loop [Admin NoScript Loading Stale] NONE "2.8.13" ""
            "Returns the last delay of each event." Data(diagnostics::latency_latest);
        "latency|reset" -2 Loop [Admin NoScript Loading Stale] NONE "2.8.13" "[event ...]"
            "Forgets the delays of events." Data(diagnostics::latency_reset);
        "memory" -2 Loop [] NONE "4.0.0" "" "Commands for memory." Container(());
        "memory|doctor" 2 Alone [] NONE "4.0.0" "" "Returns a report about the use of memory."
            Data(diagnostics::memory_doctor);
        "memory|help" 2 Loop [Loading Stale] NONE "4.0.0" "" "Lists the subcommands." Help("memory");
        "memory|malloc-stats" 2 Loop [] NONE "4.0.0" ""
            "Says that the allocator has no statistics." Data(diagnostics::memory_malloc_stats);
        "memory|purge" 2 Loop [] NONE "4.0.0" ""
            "Does nothing, as in a Redis without jemalloc." Data(diagnostics::memory_purge);
        "memory|stats" 2 Alone [] NONE "4.0.0" "" "Returns the use of memory."
            Data(diagnostics::memory_stats);
        "memory|usage" -3 Alone [ReadOnly] SECOND "4.0.0" "key [SAMPLES count]"
            "Returns roughly the memory that a key and its value take in the value cache."
            Data(objects::memory_usage);
        "monitor" 1 Loop [Admin NoScript Loading Stale] NONE "1.0.0" ""
            "Shows all commands of all connections from now on." Transaction(Verb::Monitor);
        "save" 1 Alone [Admin NoScript] NONE "1.0.0" ""
            "Makes a checkpoint as BGSAVE does, and waits for it." Data(persistence::save);
        "slowlog" -2 Loop [] NONE "2.2.12" "" "Commands for slow commands." Container(());
        "slowlog|get" -2 Loop [Admin Loading Stale] NONE "2.2.12" "[count]"
            "Returns the latest slow commands." Data(diagnostics::slowlog_get);
        "slowlog|help" 2 Loop [Loading Stale] NONE "6.2.0" "" "Lists the subcommands."
            Help("slowlog");
        "slowlog|len" 2 Loop [Admin Loading Stale] NONE "2.2.12" ""
            "Returns the number of slow commands that are kept." Data(diagnostics::slowlog_len);
        "slowlog|reset" 2 Loop [Admin Loading Stale] NONE "2.2.12" ""
            "Removes the slow commands." Data(diagnostics::slowlog_reset);
        "swapdb" 3 Alone [Write Fast] NONE "4.0.0" "database database"
            "Exchanges the contents of two databases at once; connections see the other content."
            Data(keys::swapdb);
        "tide.checkpoint" 2 Alone [Admin NoScript] NONE "0.1.0" "path"
            "Makes a checkpoint at a path below the directory of checkpoints; waits for it."
            Data(persistence::tide_checkpoint);
        "tide.compact" -1 Alone [Admin NoScript] NONE "0.1.0" "[start end]"
            "Compacts the store, or a range of keys of the database; waits for it. Bounds as in TIDE.RANGE."
            Data(persistence::tide_compact);
        "time" 1 Loop [Loading Stale Fast] NONE "2.6.0" ""
            "Returns the time in seconds since 1970, and the microseconds of the second."
            Data(diagnostics::time);
    }
};

/// Bytes of an unknown command that its error contains.
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
    // Only this list uses `|` as a separator; a client sends a space.
    if small.contains(&b'|') {
        return None;
    }
    BY_NAME.get(&*small).copied()
}

fn find_subcommand(container: &str, name: &[u8]) -> Option<&'static Command> {
    let full = [container.as_bytes(), b"|", &name.to_ascii_lowercase()].concat();
    BY_NAME.get(&full[..]).copied()
}

/// Resolves `words` (at least one) to a command and checks the number of arguments. `likely`, the
/// command of the previous call, is tried first.
pub(crate) fn resolve(
    words: Vec<Bytes>,
    likely: Option<&'static Command>,
) -> Result<Call, CommandError> {
    // `|` is no separator of clients, as in `find`.
    let is_likely = |command: &&Command| {
        words[0].eq_ignore_ascii_case(command.name.as_bytes()) && !words[0].contains(&b'|')
    };
    let mut command = match likely.filter(is_likely) {
        Some(command) => command,
        None => find(&words[0]).ok_or_else(|| unknown(&words))?,
    };
    let is_container = matches!(command.run, Run::Container(())) || command.name == "command";
    if is_container && words.len() > 1 {
        command = find_subcommand(command.name, &words[1])
            .ok_or_else(|| unknown_subcommand(command.name, &words[1]))?;
    }
    if !command.takes(words.len()) {
        return Err(match command.name {
            // Redis discards the transaction of an invalid EXEC at once.
            "exec" => CommandError::text(
                "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' \
                 command",
            ),
            name => wrong_arity(name),
        });
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
