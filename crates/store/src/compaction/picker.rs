//! Selects the next compaction. Pure: a function of a version.
//!
//! Level targets are dynamic (RocksDB's `level_compaction_dynamic_level_bytes`): the last level
//! sets the scale and the target of each level above is a tenth of the one below, up to the *base
//! level*, into which level 0 is compacted. So space amplification stays near 1.1 for any size of
//! the data.
//!
//! Unlike RocksDB, the base level may hold ten times the bytes of a full level 0 before a level is
//! added above it: up to that size, rewriting all data costs no more than a level in between would,
//! and reads search one level less (docs/adr/0014).

use std::collections::HashSet;
use std::sync::Arc;

use crate::format::LEVELS;
use crate::version::levels::{KeySpan, TableHandle, Version};

/// How much larger each level is than the one above.
const LEVEL_RATIO: u64 = 10;

/// Number of sorted runs in level 0 that triggers a compaction. Each run is one more place that
/// reads search, but each merge rewrites the overlapping part of the base level; when writers are
/// idle, fewer runs are merged as well ([`pick_idle`]; docs/adr/0016).
pub(crate) const LEVEL0_TRIGGER: usize = 12;

/// While writers are idle, a merge with the base level may cost up to this multiple of the bytes of
/// level 0; beyond that, level 0 is merged with itself, and readers search one more place
/// (docs/adr/0016 has the figures).
const LOWER_RATIO_MAX: u64 = 8;

/// The inputs of a merge are read and, at about the same size, written.
const READ_AND_WRITTEN: u64 = 2;

const LAST: usize = LEVELS - 1;

/// A planned compaction.
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    /// The level of the inputs.
    pub(crate) level: usize,
    /// The level of the outputs; may be the same level (a rewrite of one table, or level 0 merged
    /// with itself).
    pub(crate) output_level: usize,
    pub(crate) inputs: Vec<Arc<TableHandle>>,
    /// Tables of the output level that overlap the inputs.
    pub(crate) lower: Vec<Arc<TableHandle>>,
    /// Tables of the level below the output that overlap.
    pub(crate) grandparents: Vec<Arc<TableHandle>>,
    /// The inputs can be moved unchanged.
    pub(crate) is_move: bool,
    pub(crate) trigger: Trigger,
}

/// Why a compaction was picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The size of a level, the number of runs in level 0, or a request. Only for these writes may
    /// have to wait.
    Size,
    /// The seeks of scans have paid for it.
    Seeks,
    /// The store was idle.
    Idle,
    /// It gives back the space of about this many bytes of deleted and expired data.
    Space { dead_bytes: u64 },
}

impl Compaction {
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.inputs.iter().chain(&self.lower)
    }

    /// The inputs: runs of tables that do not overlap, ordered by key.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &[Arc<TableHandle>]> {
        let is_run = |a: &Arc<TableHandle>, b: &Arc<TableHandle>| {
            self.level > 0 || a.is_of_one_ingest_with(b)
        };
        self.inputs.chunk_by(is_run).chain([&*self.lower])
    }

    pub(crate) fn input_bytes(&self) -> u64 {
        self.tables().map(|table| table.meta().bytes).sum()
    }

    /// Bytes that it reads, and about as many that it writes.
    pub(crate) fn cost_bytes(&self) -> u64 {
        if self.is_move { 0 } else { self.input_bytes() }
    }

    /// Bytes that seeks must have read before they trigger it.
    fn seek_price(&self) -> u64 {
        READ_AND_WRITTEN * self.cost_bytes()
    }

    /// Bytes that seeks have read in the runs that it removes. When level 0 is merged with itself,
    /// one run remains, in which seeks continue to read.
    fn seek_bytes(&self) -> u64 {
        // Each counter is read once, because concurrent seeks still increment it.
        let paid = self.inputs.iter().map(|table| table.seek_bytes());
        let (all, most) = paid.fold((0, 0), |(all, most), of| (all + of, of.max(most)));
        if self.output_level == self.level { all - most } else { all }
    }

    fn is_paid_by_seeks(&self) -> bool {
        // A single run without overlap below remains a run.
        let spares = self.runs().filter(|run| !run.is_empty()).count() > 1;
        spares && self.seek_bytes() > 0 && self.seek_bytes() >= self.seek_price()
    }

    /// Subtracts the cost of this merge, which seeks triggered, from the bytes that they have read.
    pub(crate) fn spend_seek_bytes(&self) {
        let price = self.seek_price();
        self.inputs.iter().fold(price, |left, table| left - table.spend_seek_bytes(left));
    }

    /// Transfers the unspent seek bytes of runs that remain to the `outputs`, to all of them that a
    /// table overlaps.
    pub(crate) fn transfer_seek_bytes(&self, outputs: &[&Arc<TableHandle>]) {
        let staying = if self.output_level == self.level { &*self.inputs } else { &[] };
        for table in staying.iter().chain(&self.lower) {
            let overlapping = || outputs.iter().filter(|output| output.overlaps_table(table));
            let bytes = table.seek_bytes() / overlapping().count().max(1) as u64;
            overlapping().for_each(|output| output.note_seek_bytes(bytes));
        }
    }

    fn new(
        version: &Version,
        level: usize,
        output_level: usize,
        inputs: Vec<Arc<TableHandle>>,
    ) -> Option<Self> {
        let span = KeySpan::of(&inputs)?;
        let lower = if output_level == level {
            Vec::new()
        } else {
            version.overlapping(output_level, &span)
        };
        let whole = KeySpan::of(inputs.iter().chain(&lower))?;
        // Level 0 gets one table, whatever the level below holds.
        let grandparents = if (1..LAST).contains(&output_level) {
            version.overlapping(output_level + 1, &whole)
        } else {
            Vec::new()
        };
        let compaction = Self {
            level,
            output_level,
            inputs,
            lower,
            grandparents,
            is_move: false,
            trigger: Trigger::Size,
        };
        let is_idle = compaction.tables().all(|table| !table.is_busy());
        is_idle.then_some(compaction)
    }
}

