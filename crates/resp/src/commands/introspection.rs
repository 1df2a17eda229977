//! `COMMAND` and its subcommands: the catalogue in Redis's terms.

use std::sync::LazyLock;

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::commands::command::{Command, Flag, Keys, Run};
use crate::commands::errors::{SYNTAX, is_word};
use crate::protocol::glob;
use crate::protocol::reply::{CommandError, CommandResult, Reply};

/// Commands that are not subcommands.
fn top_level(catalogue: &'static [Command]) -> impl Iterator<Item = &'static Command> {
    catalogue.iter().filter(|command| !command.name.contains('|'))
}

fn subcommands(
    catalogue: &'static [Command],
    container: &Command,
) -> impl Iterator<Item = &'static Command> {
    let prefix = matches!(container.run, Run::Container(()) | Run::Catalogue(_))
        .then(|| format!("{}|", container.name));
    catalogue
        .iter()
        .filter(move |command| prefix.as_ref().is_some_and(|p| command.name.starts_with(p)))
}

fn categories(command: &Command) -> Vec<Reply> {
    let group = match command.group.name() {
        "generic" => "@keyspace",
        "string" => "@string",
        "hash" => "@hash",
        "bitmap" => "@bitmap",
        "transactions" => "@transaction",
        "connection" => "@connection",
        _ => "@admin",
    };
    let mut names = vec![Reply::Simple(group)];
    if command.has(Flag::Write) {
        names.push(Reply::Simple("@write"));
    }
    if command.has(Flag::ReadOnly) {
        names.push(Reply::Simple("@read"));
    }
    names.push(Reply::Simple(if command.has(Flag::Fast) { "@fast" } else { "@slow" }));
    names
}

fn describe(catalogue: &'static [Command], command: &'static Command) -> Reply {
    let flags = command.flags.iter().map(|flag| Reply::Simple(flag.name())).collect();
    let keys = command.keys;
    Reply::Array(vec![
        Reply::word(command.name),
        Reply::Integer(command.arity),
        Reply::Set(flags),
        Reply::Integer(keys.first),
        Reply::Integer(keys.last),
        Reply::Integer(keys.step),
        Reply::Set(categories(command)),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(subcommands(catalogue, command).map(|sub| describe(catalogue, sub)).collect()),
    ])
}

fn document(catalogue: &'static [Command], command: &'static Command) -> (Reply, Reply) {
    let mut facts = vec![
        (Reply::word("summary"), Reply::word(command.summary)),
        (Reply::word("since"), Reply::word(command.since)),
        (Reply::word("group"), Reply::word(command.group.name())),
    ];
    if !command.syntax.is_empty() {
        // One argument named after the whole syntax: clients display it verbatim.
        facts.push((
            Reply::word("arguments"),
            Reply::Array(vec![Reply::Map(vec![
                (Reply::word("name"), Reply::word(command.syntax)),
                (Reply::word("type"), Reply::word("string")),
            ])]),
        ));
    }
    let subs: Vec<_> =
        subcommands(catalogue, command).map(|sub| document(catalogue, sub)).collect();
    if !subs.is_empty() {
        facts.push((Reply::word("subcommands"), Reply::Map(subs)));
    }
    (Reply::word(command.name), Reply::Map(facts))
}

fn find(catalogue: &'static [Command], name: &Bytes) -> Option<&'static Command> {
    catalogue.iter().find(|command| is_word(name, command.name))
}

pub(crate) fn command(catalogue: &'static [Command], _: &[Bytes]) -> CommandResult {
    Ok(Reply::Array(top_level(catalogue).map(|command| describe(catalogue, command)).collect()))
}

pub(crate) fn count(catalogue: &'static [Command], _: &[Bytes]) -> CommandResult {
    Ok(Reply::count(top_level(catalogue).count()))
}

pub(crate) fn info(catalogue: &'static [Command], arguments: &[Bytes]) -> CommandResult {
    if arguments.is_empty() {
        return command(catalogue, arguments);
    }
    let tell =
        |name| find(catalogue, name).map_or(Reply::Null, |command| describe(catalogue, command));
    Ok(Reply::Array(arguments.iter().map(tell).collect()))
}

pub(crate) fn docs(catalogue: &'static [Command], arguments: &[Bytes]) -> CommandResult {
    let wanted: Vec<_> = match arguments {
        [] => top_level(catalogue).collect(),
        names => names.iter().filter_map(|name| find(catalogue, name)).collect(),
    };
    Ok(Reply::Map(wanted.into_iter().map(|command| document(catalogue, command)).collect()))
}

pub(crate) fn list(catalogue: &'static [Command], arguments: &[Bytes]) -> CommandResult {
    let is_wanted: Box<dyn Fn(&Command) -> bool> = match arguments {
        [] => Box::new(|_| true),
        [filter, by, what] if is_word(filter, "FILTERBY") && is_word(by, "PATTERN") => {
            let pattern = what.to_ascii_lowercase();
            Box::new(move |command| glob::matches(&pattern, command.name.as_bytes()))
        }
        [filter, by, what] if is_word(filter, "FILTERBY") && is_word(by, "ACLCAT") => {
            let category = format!("@{}", String::from_utf8_lossy(what).to_ascii_lowercase());
            Box::new(move |command| {
                categories(command)
                    .iter()
                    .any(|reply| matches!(reply, Reply::Simple(name) if *name == category))
            })
        }
        _ => return Err(SYNTAX),
    };
    let names = catalogue.iter().filter(|command| is_wanted(command));
    Ok(Reply::Array(names.map(|command| Reply::word(command.name)).collect()))
}

/// The command that `words` name and its keys; the errors of Redis.
fn keys_of<'a>(
    catalogue: &'static [Command],
    words: &'a [Bytes],
) -> Result<(&'static Command, Vec<&'a Bytes>), CommandError> {
    const INVALID: CommandError = CommandError::text("ERR Invalid command specified");
    let mut command = find(catalogue, &words[0]).filter(|found| !found.name.contains('|'));
    if let Some(container) = command
        && let Some(word) = words.get(1)
        && let Some(sub) = subcommands(catalogue, container)
            .find(|sub| sub.name.split('|').nth(1).is_some_and(|name| is_word(word, name)))
    {
        command = Some(sub);
    }
    let command = command.ok_or(INVALID)?;
    if command.keys == Keys::NONE {
        return Err(CommandError::text("ERR The command has no key arguments"));
    }
    if !command.takes(words.len()) {
        return Err(CommandError::text("ERR Invalid number of arguments specified for command"));
    }
    Ok((command, command.keys(words).collect()))
}

