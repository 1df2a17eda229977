//! The state that results from the edits of a manifest. Pure data; applying an edit that
//! contradicts the state returns an error instead of guessing.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::edit::{Change, Edit, FORMAT_VERSION, TableMeta};
use crate::format::LEVELS;
use crate::format::coding::COUNT_MAX;
use crate::format::key::Sequence;
use crate::options::KeyspaceOptions;
use crate::wal::LogPosition;

/// A keyspace in the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyspaceState {
    pub(crate) name: Box<str>,
    pub(crate) options: KeyspaceOptions,
    /// Tables hold the writes up to this sequence.
    pub(crate) flushed: Sequence,
    /// By level, then by table id; open tables share the records.
    pub(crate) levels: [BTreeMap<u64, Arc<TableMeta>>; LEVELS],
}

/// The largest id of a keyspace.
pub(crate) const KEYSPACE_MAX: u32 = u32::MAX / 2;

/// The largest number in `change` that the store increments or adds up.
fn largest_number(change: &Change) -> u64 {
    match change {
        Change::NextFile(number) | Change::LastSequence(number) | Change::MinLog(number) => *number,
        Change::LogPassed(position) | Change::LogSynced(position) => {
            position.log.max(position.offset)
        }
        Change::Flushed { sequence, .. } => *sequence,
        Change::PutKeyspace { id, .. } if *id > KEYSPACE_MAX => u64::MAX,
        Change::NextKeyspace(id) if *id > KEYSPACE_MAX + 1 => u64::MAX,
        Change::AddTable { table, .. } => [
            table.id,
            table.file,
            table.end_in_file(),
            table.entries,
            table.tombstones,
            table.range_tombstones,
            table.largest_sequence,
            table.sequence_override,
        ]
        .into_iter()
        .max()
        .unwrap_or(0),
        Change::Identity { .. }
        | Change::NextKeyspace(_)
        | Change::PutKeyspace { .. }
        | Change::DropKeyspace { .. }
        | Change::RemoveTable { .. } => 0,
    }
}

/// A store in the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) store: u64,
    pub(crate) next_file: u64,
    pub(crate) last_sequence: Sequence,
    pub(crate) min_log: u64,
    /// Frames before this position are obsolete.
    pub(crate) log_passed: LogPosition,
    /// Frames before this position were on stable storage.
    pub(crate) log_synced: LogPosition,
    /// Above the id of every keyspace that was ever created. The logs may hold writes to those with
    /// smaller ids that were dropped.
    pub(crate) next_keyspace: u32,
    pub(crate) keyspaces: BTreeMap<u32, KeyspaceState>,
}

impl State {
    /// The state of a new store.
    pub(crate) fn new(store: u64) -> Self {
        Self { store, next_file: 1, ..Self::default() }
    }

    /// Whether [`State::apply`] would succeed; takes as long as the keyspaces of `edit` are large.
    pub(crate) fn check(&self, edit: &Edit) -> Result<(), String> {
        let ids: HashSet<u32> = edit.changes.iter().filter_map(Change::keyspace).collect();
        let touched = |id| Some((id, self.keyspaces.get(&id)?.clone()));
        let keyspaces = ids.into_iter().filter_map(touched).collect();
        Self { keyspaces, ..Self::default() }.apply(edit)
    }

