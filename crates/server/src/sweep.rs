//! Removes the fields of hashes that are gone, by the notes in `hash.garbage`
//! ([`hash`](crate::hash) leaves them).
//!
//! A note that is due means one of three things: the hash was deleted, its
//! deadline has passed, or its head lives on with another deadline (the note
//! is out of date). Only a head that still bears the note's identity is alive.
//!
//! Guarantee: fields are removed only when no head can come to bear their
//! identity again. A transaction that has read the head just before its
//! deadline might still write it back; so an expired head is deleted first,
//! which makes that transaction start over.
//!
//! The note goes together with the fields, so a crash leaves either both or
//! neither.

use tidekv::{Commit, Durability, WriteBatch};

use crate::hash::{Hash, Note};
use crate::keyspaces::Space;
use crate::reply::CommandError;
use crate::state::State;
use crate::stripes::KeySet;

/// Notes that one sweep takes on.
pub(crate) const NOTES_MAX: usize = 1024;
/// A hash of up to so many fields loses them one by one: a range tombstone
/// costs every later read more than that.
const SINGLE_DELETES_MAX: usize = 64;
/// A batch of deletions is written when it has grown to this.
const BATCH_BYTES: usize = 1 << 20;

/// Takes on the notes that are due and returns how many there were; if
/// [`NOTES_MAX`], more may wait.
pub(crate) fn sweep(state: &State) -> Result<usize, CommandError> {
    let garbage = state.keyspaces.get(Space::Garbage);
    let end = Note { due_ms: state.now_ms(), identity: [0; 16] }.key();
    let mut batch = WriteBatch::new();
    let mut swept = 0;
    for item in garbage.range(..end).take(NOTES_MAX) {
        let (note_key, entry) = item?;
        if let Some(note) = Note::decode(&note_key)
            && (note.due_ms == 0 || is_dead(state, &note, &entry.value)?)
        {
            delete_fields(state, &note, &mut batch)?;
        }
        batch.delete(garbage, &note_key);
        swept += 1;
        if batch.bytes_len() > BATCH_BYTES {
            state.db.write_with(std::mem::take(&mut batch), Durability::Buffered)?;
        }
    }
    if !batch.is_empty() {
        state.db.write_with(batch, Durability::Buffered)?;
    }
    Ok(swept)
}

/// Whether no head bears the note's identity, now and for ever.
fn is_dead(state: &State, note: &Note, key: &[u8]) -> Result<bool, CommandError> {
    let hashes = state.keyspaces.get(Space::Hashes);
    let mut transaction = state.db.transaction();
    match transaction.get(hashes, key)? {
        Some(entry) => return Ok(Hash::decode(&entry)?.identity != note.identity),
        None => transaction.delete(hashes, key),
    }
    let mut keys = KeySet::default();
    keys.insert(key);
    let mark = state.stripes.begin_commit(&keys);
    let commit = transaction.commit(Durability::Buffered)?;
    drop(mark);
    match commit {
        Commit::Done => Ok(true),
        // Somebody has written the head meanwhile: look again.
        Commit::Conflict => is_dead(state, note, key),
    }
}

fn delete_fields(state: &State, note: &Note, batch: &mut WriteBatch) -> Result<(), CommandError> {
    let fields = state.keyspaces.get(Space::Fields);
    let first: Vec<_> = fields
        .prefix(note.identity)
        .keys_only()
        .take(SINGLE_DELETES_MAX + 1)
        .collect::<tidekv::Result<_>>()?;
    if first.len() <= SINGLE_DELETES_MAX {
        first.iter().for_each(|(key, _)| batch.delete(fields, key));
        return Ok(());
    }
    // Identities have one length, so nothing else begins with this one.
    let mut end = note.identity.to_vec();
    while end.last() == Some(&0xff) {
        end.pop();
    }
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end = vec![0xff; tidekv::KEY_BYTES_MAX + 1],
    }
    batch.delete_range(fields, &note.identity, &end);
    Ok(())
}