/// Settings of the picker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PickerOptions {
    /// Target size of the base level in bytes.
    pub(crate) base_bytes: u64,
    /// Target size of a table in bytes.
    pub(crate) table_bytes: u64,
    /// Whether tables of the last level have a different compression, so that they cannot be moved
    /// there unchanged.
    pub(crate) last_differs: bool,
    /// Number of sorted runs that triggers a compaction of a level 0 of few bytes.
    pub(crate) small_level0_trigger: usize,
}

/// A level 0 with less than this part of the target of the base level is small: its tables may take
/// more memory while they are open than they hold.
const SMALL_LEVEL0_PART: u64 = 32;

/// A small level 0 is merged with the base level if that has at most this multiple of its bytes,
/// otherwise with itself.
const SMALL_LOWER_RATIO_MAX: u64 = 4;

/// The number of runs that triggers a compaction of a small level 0 while open tables take
/// `metadata_bytes` of `budget_bytes`: fewer runs mean fewer tables, and more bytes to rewrite.
pub(crate) fn small_level0_trigger(metadata_bytes: u64, budget_bytes: u64) -> usize {
    match budget_bytes / metadata_bytes.max(1) {
        0..16 => 2,
        16..64 => 4,
        _ => LEVEL0_TRIGGER,
    }
}

/// Target sizes of the levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Targets {
    pub(crate) base_level: usize,
    /// In bytes; unused levels have the maximum value.
    pub(crate) bytes: [u64; LEVELS],
}

/// The targets of `version`'s levels; a full level 0 has `base_bytes`.
pub(crate) fn targets(version: &Version, base_bytes: u64) -> Targets {
    targets_for(std::array::from_fn(|level| version.level_bytes(level)), base_bytes)
}

/// Like [`targets`], for levels of these `sizes` in bytes.
fn targets_for(sizes: [u64; LEVELS], base_bytes: u64) -> Targets {
    let mut bytes = [u64::MAX; LEVELS];
    let Some(first) = (1..LEVELS).find(|&level| sizes[level] > 0) else {
        bytes[LAST] = base_bytes;
        return Targets { base_level: LAST, bytes };
    };
    let largest = sizes[1..].iter().copied().max().unwrap_or(0);
    // Never below a level that has tables: data from level 0 is newer.
    let mut base_level = first;
    let mut size = largest / LEVEL_RATIO.pow((LAST - first) as u32);
    while base_level > 1 && size > LEVEL_RATIO * base_bytes {
        base_level -= 1;
        size /= LEVEL_RATIO;
    }
    for target in &mut bytes[base_level..] {
        // No target is smaller than a full level 0.
        *target = size.max(base_bytes);
        size = size.saturating_mul(LEVEL_RATIO);
    }
    Targets { base_level, bytes }
}

/// Bytes that compactions still have to move to bring every level to its target.
pub(crate) fn debt_bytes(version: &Version, base_bytes: u64) -> u64 {
    let targets = targets(version, base_bytes);
    let mut debt = 0;
    let mut carried = match version.runs().len() {
        n if n >= LEVEL0_TRIGGER => flushed_bytes(version),
        _ => 0,
    };
    for level in targets.base_level..LAST {
        let bytes = version.level_bytes(level) + carried;
        carried = bytes.saturating_sub(targets.bytes[level]);
        debt += carried * (LEVEL_RATIO + 1);
    }
    debt
}

