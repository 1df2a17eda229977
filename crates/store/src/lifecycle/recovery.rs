//! Opening a store: from files to an engine.
//!
//! 1. The directory is created if necessary, and locked.
//! 2. `CURRENT` and the manifest list the parts of the store; a store written by a newer version is
//!    refused before anything is changed.
//! 3. Every table is opened and checked against the manifest. Pointers into tables and values of
//!    them that were cached when the store was closed are restored (`warm_start.rs`).
//! 4. The live logs are replayed in order. Each log that was ended names its successor, so a log
//!    that is missing in the middle is found. A log without an end is cut after its last whole
//!    record, and the logs after it are skipped: a power loss does that only to records that were
//!    not synced yet. If a later frame, in it or in a later log, confirms that the broken part had
//!    been synced, it is damage, and the store does not open. Operations that are already in tables
//!    (by sequence) are skipped, and so are empty logs at the end: they were begun by recoveries
//!    that did not finish, or prepared by earlier runs.
//! 5. The replayed writes are written to tables of level 0, a new log is begun, and one edit adds
//!    all of it to the manifest. After a power cut at any time before that edit, everything is
//!    replayed again. The logs of earlier runs are only read: a sync of one may have failed then,
//!    and another sync that succeeds would wrongly confirm pages that are lost.
//! 6. Files without references are removed.
//!
//! A read-only open does only 2 to 4 and keeps the replayed writes in memory; nothing on storage is
//! changed. A process that writes meanwhile may remove files that it reads: then it starts over.
//!
//! If the disk is full, or its file system read-only, so that 5 fails, the store is opened for reads,
//! and refuses writes with that reason.

use std::path::Path;
use std::sync::Arc;

use hashbrown::HashMap;
use tidekv_cache::Caches;
use tidekv_io::{
    Access, Clock, Executor, LocalStorage, Lock, Random, Storage, SystemClock, SystemRandom,
    ThreadPool, open_files_limit,
};

use crate::batch::decode_record;
use crate::compaction::cache_invalidation;
use crate::compaction::picker::LEVEL0_TRIGGER;
use crate::engine::job_state::JobState;
use crate::engine::log_set::LogSet;
use crate::engine::queue::Queue;
use crate::engine::snapshots::Snapshots;
use crate::engine::store_clock::{self, StoreClock};
use crate::engine::store_memory::{self, StoreMemory};
use crate::engine::tree_set::{TreeSet, Trees};
use crate::engine::{Engine, EngineStats};
use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::name_hash;
use crate::format::files::{
    CLOCK, FileName, LOCK, log_numbers, log_path, manifest_name, table_path,
};
use crate::format::key::Sequence;
use crate::jobs::flusher::FlushPart;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::options::memory_budget::Share;
use crate::read::read_context::ReadContext;
use crate::sst::block_tier::BlockTier;
use crate::sst::blocks::Blocks;
use crate::sst::filter_repair::FilterRepair;
use crate::sst::seeks::SeekWork;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;
use crate::version::levels::{TableHandle, Version};
use crate::version::manifest::{self, Change, Edit, Manifest, State};
use crate::version::tree::Tree;
use crate::wal::names::Names;
use crate::wal::{Ending, LogPosition, LogReader, begins_with_a_frame, damage_of_torn};
use crate::warm::hot_list::HotList;
use crate::write::{self, GROUP_BYTES_MAX};

/// Assigns numbers to the stores that this process opens.
static INSTANCES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Cache shards; each is locked for some tens of nanoseconds at a time.
const CACHE_SHARDS: usize = 64;

/// More compaction threads than this gain little and take memory.
const COMPACTION_THREADS_MAX: usize = 4;

/// Tables that the replay has written, with the ids of their trees.
type Spilled = Vec<(u32, Arc<TableHandle>)>;

/// The memory of a replay that keeps all writes is checked once for this many bytes of them.
const REPLAY_CHECK_BYTES: usize = 1 << 20;

/// The records that a replay has read.
#[derive(Default)]
struct Replayed {
    /// The sequence of the last write.
    last: Sequence,
    /// Bytes since the memory was checked.
    unchecked_bytes: usize,
}

/// Attempts to open a store for reading while another process writes to it.
const READ_ATTEMPTS: usize = 200;

