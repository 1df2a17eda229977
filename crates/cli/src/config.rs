//! The config file: TOML, one table per command, whose keys are the names of the
//! command's flags. Flags on the command line override it.
//!
//! The settings of the file are inserted before the command's own arguments, so
//! the same declarations parse and check both. An unknown name in any table of the
//! file is an error.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::environment;
use crate::failure::{Failure, Result};
use crate::files;

/// Arguments that only make sense on a command line.
const NEVER_IN_A_FILE: [&str; 3] = ["config", "help", "version"];

/// Environment variables that override the file, but not the flags, with the names
/// in the file that they replace.
const ENVIRONMENT: [(&str, &[&str]); 1] = [(environment::PASSWORD, &["password", "password-file"])];

/// `arguments` (the program's name first) with the settings of the file that
/// `--config` names.
pub fn merge(root: &Command, arguments: Vec<OsString>) -> Result<Vec<OsString>> {
    // Only to find the arguments that are present; the real parse reports errors.
    let lenient = root.clone().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(&arguments) else { return Ok(arguments) };
    let Some((name, given)) = matches.subcommand() else { return Ok(arguments) };
    let config = given.try_get_one::<PathBuf>("config").ok().flatten();
    let Some(path) = config else { return Ok(arguments) };
    let file = read(path)?;
    check(root, path, &file)?;
    let Some(toml::Value::Table(table)) = file.get(name) else { return Ok(arguments) };
    let command = root.find_subcommand(name).expect("it was matched");
    let mut added = Vec::new();
    for (name, value) in table {
        let argument = find(command, name).expect("it was checked");
        if !is_replaced(command, argument, given) {
            add(path, argument, value, &mut added)?;
        }
    }
    let at = position_of(name, &arguments);
    Ok([&arguments[..=at], &added, &arguments[at + 1..]].concat())
}

fn read(path: &Path) -> Result<toml::Table> {
    let text = files::read_text(path)?;
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        let what = error.message();
        Failure::usage(format!("{} is not valid TOML: line {line}: {what}", path.display()))
    })
}

fn check(root: &Command, path: &Path, file: &toml::Table) -> Result<()> {
    let refused = |what: String| Err(Failure::usage(format!("{}: {what}", path.display())));
    for (name, table) in file {
        let commands = || root.get_subcommands().map(Command::get_name).collect::<Vec<_>>();
        let Some(command) = root.find_subcommand(name) else {
            let known = commands().join(", ");
            return refused(format!("unknown command {name:?}; the commands are {known}"));
        };
        let toml::Value::Table(table) = table else {
            return refused(format!("{name:?} must be a table: write [{name}], then its flags"));
        };
        for key in table.keys() {
            if find(command, key).is_none() {
                let known: Vec<_> = settable(command).filter_map(Arg::get_long).collect();
                let known = known.join(", ");
                return refused(format!(
                    "[{name}]: unknown setting {key:?}; the settings are {known}"
                ));
            }
        }
    }
    Ok(())
}

fn settable(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|argument| argument.get_long().is_some_and(|name| !NEVER_IN_A_FILE.contains(&name)))
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let name = name.replace('_', "-");
    settable(command).find(|argument| argument.get_long() == Some(&name))
}

/// Whether the command line or the environment sets this argument, or one that conflicts with it.
fn is_replaced(command: &Command, argument: &Arg, given: &ArgMatches) -> bool {
    let is_given = |argument: &Arg| {
        let id = argument.get_id().as_str();
        // The lenient parse does not contain the arguments that it did not reach.
        given.try_contains_id(id).unwrap_or(false)
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    let in_environment = ENVIRONMENT.iter().any(|(variable, names)| {
        argument.get_long().is_some_and(|name| names.contains(&name))
            && std::env::var_os(variable).is_some()
    });
    let excluded = || command.get_arg_conflicts_with(argument).into_iter().any(is_given);
    is_given(argument) || in_environment || excluded()
}

fn add(path: &Path, argument: &Arg, value: &toml::Value, out: &mut Vec<OsString>) -> Result<()> {
    let name = argument.get_long().unwrap_or_default();
    let refused = |wanted: &str| {
        let path = path.display();
        Failure::usage(format!("{path}: {name} must be {wanted}, not a {}", value.type_str()))
    };
    let takes_values = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    if !takes_values {
        match value {
            toml::Value::Boolean(true) => out.push(format!("--{name}").into()),
            toml::Value::Boolean(false) => {}
            _ => return Err(refused("true or false")),
        }
        return Ok(());
    }
    let values = match value {
        toml::Value::Array(values) if matches!(argument.get_action(), ArgAction::Append) => values,
        value => &vec![value.clone()],
    };
    for value in values {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            _ => return Err(refused("a string or a number")),
        };
        out.push(format!("--{name}={text}").into());
    }
    Ok(())
}

/// The position of the command's name: its first occurrence, as only `--config FILE`
/// can precede it.
fn position_of(name: &str, arguments: &[OsString]) -> usize {
    let mut skip = false;
    for (at, argument) in arguments.iter().enumerate().skip(1) {
        if std::mem::take(&mut skip) {
            continue;
        }
        skip = argument == "--config";
        if argument == name {
            return at;
        }
    }
    0
}