/// Bytes of level 0 that writers flushed: writers do not wait for ingested tables.
fn flushed_bytes(version: &Version) -> u64 {
    let metas = version.level(0).iter().map(|table| table.meta());
    metas.filter(|meta| meta.sequence_override == 0).map(|meta| meta.bytes).sum()
}

/// The most urgent compaction, if any.
pub(crate) fn pick(version: &Version, options: PickerOptions) -> Option<Compaction> {
    let targets = targets(version, options.base_bytes);
    let mut scores: Vec<(f64, usize)> = vec![(level0_score(version, options), 0)];
    for level in targets.base_level.min(first_filled(version))..LAST {
        let idle: u64 =
            version.level(level).iter().filter(|t| !t.is_busy()).map(|t| t.meta().bytes).sum();
        let target = if level < targets.base_level { 1 } else { targets.bytes[level] };
        scores.push((idle as f64 / target as f64, level));
    }
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    scores.into_iter().take_while(|&(score, _)| score >= 1.0).find_map(|(_, level)| {
        let mut compaction = match level {
            0 => pick_level0_of_any_size(version, &targets, options),
            _ => pick_from(version, level),
        }?;
        compaction.is_move = can_move(&compaction, options);
        Some(compaction)
    })
}

/// The compaction of level 0 when writers are idle, if it costs no more than `spare_bytes`: its
/// tables are merged with the base level, or with each other if that is large in comparison.
pub(crate) fn pick_idle(
    version: &Version,
    options: PickerOptions,
    spare_bytes: u64,
) -> Option<Compaction> {
    let mut compaction = merge_level0(version, options)?;
    if compaction.cost_bytes() > spare_bytes.min(LOWER_RATIO_MAX * version.level_bytes(0)) {
        compaction = pick_within_level0(version)?;
    }
    compaction.trigger = Trigger::Idle;
    (compaction.cost_bytes() <= spare_bytes).then_some(compaction)
}

/// The merge of all of level 0 with the base level; `None` if it is empty or tables are busy.
pub(crate) fn merge_level0(version: &Version, options: PickerOptions) -> Option<Compaction> {
    let compaction = pick_level0(version, &targets(version, options.base_bytes))?;
    let is_move = can_move(&compaction, options);
    Some(Compaction { is_move, ..compaction })
}

/// The merge of `table` with the level below its `level`; `None` if tables are busy.
pub(crate) fn merge_down(
    version: &Version,
    options: PickerOptions,
    level: usize,
    table: &Arc<TableHandle>,
) -> Option<Compaction> {
    let compaction = Compaction::new(version, level, level + 1, vec![Arc::clone(table)])?;
    let is_move = can_move(&compaction, options);
    Some(Compaction { is_move, ..compaction })
}

/// Merges all of level 0 into one of its tables.
fn pick_within_level0(version: &Version) -> Option<Compaction> {
    let tables = version.level(0);
    let may = tables.len() > 1 && !tables.iter().any(is_ingested);
    may.then(|| Compaction::new(version, 0, 0, tables.to_vec())).flatten()
}

/// A merge that the seeks of scans have paid for (`seeks.rs`): of level 0 with the level below it;
/// otherwise of the table of a lower level with the most seek bytes; otherwise of level 0 with
/// itself.
pub(crate) fn pick_for_seeks(version: &Version, options: PickerOptions) -> Option<Compaction> {
    let level0 = merge_level0(version, options);
    // At least the table itself is read and written: this excludes most tables.
    let below = (1..LAST).flat_map(|level| {
        let tables = version.level(level).iter();
        let may_be_paid = tables.filter(|t| t.seek_bytes() >= READ_AND_WRITTEN * t.meta().bytes);
        may_be_paid
            .filter_map(move |t| Compaction::new(version, level, level + 1, vec![Arc::clone(t)]))
    });
    let of_price = |c: &Compaction| c.seek_bytes() as f64 / c.seek_price().max(1) as f64;
    level0
        .filter(Compaction::is_paid_by_seeks)
        .or_else(|| {
            let paid = below.filter(Compaction::is_paid_by_seeks);
            paid.max_by(|a, b| of_price(a).total_cmp(&of_price(b)))
        })
        .or_else(|| pick_within_level0(version).filter(Compaction::is_paid_by_seeks))
}