/// Opens the store in `directory`.
pub(crate) fn open(directory: &Path, options: Options) -> Result<Arc<Engine>> {
    if options.read_only {
        return open_for_reading(directory, &options);
    }
    let refused = match open_once(directory, options.clone()) {
        Err(error) if error.prevents_only_writes() => error,
        opened => return opened,
    };
    // The error of the first attempt says more than that of the second.
    let Ok(engine) = open_for_reading(directory, &options.read_only(true)) else {
        return Err(refused);
    };
    let reason =
        refused.context("the store is open for reads only, because it cannot be written to");
    tracing::error!("{reason}: reopen it when it can");
    engine.jobs.refuse_writes(reason);
    Ok(engine)
}

/// Opens the store for reading; again, if a process that has it open for writing may have removed or
/// reused files that were read, or has written to them meanwhile. Damage is there the second time too.
fn open_for_reading(directory: &Path, options: &Options) -> Result<Arc<Engine>> {
    let storage = storage_of(options);
    let read = || manifest::file::read(&*storage, directory);
    let mut before = None;
    for _ in 0..READ_ATTEMPTS {
        match open_once(directory, options.clone()) {
            Ok(engine) => {
                let used = engine.trees.structure().manifest.state().min_log;
                match read() {
                    Ok(Some((state, _))) if state.min_log != used => {}
                    Err(error) if error.is_of_storage() => return Err(error),
                    // An edit that was written during the read looks damaged.
                    Err(_) => {}
                    Ok(_) => return Ok(engine),
                }
            }
            Err(error) if error.is_of_storage() => return Err(error),
            Err(error) => {
                let seen = Some((read().ok(), error.to_string()));
                if before == seen {
                    return Err(error);
                }
                before = seen;
            }
        }
        std::thread::yield_now();
    }
    let what = format!(
        "another process changes the store in {} too fast to open it for reading: try again, or open \
         a checkpoint",
        directory.display()
    );
    Err(Error::new(ErrorKind::Unavailable, what))
}

/// The storage that a store with these options is on.
fn storage_of(options: &Options) -> Arc<dyn Storage> {
    let storage = options.environment.storage.clone();
    storage.unwrap_or_else(|| Arc::new(LocalStorage::new()))
}

fn open_once(directory: &Path, options: Options) -> Result<Arc<Engine>> {
    let storage = storage_of(&options);
    if !storage.exists(directory)? {
        if options.read_only || !options.create_if_missing {
            return Err(Error::no_store(directory));
        }
        create_directory(&*storage, directory, |parent| Ok(storage.sync_dir(parent)?))?;
    }
    let lock = if options.read_only { None } else { Some(lock(&*storage, directory)?) };
    let found = manifest::file::read(&*storage, directory)?;
    let is_new = found.is_none();
    let state = match found {
        Some((state, _)) => state,
        None => {
            refuse_leftovers(&*storage, directory)?;
            if options.read_only || !options.create_if_missing {
                return Err(Error::no_store(directory));
            }
            // An earlier process may have crashed between creating the directory and making its
            // name durable.
            storage.sync_dir(parent_of(directory))?;
            let random = options.environment.random.clone();
            let random = random.unwrap_or_else(|| Arc::new(SystemRandom::new()) as Arc<dyn Random>);
            State::new(random.next_u64() >> 1)
        }
    };
    let engine = Arc::new(build_engine(directory, options, storage, state)?);
    *engine.lock.lock() = lock;
    let opened =
        if engine.options.read_only { engine.load_read_only() } else { engine.load(is_new) };
    let hot_list = opened.inspect_err(|_| engine.stop_background())?;
    engine.take_memory();
    engine.after_install();
    if !engine.options.read_only {
        if let Err(error) = engine.save_clock() {
            tracing::warn!(%error, "cannot save the time");
        }
        engine.begin_reclaiming();
        engine.begin_file_watch();
        engine.schedule_compactions();
        // Tables flushed by an earlier run, or by this one when it replayed the logs.
        let trees = engine.trees.load();
        engine.expect_quiet(trees.values().map(|tree| tree.version().level_bytes(0)).sum());
        if let Some(list) = hot_list {
            engine.refill(list);
        }
    }
    Ok(engine)
}

