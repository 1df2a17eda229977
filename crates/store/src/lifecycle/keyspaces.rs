//! Creates keyspaces and drops them.
//!
//! Guarantees:
//! 1. An id is used once, so that references to a dropped keyspace (in logs, caches, hot lists)
//!    never mean another one.
//! 2. A drop is durable when it returns, together with every write that was acknowledged before it:
//!    a power cut never undoes an earlier write and keeps the drop.
//! 3. A drop removes no file: tables are removed when the last reader releases them, as after a
//!    compaction, or when the store is opened again.
//!
//! A drop leads the commit queue, so that no write is in progress. Jobs may be:
//! [`TreeSet::commit`](crate::engine::tree_set::TreeSet::commit) refuses to install their results.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tidekv_cache::Name;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::options::KeyspaceOptions;
use crate::version::levels::Version;
use crate::version::manifest::{Change, Edit, KEYSPACE_MAX};
use crate::version::tree::Tree;

/// No keyspace is created when keyspaces and tables take more than this share of the memory budget.
const METADATA_SHARE_MAX: (u64, u64) = (3, 4);

/// The memory is divided again after this many new keyspaces, which take about 100 KiB: a division visits
/// every keyspace.
const KEYSPACES_PER_DIVISION: u32 = 64;

/// Delay of the second sweep after a drop: point reads in progress have ended by then.
const SECOND_SWEEP_DELAY: Duration = Duration::from_secs(1);

impl Engine {
    /// The keyspace `name`, which is created with `options`, or is given these options if it exists
    /// with others.
    pub(crate) fn put_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<Tree>> {
        if self.options.read_only && self.trees.find(name).is_none() {
            let what = match self.jobs.write_refusal() {
                Some(reason) => format!("there is no keyspace `{name}`: {reason}"),
                None => format!("there is no keyspace `{name}`, and the store is read-only"),
            };
            return Err(Error::new(ErrorKind::Unavailable, what));
        }
        let _gate = self.enter()?;
        let mut structure = self.trees.structure();
        let existing = self.trees.find(name);
        if let Some(tree) = &existing
            && *tree.options() == options
        {
            return Ok(Arc::clone(tree));
        }
        let id = match &existing {
            Some(tree) => tree.id,
            None => structure.manifest.state().next_keyspace,
        };
        if id > KEYSPACE_MAX {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("all keyspace ids up to {KEYSPACE_MAX} are used, and ids are never reused"),
            ));
        }
        if existing.is_none() {
            self.check_room_for_keyspace()?;
        }
        let put = Change::PutKeyspace { id, name: name.into(), options: options.clone() };
        structure.commit(Edit { changes: vec![put] })?;
        if let Some(tree) = existing {
            tree.set_options(options);
            return Ok(tree);
        }
        let view = self.new_view(Version::default(), self.snapshots.visible());
        let tree = Arc::new(Tree::new(id, name, options, view, 0));
        self.trees.insert(Arc::clone(&tree));
        self.memory.add_keyspace(tree.charge());
        if id % KEYSPACES_PER_DIVISION == 0 {
            self.rebalance_memory();
        }
        Ok(tree)
    }

    /// Fails if the metadata of keyspaces and tables exceeds its share of the memory budget.
    fn check_room_for_keyspace(&self) -> Result<()> {
        let (metadata, budget) = (self.memory.metadata_bytes() as u64, self.memory.total_bytes());
        if metadata <= budget / METADATA_SHARE_MAX.1 * METADATA_SHARE_MAX.0 {
            return Ok(());
        }
        let what = format!(
            "the memory budget of {budget} bytes has no room for another keyspace: keyspaces and tables \
             take {metadata} bytes of it; raise the budget"
        );
        Err(Error::new(ErrorKind::OutOfMemory, what))
    }

    /// Drops the keyspace `name` with its contents; false if it does not exist.
    ///
    /// If the manifest cannot be written, the keyspace stays. As long as it is unknown whether the
    /// drop is durable, the keyspace accepts no writes.
    pub(crate) fn drop_keyspace(self: &Arc<Self>, name: &str) -> Result<bool> {
        let _gate = self.enter()?;
        let Some(tree) = self.queue.exclusive(|| self.drop_tree(name))? else {
            return Ok(false);
        };
        let (tree, tables) = tree;
        self.jobs.forget_errors(tree.id);
        let point = self.memory.caches().point();
        // A read that began before the drop caches nothing from here on.
        point.advance_epoch();
        let is_in_tree = |name: Name<'_>| name.keyspace == tree.id;
        point.forget(is_in_tree, |table| tables.contains(&table));
        drop(tree);
        self.remove_obsolete_tables();
        self.after_install();
        self.remove_obsolete_tables_later(SECOND_SWEEP_DELAY);
        // A thread that waits for its memtables or tables has nothing to wait for any more.
        self.jobs.signal_progress();
        // It may leave files of several tables of which most are dead.
        self.schedule_compactions();
        Ok(true)
    }

    /// The dropped tree, and the tables that it had. Only while leading.
    fn drop_tree(&self, name: &str) -> Result<Option<(Arc<Tree>, HashSet<u64>)>> {
        self.jobs.check_open()?;
        let Some(tree) = self.trees.find(name) else { return Ok(None) };
        self.make_log_durable()?;
        let mut structure = self.trees.structure();
        let edit = Edit { changes: vec![Change::DropKeyspace { id: tree.id }] };
        if let Err(error) = structure.commit(edit) {
            // The manifest may contain the drop all the same, and later writes would be lost with
            // it. A manifest without the drop settles that.
            if structure.commit(Edit::default()).is_err() {
                structure.mark_in_doubt(&tree);
                self.trees.count_drop();
            }
            return Err(error.context(format!("cannot drop the keyspace `{name}`")));
        }
        let tables = tree.version().tables().map(|table| table.meta().id).collect();
        self.trees.remove(&tree);
        tree.mark_dropped();
        Ok(Some((tree, tables)))
    }
}