/// After the tree has shrunk, tables may be above the base level.
fn first_filled(version: &Version) -> usize {
    (1..LEVELS).find(|&level| !version.level(level).is_empty()).unwrap_or(LAST)
}

fn is_level0_small(version: &Version, base_bytes: u64) -> bool {
    version.level_bytes(0) < base_bytes / SMALL_LEVEL0_PART
}

/// An ingested table is newer than the memtables' entries of other keys; merged with older tables it
/// would wrongly count as newer for those keys as well.
fn is_ingested(table: &Arc<TableHandle>) -> bool {
    table.meta().sequence_override > 0
}

/// The memory of open tables that merges of a small level 0 would free. Those of ingests may have to
/// stay (`pick_within_level0`), and are not counted.
pub(crate) fn mergeable_bytes(version: &Version, base_bytes: u64) -> u64 {
    let tables = version.level(0);
    if !is_level0_small(version, base_bytes) || tables.iter().any(is_ingested) {
        return 0;
    }
    tables.iter().skip(1).map(|table| table.charge() as u64).sum()
}

fn level0_score(version: &Version, options: PickerOptions) -> f64 {
    let trigger = match is_level0_small(version, options.base_bytes) {
        true => options.small_level0_trigger,
        false => LEVEL0_TRIGGER,
    };
    let by_count = version.runs().len() as f64 / trigger as f64;
    let by_bytes = version.level_bytes(0) as f64 / options.base_bytes as f64;
    if version.level(0).len() < 2 { by_count } else { by_count.max(by_bytes) }
}

/// Takes all of level 0, so that the remaining data above is newer.
fn pick_level0(version: &Version, targets: &Targets) -> Option<Compaction> {
    Compaction::new(version, 0, targets.base_level, version.level(0).to_vec())
}

/// The compaction of level 0; of a small one with few runs, that costs little more than its bytes.
fn pick_level0_of_any_size(
    version: &Version,
    targets: &Targets,
    options: PickerOptions,
) -> Option<Compaction> {
    let compaction = pick_level0(version, targets)?;
    let lower: u64 = compaction.lower.iter().map(|table| table.meta().bytes).sum();
    let is_dear = lower > SMALL_LOWER_RATIO_MAX * version.level_bytes(0);
    if is_dear
        && version.runs().len() < LEVEL0_TRIGGER
        && is_level0_small(version, options.base_bytes)
    {
        return pick_within_level0(version);
    }
    Some(compaction)
}

/// The table whose merge rewrites the fewest bytes for each byte that moves
/// down (RocksDB's `kMinOverlappingRatio`).
fn pick_from(version: &Version, level: usize) -> Option<Compaction> {
    let mut candidates: Vec<(f64, Compaction)> = version
        .level(level)
        .iter()
        .filter(|table| !table.is_busy())
        .filter_map(|table| {
            let compaction = Compaction::new(version, level, level + 1, vec![Arc::clone(table)])?;
            let lower: u64 = compaction.lower.iter().map(|t| t.meta().bytes).sum();
            Some((lower as f64 / table.meta().bytes.max(1) as f64, compaction))
        })
        .collect();
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
    candidates.into_iter().next().map(|(_, compaction)| compaction)
}

/// A move costs no I/O, but a table that overlaps a large part of the level below its new one makes
/// the next compaction expensive.
fn can_move(compaction: &Compaction, options: PickerOptions) -> bool {
    let into_last = compaction.output_level == LAST;
    let overlap: u64 = compaction.grandparents.iter().map(|t| t.meta().bytes).sum();
    let mut inputs: Vec<_> = compaction.inputs.iter().collect();
    inputs.sort_by(|a, b| a.meta().smallest.cmp(&b.meta().smallest));
    compaction.lower.is_empty()
        && compaction.output_level != compaction.level
        && !(into_last && options.last_differs)
        && overlap <= 10 * options.table_bytes
        && inputs.windows(2).all(|pair| pair[0].ends_before(&pair[1].meta().smallest))
        // Deletions that reach the last level should be dropped, not moved.
        && !(into_last && inputs.iter().any(|t| t.meta().tombstones + t.meta().range_tombstones > 0))
}

