//! `COMMAND` and its subcommands: the catalogue in Redis's terms.

use bytes::Bytes;

use crate::commands::command::{Command, Flag, Run};
use crate::commands::errors::{SYNTAX, is_word};
use crate::protocol::glob;
use crate::protocol::reply::{CommandResult, Reply};

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