/// The directory in which `path` is an entry.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Creates a directory and its ancestors, and makes their names durable by a `sync` of their
/// parents; its own name also if it exists already, because the process that created it may have
/// crashed before that.
pub(crate) fn create_directory(
    storage: &dyn Storage,
    directory: &Path,
    sync: impl Fn(&Path) -> Result<()>,
) -> Result<()> {
    let mut missing = vec![directory];
    let above = directory.ancestors().take_while(|path| !path.as_os_str().is_empty());
    for (depth, path) in above.enumerate() {
        if storage.exists(path)? {
            break;
        }
        if depth > 0 {
            missing.push(path);
        }
    }
    storage.create_dir_all(directory)?;
    missing.into_iter().rev().try_for_each(|created| sync(parent_of(created)))
}

fn lock(storage: &dyn Storage, directory: &Path) -> Result<Box<dyn Lock>> {
    storage.lock(&directory.join(LOCK)).map_err(|error| match error.kind() {
        tidekv_io::ErrorKind::Locked => Error::new(
            ErrorKind::Locked,
            format!("the store in {} is open in another process or handle", directory.display()),
        ),
        _ => error.into(),
    })
}

/// The damage of a log that the manifest knows to have frames, and that is gone or empty.
pub(crate) fn missing_log(path: &Path, state: &State, is_there: bool) -> Error {
    let bytes = state.log_synced.offset;
    let what = match is_there {
        true => format!("{bytes} bytes of it were on stable storage, of which none are left"),
        false => "the manifest names it, but it is missing".into(),
    };
    Error::corrupt(path, what)
}

/// Without `CURRENT`, a directory may contain remains of a crash during its creation, but no data.
fn refuse_leftovers(storage: &dyn Storage, directory: &Path) -> Result<()> {
    for entry in storage.list(directory)? {
        if matches!(FileName::parse(&entry.name), Some(FileName::Table(_) | FileName::Log(_))) {
            let current = directory.join(crate::format::files::CURRENT);
            return Err(Error::corrupt(
                &current,
                format!("it is missing, but {} is there", entry.name),
            ));
        }
    }
    Ok(())
}

/// The caches, the blocks read through them, and the statistics of reads.
fn build_reads(
    options: &Options,
    storage: &Arc<dyn Storage>,
    clock: &Arc<StoreClock>,
    seek_work: &Arc<SeekWork>,
    (cache_bytes, store): (u64, u64),
) -> ReadContext {
    let budget =
        usize::try_from(cache_bytes.min(options.research.cache_bytes_max)).unwrap_or(usize::MAX);
    let caches = Caches::new(name_hash, budget, CACHE_SHARDS, options.cache_policy.internal());
    caches.point().set_fingerprint_bits(options.research.fingerprint_bits);
    caches.set_level0_tables(LEVEL0_TRIGGER as u8);
    let caches = Arc::new(caches);
    let blocks = Blocks::new(Arc::clone(storage), Arc::clone(&caches), Arc::clone(seek_work));
    let blocks = match &options.environment.secondary_cache {
        Some(tier) => blocks.with_tier(BlockTier::new(Arc::clone(tier), store)),
        None => blocks,
    };
    let verify = options.cross_check.then(|| Arc::clone(clock) as Arc<dyn Clock>);
    ReadContext::new(caches, Arc::new(blocks), verify, FilterRepair::of_cache(budget))
}

/// The time when the store was last open; `None` if it is unknown.
fn read_clock(storage: &dyn Storage, directory: &Path) -> Option<store_clock::Record> {
    let path = directory.join(CLOCK);
    if !storage.exists(&path).ok()? {
        return None;
    }
    let file = storage.open_read(&path, Access::Buffered).ok()?;
    let bytes = usize::try_from(file.len().ok()?).ok().filter(|&bytes| bytes <= 4096)?;
    store_clock::Record::decode(&file.read_at(0, bytes).ok()?)
}

