//! Lookup, arity, consistency of the catalogue, and its agreement with its page.

use std::fmt::Write;

use super::*;
use crate::commands::command::position;
use crate::state::command_statistics::COMMANDS_MAX;

/// In the order of the documentation.
const GROUPS: [Group; 7] = [
    Group::String,
    Group::Bitmap,
    Group::Generic,
    Group::Hash,
    Group::Transactions,
    Group::Connection,
    Group::Server,
];

fn words(text: &str) -> Vec<Bytes> {
    text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn refusal(text: &str) -> String {
    match resolve(words(text), None).unwrap_err() {
        CommandError::Message(message) => message.into_owned(),
        error => panic!("{error:?}"),
    }
}

#[test]
fn commands_are_found_in_any_case() {
    assert_eq!(resolve(words("GeT a"), None).unwrap().command.name, "get");
    let call = resolve(words("CLIENT SetName me"), None).unwrap();
    assert_eq!(call.command.name, "client|setname");
    assert_eq!(call.arguments(), words("me"));
    assert_eq!(resolve(words("command"), None).unwrap().command.name, "command");
}

#[test]
fn invalid_commands_get_the_errors_of_redis() {
    assert_eq!(refusal("get"), "ERR wrong number of arguments for 'get' command");
    assert_eq!(
        refusal("client setname"),
        "ERR wrong number of arguments for 'client|setname' command"
    );
    assert_eq!(refusal("client"), "ERR wrong number of arguments for 'client' command");
    assert_eq!(refusal("client fly"), "ERR unknown subcommand 'fly'. Try CLIENT HELP.");
    assert_eq!(
        refusal("fly me to"),
        "ERR unknown command 'fly', with args beginning with: 'me' 'to' "
    );
    assert_eq!(refusal("client|id"), "ERR unknown command 'client|id', with args beginning with: ");
    let long = "x".repeat(1000);
    assert!(refusal(&long).len() < 200);
    assert!(refusal(&format!("fly {long} {long}")).len() < 400);
}

#[test]
fn records_are_consistent() {
    for command in COMMANDS {
        let name = command.name;
        assert!(name.len() <= NAME_BYTES_MAX && name == name.to_ascii_lowercase(), "{name}");
        assert!(command.summary.ends_with('.'), "{name}");
        assert!(!(command.has(Flag::Write) && command.has(Flag::ReadOnly)), "{name}");
        match command.place {
            ExecutionClass::Point | ExecutionClass::Walk => {
                assert!(command.has(Flag::ReadOnly), "{name}")
            }
            ExecutionClass::Write => {
                assert!(command.has(Flag::Write) && command.keys != Keys::NONE, "{name}");
            }
            ExecutionClass::Loop => assert_eq!(command.keys, Keys::NONE, "{name}"),
            ExecutionClass::Alone => {}
        }
        if let Some((container, _)) = name.split_once('|') {
            assert!(find(container.as_bytes()).is_some(), "{name}");
        }
    }
    assert_eq!(BY_NAME.len(), COMMANDS.len(), "names are unique");
    assert!(COMMANDS.len() <= COMMANDS_MAX, "each has its statistics");
    let numbers = COMMANDS.iter().map(|command| position(COMMANDS, command));
    assert!(numbers.eq((0..COMMANDS.len()).map(Some)));
    for group in GROUPS {
        let names: Vec<_> = COMMANDS.iter().filter(|c| c.group == group).map(|c| c.name).collect();
        assert!(names.is_sorted(), "{names:?}");
    }
}

/// `docs/reference/commands.md` is this text; `TIDEKV_BLESS=1` writes it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the page lies in the repository, not in a store")]
fn the_documentation_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
    let expected = documentation();
    if std::env::var_os("TIDEKV_BLESS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "{path} is out of date: run this test with TIDEKV_BLESS=1");
}

fn documentation() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         The commands that `tidekv serve` supports over the Redis protocol, by group. A test\n\
         generates this page from `crates/resp/src/commands/catalogue.rs`; change it there.\n",
    );
    for group in GROUPS {
        let _ = write!(page, "\n## {}\n\n", group.name());
        page += "| Command | Description | Since |\n|---|---|---|\n";
        for command in COMMANDS.iter().filter(|command| command.group == group) {
            if matches!(command.run, Run::Container(())) {
                continue;
            }
            let name = command.name.replace('|', " ").to_ascii_uppercase();
            let syntax = format!("{name} {}", command.syntax).trim_end().replace('|', "\\|");
            let whose = if command.name.starts_with("tide.") { "TideKV" } else { "Redis" };
            let _ =
                writeln!(page, "| `{syntax}` | {} | {whose} {} |", command.summary, command.since);
        }
    }
    page + LIMITS
}