/// A compaction of requested tables from `level` to `output_level`; `None` if there are none or
/// they are busy.
///
/// Below level 0 it takes one table at a time: another compaction may put a table into the gap
/// between two tables of a level, and an output that spans the gap would overlap it.
pub(crate) fn pick_wanted(
    version: &Version,
    level: usize,
    output_level: usize,
    is_wanted: impl Fn(&Arc<TableHandle>) -> bool,
) -> Option<Compaction> {
    let mut wanted = version.level(level).iter().filter(|table| is_wanted(table));
    if level == 0 {
        // A table of level 0 needs all older ones that it overlaps; taking the whole level is
        // simple and correct.
        wanted.next()?;
        return Compaction::new(version, 0, output_level, version.level(0).to_vec());
    }
    wanted.find_map(|table| Compaction::new(version, level, output_level, vec![table.clone()]))
}

/// The compaction that removes a table from one of the `files`: of level 0 with the base level, or
/// the rewrite of one table.
pub(crate) fn pick_in_files(
    version: &Version,
    options: PickerOptions,
    files: &HashSet<u64>,
) -> Option<Compaction> {
    let is_inside = |table: &&Arc<TableHandle>| files.contains(&table.meta().file);
    let level0 = version.level(0).iter().any(|table| is_inside(&table));
    let level0 = level0.then(|| merge_level0(version, options)).flatten();
    level0.map(|compaction| Compaction { is_move: false, ..compaction }).or_else(|| {
        (1..LEVELS).find_map(|level| {
            let mut inside = version.level(level).iter().filter(is_inside);
            inside.find_map(|table| rewrite(level, table))
        })
    })
}

/// The rewrite of one table in its `level`, below level 0, to drop entries that no reader can see, or
/// to take it out of its file.
pub(crate) fn rewrite(level: usize, table: &Arc<TableHandle>) -> Option<Compaction> {
    let inputs = vec![Arc::clone(table)];
    (!table.is_busy()).then(|| Compaction {
        level,
        output_level: level,
        inputs,
        lower: Vec::new(),
        grandparents: Vec::new(),
        is_move: false,
        trigger: Trigger::Size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn level_is_added_above_a_base_of_ten_times_a_full_level0() {
        let of = |sizes: &[(usize, u64)]| {
            let mut all = [0; LEVELS];
            sizes.iter().for_each(|&(level, bytes)| all[level] = bytes);
            let targets = targets_for(all, 100);
            (targets.base_level, targets.bytes[targets.base_level])
        };
        // Tables in level 0 do not count.
        assert_eq!(of(&[]), (LAST, 100));
        assert_eq!(of(&[(0, 5000)]), (LAST, 100));
        assert_eq!(of(&[(LAST, 7)]), (LAST, 100));
        assert_eq!(of(&[(LAST, 1000)]), (LAST, 1000));
        assert_eq!(of(&[(LAST, 1010)]), (LAST - 1, 101));
        assert_eq!(of(&[(LAST - 1, 500), (LAST, 10_000)]), (LAST - 1, 1000));
        assert_eq!(of(&[(LAST - 1, 500), (LAST, 20_000)]), (LAST - 2, 200));
        // If a level above has tables, newer data must not pass them.
        assert_eq!(of(&[(LAST - 1, 60), (LAST, 100)]), (LAST - 1, 100));
        assert_eq!(of(&[(LAST - 3, 1), (LAST, 100)]), (LAST - 3, 100));
    }

    /// Two tables of a level with a gap between them were compacted together;
    /// meanwhile another compaction put a table into the gap, and the output
    /// that spanned it made a manifest that could not be opened.
    #[test]
    fn requested_tables_are_compacted_one_at_a_time() {
        let mut options = Options::default().memory_bytes(8 << 20);
        options.environment.storage = Some(Arc::new(tidekv_io::MemoryStorage::new()));
        let db = crate::Db::open("/d", options).unwrap();
        let keyspace = db.keyspace("k").unwrap();
        keyspace.ingest([("a1", "x"), ("a2", "x")]).unwrap();
        keyspace.ingest([("c1", "x"), ("c2", "x")]).unwrap();
        let version = keyspace.tree().version();
        assert_eq!(version.level(LAST).len(), 2);
        let picked = pick_wanted(&version, LAST, LAST, |_| true).unwrap();
        assert_eq!(picked.inputs.len(), 1);
        let id = picked.inputs[0].meta().id;
        picked.inputs[0].set_busy(true);
        let next = pick_wanted(&version, LAST, LAST, |_| true).unwrap();
        assert_ne!(next.inputs[0].meta().id, id);
        assert!(pick_wanted(&version, LAST, LAST, |table| table.meta().id == id).is_none());
        picked.inputs[0].set_busy(false);
        let second = version.level(LAST)[1].meta().id;
        let picked = pick_wanted(&version, LAST, LAST, |t| t.meta().id == second).unwrap();
        assert_eq!(picked.inputs[0].meta().id, second);
    }
}