fn build_engine(
    directory: &Path,
    options: Options,
    storage: Arc<dyn Storage>,
    state: State,
) -> Result<Engine> {
    let machine: Arc<dyn Clock> =
        options.environment.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
    let saved = read_clock(&*storage, directory);
    let clock = Arc::new(StoreClock::new(machine, saved));
    let executor: Arc<dyn Executor> = options.environment.executor.clone().unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads =
            options.compaction_threads.unwrap_or(cores.min(COMPACTION_THREADS_MAX)).max(1);
        Arc::new(ThreadPool::new("tidekv", threads))
    });
    let share = Share::take(options.memory_budget.as_ref(), options.memory_bytes);
    let memory = (share.bytes(), store_memory::initial(&options, share.bytes()));
    let seek_work = Arc::new(SeekWork::of_tables(options.table_bytes));
    let sizes = (memory.1.cache_bytes, state.store);
    let reads = build_reads(&options, &storage, &clock, &seek_work, sizes);
    let names = Arc::new(Names::new(Arc::clone(&storage), directory));
    let last_sequence = state.last_sequence;
    let access = if options.direct_io { Access::Direct } else { Access::Buffered };
    let manifest = Manifest::new(Arc::clone(&names), state);
    Ok(Engine {
        directory: directory.to_owned(),
        clock,
        executor,
        lock: Mutex::new(None),
        instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
        queue: Queue::new(GROUP_BYTES_MAX),
        logs: LogSet::new(Arc::clone(&storage), directory.to_owned(), names),
        trees: TreeSet::new(
            Arc::clone(&storage),
            directory.to_owned(),
            (access, options.max_open_files.unwrap_or_else(|| open_files_limit() / 2)),
            manifest,
        ),
        memory: StoreMemory::new(&options, memory, Arc::clone(&reads.caches)),
        snapshots: Snapshots::new(last_sequence),
        jobs: JobState::new(seek_work),
        stats: EngineStats::default(),
        share,
        reads,
        options,
        storage,
    })
}

impl Engine {
    fn load_read_only(self: &Arc<Self>) -> Result<Option<HotList>> {
        self.open_trees()?;
        self.replay(|_| Ok(()))?;
        Ok(None)
    }

    /// The hot list of the previous run.
    fn load(self: &Arc<Self>, is_new: bool) -> Result<Option<HotList>> {
        self.pass_over_used_numbers()?;
        if is_new {
            // Before the first log: a directory with logs has a `CURRENT`.
            self.trees.structure().manifest.commit(Edit::default())?;
        }
        self.open_trees()?;
        self.restore_filter_repairs();
        let hot_list = self.take_hot_list();
        let made = Mutex::new(Vec::new());
        // Otherwise each open on a full disk would fill it further.
        let (mut edit, tables, number) =
            self.load_logs(&made).inspect_err(|_| self.trees.remove_tables(&made.lock()))?;
        let trees = self.trees.all();
        let last = self.snapshots.last_sequence();
        for tree in &trees {
            edit.push(Change::Flushed { keyspace: tree.id, sequence: last });
        }
        edit.push(Change::LastSequence(last));
        edit.push(Change::MinLog(number));
        self.trees.structure().manifest.commit(edit)?;
        self.snapshots.publish(last);
        let mut by_tree: HashMap<u32, Vec<_>> = HashMap::new();
        for (id, table) in tables {
            by_tree.entry(id).or_default().push((0, table));
        }
        for tree in trees {
            let own = by_tree.remove(&tree.id).unwrap_or_default();
            tree.install_flush(&[], &own, last);
        }
        self.remove_unknown_files()?;
        Ok(hot_list)
    }

    /// Writes the contents of the logs to tables, and begins the next log.
    fn load_logs(self: &Arc<Self>, made: &Mutex<Vec<u64>>) -> Result<(Edit, Spilled, u64)> {
        let mut edit = Edit::default();
        let mut tables = Vec::new();
        self.replay(|tree| self.spill(std::slice::from_ref(tree), &mut edit, &mut tables, made))?;
        self.spill(&self.trees.all(), &mut edit, &mut tables, made)?;
        let number = self.logs.begin_first_log(&self.trees, &self.memory)?;
        Ok((edit, tables, number))
    }

    /// An earlier run that crashed may have left files with numbers that are free according to the
    /// manifest.
    fn pass_over_used_numbers(&self) -> Result<()> {
        let entries = self.storage.list(&self.directory)?;
        let used = entries.iter().filter_map(|entry| FileName::parse(&entry.name)?.number()).max();
        self.trees.structure().manifest.pass_over_files(used.unwrap_or(0));
        Ok(())
    }