/// The end of the page.
const LIMITS: &str = "
## Differences from Redis 7.0

The server takes the version of Redis whose replies it has: `INFO` says 7.0.15. Replies and errors
are those of that version, checked by recorded replies and by random commands beside Redis (`cargo
run -p tidekv-resp --example beside_redis_fuzz`), with these exceptions:

- A key has 1 byte to 64 KiB: there is no empty key. A string has at most 512 MiB. The name of a
  field is 16 bytes shorter than a key, and a field has at most a sixteenth of the memory budget.
- A command or transaction writes at most an eighth of the memory budget; so longer strings are made by
  `APPEND` or `SETRANGE`, and cannot be copied. Replies of a transaction, and strings that a command
  returns and changes (`GETDEL`, `GETEX`, `GETSET`, `SET … GET`), have at most an eighth too. What does
  not fit is refused with `OOM`.
- A string that a command makes 128 KiB or longer is stored in parts: the command line and the embedded
  store do not show it among the entries of `default`.
- Keys, fields and `SCAN` are in the order of their bytes. A cursor is a number of a walk that the
  server remembers; one that it has forgotten starts again. A step of `SCAN` or `HSCAN` ends after
  256 KiB, or after 10,000 deleted or expired keys or fields that compactions have not removed yet (not
  in a transaction that writes). So it may return nothing and a cursor other than 0: continue until the
  cursor is 0.
- `INCRBYFLOAT` and `HINCRBYFLOAT` compute exactly below 10^20 with 17 decimals, and otherwise in
  64-bit floating point, where Redis computes in the 80-bit numbers of x87. So results differ in
  the last digits from 18 digits on, and numbers above 1.8e308 are refused.
- `DBSIZE` walks over all keys. `INFO keyspace` counts databases of up to 10 000 versions, and
  estimates larger ones from 512 random entries, at most every ten seconds; the deviation is a few
  percent.
- `OBJECT REFCOUNT` is 1; `OBJECT ENCODING` is what Redis chooses for a value that was set at
  once. Times and frequencies of accesses are not tracked: `OBJECT IDLETIME` and `FREQ` return
  errors.
- `CONFIG SET` accepts the parameters of Redis. `maxmemory` is the memory budget of the store, at
  least 8 MiB (0 changes nothing); `maxclients`, `timeout`, `requirepass`, `appendfsync` (`always`
  or `no`), `slowlog-*`, `latency-monitor-threshold` and `hash-max-listpack-*` (in `OBJECT
  ENCODING`) have an effect; parameters of listening, TLS, files and processes are fixed, and so is
  `checkpoint-dir`, which Redis does not have: the flag of that name; all others are accepted, returned by `CONFIG GET` and have no effect, which the log says.
- `FLUSHDB` of a database, while other databases have hashes or long strings, writes a
  note for each of its own: at most an eighth of the memory budget. `FLUSHALL` has no
  limit.
- `KEYS`, `SCAN`, `RANDOMKEY` and `DBSIZE` in a transaction that writes see at most 64 MiB of
  keys.
- `WATCH` of an absent key: after a flush of the database, `EXEC` may fail although the key was
  not set, if the store has written its memtable to storage meanwhile.
- `MONITOR` drops a client that leaves 1024 lines unread. `SLOWLOG`, `LATENCY` and `INFO commandstats`
  count the execution of a command, without the wait for the commit; they do not count `MULTI`,
  `EXEC`, `DISCARD`, `WATCH`, `UNWATCH` and `RESET` themselves.
- `SAVE` and `BGSAVE` make a checkpoint, which is a store, in the directory that the server was started
  with for them (`--checkpoint-dir`); without one they are errors. They, `TIDE.CHECKPOINT` and
  `TIDE.COMPACT` are refused in a transaction, except `BGSAVE`; one of a kind runs at a time.
- `MEMORY USAGE` is the memory in the value cache; `MEMORY PURGE` does nothing.

## Missing commands

Not supported yet, and answered with `ERR unknown command`: lists, sets, sorted sets, streams,
HyperLogLog, geographic indexes, publish and subscribe, scripts and functions, cluster,
replication (`REPLICAOF`, `ROLE`, `WAIT`, `FAILOVER`, …), ACLs, modules, client tracking (`CLIENT
TRACKING`, `CACHING`, `GETREDIR`, `TRACKINGINFO`), dumps (`DUMP`, `RESTORE`, `MIGRATE`,
`BGREWRITEAOF`), `SORT`, `SORT_RO`, `SHUTDOWN`, `DEBUG`, `LATENCY GRAPH` and
`LOLWUT`.
";
