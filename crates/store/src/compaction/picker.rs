//! What to compact next. Pure: looks at a version and decides.
//!
//! Level targets are dynamic (RocksDB's `level_compaction_dynamic_level_bytes`):
//! the last level sets the scale and each level above aims at a tenth of the
//! one below, up to the *base level*, into which level 0 is compacted. So
//! space amplification stays near 1.1 whatever the size of the data.
//!
//! Unlike there, the base level may be ten times what level 0 brings at a time
//! before a level is put above it: as long as data are no more than that, all of
//! them are rewritten at no higher cost than through a level in between, and reads
//! look in one place less (docs/adr/0014).

use std::sync::Arc;

use crate::format::LEVELS;
use crate::version::levels::{KeySpan, TableHandle, Version};

/// How much larger each level is than the one above.
const LEVEL_RATIO: u64 = 10;

/// Sorted runs in level 0 that start a compaction. Each is one more place in which reads
/// look, but each merge rewrites what it overlaps of the base level; when writers
/// rest, fewer are merged as well ([`pick_idle`]; docs/adr/0016).
pub(crate) const LEVEL0_TRIGGER: usize = 12;

/// Up to here a merge with the base level may cost as many times what level 0 holds,
/// while writers rest; with more, level 0 is merged with itself, and readers look in
/// one place more (docs/adr/0016 has the figures).
const LOWER_RATIO_MAX: u64 = 8;

/// What a merge takes in is read and, about as much, written.
const READ_AND_WRITTEN: u64 = 2;

const LAST: usize = LEVELS - 1;

/// A compaction to be done.
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    /// Where the inputs stand.
    pub(crate) level: usize,
    /// Where the outputs go; may be the same level (a rewrite of one table, or level 0
    /// merged with itself).
    pub(crate) output_level: usize,
    pub(crate) inputs: Vec<Arc<TableHandle>>,
    /// Tables of the output level that overlap the inputs.
    pub(crate) lower: Vec<Arc<TableHandle>>,
    /// Tables of the level below the output that overlap.
    pub(crate) grandparents: Vec<Arc<TableHandle>>,
    /// The inputs can be moved as they are.
    pub(crate) is_move: bool,
    /// It is done for the seeks of scans.
    pub(crate) is_for_seeks: bool,
}

impl Compaction {
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.inputs.iter().chain(&self.lower)
    }

    /// What is merged: runs of tables that do not overlap, ordered by key.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &[Arc<TableHandle>]> {
        let is_run = |a: &Arc<TableHandle>, b: &Arc<TableHandle>| {
            self.level > 0 || a.is_of_one_ingest_with(b)
        };
        self.inputs.chunk_by(is_run).chain([&*self.lower])
    }

    pub(crate) fn input_bytes(&self) -> u64 {
        self.tables().map(|table| table.meta().bytes).sum()
    }

    /// Bytes that are read for it, and about as many written.
    pub(crate) fn cost_bytes(&self) -> u64 {
        if self.is_move { 0 } else { self.input_bytes() }
    }

    /// What seeks have to have read before it is done for them, in bytes.
    fn seek_price(&self) -> u64 {
        READ_AND_WRITTEN * self.cost_bytes()
    }

    /// What seeks have read in the runs that it spares them. Of level 0 merged with itself one
    /// run stays, in which they go on reading.
    fn seek_bytes(&self) -> u64 {
        // Each is looked at once, as others go on reading.
        let paid = self.inputs.iter().map(|table| table.seek_bytes());
        let (all, most) = paid.fold((0, 0), |(all, most), of| (all + of, of.max(most)));
        if self.output_level == self.level { all - most } else { all }
    }

    fn is_paid_by_seeks(&self) -> bool {
        // What is alone, and meets nothing below, stays a run.
        let spares = self.runs().filter(|run| !run.is_empty()).count() > 1;
        spares && self.seek_bytes() > 0 && self.seek_bytes() >= self.seek_price()
    }

    /// Takes the price of this merge, which is done for the seeks of scans, from what they
    /// have paid.
    pub(crate) fn spend_seek_bytes(&self) {
        let price = self.seek_price();
        self.inputs.iter().fold(price, |left, table| left - table.spend_seek_bytes(left));
    }

    /// Has what seeks have paid in the runs that stay, and did not spend, count in the
    /// `outputs`: in those alike that a table overlaps.
    pub(crate) fn hand_on_seek_bytes(&self, outputs: &[&Arc<TableHandle>]) {
        let staying = if self.output_level == self.level { &*self.inputs } else { &[] };
        for table in staying.iter().chain(&self.lower) {
            let compaction_prefills = || outputs.iter().filter(|output| output.meets(table));
            let bytes = table.seek_bytes() / compaction_prefills().count().max(1) as u64;
            compaction_prefills().for_each(|output| output.note_seek_bytes(bytes));
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
        // Level 0 gets one table, whatever stands below.
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
            is_for_seeks: false,
        };
        let is_idle = compaction.tables().all(|table| !table.is_busy());
        is_idle.then_some(compaction)
    }
}

