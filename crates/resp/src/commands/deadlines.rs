//! `EXPIRE` and related commands, and the conversion of arguments to deadlines.
//!
//! Deadlines are times of the store's clock, which steps of the machine's clock do not move.
//! Clients that give a time of day, or ask for one, mean the machine's clock.

use bytes::Bytes;

use crate::commands::errors::{integer, is_word};
use crate::data::execution::Execution;
use crate::data::values;
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::server_state::State;

/// Unit and origin of a time argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    SecondsFromNow,
    MillisecondsFromNow,
    UnixSeconds,
    UnixMilliseconds,
}

impl Clock {
    /// The unit and origin of the option `EX`, `PX`, `EXAT` or `PXAT`.
    pub(crate) fn of_option(argument: &Bytes) -> Option<Self> {
        [
            ("EX", Self::SecondsFromNow),
            ("PX", Self::MillisecondsFromNow),
            ("EXAT", Self::UnixSeconds),
            ("PXAT", Self::UnixMilliseconds),
        ]
        .into_iter()
        .find_map(|(word, clock)| is_word(argument, word).then_some(clock))
    }

    /// Milliseconds since 1970 on the store's clock; `None` if that overflows 64 bits.
    fn deadline_ms(self, number: i64, state: &State) -> Option<i64> {
        let now_ms = i64::try_from(state.now_ms()).ok()?;
        match self {
            Self::SecondsFromNow => number.checked_mul(1000)?.checked_add(now_ms),
            Self::MillisecondsFromNow => number.checked_add(now_ms),
            Self::UnixSeconds => number.checked_mul(1000)?.checked_sub(state.db.clock_offset_ms()),
            Self::UnixMilliseconds => number.checked_sub(state.db.clock_offset_ms()),
        }
    }
}

/// The time of day of a deadline.
fn time_of_day(deadline_ms: u64, state: &State) -> u64 {
    deadline_ms.saturating_add_signed(state.db.clock_offset_ms())
}

fn invalid_time(command: &str) -> CommandError {
    CommandError::from(format!("ERR invalid expire time in '{command}' command"))
}

/// The deadline of an option of `command`; its number must be positive.
pub(crate) fn positive_deadline(
    command: &str,
    clock: Clock,
    argument: &[u8],
    state: &State,
) -> Result<u64, CommandError> {
    let number = integer(argument)?;
    if number <= 0 {
        return Err(invalid_time(command));
    }
    clock
        .deadline_ms(number, state)
        // A time of day before the time at which the store's clock began has passed.
        .map(|deadline| u64::try_from(deadline).unwrap_or(0))
        .ok_or_else(|| invalid_time(command))
}

/// The conditions of `EXPIRE`.
#[derive(Debug, Default)]
struct Conditions {
    none_yet: bool,
    some_yet: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn parse(arguments: &[Bytes]) -> Result<Self, CommandError> {
        let mut conditions = Self::default();
        for argument in arguments {
            let flag = match &argument.to_ascii_uppercase()[..] {
                b"NX" => &mut conditions.none_yet,
                b"XX" => &mut conditions.some_yet,
                b"GT" => &mut conditions.later,
                b"LT" => &mut conditions.earlier,
                _ => {
                    let shown = String::from_utf8_lossy(argument);
                    return Err(CommandError::from(format!("ERR Unsupported option {shown}")));
                }
            };
            *flag = true;
        }
        let Self { none_yet, some_yet, later, earlier } = conditions;
        if none_yet && (some_yet || later || earlier) {
            return Err(CommandError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if later && earlier {
            return Err(CommandError::text(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(conditions)
    }

    /// Whether a deadline may change to `new`; no deadline counts as the latest.
    fn admit(&self, current: Option<u64>, new: i64) -> bool {
        let is_later = current.is_some_and(|current| i128::from(new) > i128::from(current));
        let is_earlier = current.is_none_or(|current| i128::from(new) < i128::from(current));
        !(self.none_yet && current.is_some()
            || self.some_yet && current.is_none()
            || self.later && !is_later
            || self.earlier && !is_earlier)
    }
}

fn expire_by(
    command: &str,
    clock: Clock,
    execution: &mut Execution<'_>,
    arguments: &[Bytes],
) -> CommandResult {
    let key = &arguments[0];
    let conditions = Conditions::parse(&arguments[2..])?;
    let state = execution.state;
    let now_ms = state.now_ms();
    let deadline =
        clock.deadline_ms(integer(&arguments[1])?, state).ok_or_else(|| invalid_time(command))?;
    let Some(value) = values::find(execution, key)? else {
        return Ok(Reply::Integer(0));
    };
    if !conditions.admit(value.expires_at_ms(), deadline) {
        return Ok(Reply::Integer(0));
    }
    match u64::try_from(deadline).ok().filter(|&deadline| deadline > now_ms) {
        Some(deadline) => values::set_deadline(execution, key, &value, Some(deadline))?,
        None => {
            values::remove(execution, key)?;
        }
    }
    Ok(Reply::Integer(1))
}

pub(crate) fn expire(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    expire_by("expire", Clock::SecondsFromNow, execution, arguments)
}

pub(crate) fn pexpire(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    expire_by("pexpire", Clock::MillisecondsFromNow, execution, arguments)
}

pub(crate) fn expireat(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    expire_by("expireat", Clock::UnixSeconds, execution, arguments)
}

pub(crate) fn pexpireat(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    expire_by("pexpireat", Clock::UnixMilliseconds, execution, arguments)
}

pub(crate) fn persist(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let key = &arguments[0];
    match values::find(execution, key)? {
        Some(value) if value.expires_at_ms().is_some() => {
            values::set_deadline(execution, key, &value, None)?;
            Ok(Reply::Integer(1))
        }
        _ => Ok(Reply::Integer(0)),
    }
}

/// -2 without a key, -1 without a deadline, otherwise the result of `tell`.
fn tell_deadline(
    execution: &mut Execution<'_>,
    arguments: &[Bytes],
    tell: impl Fn(u64) -> u64,
) -> CommandResult {
    let Some(value) = values::find(execution, &arguments[0])? else {
        return Ok(Reply::Integer(-2));
    };
    let told = value
        .expires_at_ms()
        .map_or(-1, |deadline| i64::try_from(tell(deadline)).unwrap_or(i64::MAX));
    Ok(Reply::Integer(told))
}

fn rounded_seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1000
}

pub(crate) fn ttl(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let now_ms = execution.state.now_ms();
    tell_deadline(execution, arguments, |at| rounded_seconds(at.saturating_sub(now_ms)))
}

pub(crate) fn pttl(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let now_ms = execution.state.now_ms();
    tell_deadline(execution, arguments, |at| at.saturating_sub(now_ms))
}

pub(crate) fn expiretime(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let state = execution.state;
    tell_deadline(execution, arguments, |at| rounded_seconds(time_of_day(at, state)))
}

pub(crate) fn pexpiretime(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let state = execution.state;
    tell_deadline(execution, arguments, |at| time_of_day(at, state))
}
