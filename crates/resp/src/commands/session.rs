//! Commands on the connection.

use bytes::Bytes;

use crate::commands::clients::is_our_type;
use crate::commands::errors::{SYNTAX, database_number, integer, is_word, operand, wrong_arity};
use crate::data::execution::Execution;
use crate::protocol::number::parse_i64;
use crate::protocol::reply::{CommandError, CommandResult, Protocol, Reply};

/// The version of Redis whose protocol and messages are implemented. Clients choose commands by it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

const WRONG_PASSWORD: CommandError =
    CommandError::text("WRONGPASS invalid username-password pair or user is disabled.");

pub(crate) fn ping(_: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    match arguments {
        [] => Ok(Reply::Simple("PONG")),
        [message] => Ok(Reply::Bulk(message.clone())),
        _ => Err(wrong_arity("ping")),
    }
}

pub(crate) fn echo(_: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    Ok(Reply::Bulk(arguments[0].clone()))
}

pub(crate) fn quit(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    execution.session.is_closing = true;
    Ok(Reply::OK)
}

pub(crate) fn select(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let database = database_number(&arguments[0])?;
    execution.select(database);
    Ok(Reply::OK)
}

/// Authenticates the client by its password.
fn authenticate(
    execution: &mut Execution<'_>,
    user: Option<&[u8]>,
    guess: &[u8],
) -> Result<(), CommandError> {
    let password = execution.state.settings.password();
    let is_known = match (&password, user) {
        (None, None) => {
            return Err(CommandError::text(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            ));
        }
        (None, Some(user)) => user == b"default",
        (Some(password), user) => {
            password.matches(guess) & user.is_none_or(|user| user == b"default")
        }
    };
    let session = &mut *execution.session;
    if !is_known {
        session.wrong_guesses = session.wrong_guesses.saturating_add(1);
        execution.state.guesses.fail(&session.client.address);
        return Err(WRONG_PASSWORD);
    }
    session.wrong_guesses = 0;
    session.set_authenticated(true);
    Ok(())
}

pub(crate) fn auth(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    match arguments {
        [password] => authenticate(execution, None, password)?,
        [user, password] => authenticate(execution, Some(user), password)?,
        _ => return Err(SYNTAX),
    }
    Ok(Reply::OK)
}

pub(crate) fn hello(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let mut rest = arguments.iter();
    let protocol = match rest.next() {
        None => None,
        Some(version) => Some(match parse_i64(version) {
            Some(2) => Protocol::Two,
            Some(3) => Protocol::Three,
            Some(_) => return Err(CommandError::text("NOPROTO unsupported protocol version")),
            None => {
                return Err(CommandError::text(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        }),
    };
    let (mut credentials, mut name) = (None, None);
    while let Some(option) = rest.next() {
        let syntax = || {
            let shown = String::from_utf8_lossy(option);
            CommandError::from(format!("ERR Syntax error in HELLO option '{shown}'"))
        };
        if is_word(option, "AUTH") && rest.len() >= 2 {
            credentials = Some((operand(&mut rest)?, operand(&mut rest)?));
        } else if is_word(option, "SETNAME") && rest.len() >= 1 {
            name = Some(operand(&mut rest)?);
        } else {
            return Err(syntax());
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(execution, Some(user), password)?;
    }
    if !execution.session.is_authenticated() {
        return Err(CommandError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        set_name(execution, name)?;
    }
    if let Some(protocol) = protocol {
        execution.session.set_protocol(protocol);
    }
    let proto = if execution.session.protocol() == Protocol::Two { 2 } else { 3 };
    let id = i64::try_from(execution.session.client.id).unwrap_or(i64::MAX);
    Ok(Reply::Map(vec![
        // Clients check this name.
        (Reply::word("server"), Reply::word("redis")),
        (Reply::word("version"), Reply::word(REDIS_VERSION)),
        (Reply::word("proto"), Reply::Integer(proto)),
        (Reply::word("id"), Reply::Integer(id)),
        (Reply::word("mode"), Reply::word("standalone")),
        (Reply::word("role"), Reply::word("master")),
        (Reply::word("modules"), Reply::Array(Vec::new())),
    ]))
}

fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

fn set_name(execution: &mut Execution<'_>, name: &Bytes) -> Result<(), CommandError> {
    if !is_plain(name) {
        return Err(CommandError::text(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    let name = Bytes::copy_from_slice(name);
    execution.session.client.update(|said| said.name = name);
    Ok(())
}

pub(crate) fn client_setname(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    set_name(execution, &arguments[0])?;
    Ok(Reply::OK)
}

pub(crate) fn client_getname(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let name = execution.session.client.said().name;
    Ok(Reply::bulk_or_null(Some(name).filter(|name| !name.is_empty())))
}

pub(crate) fn client_id(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    Ok(Reply::Integer(i64::try_from(execution.session.client.id).unwrap_or(i64::MAX)))
}

pub(crate) fn client_info(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let line = execution.session.client.line(execution.state.now_ms());
    Ok(Reply::Verbatim(line + "\n"))
}

pub(crate) fn client_setinfo(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (attribute, value) = (&arguments[0], &arguments[1]);
    let is_name = is_word(attribute, "LIB-NAME");
    if !is_name && !is_word(attribute, "LIB-VER") {
        let shown = String::from_utf8_lossy(attribute);
        return Err(CommandError::from(format!("ERR Unrecognized option '{shown}'")));
    }
    if !is_plain(value) {
        let attribute = if is_name { "lib-name" } else { "lib-ver" };
        return Err(CommandError::from(format!(
            "ERR {attribute} cannot contain spaces, newlines or special characters."
        )));
    }
    let value = Bytes::copy_from_slice(value);
    execution.session.client.update(|said| {
        let place = if is_name { &mut said.library } else { &mut said.library_version };
        *place = value;
    });
    Ok(Reply::OK)
}

pub(crate) fn client_list(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let wanted = match arguments {
        [] => None,
        [option, kind] if is_word(option, "TYPE") => {
            if is_our_type(kind)? {
                None
            } else {
                Some(Vec::new())
            }
        }
        [option, ids @ ..] if is_word(option, "ID") && !ids.is_empty() => {
            let id =
                |id: &Bytes| integer(id).map_err(|_| CommandError::text("ERR Invalid client ID"));
            Some(ids.iter().map(id).collect::<Result<Vec<i64>, _>>()?)
        }
        _ => return Err(SYNTAX),
    };
    let now_ms = execution.state.now_ms();
    let mut list = String::new();
    for client in execution.state.clients.list() {
        let is_wanted = |ids: &Vec<i64>| ids.iter().any(|&id| u64::try_from(id) == Ok(client.id));
        if wanted.as_ref().is_none_or(is_wanted) {
            list += &client.line(now_ms);
            list.push('\n');
        }
    }
    Ok(Reply::Verbatim(list))
}