/// What the picker goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PickerOptions {
    /// Target size of the base level in bytes.
    pub(crate) base_bytes: u64,
    /// Target size of a table in bytes.
    pub(crate) table_bytes: u64,
    /// Whether tables of the last level are compressed otherwise than the
    /// rest, so that they cannot simply be moved there.
    pub(crate) last_differs: bool,
}

/// Target sizes of the levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Targets {
    pub(crate) base_level: usize,
    /// In bytes; unused levels have the largest number there is.
    pub(crate) bytes: [u64; LEVELS],
}

/// The targets of `version`'s levels; level 0 brings `base_bytes` at a time.
pub(crate) fn targets(version: &Version, base_bytes: u64) -> Targets {
    targets_for(std::array::from_fn(|level| version.level_bytes(level)), base_bytes)
}

/// As [`targets`], of levels of these `sizes` in bytes.
fn targets_for(sizes: [u64; LEVELS], base_bytes: u64) -> Targets {
    let mut bytes = [u64::MAX; LEVELS];
    let Some(first) = (1..LEVELS).find(|&level| sizes[level] > 0) else {
        bytes[LAST] = base_bytes;
        return Targets { base_level: LAST, bytes };
    };
    let largest = sizes[1..].iter().copied().max().unwrap_or(0);
    // Never below a level that has tables: what comes from level 0 is newer.
    let mut base_level = first;
    let mut size = largest / LEVEL_RATIO.pow((LAST - first) as u32);
    while base_level > 1 && size > LEVEL_RATIO * base_bytes {
        base_level -= 1;
        size /= LEVEL_RATIO;
    }
    for target in &mut bytes[base_level..] {
        // No level is kept smaller than what level 0 brings at a time.
        *target = size.max(base_bytes);
        size = size.saturating_mul(LEVEL_RATIO);
    }
    Targets { base_level, bytes }
}

/// Bytes that compactions still have to move to bring every level to its
/// target.
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

/// Bytes of level 0 that writers have brought: what was ingested is not theirs to wait for
/// while it waits itself.
fn flushed_bytes(version: &Version) -> u64 {
    let metas = version.level(0).iter().map(|table| table.meta());
    metas.filter(|meta| meta.sequence_override == 0).map(|meta| meta.bytes).sum()
}

/// The compaction that is needed most, if any is.
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
            0 => pick_level0(version, &targets),
            _ => pick_from(version, level),
        }?;
        compaction.is_move = can_move(&compaction, options);
        Some(compaction)
    })
}

/// What is done to level 0 when writers rest, if it costs no more than `spare_bytes`:
/// its tables are merged with the base level, or where that is large beside them,
/// with each other.
pub(crate) fn pick_idle(
    version: &Version,
    options: PickerOptions,
    spare_bytes: u64,
) -> Option<Compaction> {
    let mut compaction = pick_level0(version, &targets(version, options.base_bytes))?;
    compaction.is_move = can_move(&compaction, options);
    if compaction.cost_bytes() > spare_bytes.min(LOWER_RATIO_MAX * version.level_bytes(0)) {
        compaction = pick_within_level0(version)?;
    }
    (compaction.cost_bytes() <= spare_bytes).then_some(compaction)
}

/// All of level 0 into one table of it.
fn pick_within_level0(version: &Version) -> Option<Compaction> {
    // An ingested table is newer than what a memtable may still hold of other
    // keys; merged with older tables it would pass for newer there as well.
    let is_ingested = |table: &Arc<TableHandle>| table.meta().sequence_override > 0;
    let tables = version.level(0);
    let may = tables.len() > 1 && !tables.iter().any(is_ingested);
    may.then(|| Compaction::new(version, 0, 0, tables.to_vec())).flatten()
}

