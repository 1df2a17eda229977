//! The execution of requests of the binary protocol.
//!
//! Guarantees: replies as memcached, byte for byte. A quiet request gets no reply when it succeeds,
//! a quiet lookup none when it misses; every other outcome is told.

use tidekv_net::outgoing::Outgoing;
use tidekv_tiered::{Change, Object, WouldBlock};

use crate::commands::arithmetic::{self, Step, Stepped};
use crate::commands::binary::{Action, Binary, Returns};
use crate::commands::detail::Detail;
use crate::commands::execution::{Execution, Progress};
use crate::commands::retrieval;
use crate::commands::statistics::Statistics;
use crate::commands::storing::{Outcome, Store};
use crate::protocol::binary::{Echo, Status};
use crate::protocol::expiry::Expiry;
use crate::protocol::request::Mode;
use crate::state::counters::Count;
use crate::state::prefixes::Event;

/// What an increment has done.
enum Counted {
    /// The number and its version.
    To(u64, u64),
    Created(u64, u64),
    NotFound,
    Exists,
    NonNumeric,
}

impl Binary {
    /// Executes or continues it.
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        if let Action::Fetch { key, .. } = &self.action
            && let Err(missing) = execution.reserve_for(key)
        {
            return missing;
        }
        if let Action::Statistics(Statistics::Detail(detail)) = self.action
            && let Err(missing) = detail.reserve(execution)
        {
            return missing;
        }
        let ends = matches!(self.action, Action::Reject(_) | Action::Quit);
        match self.answer(execution) {
            Ok(()) if ends => Progress::Close,
            Ok(()) => Progress::Done,
            Err(WouldBlock) => Progress::Wait,
        }
    }

    fn answer(&mut self, execution: &mut Execution<'_>) -> Result<(), WouldBlock> {
        let (echo, is_quiet) = (self.echo, self.is_quiet);
        match &mut self.action {
            Action::Fetch { key, expiry, returns } => {
                let found = retrieval::look_up(execution, key, *expiry)?;
                let counters = &execution.state.counters;
                retrieval::count(counters, expiry.is_some(), found.is_some());
                let get = Event::Get { is_hit: found.is_some() };
                execution.state.prefixes.count(key, get);
                match found {
                    Some(found) => put_object(execution.out, echo, key, &found.object, *returns),
                    None if is_quiet => {}
                    None if *returns == Returns::KeyAndValue => {
                        put(execution.out, echo, Status::NotFound, (&[], key, &[]), 0);
                    }
                    None => put_error(execution.out, echo, Status::NotFound),
                }
            }
            Action::Store(store) => run_store(execution, echo, is_quiet, store)?,
            Action::Refuse { removed, status, count } => {
                if let Some(key) = removed {
                    execution.state.objects.cache.remove(key);
                }
                execution.state.counters.add(*count, 1);
                put_error(execution.out, echo, *status);
            }
            Action::Delete { key, version } => {
                let status = delete(execution, key, *version)?;
                put_status(execution.out, echo, status, is_quiet);
            }
            Action::Step { key, step, version, creation } => {
                let counted = count(execution, key, (*step, *version), *creation)?;
                put_counted(execution, echo, is_quiet, *step, &counted);
            }
            Action::Flush(flush) => {
                let status = match flush.apply(execution)? {
                    true => Status::Success,
                    false => Status::AuthError,
                };
                put_status(execution.out, echo, status, is_quiet);
            }
            Action::Statistics(statistics) => put_statistics(execution, echo, *statistics)?,
            Action::Say(status, text) => {
                put(execution.out, echo, *status, (&[], &[], text.as_bytes()), 0);
            }
            Action::FailAuthentication => {
                execution.state.counters.add(Count::Authentications, 1);
                execution.state.counters.add(Count::AuthenticationErrors, 1);
                put_error(execution.out, echo, Status::AuthError);
            }
            Action::Reject(status) => put_error(execution.out, echo, *status),
            Action::Quit => put_status(execution.out, echo, Status::Success, is_quiet),
        }
        Ok(())
    }
}

fn run_store(
    execution: &mut Execution<'_>,
    echo: Echo,
    is_quiet: bool,
    store: &mut Store,
) -> Result<(), WouldBlock> {
    let outcome = store.run(execution)?;
    let status = match (outcome, store.mode) {
        (Outcome::Stored(stored), _) => {
            if !is_quiet {
                put(execution.out, echo, Status::Success, (&[], &[], &[]), stored.version);
            }
            return Ok(());
        }
        (Outcome::Exists, _) | (Outcome::NotStored, Mode::Add) => Status::Exists,
        (Outcome::NotFound, _) | (Outcome::NotStored, Mode::Replace) => Status::NotFound,
        (Outcome::NotStored, _) => Status::NotStored,
        (Outcome::NoMemory, _) => Status::NoMemory,
    };
    put_error(execution.out, echo, status);
    Ok(())
}

fn delete(execution: &Execution<'_>, key: &[u8], version: u64) -> Result<Status, WouldBlock> {
    let status = execution.change(key, |found| match found {
        Some(found) if version != 0 && version != found.object.version => {
            (Change::Keep, Status::Exists)
        }
        Some(_) => (Change::Remove, Status::Success),
        None => (Change::Remove, Status::NotFound),
    })?;
    match status {
        Status::Success => execution.state.counters.add(Count::DeleteHits, 1),
        Status::NotFound => execution.state.counters.add(Count::DeleteMisses, 1),
        _ => {}
    }
    execution.state.prefixes.count(key, Event::Delete);
    Ok(status)
}

