//! `TIDE.CHECKPOINT`, `TIDE.COMPACT`, `SAVE`, `BGSAVE` and `LASTSAVE`: see
//! [`checkpoints`](crate::state::checkpoints).
//!
//! They work on the store as it is, not on what a transaction sees, so they are refused in `MULTI`.

use std::ops::Bound;

use bytes::Bytes;
use tidekv::Keyspace;

use crate::commands::errors::{SYNTAX, is_word};
use crate::commands::walks::range_bound;
use crate::data::execution::Execution;
use crate::protocol::reply::{CommandResult, Reply};
use crate::state::keyspaces::Space;

pub(crate) fn tide_checkpoint(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    execution.release_snapshot()?;
    execution.state.checkpoints.make(&arguments[0])?;
    Ok(Reply::OK)
}

pub(crate) fn save(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    execution.release_snapshot()?;
    execution.state.checkpoints.save()?;
    Ok(Reply::OK)
}

pub(crate) fn bgsave(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if let Some(word) = arguments.first()
        && !is_word(word, "SCHEDULE")
    {
        return Err(SYNTAX);
    }
    execution.state.checkpoints.save_in_background()?;
    Ok(Reply::Simple("Background saving started"))
}

pub(crate) fn lastsave(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let seconds = execution.state.checkpoints.saves().last_save_s;
    Ok(Reply::Integer(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

/// Without a range: the whole store. With one: the keys of the range in the database, but not the
/// fields of its hashes, which are stored in another order.
pub(crate) fn tide_compact(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let range = match arguments {
        [] => None,
        // No key is after the last or before the first.
        [start, end] if &start[..] == b"+" || &end[..] == b"-" => return Ok(Reply::OK),
        [start, end] => Some((range_bound(start), range_bound(end))),
        _ => return Err(SYNTAX),
    };
    // What it sees could not be dropped.
    execution.release_snapshot()?;
    let (state, slot) = (execution.state, execution.slot());
    state.checkpoints.compact(|db| {
        let Some(range) = range else { return Ok(db.compact()?) };
        for space in [Space::Strings, Space::Heads] {
            if let Some(keyspace) = state.keyspaces.get(slot, space) {
                compact_range(keyspace, &range)?;
            }
        }
        Ok(())
    })?;
    Ok(Reply::OK)
}

fn compact_range(keyspace: &Keyspace, range: &(Bound<Bytes>, Bound<Bytes>)) -> tidekv::Result<()> {
    let bytes = |bound: &Bound<Bytes>| bound.clone().map(|key| key.to_vec());
    keyspace.compact_range::<Vec<u8>>((bytes(&range.0), bytes(&range.1)))
}