/// A merge that the seeks of scans have paid for (`seeks.rs`): of level 0 with what stands
/// below it; else of a table below that, the one paid for the most; else of level 0 within
/// itself.
pub(crate) fn pick_for_seeks(version: &Version, options: PickerOptions) -> Option<Compaction> {
    let level0 = pick_level0(version, &targets(version, options.base_bytes)).map(|compaction| {
        let is_move = can_move(&compaction, options);
        Compaction { is_move, ..compaction }
    });
    // A table is read and written for it at the least: most are passed by for that.
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

/// After the tree has shrunk, tables may stand above the base level.
fn first_filled(version: &Version) -> usize {
    (1..LEVELS).find(|&level| !version.level(level).is_empty()).unwrap_or(LAST)
}

fn level0_score(version: &Version, options: PickerOptions) -> f64 {
    let by_count = version.runs().len() as f64 / LEVEL0_TRIGGER as f64;
    let by_bytes = version.level_bytes(0) as f64 / options.base_bytes as f64;
    if version.level(0).len() < 2 { by_count } else { by_count.max(by_bytes) }
}

/// All of level 0, so that what stays above is newer than what goes down.
fn pick_level0(version: &Version, targets: &Targets) -> Option<Compaction> {
    Compaction::new(version, 0, targets.base_level, version.level(0).to_vec())
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

/// A move costs no I/O, but a table that overlaps much of the level below its
/// new place makes the next compaction dear.
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

/// A compaction of tables that are wanted from `level` to `output_level`; `None` when there
/// are none or they are busy.
///
/// Below level 0 it takes one table at a time: between two tables of a level
/// there is a gap into which another compaction may put a table, and an output
/// that spans the gap would overlap it.
pub(crate) fn pick_wanted(
    version: &Version,
    level: usize,
    output_level: usize,
    is_wanted: impl Fn(&Arc<TableHandle>) -> bool,
) -> Option<Compaction> {
    let mut wanted = version.level(level).iter().filter(|table| is_wanted(table));
    if level == 0 {
        // A table of level 0 takes all older ones with it that it overlaps;
        // taking the whole level is simple and right.
        wanted.next()?;
        return Compaction::new(version, 0, output_level, version.level(0).to_vec());
    }
    wanted.find_map(|table| Compaction::new(version, level, output_level, vec![table.clone()]))
}

/// The rewriting of one table in its level, to let go of what nobody can see.
pub(crate) fn rewrite(table: &Arc<TableHandle>) -> Option<Compaction> {
    let inputs = vec![Arc::clone(table)];
    (!table.is_busy()).then(|| Compaction {
        level: LAST,
        output_level: LAST,
        inputs,
        lower: Vec::new(),
        grandparents: Vec::new(),
        is_move: false,
        is_for_seeks: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn a_level_is_put_above_the_base_once_that_is_ten_times_what_comes_at_a_time() {
        let of = |sizes: &[(usize, u64)]| {
            let mut all = [0; LEVELS];
            sizes.iter().for_each(|&(level, bytes)| all[level] = bytes);
            let targets = targets_for(all, 100);
            (targets.base_level, targets.bytes[targets.base_level])
        };
        // What waits in level 0 does not count.
        assert_eq!(of(&[]), (LAST, 100));
        assert_eq!(of(&[(0, 5000)]), (LAST, 100));
        assert_eq!(of(&[(LAST, 7)]), (LAST, 100));
        assert_eq!(of(&[(LAST, 1000)]), (LAST, 1000));
        assert_eq!(of(&[(LAST, 1010)]), (LAST - 1, 101));
        assert_eq!(of(&[(LAST - 1, 500), (LAST, 10_000)]), (LAST - 1, 1000));
        assert_eq!(of(&[(LAST - 1, 500), (LAST, 20_000)]), (LAST - 2, 200));
        // Where a level above has tables, what is newer must not pass them.
        assert_eq!(of(&[(LAST - 1, 60), (LAST, 100)]), (LAST - 1, 100));
        assert_eq!(of(&[(LAST - 3, 1), (LAST, 100)]), (LAST - 3, 100));
    }

    /// Two tables of a level with a gap between them were compacted together;
    /// meanwhile another compaction put a table into the gap, and the output
    /// that spanned it made a manifest that could not be opened.
    #[test]
    fn what_is_wanted_is_compacted_one_table_at_a_time() {
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