    /// Creates the trees of the manifest, with their tables.
    fn open_trees(&self) -> Result<()> {
        let state = self.trees.structure().manifest.state().clone();
        let mut trees = Trees::new();
        for (&id, keyspace) in &state.keyspaces {
            let mut levels: [Vec<_>; crate::format::LEVELS] = Default::default();
            for (level, tables) in keyspace.levels.iter().enumerate() {
                for meta in tables.values() {
                    levels[level].push(self.open_table(meta.clone())?);
                }
            }
            let version = Version::new(levels).map_err(|overlap| {
                Error::corrupt(&self.directory, format!("in its manifest {overlap}"))
            })?;
            let view = self.new_view(version, state.last_sequence);
            let tree =
                Tree::new(id, &keyspace.name, keyspace.options.clone(), view, keyspace.flushed);
            trees.insert(id, Arc::new(tree));
        }
        self.trees.publish(trees);
        Ok(())
    }

    /// Replays the live logs into memtables; calls `full` for each tree whose memtable is full.
    fn replay(&self, mut full: impl FnMut(&Arc<Tree>) -> Result<()>) -> Result<()> {
        let (state, min_log, start) = {
            let structure = self.trees.structure();
            let state = structure.manifest.state();
            (state.clone(), state.min_log, state.log_start())
        };
        let mut numbers = log_numbers(&*self.storage, &self.directory, min_log)?;
        if min_log > 0 && numbers.first() != Some(&min_log) {
            let path = log_path(&self.directory, min_log);
            return Err(Error::corrupt(&path, "the manifest names it, but it is missing"));
        }
        let idle = numbers.split_off(self.logs_begun(&numbers)?);
        if let Some(log) = state.last_log_with_frames()
            && !numbers.contains(&log)
        {
            return Err(missing_log(&log_path(&self.directory, log), &state, idle.contains(&log)));
        }
        let mut replayed = Replayed::default();
        for (index, &number) in numbers.iter().enumerate() {
            let path = log_path(&self.directory, number);
            let file = self.storage.open_read(&path, Access::Buffered)?;
            let begin = LogPosition { log: number, offset: 0 };
            let mut reader = LogReader::starting_at(file, begin.max(start))?;
            while let Some(record) = reader.next()? {
                self.replay_record(record, number, &path, &mut replayed, &mut full)?;
            }
            let next = numbers.get(index + 1);
            if matches!(reader.ending(), Ending::Cut { .. })
                && let Some(what) = state.missing_of_log(number, reader.offset())
            {
                return Err(Error::corrupt(&path, what));
            }
            match (reader.ending(), next) {
                (Ending::Complete { successor }, Some(&next)) if successor != next => {
                    let path = log_path(&self.directory, successor);
                    return Err(Error::corrupt(
                        &path,
                        format!("log {number} names it, but it is missing"),
                    ));
                }
                (Ending::Cut { .. }, Some(_)) => {
                    let (cut, behind) = (reader.offset(), &numbers[index + 1..]);
                    let damage =
                        damage_of_torn(&*self.storage, &self.directory, number, cut, behind)?;
                    if let Some(damage) = damage {
                        return Err(damage);
                    }
                    tracing::warn!(log = %path.display(), offset = cut,
                        "the log has no end record: truncated after its last complete record; \
                         later logs, which were not synced, are skipped");
                    return Ok(());
                }
                (Ending::Complete { successor }, None) if idle.contains(&successor) => {
                    // It may have been written to: then damage to its beginning is found.
                    let path = log_path(&self.directory, successor);
                    let file = self.storage.open_read(&path, Access::Buffered)?;
                    LogReader::new(file, successor)?.next()?;
                }
                (Ending::Cut { torn: true }, None) => {
                    tracing::info!(log = %path.display(), offset = reader.offset(),
                        "the log has no end record: truncated after its last complete record");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Fails if the replayed writes, which a read-only open keeps in memory, take more than half of the
    /// budget. Those of a writer that had as much never do.
    fn check_replayed_memory(&self) -> Result<()> {
        let budget = self.memory.total_bytes();
        if self.trees.memtables_bytes() <= budget / 2 {
            return Ok(());
        }
        let what = format!(
            "the writes in the log take more than half of the memory budget of {budget} bytes, and a \
             store that is open for reads only keeps them in memory: raise the budget, or open the \
             store for writing, or a checkpoint of it"
        );
        Err(Error::new(ErrorKind::OutOfMemory, what))
    }

    /// The number of logs up to the last one that begins with a whole frame; the first always
    /// counts. The logs after it were only prepared, or begun by recoveries that did not finish.
    fn logs_begun(&self, numbers: &[u64]) -> Result<usize> {
        for (index, &number) in numbers.iter().enumerate().rev() {
            let path = log_path(&self.directory, number);
            let file = self.storage.open_read(&path, Access::Buffered)?;
            if begins_with_a_frame(file, number)? {
                return Ok(index + 1);
            }
        }
        Ok(numbers.len().min(1))
    }

    /// Replays a record of writes, whose sequences are above those of the records before it.
    fn replay_record(
        &self,
        record: &[u8],
        log: u64,
        path: &Path,
        replayed: &mut Replayed,
        full: &mut impl FnMut(&Arc<Tree>) -> Result<()>,
    ) -> Result<()> {
        let malformed = |what: &str| Error::corrupt(path, format!("a record {what}"));
        let (first, operations) = decode_record(record).map_err(malformed)?;
        if first <= replayed.last {
            return Err(malformed("repeats the sequence of one before it"));
        }
        for (sequence, operation) in (first..).zip(operations) {
            replayed.last = sequence;
            let operation = operation.ok_or_else(|| malformed("holds a malformed operation"))?;
            let Some(tree) = self.trees.get(operation.keyspace) else {
                if !self.trees.was_dropped(operation.keyspace) {
                    return Err(malformed("writes to an unknown keyspace"));
                }
                self.snapshots.found_in_log(sequence);
                continue;
            };
            if sequence > tree.flushed() {
                write::apply(
                    &tree,
                    operation.kind,
                    operation.key,
                    operation.payload,
                    sequence,
                    log,
                );
            }
            self.snapshots.found_in_log(sequence);
            if tree.view().memtable.is_full(self.memory.memtable_bytes()) {
                full(&tree)?;
            }
        }
        if self.options.read_only {
            self.snapshots.publish(self.snapshots.last_sequence());
            replayed.unchecked_bytes += record.len();
            if replayed.unchecked_bytes >= REPLAY_CHECK_BYTES {
                replayed.unchecked_bytes = 0;
                return self.check_replayed_memory();
            }
        }
        Ok(())
    }

    /// Writes the replayed memtables of `trees` to tables of level 0.
    fn spill(
        &self,
        trees: &[Arc<Tree>],
        edit: &mut Edit,
        tables: &mut Spilled,
        made: &Mutex<Vec<u64>>,
    ) -> Result<()> {
        let filled: Vec<_> = trees.iter().filter(|tree| !tree.view().memtable.is_empty()).collect();
        if self.options.read_only || filled.is_empty() {
            return Ok(());
        }
        let memtables: Vec<_> =
            filled.iter().map(|tree| [Arc::clone(&tree.view().memtable)]).collect();
        // Those in `tables` are not in the trees yet.
        let part = |tree, memtables| FlushPart { tree, memtables, older: None };
        let parts: Vec<_> =
            filled.iter().zip(&memtables).map(|(tree, memtables)| part(tree, memtables)).collect();
        let written = self.write_memtables(&parts, &[], made)?;
        for (tree, outputs) in filled.into_iter().zip(written) {
            for output in outputs {
                cache_invalidation::redirect(self.memory.caches().point(), &output.placed);
                let table = Arc::new(output.meta);
                tables.push((tree.id, self.open_table(Arc::clone(&table))?));
                edit.push(Change::AddTable { keyspace: tree.id, level: 0, table });
            }
            tree.reset_memtable(Memtable::new(
                self.memory.memtable_bytes() as usize,
                self.snapshots.last_sequence(),
            ));
        }
        Ok(())
    }

    fn remove_unknown_files(&self) -> Result<()> {
        let (tables, min_log, manifest) = {
            let structure = self.trees.structure();
            let state = structure.manifest.state();
            (state.table_files(), state.min_log, structure.manifest.file_number())
        };
        for entry in self.storage.list(&self.directory)? {
            let path = match FileName::parse(&entry.name) {
                Some(FileName::Table(id)) if !tables.contains(&id) => {
                    table_path(&self.directory, id)
                }
                Some(FileName::Log(number)) if number < min_log => {
                    log_path(&self.directory, number)
                }
                Some(FileName::Manifest(number)) if Some(number) != manifest => {
                    self.directory.join(manifest_name(number))
                }
                Some(FileName::Temporary) => self.directory.join(&entry.name),
                _ => continue,
            };
            self.storage.remove(&path)?;
        }
        Ok(())
    }
}