    /// Applies `edit`; the error describes the contradiction.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<(), String> {
        for change in &edit.changes {
            if largest_number(change) > COUNT_MAX {
                return Err("a number in one of its edits is out of range".into());
            }
            match change {
                Change::Identity { store, .. } => self.store = *store,
                Change::NextFile(number) => self.next_file = self.next_file.max(*number),
                Change::LastSequence(sequence) => {
                    self.last_sequence = self.last_sequence.max(*sequence)
                }
                Change::MinLog(number) => {
                    self.min_log = self.min_log.max(*number);
                    self.pass_log(self.log_passed);
                }
                Change::LogSynced(position) => self.log_synced = self.log_synced.max(*position),
                Change::LogPassed(position) => self.pass_log(self.log_passed.max(*position)),
                Change::NextKeyspace(id) => self.next_keyspace = self.next_keyspace.max(*id),
                Change::PutKeyspace { id, name, options } => self.put_keyspace(*id, name, options),
                Change::DropKeyspace { id } => {
                    if self.keyspaces.remove(id).is_none() {
                        return Err(format!("keyspace {id} is dropped, but it does not exist"));
                    }
                }
                Change::Flushed { keyspace, sequence } => {
                    let flushed = &mut self.keyspace(*keyspace)?.flushed;
                    *flushed = (*flushed).max(*sequence);
                }
                Change::AddTable { keyspace, level, table } => {
                    let previous =
                        self.level(*keyspace, *level)?.insert(table.id, Arc::clone(table));
                    if previous.is_some() {
                        return Err(format!("table {} is added twice", table.id));
                    }
                }
                Change::RemoveTable { keyspace, level, id } => {
                    if self.level(*keyspace, *level)?.remove(id).is_none() {
                        return Err(format!("table {id} is removed, but it does not exist"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Records that frames before `position` are obsolete; drops a position in an obsolete log.
    fn pass_log(&mut self, position: LogPosition) {
        let counts = position.log >= self.min_log && position.offset > 0;
        self.log_passed = if counts { position } else { LogPosition::default() };
    }

    fn put_keyspace(&mut self, id: u32, name: &str, options: &KeyspaceOptions) {
        let keyspace = self.keyspaces.entry(id).or_insert_with(|| KeyspaceState {
            name: name.into(),
            options: options.clone(),
            flushed: 0,
            levels: Default::default(),
        });
        keyspace.options = options.clone();
        self.next_keyspace = self.next_keyspace.max(id + 1);
    }

    /// Whether `id` is the id of a keyspace that was dropped.
    pub(crate) fn was_dropped(&self, id: u32) -> bool {
        id < self.next_keyspace && !self.keyspaces.contains_key(&id)
    }

    fn keyspace(&mut self, id: u32) -> Result<&mut KeyspaceState, String> {
        self.keyspaces.get_mut(&id).ok_or_else(|| format!("keyspace {id} does not exist"))
    }

    fn level(
        &mut self,
        keyspace: u32,
        level: u8,
    ) -> Result<&mut BTreeMap<u64, Arc<TableMeta>>, String> {
        self.keyspace(keyspace)?
            .levels
            .get_mut(usize::from(level))
            .ok_or_else(|| format!("there is no level {level}"))
    }

    /// One edit that creates this state from an empty one.
    pub(crate) fn snapshot(&self) -> Edit {
        let mut edit = Edit::default();
        edit.push(Change::Identity { format: FORMAT_VERSION, store: self.store });
        edit.push(Change::NextFile(self.next_file));
        edit.push(Change::LastSequence(self.last_sequence));
        edit.push(Change::MinLog(self.min_log));
        if self.log_passed != LogPosition::default() {
            edit.push(Change::LogPassed(self.log_passed));
        }
        if self.log_synced != LogPosition::default() {
            edit.push(Change::LogSynced(self.log_synced));
        }
        edit.push(Change::NextKeyspace(self.next_keyspace));
        for (&id, keyspace) in &self.keyspaces {
            let name = keyspace.name.clone();
            edit.push(Change::PutKeyspace { id, name, options: keyspace.options.clone() });
            edit.push(Change::Flushed { keyspace: id, sequence: keyspace.flushed });
            for (level, tables) in keyspace.levels.iter().enumerate() {
                for table in tables.values() {
                    let (level, table) = (level as u8, Arc::clone(table));
                    edit.push(Change::AddTable { keyspace: id, level, table });
                }
            }
        }
        edit
    }

    /// What is missing of log `number` if its last whole frame ends at `cut`, and nothing says that
    /// the log ends there.
    pub(crate) fn missing_of_log(&self, number: u64, cut: u64) -> Option<String> {
        let synced = self.log_synced;
        if number < synced.log {
            let later = synced.log;
            Some(format!(
                "it ends at offset {cut} without an end record, but was on stable storage before \
                 any of log {later} was"
            ))
        } else if number == synced.log && cut < synced.offset {
            let bytes = synced.offset;
            Some(format!("{bytes} bytes of it were on stable storage, of which {cut} are left"))
        } else {
            None
        }
    }

    /// The last log that must have frames.
    pub(crate) fn last_log_with_frames(&self) -> Option<u64> {
        let LogPosition { log, offset } = self.log_synced;
        (offset > 0 && log >= self.min_log).then_some(log)
    }

    /// The start of the first required log.
    pub(crate) fn log_start(&self) -> LogPosition {
        let begin = LogPosition { log: self.min_log, offset: 0 };
        if self.log_passed.log == self.min_log { self.log_passed } else { begin }
    }

    /// All tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableMeta> + '_ {
        self.keyspaces
            .values()
            .flat_map(|k| k.levels.iter())
            .flat_map(|level| level.values())
            .map(|table| &**table)
    }

    /// The numbers of the files that hold them.
    pub(crate) fn table_files(&self) -> HashSet<u64> {
        self.tables().map(|table| table.file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_restores_the_same_state() {
        let mut state = State::new(5);
        let table = Arc::new(TableMeta {
            id: 3,
            file: 3,
            offset: 0,
            bytes: 10,
            smallest: b"a"[..].into(),
            largest: b"b"[..].into(),
            largest_is_exclusive: false,
            entries: 1,
            tombstones: 0,
            range_tombstones: 0,
            largest_sequence: 4,
            sequence_override: 0,
            earliest_deadline_ms: 0,
        });
        let changes = vec![
            Change::NextFile(9),
            Change::PutKeyspace { id: 2, name: "k".into(), options: KeyspaceOptions::default() },
            Change::AddTable { keyspace: 2, level: 0, table: table.clone() },
            Change::Flushed { keyspace: 2, sequence: 4 },
        ];
        state.apply(&Edit { changes }).unwrap();
        let mut again = State::new(0);
        again.apply(&state.snapshot()).unwrap();
        assert_eq!(again, state);
        let twice = Edit { changes: vec![Change::AddTable { keyspace: 2, level: 0, table }] };
        assert_eq!(again.check(&twice), again.apply(&twice));
        assert!(again.apply(&twice).is_err());
        let gone = Edit { changes: vec![Change::RemoveTable { keyspace: 2, level: 1, id: 3 }] };
        assert_eq!(again.check(&gone), again.apply(&gone));
        assert!(again.apply(&gone).is_err());
        let unknown = Edit { changes: vec![Change::Flushed { keyspace: 3, sequence: 4 }] };
        assert!(again.check(&unknown).is_err());
        let moved = Edit { changes: vec![Change::RemoveTable { keyspace: 2, level: 0, id: 3 }] };
        assert_eq!(again.check(&moved), Ok(()));
    }

    #[test]
    fn snapshot_keeps_the_ids_of_dropped_keyspaces_used() {
        let put = |id, name: &str| Change::PutKeyspace {
            id,
            name: name.into(),
            options: KeyspaceOptions::default(),
        };
        let drop = |id| Edit { changes: vec![Change::DropKeyspace { id }] };
        let mut state = State::new(5);
        state.apply(&Edit { changes: vec![put(0, "a"), put(1, "b")] }).unwrap();
        state.apply(&drop(1)).unwrap();
        assert!(state.apply(&drop(1)).is_err(), "it is gone");
        let mut again = State::new(0);
        again.apply(&state.snapshot()).unwrap();
        assert_eq!(again, state);
        assert_eq!(again.next_keyspace, 2);
        assert_eq!([0, 1, 2].map(|id| again.was_dropped(id)), [false, true, false]);
    }
}