fn count(
    execution: &Execution<'_>,
    key: &[u8],
    (step, version): (Step, u64),
    creation: Option<(u64, Expiry)>,
) -> Result<Counted, WouldBlock> {
    let (now_s, cache) = (execution.state.now_s(), &execution.state.objects.cache);
    execution.change(key, |found| match (found, creation) {
        (Some(found), _) => match step.take(&found.object, version, || cache.next_version()) {
            Stepped::NonNumeric => (Change::Keep, Counted::NonNumeric),
            Stepped::Exists => (Change::Keep, Counted::Exists),
            Stepped::To(object, number) => {
                let counted = Counted::To(number, object.version);
                (arithmetic::change(found, object), counted)
            }
        },
        (None, None) => (Change::Keep, Counted::NotFound),
        (None, Some((number, expiry))) => {
            let object = Object {
                value: number.to_string().into(),
                flags: 0,
                deadline: expiry.deadline(now_s),
                version: cache.next_version(),
                marks: 0,
            };
            let counted = Counted::Created(number, object.version);
            (Change::Store(object), counted)
        }
    })
}

fn put_counted(
    execution: &mut Execution<'_>,
    echo: Echo,
    is_quiet: bool,
    step: Step,
    counted: &Counted,
) {
    let counters = &execution.state.counters;
    let status = match *counted {
        Counted::To(number, version) | Counted::Created(number, version) => {
            if matches!(counted, Counted::To(..)) {
                step.count(counters, true);
            }
            if !is_quiet {
                let parts = (&[][..], &[][..], &number.to_be_bytes()[..]);
                put(execution.out, echo, Status::Success, parts, version);
            }
            return;
        }
        Counted::NotFound => {
            step.count(counters, false);
            Status::NotFound
        }
        Counted::Exists => Status::Exists,
        Counted::NonNumeric => Status::NonNumeric,
    };
    put_error(execution.out, echo, status);
}

/// Writes a reply for each statistic, and an empty one.
fn put_statistics(
    execution: &mut Execution<'_>,
    echo: Echo,
    statistics: Statistics,
) -> Result<(), WouldBlock> {
    if let Statistics::Detail(detail) = statistics {
        put_detail(execution, echo, detail);
        return Ok(());
    }
    let text = statistics.text(execution)?;
    for line in text.lines() {
        let line = line.strip_prefix("STAT ").unwrap_or(line);
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let parts = (&[][..], name.as_bytes(), value.as_bytes());
        put(execution.out, echo, Status::Success, parts, 0);
    }
    put(execution.out, echo, Status::Success, (&[], &[], &[]), 0);
    Ok(())
}

/// Writes the reply to `detail on`, `off` or `dump`: a dump is one statistic.
fn put_detail(execution: &mut Execution<'_>, echo: Echo, detail: Detail) {
    if !execution.state.options.allows_dumps {
        return put_error(execution.out, echo, Status::NotFound);
    }
    let mut lines = detail.apply(execution.state);
    if detail == Detail::Dump {
        lines.push_str("END\r\n");
        let parts = (&[][..], &b"detailed"[..], lines.as_bytes());
        put(execution.out, echo, Status::Success, parts, 0);
    }
    put(execution.out, echo, Status::Success, (&[], &[], &[]), 0);
}

fn put_object(out: &mut Outgoing, echo: Echo, key: &[u8], object: &Object, returns: Returns) {
    let key = if returns == Returns::KeyAndValue { key } else { &[] };
    let value_len = if returns == Returns::Flags { 0 } else { object.value.len() };
    let lengths = (4, key.len() as u16, value_len);
    out.put(&echo.reply(Status::Success, lengths, object.version));
    out.put(&object.flags.to_be_bytes());
    out.put(key);
    if returns != Returns::Flags {
        out.put_value(&object.value);
    }
}

/// Writes a reply with these extras, key and value.
fn put(
    out: &mut Outgoing,
    echo: Echo,
    status: Status,
    (extras, key, value): (&[u8], &[u8], &[u8]),
    version: u64,
) {
    // Extras have at most 4 bytes, and a key 250.
    let lengths = (extras.len() as u8, key.len() as u16, value.len());
    out.put(&echo.reply(status, lengths, version));
    for part in [extras, key, value] {
        out.put(part);
    }
}

fn put_error(out: &mut Outgoing, echo: Echo, status: Status) {
    put(out, echo, status, (&[], &[], status.text().as_bytes()), 0);
}

/// Writes a reply without a body, unless it is a success that the client does not want to hear of.
fn put_status(out: &mut Outgoing, echo: Echo, status: Status, is_quiet: bool) {
    if status != Status::Success || !is_quiet {
        put_error(out, echo, status);
    }
}

/// Writes the reply to the right credentials.
pub(crate) fn put_authenticated(out: &mut Outgoing, echo: Echo) {
    put(out, echo, Status::Success, (&[], &[], b"Authenticated"), 0);
}

/// Writes the reply to wrong credentials.
pub(crate) fn put_refused(out: &mut Outgoing, echo: Echo) {
    put_error(out, echo, Status::AuthError);
}