/// How Redis says that a command uses its first key, its second, and so on; the last entry counts
/// for all others. `words` are the command and its arguments.
fn key_flags(command: &Command, words: &[Bytes]) -> &'static [&'static str] {
    let are_all = |option: &str| words[2..].iter().step_by(3).all(|word| is_word(word, option));
    match command.name {
        "set" if words[3..].iter().any(|word| is_word(word, "GET")) => &["RW access update"],
        "set" => &["OW update"],
        "bitfield" if are_all("GET") => &["RO access"],
        "setnx" | "msetnx" => &["OW insert"],
        "bitop" => &["OW update", "RO access"],
        "mset" | "setex" | "psetex" => &["OW update"],
        "del" | "unlink" => &["RM delete"],
        "copy" => &["RO access", "OW update"],
        "rename" => &["RW access delete", "OW update"],
        "renamenx" => &["RW access delete", "OW insert"],
        "getdel" => &["RW access delete"],
        "hdel" => &["RW delete"],
        "append" | "hsetnx" => &["RW insert"],
        "type" | "exists" | "watch" | "object|encoding" | "object|freq" | "object|refcount"
        | "object|idletime" | "hexists" | "hstrlen" | "memory|usage" | "touch" | "strlen"
        | "hlen" => &["RO"],
        _ if command.has(Flag::ReadOnly) => &["RO access"],
        "expire" | "pexpire" | "expireat" | "pexpireat" | "persist" | "setrange" | "hset"
        | "hmset" => &["RW update"],
        _ => &["RW access update"],
    }
}

pub(crate) fn getkeys(catalogue: &'static [Command], arguments: &[Bytes]) -> CommandResult {
    let (_, keys) = keys_of(catalogue, arguments)?;
    Ok(Reply::Array(keys.into_iter().map(|key| Reply::Bulk(key.clone())).collect()))
}

pub(crate) fn getkeysandflags(catalogue: &'static [Command], arguments: &[Bytes]) -> CommandResult {
    let (command, keys) = keys_of(catalogue, arguments)?;
    let flags = key_flags(command, arguments);
    let pair = |(at, key): (usize, &Bytes)| {
        let flags = flags[at.min(flags.len() - 1)].split(' ').map(Reply::Simple).collect();
        Reply::Array(vec![Reply::Bulk(key.clone()), Reply::Set(flags)])
    };
    Ok(Reply::Array(keys.into_iter().enumerate().map(pair).collect()))
}

/// The lines of `HELP` of every container. They are made once, and live as long as the program.
static HELP: LazyLock<Mutex<HashMap<&'static str, &'static [&'static str]>>> =
    LazyLock::new(Mutex::default);

/// Lists the subcommands of `container`.
pub(crate) fn help(catalogue: &'static [Command], container: &'static str) -> Reply {
    let lines = *HELP.lock().entry(container).or_insert_with(|| {
        let title = format!(
            "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            container.to_ascii_uppercase()
        );
        let mut lines = vec![title];
        let prefix = format!("{container}|");
        for command in catalogue {
            if let Some(name) = command.name.strip_prefix(&prefix)
                && name != "help"
            {
                let usage = format!("{} {}", name.to_ascii_uppercase(), command.syntax);
                lines.push(usage.trim_end().to_owned());
                lines.push(format!("    {}", command.summary));
            }
        }
        lines.extend(["HELP".to_owned(), "    Prints this help.".to_owned()]);
        let leak = |line: String| -> &'static str { line.leak() };
        lines.into_iter().map(leak).collect::<Vec<_>>().leak()
    });
    Reply::Array(lines.iter().map(|line| Reply::Simple(line)).collect())
}
