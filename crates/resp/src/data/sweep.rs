//! Removes the fields of deleted hashes, by the notes in `hash.garbage` that
//! [`hash`](crate::data::hash) writes.
//!
//! A note that is due means one of three things: the hash was deleted, its deadline has passed, or
//! its head still exists with another deadline (the note is out of date). The hash exists only if a
//! head still has the note's identity.
//!
//! Guarantee: fields are removed only when no head can get their identity again. A transaction that
//! has read the head just before its deadline might still write it back; so an expired head is
//! deleted first, which makes that transaction conflict.
//!
//! The note is removed together with the fields, so a crash leaves either both or neither.

use tidekv::{Commit, Durability, WriteBatch};

use crate::data::head::{Head, Note};
use crate::protocol::reply::CommandError;
use crate::state::keyspaces::Space;
use crate::state::server_state::State;
use crate::state::stripes::KeySet;

/// Maximum notes of one sweep.
pub(crate) const NOTES_MAX: usize = 1024;
/// Up to this many fields are deleted one by one: a range tombstone would cost every later read
/// more.
const SINGLE_DELETES_MAX: usize = 64;
/// A batch of deletions is written when it reaches this size.
const BATCH_BYTES: usize = 1 << 20;

/// Processes the notes that are due and returns their number; if it is [`NOTES_MAX`], there may be
/// more.
pub(crate) fn sweep(state: &State) -> Result<usize, CommandError> {
    let garbage = state.keyspaces.garbage();
    let end = Note { due_ms: state.now_ms(), identity: [0; 16], slot: 0 }.key();
    let mut batch = WriteBatch::new();
    let mut swept = 0;
    for item in garbage.range(..end).take(NOTES_MAX) {
        let (note_key, entry) = item?;
        swept += 1;
        if let Some(note) = Note::decode(&note_key) {
            let fate = match note.due_ms {
                0 => Fate::Dead,
                _ => fate_of(state, &note, &note_key, &entry.value)?,
            };
            match fate {
                Fate::Dead => delete_fields(state, &note, &mut batch)?,
                Fate::Alive => {}
                Fate::Moved => continue,
            }
        }
        batch.delete(garbage, &note_key);
        if batch.bytes_len() > BATCH_BYTES {
            state.db.write_with(std::mem::take(&mut batch), Durability::Buffered)?;
        }
    }
    if !batch.is_empty() {
        state.db.write_with(batch, Durability::Buffered)?;
    }
    Ok(swept)
}

/// The state of the identity of a note.
enum Fate {
    /// No head has it, now or later.
    Dead,
    /// A head has it; the note is out of date.
    Alive,
    /// The note was changed after the sweep had read it: another writer has moved the head, and
    /// another note applies.
    Moved,
}

/// Determines the state of the note at `note_key`, which had the value `key` when it was read.
fn fate_of(state: &State, note: &Note, note_key: &[u8], key: &[u8]) -> Result<Fate, CommandError> {
    let Some(hashes) = state.keyspaces.get(note.slot, Space::Heads) else {
        return Ok(Fate::Dead);
    };
    let mut transaction = state.db.transaction();
    let current = transaction.get(state.keyspaces.garbage(), note_key)?;
    if current.is_none_or(|current| current.value != key) {
        return Ok(Fate::Moved);
    }
    match transaction.get(hashes, key)? {
        Some(entry) => {
            let is_same = Head::decode(&entry)?.identity == note.identity;
            return Ok(if is_same { Fate::Alive } else { Fate::Dead });
        }
        // A writer that read the head before its deadline must not write it back.
        None => transaction.delete(hashes, key),
    }
    let mut keys = KeySet::default();
    keys.insert(key);
    let mark = state.stripes.begin_commit(&keys);
    let commit = transaction.commit(Durability::Buffered)?;
    drop(mark);
    match commit {
        Commit::Done => Ok(Fate::Dead),
        // Another writer has changed the head or the note: check again.
        Commit::Conflict => fate_of(state, note, note_key, key),
    }
}

fn delete_fields(state: &State, note: &Note, batch: &mut WriteBatch) -> Result<(), CommandError> {
    let fields = state.keyspaces.fields();
    let first: Vec<_> = fields
        .prefix(note.identity)
        .keys_only()
        .take(SINGLE_DELETES_MAX + 1)
        .collect::<tidekv::Result<_>>()?;
    if first.len() <= SINGLE_DELETES_MAX {
        first.iter().for_each(|(key, _)| batch.delete(fields, key));
        return Ok(());
    }
    // Identities have the same length, so no other begins with this one.
    match tidekv::prefix_end(&note.identity) {
        Some(end) => batch.delete_range(fields, note.identity, end),
        None => batch.delete_from(fields, note.identity),
    }
    Ok(())
}
