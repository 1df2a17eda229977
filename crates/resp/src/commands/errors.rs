//! Errors shared by several commands, with the messages of Redis, and the argument parsers that
//! return them.

use bytes::Bytes;

use crate::protocol::number::parse_i64;
use crate::protocol::reply::CommandError;
use crate::state::keyspaces::DATABASES;

/// Maximum length of a string in Redis.
pub(crate) const STRING_BYTES_MAX: usize = 512 << 20;

pub(crate) const SYNTAX: CommandError = CommandError::text("ERR syntax error");
pub(crate) const NOT_AN_INTEGER: CommandError =
    CommandError::text("ERR value is not an integer or out of range");
pub(crate) const OVERFLOW: CommandError =
    CommandError::text("ERR increment or decrement would overflow");
pub(crate) const NO_SUCH_KEY: CommandError = CommandError::text("ERR no such key");
pub(crate) const DB_OUT_OF_RANGE: CommandError = CommandError::text("ERR DB index is out of range");

/// The error for a wrong number of arguments.
pub(crate) fn wrong_arity(command: &str) -> CommandError {
    CommandError::from(format!("ERR wrong number of arguments for '{command}' command"))
}

/// Parses an integer argument.
pub(crate) fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    parse_i64(argument).ok_or(NOT_AN_INTEGER)
}

/// Parses the number of a database.
pub(crate) fn database_number(argument: &[u8]) -> Result<usize, CommandError> {
    let number = i32::try_from(integer(argument)?).map_err(|_| {
        CommandError::from(format!(
            "ERR value is out of range, value must between {} and {}",
            i32::MIN,
            i32::MAX
        ))
    })?;
    usize::try_from(number).ok().filter(|&number| number < DATABASES).ok_or(DB_OUT_OF_RANGE)
}

/// Whether an argument is `word`, in any case.
pub(crate) fn is_word(argument: &Bytes, word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// The argument after an option.
pub(crate) fn operand<'a>(
    arguments: &mut impl Iterator<Item = &'a Bytes>,
) -> Result<&'a Bytes, CommandError> {
    arguments.next().ok_or(SYNTAX)
}
