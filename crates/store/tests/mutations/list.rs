//! Ways to break the store, each with the test that must notice. The runner is
//! `testkit/examples/mutations.rs`; `tests/mutations.rs` compares the list with the
//! sources, so that it stays current.

/// A change of the code that breaks a guarantee.
#[derive(Debug, Clone, Copy)]
pub struct Mutation {
    /// The wrong behaviour, in a few words.
    pub name: &'static str,
    /// Path from the root of the workspace.
    pub file: &'static str,
    /// The original text; occurs exactly once in the file.
    pub find: &'static str,
    /// The replacement; it must compile.
    pub replace: &'static str,
    pub package: &'static str,
    /// The file of tests, `crates/*/tests/<target>.rs`; `lib`: a unit test, which
    /// is named with its modules.
    pub target: &'static str,
    /// The one test that must fail.
    pub test: &'static str,
}

/// In the store, caught by a test of its guarantees.
const fn mutation(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { name, file, find, replace, package: "tidekv", target: "promises", test }
}

/// Between threads, caught by a model (`tests/models.rs` next to the code).
const fn race(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { name, file, find, replace, package: "tidekv", target: "lib", test }
}

/// In the caches of entries and pointers, caught by a test of their guarantees.
const fn stale(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "caches", ..mutation(name, file, find, replace, test) }
}

/// In the caches themselves, caught by a unit test.
const fn cached(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { package: "tidekv-cache", target: "lib", name, file, find, replace, test }
}

/// In bulk ingests.
const fn ingested(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "ingest", ..mutation(name, file, find, replace, test) }
}

/// In warm start.
const fn warm(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "warm_start", ..mutation(name, file, find, replace, test) }
}

/// In the cache tier, caught by the search for stale values.
const fn tiered(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { package: "tidekv-tiered", target: "truth", name, file, find, replace, test }
}

/// In filter repairs.
const fn filter_repair(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "filter_repair", ..mutation(name, file, find, replace, test) }
}

/// In keyspaces that are dropped.
const fn dropped(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "keyspaces", ..mutation(name, file, find, replace, test) }
}

/// In the drops of dead tables and the compactions for space.
const fn reclaimed(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "space", ..mutation(name, file, find, replace, test) }
}

/// In the tier under the block cache.
const fn below(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "tier", ..mutation(name, file, find, replace, test) }
}

/// A mutation that a test of deadlines must notice.
const fn deadline(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "deadlines", ..mutation(name, file, find, replace, test) }
}

/// A mutation that a test of the Redis server in the file `target` must notice.
const fn served(
    name: &'static str,
    file: &'static str,
    (find, replace): (&'static str, &'static str),
    (target, test): (&'static str, &'static str),
) -> Mutation {
    Mutation { package: "tidekv-resp", target, name, file, find, replace, test }
}

/// In the operation of the servers and of the command line.
const fn operated(
    name: &'static str,
    file: &'static str,
    (find, replace): (&'static str, &'static str),
    (package, target, test): (&'static str, &'static str, &'static str),
) -> Mutation {
    Mutation { package, target, name, file, find, replace, test }
}

pub const MUTATIONS: &[Mutation] = &[
    operated(
        "strangers keep out clients that authenticate",
        "crates/net/src/clients.rs",
        (
            "            if !has_room || !connected.close_oldest(Instant::now()) {",
            "            if true || !has_room || !connected.close_oldest(Instant::now()) {",
        ),
        ("tidekv-net", "lib", "clients::tests::at_the_limit_the_oldest_stranger_makes_room"),
    ),
    operated(
        "a client that has authenticated counts as a stranger",
        "crates/net/src/clients.rs",
        ("            true => connected.remove_stranger(&self.client),", "            true => {}"),
        ("tidekv-net", "lib", "clients::tests::at_the_limit_the_oldest_stranger_makes_room"),
    ),
    operated(
        "a guess of a password does not wait",
        "crates/resp/src/state/session.rs",
        ("        if !delay.is_zero() {", "        if false {"),
        ("tidekv-resp", "sockets", "guesses_of_passwords_are_counted_and_slow_down_nobody_else"),
    ),
    operated(
        "a link leads a checkpoint out of the directory",
        "crates/resp/src/state/checkpoints.rs",
        (
            "    match (parent.starts_with(directory), relative.file_name()) {",
            "    match (true, relative.file_name()) {",
        ),
        (
            "tidekv-resp",
            "checkpoints",
            "a_checkpoint_holds_the_state_of_its_moment_below_the_directory",
        ),
    ),
    operated(
        "a checkpoint is made within a transaction",
        "crates/resp/src/data/execution.rs",
        ("        if !self.may_stream() {", "        if false {"),
        (
            "tidekv-resp",
            "checkpoints",
            "a_checkpoint_holds_the_state_of_its_moment_below_the_directory",
        ),
    ),
    operated(
        "caches keep their memory when a large batch arrives",
        "crates/store/src/write.rs",
        (
            "            if bytes as u64 >= ROOM_BYTES {",
            "            if bytes as u64 == u64::MAX {",
        ),
        ("tidekv", "memory_budget", "large_batches_push_blocks_out_of_the_cache"),
    ),
    operated(
        "a batch of any size is accepted",
        "crates/store/src/write.rs",
        ("        if bytes <= bytes_max {", "        if bytes <= bytes_max.max(bytes) {"),
        ("tidekv", "memory_budget", "batch_that_does_not_fit_the_memory_budget_is_refused"),
    ),
    operated(
        "each store takes the whole budget that it shares",
        "crates/store/src/options/memory_budget.rs",
        ("shares[at] = wants[at].min(fair)", "shares[at] = wants[at].min(fair.max(total))"),
        ("tidekv", "memory_budget", "store_that_fills_its_share_gets_what_others_leave"),
    ),
    operated(
        "a store that only writes loses its part of a budget",
        "crates/store/src/engine/store_memory.rs",
        ("if taken > shares.memtables_bytes_max / 2 {", "if taken == u64::MAX {"),
        ("tidekv", "memory_budget", "store_that_writes_keeps_its_share_beside_one_that_reads"),
    ),
    operated(
        "a busy store gets no more of a budget than idle ones",
        "crates/store/src/engine/store_memory.rs",
        ("        used.saturating_add(used / 4)", "        used.max(u64::MAX)"),
        ("tidekv", "memory_budget", "store_that_fills_its_share_gets_what_others_leave"),
    ),
    operated(
        "a read-only open keeps any amount of replayed writes",
        "crates/store/src/lifecycle/recovery.rs",
        (
            "if self.trees.memtables_bytes() <= budget / 2 {",
            "if self.trees.memtables_bytes() <= u64::MAX {",
        ),
        ("tidekv", "memory_budget", "read_only_open_is_bounded_by_its_budget"),
    ),
    operated(
        "writers do not wait for merges that free memory",
        "crates/store/src/compaction/picker.rs",
        ("tables.iter().skip(1)", "tables.iter().skip(usize::MAX)"),
        ("tidekv", "lib", "api::db::tests::memory::tables_that_merges_would_close_are_a_backlog"),
    ),
    operated(
        "a retried flush on a full disk ignores the deletions that empty it",
        "crates/store/src/write/full_disk.rs",
        ("(empties() || is_deleted())", "(false && empties() || is_deleted())"),
        ("tidekv", "edges", "a_full_disk_is_emptied_by_a_range_deletion"),
    ),
    operated(
        "FLUSHALL writes an end that is longer than every key",
        "crates/resp/src/data/execution.rs",
        (
            "self.batch.delete_from(&keyspace, b\"\");",
            "self.batch.delete_range(&keyspace, b\"\", [0xff; KEY_BYTES_MAX + 1]);",
        ),
        ("tidekv-resp", "full_disk", "flushall_empties_a_full_small_disk"),
    ),
    operated(
        "a deletion without an end is as long as the keys",
        "crates/store/src/write/open_ranges.rs",
        ("cut_above(&end, 0, &mut short);", "short.clone_from(&end);"),
        ("tidekv", "range_deletions", "a_deletion_without_an_end_takes_a_few_bytes"),
    ),
    operated(
        "a deletion without an end leaves keys of tables",
        "crates/store/src/version/view.rs",
        ("in_memtables.chain(in_tables).max()", "in_memtables.chain(in_tables.take(0)).max()"),
        ("tidekv", "range_deletions", "every_key_from_the_start_on_is_deleted_wherever_it_is"),
    ),
    operated(
        "a deletion without an end leaves larger keys of its batch",
        "crates/store/src/write/open_ranges.rs",
        ("matches!(o.kind, Kind::Value | Kind::Expiring)", "o.kind == Kind::RangeDelete"),
        ("tidekv", "range_deletions", "puts_of_a_batch_are_deleted_if_they_come_before"),
    ),
    operated(
        "a transaction does not read its own deletion without an end",
        "crates/store/src/batch.rs",
        ("(end.is_empty() || key < end)", "key < end"),
        ("tidekv", "range_deletions", "a_transaction_reads_its_own_deletions"),
    ),
    operated(
        "a flush keeps deletions of keys that no table holds",
        "crates/store/src/jobs/flusher.rs",
        ("older.map(LevelsBelow::all)", "older.filter(|_| false).map(LevelsBelow::all)"),
        ("tidekv", "range_deletions", "a_flush_drops_deletions_of_what_no_table_holds"),
    ),
    operated(
        "a flush on a full disk gets nothing of what the log reserves",
        "crates/store/src/engine/log_set.rs",
        (
            "release_unused(reserve / 2).unwrap_or(false)",
            "release_unused(u64::MAX / 2).unwrap_or(false)",
        ),
        ("tidekv", "space", "a_full_disk_is_emptied_by_deletions_of_single_keys"),
    ),
    operated(
        "deletions of single keys use up the reserve of range deletions",
        "crates/store/src/write.rs",
        ("false => LogSet::reserve_for_ranges(reserve),", "false => 0,"),
        ("tidekv", "edges", "a_range_deletion_is_accepted_where_those_of_single_keys_are_not"),
    ),
    operated(
        "a failed flush is not retried with deletions of single keys",
        "crates/store/src/write/full_disk.rs",
        ("(empties() || is_deleted())", "(empties() || false && is_deleted())"),
        ("tidekv", "edges", "deletions_of_single_keys_free_the_memory_of_a_flush_that_failed"),
    ),
    operated(
        "a step of SCAN passes any number of deleted keys",
        "crates/store/src/read/visible.rs",
        ("            if *skips_left == 0 {", "            if false {"),
        ("tidekv-resp", "commands", "scans_pass_a_bounded_number_of_deleted_elements"),
    ),
    operated(
        "an iterator that goes on after a bounded step skips an entry",
        "crates/store/src/read/visible.rs",
        (
            "            Position::PastKey => {}\n",
            "            Position::PastKey => self.skip_versions()?,\n",
        ),
        ("tidekv", "values", "bounded_steps_skip_no_entry"),
    ),
    operated(
        "a log that was removed on a full disk stays open",
        "crates/store/src/write/full_disk.rs",
        ("        if is_freed {", "        if false {"),
        ("tidekv", "edges", "a_full_disk_that_was_emptied_a_while_ago_accepts_writes"),
    ),
    operated(
        "a range deletion counts as one of newer entries",
        "crates/store/src/memtable/mod.rs",
        ("range.sequence > newest && ", "true && "),
        (
            "tidekv",
            "lib",
            "memtable::tests::a_memtable_is_emptied_by_newer_deletions_of_all_its_keys",
        ),
    ),
    operated(
        "logs of deleted data fill the disk",
        "crates/store/src/write/full_disk.rs",
        ("self.end_log_and_flush(),", "false,"),
        ("tidekv", "edges", "a_full_disk_is_emptied_by_a_range_deletion"),
    ),
    operated(
        "a compaction that failed is an error although none is needed any more",
        "crates/store/src/jobs/compactor.rs",
        (
            "                    if self.jobs.has_compaction_failed() && !is_needed && !is_busy() {",
            "                    if false {",
        ),
        ("tidekv", "edges", "a_compaction_that_failed_is_forgotten_when_none_is_needed"),
    ),
    operated(
        "keyspaces are not charged to the budget",
        "crates/store/src/engine/tree_set.rs",
        ("(keyspaces + tree.charge(), tables + of_tree)", "(keyspaces, tables + of_tree)"),
        ("tidekv", "memory_budget", "keyspaces_are_charged"),
    ),
    operated(
        "a keyspace is created whatever memory is left",
        "crates/store/src/lifecycle/keyspaces.rs",
        (
            "            self.check_room_for_keyspace()?;",
            "            let _ = self.check_room_for_keyspace();",
        ),
        ("tidekv", "memory_budget", "keyspaces_that_do_not_fit_the_memory_budget_are_refused"),
    ),
    operated(
        "connections take the handles of files",
        "crates/net/src/handles.rs",
        (
            "left(free(raise_limit(), open, page_connections), files)",
            "left(free(raise_limit(), open, page_connections), files.min(0))",
        ),
        ("tidekv-net", "lib", "handles::tests::connections_leave_the_handles_of_files"),
    ),
    mutation(
        "the log is not synced before the acknowledgement",
        "crates/store/src/write.rs",
        "logs.current.sync()?;",
        "",
        "synced_write_survives_a_power_loss",
    ),
    mutation(
        "the directory is not synced after CURRENT was renamed",
        "crates/store/src/version/manifest/file.rs",
        "    storage.rename(&temporary, &directory.join(CURRENT))?;\n    names.sync()",
        "    storage.rename(&temporary, &directory.join(CURRENT))?;\n    Ok(())",
        "keyspace_in_a_new_manifest_survives_a_power_loss",
    ),
    mutation(
        "the directory is not synced after a recycled log was renamed",
        "crates/store/src/engine/log_set.rs",
        "        self.names.sync()?;\n",
        "",
        "synced_write_in_a_recycled_log_survives_a_power_loss",
    ),
    mutation(
        "the manifest names a table before its bytes are synced",
        "crates/io/src/append.rs",
        "        self.file.sync()?;\n",
        "",
        "flushed_table_survives_a_power_loss",
    ),
    mutation(
        "the manifest names a table before its name is synced",
        "crates/store/src/jobs/flusher.rs",
        "        self.logs.names().sync()?;\n",
        "",
        "flushed_table_survives_a_power_loss",
    ),
    mutation(
        "a flush does not sync the log",
        "crates/store/src/jobs/flusher.rs",
        "        self.executor.execute(Priority::Low, Box::new(move || drop(same.sync_up_to(offset))));\n\
         \x20       move || syncer.sync_up_to(offset)\n",
        "        move || {\n            drop((same, syncer, offset));\n            Ok(())\n        }\n",
        "half_flushed_batch_survives_completely",
    ),
    mutation(
        "an opening skips writes that are in no table",
        "crates/store/src/jobs/flusher.rs",
        "        oldest.map_or(put_aside_at, |oldest| oldest.min(put_aside_at))\n",
        "        let _ = oldest;\n        put_aside_at\n",
        "opening_skips_log_records_that_are_in_tables",
    ),
    mutation(
        "a log is synced before the preceding one",
        "crates/store/src/wal/writer.rs",
        "        self.syncing.lock().in_front = Some(front);\n",
        "        drop(front);\n        self.is_front_synced.store(true, Ordering::Release);\n",
        "synced_write_makes_the_preceding_log_durable",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "a sync of an empty log does not cover the preceding one",
            "crates/store/src/wal/writer.rs",
            "let is_done = || self.is_front_synced() && self.synced() >= offset;",
            "let is_done = || self.synced() >= offset;",
            "wal::tests::log_is_not_synced_before_preceding_logs",
        )
    },
    mutation(
        "writes after a torn log are replayed",
        "crates/store/src/lifecycle/recovery.rs",
        "which were not synced, are skipped\");\n                    return Ok(());\n",
        "which were not synced, are skipped\");\n",
        "writes_after_a_torn_log_are_dropped",
    ),
    mutation(
        "a torn log is accepted regardless of syncs in later logs",
        "crates/store/src/wal/reader.rs",
        "if vouches_for_logs_in_front(file, later_log)? {",
        "if vouches_for_logs_in_front(file, later_log)? && later_log == 0 {",
        "torn_log_before_a_synced_one_is_damaged",
    ),
    mutation(
        "no mark confirms the syncs of preceding logs",
        "crates/store/src/wal/writer.rs",
        "            self.write_frame(|out| out.push(RECORD_MARK))?;\n            self.unmarked.clear();\n",
        "            self.unmarked.clear();\n",
        "torn_log_before_a_synced_one_is_damaged",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "a writer waits for the sync of its log before it confirms the preceding one",
            "crates/store/src/wal/writer.rs",
            "                    self.record_front_sync()?;\n",
            "                    self.sync_front_and_mark()?;\n",
            "wal::tests::append_does_not_wait_for_a_concurrent_sync",
        )
    },
    mutation(
        "an ingest leaves a torn place in the preceding log",
        "crates/store/src/lifecycle/flush.rs",
        "            if !logs.current.is_open() {\n                self.logs.switch_log(logs, &self.trees, &self.memory)?;\n            }\n",
        "",
        "failed_write_does_not_reappear_over_an_ingest",
    ),
    mutation(
        "a sync of a torn log writes no mark",
        "crates/store/src/wal/writer.rs",
        "Health::Finished => Ok(()),\n            // A mark",
        "Health::Finished | Health::Torn(_) => Ok(()),\n            // A mark",
        "sync_of_a_torn_log_confirms_the_preceding_one",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "a log knows nothing of those further in front",
            "crates/store/src/wal/writer.rs",
            "        self.unmarked.clone_from(&front.unmarked);\n",
            "",
            "wal::tests::log_after_a_lost_one_refuses_appends",
        )
    },
    mutation(
        "the next log is not prepared",
        "crates/store/src/write.rs",
        "        self.ask_for_next_log();\n",
        "",
        "writers_do_not_wait_for_the_next_log",
    ),
    mutation(
        "a log whose preparation failed is not created later",
        "crates/store/src/engine/log_set.rs",
        "        match self.make_ready(&mut next, trees, memory) {",
        "        let is_new = next.number.is_none();
        match is_new.then(|| self.make_ready(&mut next, trees, memory)).unwrap_or(Ok(())) {",
        "unprepared_log_is_created_when_needed",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "a write to a new page of a recycled log makes the disk read it",
            "crates/store/src/wal/writer.rs",
            "Self { own_until: 0, ..Self::new(file, number) }",
            "Self::new(file, number)",
            "wal::tests::writer_fills_whole_pages_of_a_recycled_file",
        )
    },
    mutation(
        "a failed background sync is not reported to writers",
        "crates/store/src/wal/writer.rs",
        "        syncing.failure = Some(error.clone());\n\
         \x20       self.is_lost.store(true, Ordering::Release);\n",
        "        let _ = syncing;\n",
        "writes_fail_after_a_flush_cannot_sync_the_log",
    ),
    mutation(
        "the checksum of a block is not checked",
        "crates/store/src/sst/block/envelope.rs",
        "if stored != computed {",
        "if stored != computed && disk.is_empty() {",
        "a_damaged_block_is_not_read",
    ),
    mutation(
        "the checksum of a log frame is not checked",
        "crates/store/src/wal/format.rs",
        "    checksum(log_number, &frame[4..]) == header.checksum",
        "    checksum(log_number, &frame[4..]) == header.checksum || frame.len() > 16",
        "a_damaged_frame_of_the_log_is_not_replayed",
    ),
    mutation(
        "recovery continues after a torn record",
        "crates/store/src/wal/reader.rs",
        "                self.ending = Some(self.judge_ending()?);\n",
        "                if let Some(header) = self.header_at(self.offset)? {\n\
         self.offset += (HEADER_BYTES + header.payload_len as usize) as u64;\n\
         continue;\n\
         }\n\
         self.ending = Some(self.judge_ending()?);\n",
        "recovery_stops_at_a_torn_record",
    ),
    mutation(
        "a get of a snapshot ignores its sequence number",
        "crates/store/src/api/snapshot.rs",
        "keyspace.resolve(key.as_ref(), Some(self.moment.sequence))?",
        "keyspace.resolve(key.as_ref(), None)?",
        "snapshot_gets_the_state_at_its_creation",
    ),
    mutation(
        "an iteration of a snapshot ignores its sequence number",
        "crates/store/src/api/snapshot.rs",
        "        let sequence = Some(self.moment.sequence);",
        "        let sequence = None;",
        "snapshot_iterates_the_state_at_its_creation",
    ),
    mutation(
        "a flush drops a tombstone above older versions",
        "crates/store/src/compaction/retain.rs",
        "let oldest = stripe == 0 && matters && is_base(key);",
        "let oldest = stripe == 0 && (matters && is_base(key) || trailer.kind() == Kind::Delete);",
        "a_flushed_deletion_hides_older_tables",
    ),
    mutation(
        "a compaction drops a tombstone above older versions",
        "crates/store/src/compaction/mod.rs",
        "tables.get(*finger).is_none_or(|table| *key < *table.meta().smallest)",
        "tables.get(*finger).is_none_or(|table| *key < *table.meta().largest)",
        "a_compacted_deletion_hides_lower_levels",
    ),
    mutation(
        "a range tombstone is lost at the end of a table",
        "crates/store/src/compaction/output.rs",
        "later.push(RangeTombstone::new(cut, &tombstone.end, tombstone.sequence));",
        "",
        "range_deletion_spans_tables",
    ),
    mutation(
        "half of a batch is applied before the log is written",
        "crates/store/src/write.rs",
        "                self.append(logs, first, batches, sync).inspect_err(|_| {\n",
        "                let bytes = batches[0].encoded().expect(\"checked before\");\n\
         let half = batches[0].len().div_ceil(2);\n\
         for (operation, at) in Operations::new(bytes).flatten().zip(first..).take(half) {\n\
         let tree = self.trees.get(operation.keyspace).expect(\"checked before\");\n\
         apply(&tree, operation.kind, operation.key, operation.payload, at, 0);\n\
         }\n\
         self.append(logs, first, batches, sync).inspect_err(|_| {\n",
        "batch_refused_by_the_log_leaves_nothing",
    ),
    mutation(
        "an iteration skips the memtables that wait for their flush",
        "crates/store/src/read/visible.rs",
        "for memtable in view.memtables() {",
        "for memtable in std::iter::once(&view.memtable) {",
        "iteration_sees_memtables_that_wait_for_their_flush",
    ),
    mutation(
        "the file of a table is removed while an iterator reads it",
        "crates/store/src/sst/file_handles.rs",
        "        self.tables.fetch_sub(1, Ordering::AcqRel);\n",
        "        self.tables.fetch_sub(1, Ordering::AcqRel);\n        \
         self.owner.iter().for_each(|owner| owner.obsolete.lock().push(self.number));\n",
        "table_file_is_kept_while_an_iterator_reads_it",
    ),
    Mutation {
        target: "trouble",
        ..mutation(
            "a checkpoint trusts the sync of a directory after a failed one",
            "crates/store/src/lifecycle/checkpoint.rs",
            "|parent| self.logs.names().sync_in(parent)",
            "|parent| Ok(self.storage.sync_dir(parent)?)",
            "checkpoint_is_not_confirmed_by_a_sync_after_a_failed_one",
        )
    },
    Mutation {
        target: "trouble",
        ..mutation(
            "an opening takes a record of a log twice",
            "crates/store/src/lifecycle/recovery.rs",
            "        if first <= replayed.last {",
            "        if first < replayed.last {",
            "a_log_that_repeats_a_record_is_refused",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "an ingested table is merged with older ones within level 0",
            "crates/store/src/compaction/picker.rs",
            " && !tables.iter().any(is_ingested)",
            " && (true || !tables.iter().any(is_ingested))",
            "api::db::tests::quiet::an_older_version_is_not_made_newer_by_an_ingested_neighbour",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "tables merged within level 0 are taken to have gone down",
            "crates/store/src/lifecycle/compact_range.rs",
            "                0 => overlapping(&table) && Some(table.newest_sequence()) <= newest,",
            "                0 if newest.is_none() => false,",
            "api::db::tests::quiet::a_range_is_compacted_also_while_level_0_is_merged_with_itself",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "lib",
        ..mutation(
            "a request read at once keeps stale state of its beginning",
            "crates/resp/src/protocol/request.rs",
            "                        self.reset();\n                        return Ok(Some(Parsed::Request(arguments)));",
            "                        return Ok(Some(Parsed::Request(arguments)));",
            "protocol::request::tests::a_request_in_pieces_leaves_no_state_to_the_next",
        )
    },
    race(
        "an entry of a memtable is published before its bytes",
        "crates/store/src/memtable/sorted_list.rs",
        "(*before.0).next.store(entry.0, Ordering::Release);",
        "(*before.0).next.store(entry.0, Ordering::Relaxed);",
        "memtable::sorted_list::tests::models::readers_find_whole_entries_in_order",
    ),
    race(
        "a slot gets its prefix before its target",
        "crates/store/src/memtable/sorted_list.rs",
        "            self.targets[slot + 1].store(self.target(slot), Ordering::Release);\n\
         \x20           let moved = self.prefixes[slot].load(Ordering::Relaxed);\n\
         \x20           self.prefixes[slot + 1].store(moved, Ordering::Release);\n",
        "            let moved = self.prefixes[slot].load(Ordering::Relaxed);\n\
         \x20           self.prefixes[slot + 1].store(moved, Ordering::Release);\n\
         \x20           self.targets[slot + 1].store(self.target(slot), Ordering::Release);\n",
        "memtable::sorted_list::tests::models::page_split_loses_no_entry",
    ),
    race(
        "two threads take the same bytes of the arena",
        "crates/store/src/memtable/arena.rs",
        "let start = self.used.fetch_add(len, Ordering::Relaxed);",
        "let start = self.used.load(Ordering::Relaxed);\n\
         self.used.store(start + len, Ordering::Relaxed);",
        "memtable::arena::tests::models::no_byte_is_allocated_twice_at_a_chunk_change",
    ),
    race(
        "the filter of a memtable lacks earlier entries",
        "crates/store/src/memtable/mod.rs",
        "        let mut node = self.list.first();\n",
        "        let mut node = self.list.last();\n",
        "memtable::tests::models::\
         new_filter_hides_no_visible_entry",
    ),
    race(
        "writers follow a leader that has just ended",
        "crates/store/src/engine/queue.rs",
        "            if !state.is_led {\n",
        "            let is_led = state.is_led;\n\
         drop(state);\n\
         let mut state = self.state.lock();\n\
         if !is_led {\n",
        "engine::queue::tests::models::no_wake_up_is_lost_between_two_threads",
    ),
    race(
        "writers are woken before the leader makes the group visible",
        "crates/store/src/write.rs",
        "None => self.queue.submit(request, weight, |group| self.lead(&group)),\n",
        "None => {\n\
         let mut seen = None;\n\
         let outcome = self.queue.submit(request, weight, |group| {\n\
         let before = self.snapshots.visible();\n\
         let outcomes = self.lead(&group);\n\
         seen = Some(self.snapshots.visible());\n\
         self.snapshots.publish(before);\n\
         outcomes\n\
         });\n\
         seen.map(|seen| self.snapshots.publish(self.snapshots.visible().max(seen)));\n\
         outcome\n\
         }\n",
        "api::db::tests::models::a_write_is_visible_before_it_is_acknowledged",
    ),
    race(
        "readers see a group before it is in the memtables",
        "crates/store/src/write.rs",
        "            deletions = self.insert(first, batches, log);\n",
        "            self.snapshots.publish(last);\n\
         deletions = self.insert(first, batches, log);\n",
        "api::db::tests::models::batches_are_whole_and_reads_never_go_back",
    ),
    race(
        "a reader does not check the cache again once it leads the flight of a block",
        "crates/store/src/sst/blocks.rs",
        "        let landed = self.landed_or_noted(address);",
        "        let landed = None::<BlockRef>;",
        "sst::blocks::tests::models::uncached_block_is_read_once_under_any_schedule",
    ),
    Mutation {
        package: "tidekv-cache",
        ..race(
            "a shard of the cache is changed outside of its lock",
            "crates/cache/src/block/mod.rs",
            "        let dropped = shard.insert(hash, id, tag, value, charge, reason);\n        \
             drop(shard);\n        \
             drop(dropped);\n",
            "        let mut blocks =\n\
             std::mem::replace(&mut shard.blocks, Ordered::new(Eviction::Lru, 0));\n\
             drop(shard);\n\
             let mut shard = self.shard(hash).lock();\n\
             std::mem::swap(&mut shard.blocks, &mut blocks);\n\
             drop(shard.insert(hash, id, tag, value, charge, reason));\n",
            "block::tests::models::concurrent_capacity_changes_leave_all_shards_with_the_last_one",
        )
    },
    race(
        "a merge accepts entries in any order",
        "crates/store/src/compaction/retain.rs",
        "            Ordering::Equal | Ordering::Greater => return Decision::OutOfOrder,\n",
        "            Ordering::Equal | Ordering::Greater => false,\n",
        "compaction::retain::tests::entries_out_of_order_are_detected_even_if_dropped",
    ),
    Mutation {
        package: "tidekv-resp",
        ..race(
            "a round that another writer has undone is answered as done",
            "crates/resp/src/dispatch/group_commit.rs",
            "            Ok(Ok(Commit::Conflict)) => later.push(waiting),\n",
            "            Ok(Ok(Commit::Conflict)) => waiting.answer(Outcome::Done(replies)),\n",
            "dispatch::group_commit::tests::a_conflicting_batch_reads_again",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "rounds",
        ..race(
            "a group commit is answered before it is on stable storage",
            "crates/resp/src/dispatch/batch.rs",
            "self.transaction.commit(Durability::Sync)",
            "self.transaction.commit(Durability::Buffered)",
            "acknowledged_writes_survive_a_power_cut",
        )
    },
    stale(
        "a get checks the caches and not the memtables",
        "crates/store/src/read/point_lookup.rs",
        "match self.ask_memtables(see) {",
        "match None::<R> {",
        "memtables_take_precedence_over_caches",
    ),
    stale(
        "a flush does not report new versions",
        "crates/store/src/compaction/cache_invalidation.rs",
        "self.point.update(hash, name, entry).then_some(Tag { hash, from: None })",
        "entry.and(None)",
        "flush_updates_the_caches",
    ),
    stale(
        "a flush does not redirect pointers",
        "crates/store/src/jobs/flusher.rs",
        "            cache_invalidation::redirect(self.memory.caches().point(), &output.placed);\n",
        "",
        "flush_updates_the_caches",
    ),
    stale(
        "a deletion leaves the pointer",
        "crates/cache/src/point/shard.rs",
        "                self.kp.remove(fingerprint);\n",
        "",
        "flush_updates_the_caches",
    ),
    stale(
        "a deleted range stays in the caches",
        "crates/store/src/jobs/flusher.rs",
        "            point.forget(is_covered, |_| false);\n",
        "            let _ = is_covered;\n",
        "deleted_range_is_not_in_the_caches",
    ),
    stale(
        "a pointer is followed below a range tombstone",
        "crates/store/src/read/point_read.rs",
        "&& !self.lookup.view.version.tombstoned().iter().any(covers)",
        "|| self.lookup.view.version.tombstoned().iter().any(covers)",
        "deleted_range_is_not_in_the_caches",
    ),
    stale(
        "an ingest does not invalidate the caches",
        "crates/store/src/lifecycle/ingest.rs",
        "        self.forget_span(tree, &version, &span);\n",
        "",
        "ingest_replaces_cached_entries",
    ),
    stale(
        "a result from before a flush is cached",
        "crates/cache/src/point/cache.rs",
        "if !epoch.holds(shard.epoch.load(Ordering::Relaxed)) {",
        "if !epoch.holds(epoch.0) {",
        "result_from_before_a_flush_is_not_cached",
    ),
    stale(
        "a result from during an ingest is cached",
        "crates/store/src/lifecycle/ingest.rs",
        "let change = self.memory.caches().point().begin_change();",
        "let change = self.memory.caches().point().advance_epoch();",
        "result_from_during_an_ingest_is_not_cached",
    ),
    stale(
        "a snapshot returns a later version",
        "crates/store/src/read/point_lookup.rs",
        "            _ => sequence <= self.known,",
        "            _ => true,",
        "snapshot_reads_are_repeatable_despite_caches",
    ),
    Mutation {
        target: "lib",
        ..stale(
            "a read of many keys returns a later version of one of them",
            "crates/store/src/read/point_lookup.rs",
            "            0 => self.is_at_snapshot || self.tree.flushed() <= self.known,",
            "            0 => true,",
            "api::keyspace::tests::a_version_without_a_sequence_is_not_older_than_its_flush",
        )
    },
    stale(
        "a snapshot follows a pointer to a later version",
        "crates/store/src/read/point_read.rs",
        "        sequence <= self.lookup.reader.known\n            && !",
        "        !",
        "snapshot_reads_are_repeatable_despite_caches",
    ),
    stale(
        "a snapshot's result is cached for all readers",
        "crates/store/src/read/begin_read.rs",
        "is_newest: at.is_none()",
        "is_newest: true || at.is_none()",
        "results_of_a_snapshot_are_not_cached",
    ),
    stale(
        "a key is confused with another one of the same fingerprint",
        "crates/store/src/sst/table/probe.rs",
        "        entry_at(block, pointer.len, pointer.position as usize, user_key)",
        "        let position = block.view().lower_bound(user_key, Trailer(u64::MAX));\n\
                 entry_at(block, pointer.len, position, user_key)",
        "keys_with_the_same_fingerprint_are_not_confused",
    ),
    stale(
        "pointers are lost to compactions",
        "crates/store/src/jobs/compactor.rs",
        "        cache_invalidation::relocate(point, placed, parts.compaction.output_level);\n",
        "",
        "pointers_follow_their_entries_through_compactions",
    ),
    stale(
        "keyspaces share cached entries",
        "crates/store/src/read/point_lookup.rs",
        "        Name { keyspace: self.reader.tree.id, key: self.key.user_key }\n",
        "        Name { keyspace: 0, key: self.key.user_key }\n",
        "cached_entries_are_separate_per_keyspace",
    ),
    Mutation {
        package: "tidekv-cache",
        ..race(
            "a pointer follows an entry that it does not lead to",
            "crates/cache/src/point/shard.rs",
            "is_some_and(|entry| entry.pointer == from)",
            "is_some()",
            "point::cache::tests::update_replaces_value_and_deletion_removes_entries",
        )
    },
    Mutation {
        package: "tidekv-cache",
        ..race(
            "a flush admits results from before it",
            "crates/cache/src/point/cache.rs",
            "        self.advance_epochs(1 << UNDER_WAY_BITS);\n",
            "",
            "point::cache::tests::models::no_stale_insert_during_flushes",
        )
    },
    Mutation {
        package: "tidekv-cache",
        ..race(
            "a result from during a change of the tree is cached",
            "crates/cache/src/point/cache.rs",
            "self.0 == now && now & ((1 << UNDER_WAY_BITS) - 1) == 0",
            "self.0 == now",
            "point::cache::tests::models::no_stale_insert_during_ingests",
        )
    },
    race(
        "a compaction relocates pointers although another job may have installed tables",
        "crates/store/src/jobs/compactor.rs",
        "            cache_invalidation::relocate(point, placed, parts.compaction.output_level);\n            \
         parts.tree.install_tables(removed, added);\n        \
         }\n        \
         drop(structure);\n        \
         self.after_install();\n",
        "            let _ = placed;\n            \
         parts.tree.install_tables(removed, added);\n        \
         }\n        \
         drop(structure);\n        \
         self.after_install();\n        \
         for Merge { parts, placed, .. } in &installed {\n            \
         cache_invalidation::relocate(point, placed, parts.compaction.output_level);\n        \
         }\n",
        "api::db::tests::models::no_pointer_comes_back_after_an_ingest",
    ),
    stale(
        "an entry that expired in a compaction stays in the caches",
        "crates/store/src/compaction/cache_invalidation.rs",
        "                    point.update(name_hash(name), name, None);\n",
        "                    let _ = (point, name);\n",
        "entry_expired_in_a_compaction_stays_expired",
    ),
    stale(
        "a lookup reports the damage behind another key's pointer",
        "crates/store/src/read/point_read.rs",
        "(Err(_), Stage::Pointer(..)) =>",
        "(Err(_), Stage::Memory) =>",
        "damage_behind_another_keys_pointer_is_not_reported",
    ),
    stale(
        "outputs of a compaction are cold, however hot its inputs",
        "crates/store/src/jobs/compactor.rs",
        "_ => Some(Rule::HotBlockCarryover),",
        "_ => None,",
        "hot_blocks_stay_in_memory_through_compactions",
    ),
    stale(
        "all outputs of a compaction are hot",
        "crates/store/src/compaction/hot_block_carryover.rs",
        "data: f32::from(cache.heat(BlockId { table, offset })) / entries.max(1) as f32",
        "data: 15.0",
        "hot_blocks_stay_in_memory_through_compactions",
    ),
    warm(
        "restored pointers ignore the log",
        "crates/store/src/lifecycle/recovery.rs",
        "            cache_invalidation::redirect(self.memory.caches().point(), &output.placed);\n",
        "",
        "restored_pointers_reflect_the_log",
    ),
    warm(
        "pointers into other tables are restored",
        "crates/store/src/jobs/warm_start.rs",
        "            self.restore_pointers(&pointers, shards);\n        }\n",
        "        }\n        self.restore_pointers(&pointers, shards);\n",
        "pointers_into_other_tables_are_not_restored",
    ),
    ingested(
        "each table of an ingest counts for the stall",
        "crates/store/src/jobs/background.rs",
        "runs = runs.max(version.runs().len());",
        "runs = runs.max(version.level(0).len());",
        "tables_of_one_ingest_do_not_stall_writers",
    ),
    ingested(
        "ingested data counts as debt of writers",
        "crates/store/src/compaction/picker.rs",
        "    metas.filter(|meta| meta.sequence_override == 0)",
        "    metas.filter(|_| true)",
        "ingested_data_is_not_compaction_debt_of_writers",
    ),
    ingested(
        "tables of one ingest are in any order",
        "crates/store/src/version/levels.rs",
        "let key = if by_ingest > 0 { &*self.meta.smallest } else { &[] };",
        "let key: &[u8] = &[];",
        "overlapping_ingests_are_read_in_order",
    ),
    ingested(
        "an ingest never stalls",
        "crates/store/src/lifecycle/ingest.rs",
        "        self.queue.exclusive(|| self.wait_for_merges())?;\n",
        "",
        "ingest_stalls_where_a_write_would",
    ),
    ingested(
        "an ingest ignores compactions pending since the last write",
        "crates/store/src/write.rs",
        "        self.logs.with(|logs| logs.has_room_until = 0);\n        \
             self.make_room(0)",
        "        self.make_room(0)",
        "ingest_stalls_where_a_write_would",
    ),
    warm(
        "values of other tables are restored",
        "crates/store/src/jobs/warm_start.rs",
        "        if is_of_these {\n            self.restore_values(&mut list.keys);\n",
        "        self.restore_values(&mut list.keys);\n        if is_of_these {\n",
        "values_of_other_tables_are_not_restored",
    ),
    warm(
        "tables of other contents are the same",
        "crates/store/src/jobs/listing.rs",
        "properties.contents,",
        "0,",
        "values_of_a_diverged_copy_are_not_restored",
    ),
    warm(
        "tables of other range deletions are the same",
        "crates/store/src/jobs/listing.rs",
        "        key_hash(&ranges),\n",
        "        0 * key_hash(&ranges),\n",
        "entries_deleted_in_a_diverged_copy_are_not_restored",
    ),
    warm(
        "useless values stay in a list",
        "crates/store/src/jobs/warm_start.rs",
        "            note_failure(self.put_hot_list(&list));\n",
        "",
        "values_of_other_tables_are_not_restored",
    ),
    warm(
        "a list stays although warm start is off",
        "crates/store/src/jobs/warm_start.rs",
        "            note_failure(self.put_list(HOT, None));\n",
        "",
        "values_of_other_tables_are_not_restored",
    ),
    warm(
        "values are restored after the log was replayed",
        "crates/store/src/lifecycle/recovery.rs",
        "        let hot_list = self.take_hot_list();\n        \
             let made = Mutex::new(Vec::new());\n        \
             // Otherwise each open on a full disk would fill it further.\n        \
             let (mut edit, tables, number) =\n            \
             self.load_logs(&made).inspect_err(|_| self.trees.remove_tables(&made.lock()))?;\n",
        "        let made = Mutex::new(Vec::new());\n        \
             let (mut edit, tables, number) =\n            \
             self.load_logs(&made).inspect_err(|_| self.trees.remove_tables(&made.lock()))?;\n        \
             let hot_list = self.take_hot_list();\n",
        "restored_values_reflect_the_log",
    ),
    warm(
        "a list has values that are in no table",
        "crates/store/src/jobs/listing.rs",
        "sequence <= written.flushed || written.ingested.contains(&sequence);",
        "sequence <= 1 << 50;",
        "values_that_reached_no_table_are_not_listed",
    ),
    warm(
        "writes before an ingest count as flushed",
        "crates/store/src/jobs/listing.rs",
        "or_default().flushed = keyspace.flushed;",
        "or_default().flushed =\n                \
             keyspace.flushed.max(self.trees.get(id).map_or(0, |tree| tree.flushed()));",
        "values_that_reached_no_table_are_not_listed",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "a list has values that have expired",
            "crates/store/src/jobs/listing.rs",
            " && !has_expired()",
            " && (!has_expired() || self.now_ms > 0)",
            "jobs::listing::tests::a_list_vouches_for_what_is_in_a_table_and_has_not_expired",
        )
    },
    warm(
        "a list has only keys",
        "crates/store/src/jobs/listing.rs",
        "if tables.vouch_for(entry) {",
        "if tables.vouch_for(entry) && times > 200 {",
        "hottest_values_are_restored_without_a_read",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "long values with one access more are listed before short ones",
            "crates/store/src/jobs/listing.rs",
            "f32::from(times) / both_bytes as f32;",
            "f32::from(times);",
            "jobs::listing::tests::entries_with_most_saved_reads_per_byte_come_first",
        )
    },
    Mutation {
        target: "extremes",
        ..mutation(
            "range tombstones fill no memtable",
            "crates/store/src/memtable/mod.rs",
            "self.charge() as u64 >= bytes || self.tombstones.any.load(Ordering::Relaxed) && is_long()",
            "self.charge() as u64 >= bytes || bytes == 0 && is_long()",
            "nested_range_deletions_are_written_once",
        )
    },
    Mutation {
        target: "extremes",
        ..mutation(
            "a fragment keeps a tombstone too few for an old snapshot",
            "crates/store/src/format/range_tombstones.rs",
            "older.checked_sub(1)",
            "older.checked_sub(2)",
            "nested_range_deletions_are_written_once",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "a fragment keeps every tombstone that covers it",
            "crates/store/src/format/range_tombstones.rs",
            "older.checked_sub(1).map(|last| snapshots[last])",
            "let _ = older;\n            sequence.checked_sub(1)",
            "format::range_tombstones::tests::nested_ranges_take_linear_memory",
        )
    },
    warm(
        "a list is read regardless of its memory",
        "crates/store/src/jobs/warm_start.rs",
        "if bytes > LIST_EXCESS_MAX * self.list_bytes_max() {",
        "if bytes > 1000 * LIST_EXCESS_MAX * self.list_bytes_max() {",
        "oversized_hot_list_is_not_read",
    ),
    Mutation {
        target: "lib",
        ..cached(
            "a cache whose shards are all nearly full has room",
            "crates/cache/src/block/mod.rs",
            "2 * self.sum(|shard| usize::from(shard.has_room_for_one())) > self.shards.len()",
            "self.charged_bytes() + (64 << 10) < self.capacity()",
            "block::tests::cache_is_full_although_every_shard_has_some_free_bytes",
        )
    },
    warm(
        "keys are restored in any order",
        "crates/store/src/jobs/listing.rs",
        "(Reverse(hot.times), hot.keyspace)",
        "hot.keyspace",
        "hottest_entries_are_restored_first",
    ),
    warm(
        "KV's lent budget is lost",
        "crates/store/src/warm/borrowed_budget.rs",
        "self.lend(|_| 0.0);",
        "",
        "kv_lends_unused_budget_and_gets_it_back",
    ),
    warm(
        "warm start takes the lock that closing holds",
        "crates/store/src/jobs/warm_start.rs",
        "            if engine.jobs.is_closed() {\n                \
             return;\n            \
             }\n",
        "            let Ok(_gate) = engine.enter() else { return };\n",
        "store_can_be_closed_during_warm_start",
    ),
    cached(
        "KV wants bytes for values that it does not hold",
        "crates/cache/src/point/shard.rs",
        "let is_for_kv = self.kv.can_hold(&resolved.entry);",
        "let is_for_kv = true;",
        "point::shard::tests::ghost_hits_account_for_longer_values",
    ),
    cached(
        "KV wants as many bytes for long values as for short ones",
        "crates/cache/src/point/shard.rs",
        "        self.made_for = due;\n        Some(self.ghost())",
        "        (due > self.made_for).then(|| self.ghost()).and(None)",
        "point::shard::tests::ghost_hits_account_for_longer_values",
    ),
    cached(
        "KP wants bytes that it does not fill",
        "crates/cache/src/point/shard.rs",
        "                && !self.kp.can_grow()",
        "                && kp_ghost.charged_bytes() > 0",
        "point::shard::tests::kp_earns_ghost_hits_only_when_full",
    ),
    cached(
        "blocks of all extents are alike",
        "crates/cache/src/block/shard.rs",
        "InsertReason::Alone if is_equal => is_behind,",
        "InsertReason::Alone if is_equal => false,",
        "block::tests::equally_hot_blocks_stay_by_whole_extents",
    ),
    cached(
        "blocks read together are admitted like single ones",
        "crates/cache/src/block/shard.rs",
        "if blocks > 1 { Self::Together } else { Self::Alone }",
        "if blocks > 1 { Self::Alone } else { Self::Alone }",
        "block::tests::multi_block_read_has_its_own_insert_reason",
    ),
    Mutation {
        name: "the store does not report that it read several blocks at once",
        file: "crates/store/src/sst/blocks.rs",
        find: "let arrival = InsertReason::of_read(run.len());",
        replace: "let arrival = InsertReason::Alone;",
        package: "tidekv",
        target: "lib",
        test: "sst::blocks::tests::blocks_read_together_are_evicted_together",
    },
    Mutation {
        name: "scans are charged for merges with blocks after their seek",
        file: "crates/store/src/sst/table/fetch.rs",
        find: "self.is_after_seek && self.walked == 0 && mode == ReadMode::Storage",
        replace: "self.walked == 0 && mode == ReadMode::Storage",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::reads_without_seeks_trigger_no_compaction",
    },
    Mutation {
        name: "seeks that read a single block are not charged",
        file: "crates/store/src/sst/table/fetch.rs",
        find: "if is_seek { Purpose::Seek } else { Purpose::Any }",
        replace: "if is_seek && mode == ReadMode::Forward { Purpose::Seek } else { Purpose::Any }",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_seek_pays_where_it_reads_alone",
    },
    Mutation {
        name: "a run's seek bytes are lost when level 0 is merged with itself",
        file: "crates/store/src/compaction/picker.rs",
        find: "let staying = if self.output_level == self.level { &*self.inputs } else { &[] };",
        replace: "let staying: &[Arc<TableHandle>] = &[];",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::seek_bytes_of_a_run_survive_a_compaction_within_level_0",
    },
    Mutation {
        name: "seek-triggered merges spend the seek bytes of a run that remains",
        file: "crates/store/src/compaction/picker.rs",
        find: "if self.output_level == self.level { all - most } else { all }",
        replace: "if most > 0 { all } else { 0 }",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::seek_bytes_of_a_run_survive_a_compaction_within_level_0",
    },
    Mutation {
        name: "a failed seek-triggered merge is retried at no cost",
        file: "crates/store/src/jobs/compactor.rs",
        find: "is_paid(version).inspect(Compaction::spend_seek_bytes)",
        replace: "is_paid(version)",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_merge_that_fails_is_paid_for_again",
    },
    Mutation {
        name: "seek-triggered merges begin concurrently with others",
        file: "crates/store/src/jobs/compactor.rs",
        find: "if self.jobs.compactions_running() > 0 || trees.iter().any(is_needed) {",
        replace: "if trees.iter().any(is_needed) {",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::no_merge_for_seeks_begins_beside_another",
    },
    Mutation {
        name: "the seek bytes of a base-level table are lost in a merge from above",
        file: "crates/store/src/compaction/picker.rs",
        find: "for table in staying.iter().chain(&self.lower) {",
        replace: "for table in staying {",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::seek_bytes_of_a_table_survive_a_compaction_into_it",
    },
    Mutation {
        name: "a seek is charged for a cached block",
        file: "crates/store/src/sst/blocks.rs",
        find: "        let result = match landed.or_else(|| self.tier.get(TierUse::Use, address)) {",
        replace: "        if landed.is_some() {\n            self.note_purpose(address, purpose);\n        }\n        let result = match landed.or_else(|| self.tier.get(TierUse::Use, address)) {",
        package: "tidekv",
        target: "lib",
        test: "sst::blocks::tests::only_the_seek_that_reads_a_block_is_charged",
    },
    Mutation {
        name: "seeks trigger merges of level 0 only",
        file: "crates/store/src/compaction/picker.rs",
        find: "let paid = below.filter(Compaction::is_paid_by_seeks);",
        replace: "let paid = below.filter(Compaction::is_paid_by_seeks).take(0);",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_table_of_a_level_between_is_merged_once_it_is_paid_for",
    },
    Mutation {
        name: "runs are merged without enough seek bytes",
        file: "crates/store/src/compaction/picker.rs",
        find: "READ_AND_WRITTEN * self.cost_bytes()",
        replace: "self.cost_bytes() / 4",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_run_in_which_scans_have_read_as_much_as_merging_it_costs_is_merged",
    },
    Mutation {
        name: "checks for seek-triggered merges are as rare for small tables",
        file: "crates/store/src/lifecycle/recovery.rs",
        find: "SeekWork::of_tables(options.table_bytes)",
        replace: "SeekWork::of_tables(u64::MAX)",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_look_comes_the_sooner_the_smaller_tables_are",
    },
    cached(
        "the list of KP's chunks is not charged",
        "crates/cache/src/point/kp.rs",
        "CHUNK_BUCKETS * BUCKET_BYTES + LIST_SLACK * size_of::<usize>();",
        "CHUNK_BUCKETS * BUCKET_BYTES;",
        "point::kp::tests::small_capacity_holds_pointers",
    ),
    cached(
        "blocks read together leave holes",
        "crates/cache/src/block/shard.rs",
        "InsertReason::Together if is_behind => rate < rival_rate * BEHIND_TOGETHER,",
        "InsertReason::Together if is_equal => is_behind,",
        "block::tests::blocks_read_together_do_not_fragment_cached_ranges",
    ),
    cached(
        "pointers without savings are kept",
        "crates/cache/src/point/shard.rs",
        "let spares = reads > data_reads ||",
        "let spares = reads >= data_reads ||",
        "point::shard::tests::pointer_is_cached_only_if_it_saves_a_read",
    ),
    cached(
        "a search misses the high value of a few pointers",
        "crates/cache/src/partition/controller.rs",
        "if !takes_first =>",
        "=>",
        "partition::controller::tests::search_detects_that_a_few_pointers_are_valuable",
    ),
    cached(
        "a search uses the demand of all pointers",
        "crates/cache/src/partition/controller.rs",
        "c == Component::Kp && split[c as usize] < self.window_bytes;",
        "c == Component::Kp;",
        "partition::controller::tests::search_uses_the_window_average_once_kp_has_a_window",
    ),
    cached(
        "pointers get their bytes by the page",
        "crates/cache/src/point/kp.rs",
        "const CHUNK_BUCKETS: usize = 8;",
        "const CHUNK_BUCKETS: usize = 32;",
        "point::kp::tests::small_capacity_holds_pointers",
    ),
    cached(
        "the near part of every ghost has the same size",
        "crates/cache/src/partition/ghost.rs",
        "self.ways.div_ceil(self.near_part)",
        "self.ways.div_ceil(NEAR_PART)",
        "partition::ghost::tests::near_part_is_configurable",
    ),
    stale(
        "a version kept for a snapshot counts as the newest",
        "crates/store/src/compaction/cache_invalidation.rs",
        "is_value(t) && t.sequence() > covered",
        "is_value(t) && t.sequence() > covered.min(0)",
        "version_kept_for_a_snapshot_is_not_cached_as_the_newest",
    ),
    cached(
        "entries of cached blocks evict entries that save reads",
        "crates/cache/src/point/kv.rs",
        "self.charged_bytes() + self.chunk_bytes + table <= self.capacity",
        "self.charged_bytes() + table <= self.capacity",
        "point::shard::tests::memory_hit_is_cached_while_there_is_room",
    ),
    stale(
        "entries of cached blocks have no value",
        "crates/store/src/read/point_read.rs",
        "} else if admission.is_shown_unread {",
        "} else if admission.is_shown_unread && false {",
        "frequent_keys_are_admitted_to_kv_although_their_blocks_are_cached",
    ),
    stale(
        "a key whose filter was skipped is absent",
        "crates/store/src/sst/table/probe.rs",
        "FilterLookup::Skip => self.go_past_filter(partition),",
        "FilterLookup::Skip => Stage::Done,",
        "filters_without_savings_are_skipped",
    ),
    cached(
        "boundaries that have settled sway as they did before",
        "crates/cache/src/partition/controller.rs",
        "            Self::Follow { .. } => apart * apart,",
        "            Self::Follow { .. } => apart,",
        "partition::controller::tests::following_takes_large_steps_only_for_large_credit_differences",
    ),
    cached(
        "an admission without eviction counts as a price of zero",
        "crates/cache/src/point/kv.rs",
        "            let Some(price) = victims.last().map(|&last| live[last].worth) else {\n                \
         break (chunks, live, victims);\n            };\n",
        "            let price = victims.last().map_or(0.0, |&last| live[last].worth);\n",
        "point::kv::tests::valuable_entries_inserted_together_stay",
    ),
    cached(
        "every chunk of values loses a quarter in its turn",
        "crates/cache/src/point/kv.rs",
        "price <= self.price_average * PRICE_RATIO_MAX",
        "price <= f32::MAX",
        "point::kv::tests::valuable_entries_inserted_together_stay",
    ),
    cached(
        "a value is overwritten under its old number",
        "crates/cache/src/point/kv.rs",
        "            write_value(chunk, at, entry);\n        }\n        fits\n",
        "            write_value(chunk, at, &KvEntry { stamp: 0, ..*entry });\n        \
         }\n        fits\n",
        "point::kv::tests::equally_long_value_is_overwritten_in_place",
    ),
    cached(
        "lookups without savings keep a filter",
        "crates/cache/src/block/shard.rs",
        "look(&self.blocks.peek(hash, &id)?.value)",
        "look(&self.blocks.get(hash, &id)?.value)",
        "block::tests::lookups_that_save_no_read_do_not_keep_a_filter_cached",
    ),
    cached(
        "counters end where they are exact",
        "crates/cache/src/partition/sketch.rs",
        "[usize::from(least)].saturating_add(times);",
        "[usize::from(least)].saturating_add(times).min(W::EXACT.into());",
        "partition::sketch::tests::wide_counters_are_accurate_to_an_eighth",
    ),
    cached(
        "a recently halved line has counted for as long as others",
        "crates/cache/src/partition/sketch.rs",
        "            _ => f32::from(count) / self.span(hash),",
        "            _ => f32::from(count),",
        "partition::sketch::tests::rates_of_all_lines_cover_the_same_time",
    ),
    cached(
        "entries of cached blocks are only admitted into free space",
        "crates/cache/src/point/shard.rs",
        "if self.kv_price > 0.0 && worth >= self.kv_price {",
        "if false {",
        "point::shard::tests::memory_hit_is_cached_if_hotter_than_the_victim",
    ),
    cached(
        "entries of cached blocks are admitted regardless of their value",
        "crates/cache/src/point/shard.rs",
        "if self.kv_price > 0.0 && worth >= self.kv_price {",
        "if self.kv_price > 0.0 {",
        "point::shard::tests::memory_hit_is_cached_if_hotter_than_the_victim",
    ),
    cached(
        "a read is wanted of which only one block was known",
        "crates/cache/src/block/mod.rs",
        "hit.min(others)",
        "if hit.window > 0.0 { hit } else { others }",
        "block::tests::read_counts_as_ghost_hit_once_and_only_if_all_its_blocks_are_recorded",
    ),
    cached(
        "a read is wanted once for each of its blocks",
        "crates/cache/src/block/mod.rs",
        "saved = Some((shard, hit.min(others)));",
        "saved = Some((shard, { let mut all = others; all += hit; all }));",
        "block::tests::read_counts_as_ghost_hit_once_and_only_if_all_its_blocks_are_recorded",
    ),
    cached(
        "a prefilled block is admitted without its accesses",
        "crates/cache/src/block/mod.rs",
        "        if let Some(sketch) = shard.admission.sketch() {\n            \
             sketch.raise(spread(hash as u32), times);\n",
        "        if let Some(sketch) = shard.admission.sketch() {\n            \
             sketch.raise(spread(hash as u32), times.min(1));\n",
        "block::tests::prefilled_block_is_admitted_by_the_frequency_of_its_content",
    ),
    cached(
        "all candidates are compared with the same block",
        "crates/cache/src/block/shard.rs",
        "        self.blocks.renew_oldest();\n",
        "",
        "block::tests::new_blocks_compete_with_one_cached_block_after_another",
    ),
    cached(
        "frequently accessed entries keep their admission age",
        "crates/cache/src/eviction/lists.rs",
        "if age > 1 {",
        "if age > 0x7FFF {",
        "eviction::lru::tests::frequent_lazy_access_keeps_an_entry",
    ),
    cached(
        "the newest blocks move on every access",
        "crates/cache/src/eviction/lists.rs",
        "if age > 1 {",
        "if age < 2 || age > 1 {",
        "eviction::lru::tests::lazy_access_moves_only_entries_that_are_not_among_the_newest",
    ),
    cached(
        "of old blocks only the oldest moves on an access",
        "crates/cache/src/eviction/lists.rs",
        "if age > 1 {",
        "if age > 12 {",
        "eviction::lru::tests::lazy_access_moves_only_entries_that_are_not_among_the_newest",
    ),
    cached(
        "a sampled ghost is not scaled to all keys",
        "crates/cache/src/partition/ghost.rs",
        "(f64::from(self.sampling), self.keeps_last)",
        "(1.0, self.keeps_last)",
        "point::shard::tests::sampled_ghost_hits_match_those_of_all_keys",
    ),
    cached(
        "a sampled ghost is not scaled where no read occurred",
        "crates/cache/src/point/shard.rs",
        "answered.window as u32",
        "u32::from(answered.window > 0.0)",
        "point::shard::tests::sampled_ghost_hits_match_those_of_all_keys",
    ),
    cached(
        "all candidates of a ghost are compared with the same one",
        "crates/cache/src/partition/ghost.rs",
        "                bucket.rotate_right(1);\n",
        "",
        "partition::ghost::tests::hot_fingerprints_survive_a_flood_of_cold_ones",
    ),
    cached(
        "a read of one block is not wanted",
        "crates/cache/src/block/mod.rs",
        "None => shard.note_read(hash),",
        "None => {}",
        "block::tests::single_block_read_rechecks_cache_and_records_the_read",
    ),
    cached(
        "a read is near of which one block was",
        "crates/cache/src/partition/ghost.rs",
        "near: self.near.min(other.near)",
        "near: self.near.max(other.near)",
        "block::tests::read_is_near_only_if_all_its_blocks_are",
    ),
    cached(
        "the current key counts as more frequent than others",
        "crates/cache/src/partition/ghost.rs",
        "sketch.rate_before(spread(fingerprint))",
        "sketch.rate(spread(fingerprint))",
        "partition::ghost::tests::equal_frequencies_give_each_part_of_the_window_equal_hits",
    ),
    cached(
        "the most recently noted key is near",
        "crates/cache/src/partition/ghost.rs",
        "rate > times || rate == times && at < place",
        "at < place || rate > f32::MAX - times * 0.0",
        "partition::ghost::tests::near_part_holds_the_most_frequent_fingerprints",
    ),
    cached(
        "a component with free space gets more",
        "crates/cache/src/caches.rs",
        "step.min(room_max.saturating_sub(room))",
        "step.min(room.max(step))",
        "caches::tests::component_with_free_room_grows_little",
    ),
    cached(
        "each component may take as much as any could fill",
        "crates/cache/src/partition/controller.rs",
        "let bytes_max = bytes_max[winner];",
        "let bytes_max = bytes_max.into_iter().max().unwrap_or(0);",
        "partition::controller::tests::component_with_free_room_gets_no_bytes_and_the_search_waits",
    ),
    cached(
        "boundaries are searched for by the first part of the window",
        "crates/cache/src/partition/controller.rs",
        "Self::Search { .. } if !takes_first => credit.window,",
        "Self::Search { .. } if !takes_first => credit.window.max(credit.near),",
        "partition::controller::tests::controller_finds_the_point_where_more_bytes_stop_helping",
    ),
    cached(
        "boundaries stay where the average over the window has them",
        "crates/cache/src/partition/controller.rs",
        "credit.window.max(credit.near)",
        "credit.window",
        "partition::controller::tests::controller_finds_the_point_where_more_bytes_stop_helping",
    ),
    cached(
        "boundaries are searched for once",
        "crates/cache/src/partition/controller.rs",
        "if is_far_from(settled, STRAYED)",
        "if false && is_far_from(settled, STRAYED)",
        "partition::controller::tests::boundaries_that_strayed_start_a_new_search",
    ),
    cached(
        "boundaries that move on have settled",
        "crates/cache/src/partition/controller.rs",
        "Self::Settle { from, .. } if is_far_from(from, STILL) => settle,",
        "",
        "partition::controller::tests::moving_boundaries_have_not_settled_and_do_not_search_again",
    ),
    cached(
        "a search takes as many steps however little they move",
        "crates/cache/src/partition/controller.rs",
        "(bytes_max as f64 / step_max).min(1.0)",
        "1.0",
        "partition::controller::tests::search_counts_steps_by_their_possible_size",
    ),
    cached(
        "a search ends while nothing is wanted",
        "crates/cache/src/partition/controller.rs",
        "if can_judge {",
        "if true || can_judge {",
        "partition::controller::tests::search_counts_steps_by_their_possible_size",
    ),
    cached(
        "boundaries that were set explicitly are searched for",
        "crates/cache/src/partition/controller.rs",
        "self.phase = Phase::Search { steps: 0.0 }.next(split, 0.0);",
        "let _ = split;",
        "partition::controller::tests::restored_boundaries_follow_from_their_position",
    ),
    cached(
        "a restart searches for boundaries that it has set",
        "crates/cache/src/caches.rs",
        "control.controller.settle_at(split);",
        "let _ = split;",
        "caches::tests::restored_boundaries_are_not_searched_again",
    ),
    cached(
        "a handful of near hits moves boundaries",
        "crates/cache/src/partition/controller.rs",
        "_ if credit.window < CREDIT_MIN =>",
        "_ if false =>",
        "partition::controller::tests::near_credits_are_ignored_when_there_are_few",
    ),
    cached(
        "ghosts of large caches know all keys",
        "crates/cache/src/caches.rs",
        "if is_sampled { POINT_SAMPLING } else { 1 }",
        "if is_sampled { 1 } else { 1 }",
        "caches::tests::ghosts_of_a_large_cache_record_a_sample_of_keys",
    ),
    cached(
        "where targets stay, a component without bytes gets some",
        "crates/cache/src/ac_key/shard.rs",
        "!self.boundaries.are_fixed() ||",
        "true ||",
        "ac_key::shard::tests::component_without_bytes_stays_empty_under_fixed_targets",
    ),
    cached(
        "boundaries that are to stay move",
        "crates/cache/src/ac_key/earc.rs",
        "Self::with(None, split)",
        "Self::with(Some(100_000.0), split)",
        "caches::tests::fixed_ac_key_boundaries_stay_and_empty_components_stay_empty",
    ),
    Mutation {
        target: "charges",
        ..cached(
            "lists keep the memory of entries that have left",
            "crates/cache/src/eviction/lists.rs",
            "if self.nodes.len() <= self.len() + self.len() / 4 + FREE_NODES_MAX {",
            "if self.len() <= self.nodes.len() {",
            "charged_bytes_match_allocated_bytes",
        )
    },
    filter_repair(
        "a filter is repaired with the bits of another bucket",
        "crates/store/src/sst/table/repair.rs",
        "self.tails_at(&blocks.read_to_repair(&mirror)?, at)?",
        "self.tails_at(&blocks.read_to_repair(&mirror)?, at * 0)?",
        "repeated_absent_keys_stop_costing_reads",
    ),
    filter_repair(
        "a version that the reader may not see counts as none",
        "crates/store/src/sst/table/probe.rs",
        "(self.key.sequence >= properties.largest_sequence).then_some",
        "(self.key.sequence < u64::MAX).then_some",
        "invisible_versions_are_not_false_positives",
    ),
    filter_repair(
        "repairs of filters have no rate",
        "crates/store/src/sst/filter_repair.rs",
        "now_ns >= self.not_before_ns.load(Ordering::Relaxed)",
        "now_ns < u64::MAX",
        "repairs_stay_within_their_rate",
    ),
    filter_repair(
        "filter repairs are applied to any table of the same number",
        "crates/store/src/jobs/filter_repairer.rs",
        "(properties.id, properties.file_bytes, properties.contents)",
        "(properties.id, 1, properties.contents.min(1))",
        "repair_list_of_another_store_or_other_tables_is_ignored",
    ),
    filter_repair(
        "filter repairs are lost at a restart",
        "crates/store/src/lifecycle/recovery.rs",
        "        self.restore_filter_repairs();\n",
        "",
        "filter_repairs_survive_a_restart",
    ),
    race(
        "a first false positive is repaired",
        "crates/store/src/sst/filter_repair.rs",
        "if !found.is_repairable || !self.seen_before(&found) {",
        "if !found.is_repairable {",
        "sst::filter_repair::tests::second_false_positive_is_repaired",
    ),
    race(
        "the bits of a repair do not match its seed",
        "crates/store/src/sst/filter/cuckoo.rs",
        "bits: tails.map(|tail| seeded(tail, seed))",
        "bits: tails.map(|tail| seeded(tail, seed / 2))",
        "sst::filter::cuckoo::tests::repairs_persist_and_never_hide_a_key",
    ),
    race(
        "a torn list of filter repairs is accepted",
        "crates/store/src/warm/list_file.rs",
        "found == magic && sum == checksum(magic, reader.rest())",
        "found == magic && (sum == checksum(magic, reader.rest()) || sum > 0)",
        "warm::repair_list::tests::torn_or_damaged_repair_list_is_ignored",
    ),
    Mutation {
        target: "deadlines",
        ..mutation(
            "the time at which a store is opened may go with a power cut",
            "crates/store/src/engine/store_clock.rs",
            "|| age_ms >= SYNCED_MS_MAX",
            "|| age_ms == u64::MAX",
            "what_has_expired_stays_so_after_a_power_cut_that_sets_the_clock_back",
        )
    },
    Mutation {
        target: "deadlines",
        ..mutation(
            "a record of the time that cannot be synced may be gone after a kill",
            "crates/store/src/engine/mod.rs",
            "if synced.is_err() {",
            "if false {",
            "what_has_expired_stays_so_after_a_kill_if_the_time_cannot_be_synced",
        )
    },
    Mutation {
        package: "tidekv-tiered",
        target: "keeps",
        ..mutation(
            "a detachment that only the state file records is not synced",
            "crates/tiered/src/fleet/flash.rs",
            "write(state).and_then(|()| state.sync()).is_ok()",
            "write(state).is_ok()",
            "device_that_was_out_is_not_trusted_after_a_reboot",
        )
    },
    Mutation {
        package: "tidekv-tiered",
        target: "keeps",
        ..mutation(
            "a state file of an earlier boot does not count against devices",
            "crates/tiered/src/fleet/array.rs",
            "from_state_file.as_ref().map(Recorded::membership)",
            "from_state_file.as_ref().filter(|it| matches!(it, Recorded::InThisBoot(_))).map(Recorded::membership)",
            "device_that_was_out_is_not_trusted_after_a_reboot",
        )
    },
    Mutation {
        package: "tidekv-tiered",
        target: "sizes",
        ..mutation(
            "a slot that goes because fewer may be in use is not written as free",
            "crates/tiered/src/device/limit.rs",
            "            self.free_slot(id, &evicted, now_s)?;\n",
            "            self.live_segments.set_free(id);\n            self.count_evicted(&evicted, now_s);\n",
            "kill_while_flash_shrinks_keeps_only_last_stored_objects",
        )
    },
    Mutation {
        package: "tidekv-tiered",
        target: "sizes",
        ..mutation(
            "reattached flash has no limit of its use",
            "crates/tiered/src/fleet/flash.rs",
            "        device.set_slots_max(",
            "        let _unused = (",
            "returned_device_has_the_current_limit",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "requests that were lost on their way to a profile are hits",
            "crates/plan/src/curves/shards.rs",
            "requests.saturating_sub(lost) as f64",
            "(requests + lost * 0) as f64",
            "curves::watch::tests::lost_requests_do_not_count_as_hits",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "a tenant with a fixed share is included in the plan",
            "crates/plan/src/planner/elastic.rs",
            "let fixed = |number: &usize| seen[*number].is_fixed;",
            "let fixed = |number: &usize| seen[*number].is_fixed && seen.len() > 9;",
            "planner::elastic::tests::fixed_tenant_keeps_its_sizes",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "tenants have more together than there is",
            "crates/plan/src/planner/elastic.rs",
            "            if self.is_within(&plan, &all) {",
            "            if plan.cost >= 0.0 {",
            "planner::elastic::tests::all_tenants_together_stay_within_the_bounds",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "a guess reduces a tenant's share",
            "crates/plan/src/planner/elastic.rs",
            "if seen[number].is_guessed { sizes[number] }",
            "if seen[number].is_guessed && seen.len() > 9 { sizes[number] }",
            "planner::elastic::tests::guessed_miss_cost_never_shrinks_a_tenant",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "another tenant cannot have its latency target",
            "crates/plan/src/planner/elastic.rs",
            "Infeasible::Sla { tenant: change[tenant], least_us }",
            "Infeasible::Sla { tenant: change[tenant].min(tenant), least_us }",
            "planner::elastic::tests::infeasible_tenant_is_reported_by_its_index_among_all",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "the miss cost is forgotten in a window without misses",
            "crates/observe/src/curves.rs",
            "self.backend.end_window();",
            "self.backend = BackendTimes::default();",
            "curves::tests::each_tenant_has_a_curve_of_its_own",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "an object created for its filler ends a miss",
            "crates/observe/src/curves/backend.rs",
            "        us >= SOONEST_US\n",
            "        us >= SOONEST_US || us < SOONEST_US\n",
            "curves::tests::the_time_of_a_miss_ends_with_the_clients_store",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "the end of a window forgets pending misses",
            "crates/observe/src/curves.rs",
            "*missed_us + LONGEST_US > latest_us",
            "*missed_us + LONGEST_US * 2 < latest_us",
            "curves::tests::the_time_of_a_miss_ends_with_the_clients_store",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "a hit of an earlier object is a miss of every simulated cache",
            "crates/observe/src/curves.rs",
            "AccessKind::Hit(bytes, ttl_ms) if !is_known => {",
            "AccessKind::Hit(bytes, ttl_ms) if bytes == 0 && !is_known => {",
            "curves::tests::objects_stored_before_profiling_are_learned_from_hits",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "an object that reappears after a gap lives forever",
            "crates/observe/src/curves.rs",
            "self.unknown += 1.0 / self.watch.rate();\n                (Action::Set(bytes), ttl_ms)",
            "self.unknown += 1.0 / self.watch.rate();\n                (Action::Set(bytes), ttl_ms.filter(|_| false))",
            "curves::tests::objects_expire_in_bursts_too",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "unread objects count as hits",
            "crates/observe/src/curves.rs",
            "lost: unseen + self.unknown.round() as u64",
            "lost: self.unknown.round() as u64",
            "curves::tests::in_bursts_a_curve_is_the_same",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "a caller that finds the queue full continues",
            "crates/observe/src/curves.rs",
            "of_tenant.gate.shut();",
            "_ = of_tenant.gate.is_closed();",
            "curves::tests::accesses_dropped_by_a_full_queue_are_counted",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "a cache that is made much smaller is made as small at once",
            "crates/plan/src/planner/elastic.rs",
            "const EXTRA_FLASH: (f64, f64) = (0.3, 1.0);",
            "const EXTRA_FLASH: (f64, f64) = (0.3, 0.3);",
            "planner::elastic::tests::large_shrink_meets_the_latency_at_every_step",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "lib",
        ..mutation(
            "a command that is run again has read twice",
            "crates/resp/src/data/execution.rs",
            ".filter(|_| succeeded)",
            ".filter(|_| succeeded || bytes == 0)",
            "data::execution::tests::a_repeated_command_records_one_read",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "transactions",
        ..mutation(
            "a flush changes a watched key that is absent",
            "crates/resp/src/data/watched_key.rs",
            "return Ok(watch.ignoring_range_deletions());",
            "return Ok(watch);",
            "an_expired_key_counts_as_changed_and_a_flush_changes_no_absent_key",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "transactions",
        ..mutation(
            "a watched key does not change when it expires",
            "crates/resp/src/data/watched_key.rs",
            "is_some_and(|deadline| deadline <= state.now_ms())",
            "is_some_and(|deadline| deadline == 0)",
            "an_expired_key_counts_as_changed_and_a_flush_changes_no_absent_key",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "databases",
        ..mutation(
            "a watched key does not change when its database is swapped",
            "crates/resp/src/data/watched_key.rs",
            "if keyspaces.swaps(self.database) == self.swaps {",
            "if keyspaces.swaps(self.database) >= self.swaps {",
            "a_watch_is_of_one_database",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "databases",
        ..mutation(
            "a swap of databases is not stored",
            "crates/resp/src/data/execution.rs",
            "        if self.is_map_changed {\n            let (keyspace",
            "        if self.is_map_changed && self.batch.len() > 1 {\n            let (keyspace",
            "moved_and_swapped_data_survive_a_restart",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "databases",
        ..mutation(
            "a flush of one database removes the fields of the hashes of others",
            "crates/resp/src/data/head.rs",
            "if may_have_own || execution.state.keyspaces.has_heads_beside(execution.slot())? {",
            "if false {",
            "a_flush_of_one_database_leaves_the_hashes_of_others",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "a random entry may be an overwritten version",
            "crates/store/src/api/sampling.rs",
            "if !cursor.next()? || cursor.entry_sequence() != sequence {",
            "if !cursor.next()? || cursor.entry_sequence() < sequence {",
            "api::sampling::tests::keys_are_drawn_equally_often_from_memtables_and_tables",
        )
    },
    tiered(
        "an overwritten object is not invalidated on flash",
        "crates/tiered/src/device/flash_device.rs",
        "        self.log_invalidation(name, sequence)?;\n        if let Some(state) = small.as_mut().filter(|_| is_old) {",
        "        if let Some(state) = small.as_mut().filter(|_| is_old) {",
        "lookup_returns_only_the_last_stored_object",
    ),
    tiered(
        "a touch leaves the copy on flash as it was",
        "crates/tiered/src/tenant/pool.rs",
        "        self.counters.stores.add(1);\n        self.forget_copies(shard, hash, key);",
        "        self.counters.stores.add(1);\n        if cached.found.accessed_s == now_s {\n            self.forget_copies(shard, hash, key);\n        }",
        "lookup_returns_only_the_last_stored_object",
    ),
    tiered(
        "a record read from flash is any key's",
        "crates/tiered/src/segment/record.rs",
        "    if found_key != key {",
        "    if found_key.len() > 1 << 16 {",
        "lookup_returns_only_the_last_stored_object_when_fingerprints_collide",
    ),
    tiered(
        "an object is served in the second in which it expires",
        "crates/tiered/src/object.rs",
        "self.0.is_some_and(|second| second.get() <= now_s)",
        "self.0.is_some_and(|second| second.get() < now_s)",
        "lookup_returns_only_the_last_stored_object",
    ),
    tiered(
        "DRAM serves expired objects",
        "crates/tiered/src/tenant/pool.rs",
        "if shard.peek(hash, key)?.found.object.deadline.has_passed(now_s) {",
        "if now_s == 0 && shard.peek(hash, key)?.found.object.deadline.has_passed(now_s) {",
        "lookup_returns_only_the_last_stored_object",
    ),
    tiered(
        "segments from before everything was cleared are there after a kill",
        "crates/tiered/src/device/recovery.rs",
        "Some(entry) if entry.is_whole && entry.order >= superblock.first_segment => entry,",
        "Some(entry) if entry.is_whole => entry,",
        "lookup_returns_only_the_last_stored_object",
    ),
    tiered(
        "a clearing of flash is not written down",
        "crates/tiered/src/device/flash_device.rs",
        "            superblock.first_segment = first_segment;\n",
        "",
        "lookup_returns_only_the_last_stored_object",
    ),
    tiered(
        "a hot entry stays when its record goes",
        "crates/tiered/src/device/flash_device.rs",
        "        self.hot.remove(name);\n    }\n",
        "    }\n",
        "lookup_returns_only_the_last_stored_object",
    ),
    tiered(
        "a flash read is kept despite later changes of its key",
        "crates/tiered/src/cache.rs",
        "pending.outcome.take().filter(|_| is_valid)",
        "pending.outcome.take().filter(|_| is_valid || hash != 0)",
        "lookup_returns_only_the_last_stored_object",
    ),
    Mutation {
        target: "tenants",
        ..tiered(
            "a key is any tenant's whose prefix it begins with",
            "crates/tiered/src/tenant/tenants.rs",
            "prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));",
            "prefixes.sort_by_key(|(prefix, _)| prefix.len());",
            "tenant_evicts_only_its_own_objects",
        )
    },
    Mutation {
        target: "keeps",
        ..tiered(
            "flash is trusted after a reboot of the machine",
            "crates/tiered/src/fleet/array.rs",
            "            && (superblock.is_closed || superblock.boot == boot)\n",
            "",
            "flash_is_empty_after_a_power_cut",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "older metadata is trusted with newer objects",
            "crates/tiered/src/segment/mark.rs",
            "self.device == superblock.device && self.session <= superblock.session",
            "self.device == superblock.device",
            "cache::tests::mismatched_metadata_restores_no_old_records",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a device that cannot be read says still that it was closed in order",
            "crates/tiered/src/device/recovery.rs",
            "        files.claim(recovered)?;\n",
            "",
            "cache::tests::device_left_out_at_a_start_is_not_trusted_at_the_next",
        )
    },
    Mutation {
        target: "keeps",
        ..tiered(
            "it is never written down from where a recovery begins",
            "crates/tiered/src/device/upkeep.rs",
            "            if cursor.is_multiple_of(part) {",
            "            if cursor.is_multiple_of(usize::MAX) && part > 0 {",
            "recovery_reads_a_bounded_number_of_summaries",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a checkpoint cuts what a page still has off the log",
            "crates/tiered/src/device/flash_device.rs",
            "Entry::record(name.fingerprint, location), first);",
            "Entry::record(name.fingerprint, location), sequence);",
            "cache::tests::log_keeps_invalidations_of_records_still_in_a_page",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "that a device has left is not written down for good",
            "crates/tiered/src/fleet/flash.rs",
            "        match self.sync_membership() {",
            "        match Ok(()) {",
            "cache::tests::device_left_out_at_a_start_is_not_trusted_at_the_next",
        )
    },
    Mutation {
        target: "tenants",
        ..tiered(
            "flash of other tenants is believed",
            "crates/tiered/src/cache.rs",
            "first.tenants == tenants && openings.all",
            "first.tenants < u64::MAX && openings.all",
            "returning_tenant_finds_none_of_its_former_objects",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "the loss of the last invalidation is not noticed",
            "crates/tiered/src/segment/invalidations.rs",
            "(is_whole && has_one_end && !self.is_damaged)",
            "(is_whole && !self.is_damaged)",
            "segment::invalidations::tests::missing_or_damaged_invalidation_is_detected",
        )
    },
    tiered(
        "a recovery applies operations in the order of segments",
        "crates/tiered/src/index/replay.rs",
        "segments.next_if(|segment| next.is_none_or(|next| segment.order < next))",
        "segments.next_if(|segment| next.is_none_or(|next| segment.order > next))",
        "lookup_returns_only_the_last_stored_object",
    ),
    tiered(
        "a detached device is not reported",
        "crates/tiered/src/fleet/flash.rs",
        "            membership.detach(number);\n            to_detach.extend(self.write_membership(&membership));\n",
        "            membership.detach(number);\n",
        "lookup_returns_only_the_last_stored_object",
    ),
    Mutation {
        target: "keeps",
        ..tiered(
            "a device is trusted without confirmation",
            "crates/tiered/src/fleet/array.rs",
            "let is_confirmed = has_state || found.is_confirmed_by(present);",
            "let is_confirmed = has_state || found.is_confirmed_by(present) || !candidates.is_empty();",
            "detached_device_is_not_trusted_without_the_others",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a recovery ignores tombstones of small objects",
            "crates/tiered/src/index/small_replay.rs",
            "        for tag in summary.tombstones {\n            index.remove(tag, |_| true);",
            "        for tag in summary.tombstones {\n            index.remove(tag, |_| false);",
            "index::small_replay::tests::tombstone_removes_objects_of_older_segments_only",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "a recovery ignores tombstones of small objects in files",
            "crates/tiered/src/index/small_replay.rs",
            "        for tag in summary.tombstones {\n            index.remove(tag, |_| true);",
            "        for tag in summary.tombstones {\n            index.remove(tag, |_| false);",
            "removed_small_object_does_not_reappear",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "a recovery ignores the log of small objects",
            "crates/tiered/src/index/small_replay.rs",
            "            if index.remove(name.tag(), |_| true) > 0 {",
            "            if index.remove(name.tag(), |_| false) > 0 {",
            "removed_small_object_does_not_reappear",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "the log is cut before small objects have its invalidations",
            "crates/tiered/src/device/upkeep.rs",
            "let oldest = oldest.chain(oldest_small).min();",
            "let oldest = oldest.chain(oldest_small.filter(|_| false)).min();",
            "cache::tests::log_keeps_invalidations_of_small_objects_until_they_are_tombstones",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "a small object stays in the segment that is being filled",
            "crates/tiered/src/device/small_state.rs",
            "            while let Some(choice) = segment.remove(hash, key) {",
            "            while let Some(choice) = segment.remove(hash, &key[..0]) {",
            "small_object_removed_from_an_open_segment_is_gone",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "an invalidation of a small object is not logged",
            "crates/tiered/src/device/flash_device.rs",
            "        self.log_invalidation(name, sequence)?;\n        if let Some(state)",
            "        if is_record {\n            self.log_invalidation(name, sequence)?;\n        }\n        if let Some(state)",
            "removed_small_object_does_not_reappear",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "a removed small object leaves no tombstone",
            "crates/tiered/src/device/small_state.rs",
            "        state.tombstones.push_back(Tombstone { tag, sequence });",
            "        let _ = Tombstone { tag, sequence };",
            "removed_small_object_does_not_reappear_after_a_clean_restart",
        )
    },
    tiered(
        "a removed small object stays in the index",
        "crates/tiered/src/device/small_state.rs",
        "            .remove(tag, |place| Some(place.number) != open && place.number != carried_number);",
        "            .remove(tag, |place| Some(place.number) == open && place.number != carried_number);",
        "lookup_returns_only_the_last_stored_object",
    ),
    Mutation {
        target: "small_objects",
        ..tiered(
            "tombstones of small objects are lost when a segment is not written",
            "crates/tiered/src/device/small_objects.rs",
            "                tombstones.iter().rev().for_each(|it| state.tombstones.push_front(*it));",
            "                _ = tombstones;",
            "removed_small_object_does_not_reappear_after_a_failed_write",
        )
    },
    tiered(
        "the checksum of a bucket of small objects is not compared",
        "crates/tiered/src/segment/bucket.rs",
        "        && u64::from_le_bytes(*checksum) == xxh3_64_with_seed(rest, device)\n",
        "        && u64::from_le_bytes(*checksum) != xxh3_64_with_seed(rest, !device)\n",
        "lookup_returns_only_the_last_stored_object",
    ),
    Mutation {
        target: "lib",
        ..tiered(
            "a bucket of small objects of an earlier segment is accepted",
            "crates/tiered/src/segment/bucket.rs",
            "        && rest[4..8] == segment.generation.to_le_bytes()\n",
            "        && rest[4..6] == segment.generation.to_le_bytes()[..2]\n",
            "segment::bucket::tests::only_the_sealed_bucket_itself_is_intact",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "the deadline of a small object is not compared",
            "crates/tiered/src/device/lookup.rs",
            "        if found.object.deadline.has_passed(now_s) {\n            self.counters.expired.add(1);\n            self.counters",
            "        if found.object.deadline.has_passed(now_s / 2) {\n            self.counters.expired.add(1);\n            self.counters",
            "small_objects_expire_and_are_cleared",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a missing segment of small objects leaves older ones",
            "crates/tiered/src/index/small_replay.rs",
            "before.is_none_or(|before| before == summary.previous)",
            "before.is_none_or(|before| before == summary.previous || before > 0)",
            "index::small_replay::tests::missing_segment_takes_all_older_ones_with_it",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "the newest segment of small objects may be missing",
            "crates/tiered/src/index/small_replay.rs",
            "let is_older = segment.order < newest && !has_newest;",
            "let is_older = segment.order > newest && !has_newest && newest > 0 && false;",
            "cache::tests::misread_segment_entry_does_not_restore_removed_small_objects",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "an invalidation that small objects have as a tombstone counts again",
            "crates/tiered/src/device/recovery.rs",
            "log.iter().filter(|invalidation| invalidation.sequence > from);",
            "log.iter().filter(|invalidation| invalidation.sequence > from / 1_000_000);",
            "cache::tests::logged_invalidation_of_a_record_removes_no_small_object_later",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "a full summary of small objects stays as small",
            "crates/tiered/src/device/small_objects.rs",
            "            state.tags *= 2;",
            "            state.tags *= 1;",
            "segments_fill_when_small_objects_become_smaller",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "the index of small objects has no bound",
            "crates/tiered/src/device/small_state.rs",
            "            || self.index.memory_bytes().saturating_sub(dead_bytes) > self.index_bytes_max",
            "            || dead_bytes > self.index_bytes_max",
            "index_of_small_objects_keeps_its_bound_when_they_become_smaller",
        )
    },
    Mutation {
        target: "small_objects",
        ..tiered(
            "a small object with a long key goes to a bucket",
            "crates/tiered/src/segment/bucket.rs",
            "key_len <= KEY_BYTES_MAX && self.record_bytes(key_len)",
            "key_len <= KEY_BYTES_MAX * 4 && self.record_bytes(key_len)",
            "object_with_a_long_key_is_found",
        )
    },
    below(
        "the tier identifies blocks by number and offset alone",
        "crates/store/src/sst/block_tier.rs",
        "let numbers = [store, table, contents, description, offset];",
        "let numbers = [store, table, contents & 0, description & 0, offset];",
        "recreated_store_finds_no_blocks_of_its_predecessor",
    ),
    Mutation {
        target: "lib",
        ..below(
            "any block at that offset is accepted from a tier",
            "crates/store/src/sst/block_tier.rs",
            ".filter(|(envelope, sum)| name.sum(envelope).to_le_bytes() == **sum)",
            ".filter(|(_, sum)| sum.len() == SUM_BYTES)",
            "sst::block_tier::tests::only_the_requested_block_is_opened",
        )
    },
    below(
        "a scan's reading ahead fills the tier",
        "crates/store/src/sst/blocks.rs",
        "let tier_use = if run.len() == 1 { TierUse::Use } else { TierUse::Bypass };",
        "let tier_use = if run.is_empty() { TierUse::Bypass } else { TierUse::Use };",
        "compactions_and_scan_read_ahead_bypass_the_tier",
    ),
    Mutation {
        target: "lib",
        ..tiered(
            "an oversized value leaves the previous one in a tier",
            "crates/tiered/src/secondary_cache.rs",
            "            return Self::remove(self, key);",
            "            return;",
            "secondary_cache::tests::value_that_cannot_be_kept_removes_the_old_one",
        )
    },
    dropped(
        "a drop does not make earlier writes durable",
        "crates/store/src/lifecycle/keyspaces.rs",
        "        self.make_log_durable()?;\n",
        "",
        "power_cut_at_any_operation_keeps_a_prefix_of_writes_and_drop",
    ),
    dropped(
        "the id of a dropped keyspace is used again",
        "crates/store/src/lifecycle/keyspaces.rs",
        "            None => structure.manifest.state().next_keyspace,",
        "            None => self.trees.load().keys().max().map_or(0, |id| id + 1),",
        "recreated_keyspace_starts_empty",
    ),
    dropped(
        "a snapshot of the manifest forgets which ids were used",
        "crates/store/src/version/manifest/state.rs",
        "        edit.push(Change::NextKeyspace(self.next_keyspace));\n",
        "",
        "checkpoint_does_not_bring_dropped_keyspaces_back",
    ),
    dropped(
        "a job installs tables in a dropped keyspace",
        "crates/store/src/engine/tree_set.rs",
        "        if self.get(tree.id).is_none() {\n            return Ok(false);\n        }\n",
        "",
        "running_compaction_installs_nothing_in_a_dropped_keyspace",
    ),
    dropped(
        "a flush leaves its table behind when the keyspace was dropped",
        "crates/store/src/jobs/flusher.rs",
        "            self.discard_refused(refused);\n",
        "            drop(refused);\n",
        "running_flush_installs_nothing_in_a_dropped_keyspace",
    ),
    dropped(
        "the tables of a dropped keyspace stay",
        "crates/store/src/version/tree.rs",
        "            view.version.tables().for_each(|table| table.retire());\n",
        "",
        "tables_of_a_dropped_keyspace_are_removed_after_their_last_reader",
    ),
    dropped(
        "the caches keep the entries of a dropped keyspace",
        "crates/store/src/lifecycle/keyspaces.rs",
        "|name: Name<'_>| name.keyspace == tree.id",
        "|name: Name<'_>| name.keyspace > tree.id",
        "drop_releases_memory",
    ),
    dropped(
        "a failed drop is left in the manifest",
        "crates/store/src/lifecycle/keyspaces.rs",
        "            if structure.commit(Edit::default()).is_err() {",
        "            if false {",
        "keyspace_whose_drop_failed_is_kept_with_later_writes",
    ),
    dropped(
        "a keyspace in doubt takes writes",
        "crates/store/src/lifecycle/keyspaces.rs",
        "                structure.mark_in_doubt(&tree);\n",
        "",
        "keyspace_in_doubt_rejects_writes_until_resolved",
    ),
    dropped(
        "a dropped keyspace is read as an empty one",
        "crates/store/src/api/iter.rs",
        ".and_then(|()| tree.check_exists())",
        "",
        "every_use_of_a_dropped_keyspace_fails",
    ),
    dropped(
        "a transaction does not see that a keyspace it has read was dropped",
        "crates/store/src/write.rs",
        "        && !condition.tree.is_dropped()\n",
        "",
        "every_use_of_a_dropped_keyspace_fails",
    ),
    dropped(
        "a batch that was checked before a drop is written after it",
        "crates/store/src/write.rs",
        "            if request.drops != drops\n",
        "            if request.drops > drops\n",
        "drops_race_with_everything_else",
    ),
    dropped(
        "the failure of a dropped keyspace's job stays",
        "crates/store/src/lifecycle/keyspaces.rs",
        "        self.jobs.forget_errors(tree.id);\n",
        "",
        "failure_of_a_flush_is_reported_for_its_keyspace_until_it_is_dropped",
    ),
    dropped(
        "an iterator leaves the tables of a dropped keyspace behind",
        "crates/store/src/api/iter.rs",
        "        if engine.trees.has_obsolete() {",
        "        if false {",
        "dropping_the_last_iterator_removes_the_tables_of_a_dropped_keyspace",
    ),
    dropped(
        "a job waits for the gate that closing holds",
        "crates/store/src/engine/job_state.rs",
        "        self.gate.try_read().filter(|_| !self.is_closed())",
        "        Some(self.gate.read()).filter(|_| !self.is_closed())",
        "closing_does_not_wait_for_the_removal_of_tables",
    ),
    deadline(
        "the store's clock follows the machine's when that is set",
        "crates/store/src/engine/store_clock.rs",
        "        self.at(self.machine.boot_ns()) / NS_PER_MS\n",
        "        self.machine.unix_ms()\n",
        "entries_that_have_expired_do_not_come_back_when_the_clock_is_set_back",
    ),
    deadline(
        "an opening goes by the machine's clock",
        "crates/store/src/lifecycle/recovery.rs",
        "    let saved = read_clock(&*storage, directory);\n",
        "    let saved = read_clock(&*storage, directory).filter(|_| false);\n",
        "entries_that_have_expired_do_not_come_back_when_the_clock_is_set_back",
    ),
    deadline(
        "the time is not saved when an entry is seen to have expired",
        "crates/store/src/engine/mod.rs",
        "        self.executor.execute(Priority::Low, Box::new(save));",
        "        drop(save);",
        "what_was_seen_to_have_expired_stays_so_after_a_kill",
    ),
    deadline(
        "a scan that passes over an expired entry does not save the time",
        "crates/store/src/read/visible.rs",
        "                    self.has_seen_expired.set(true);\n",
        "",
        "what_was_seen_to_have_expired_stays_so_after_a_kill",
    ),
    deadline(
        "a time to live starts when the operation is added",
        "crates/store/src/write.rs",
        "            batch.start_ttls(self.clock.unix_ms());\n",
        "",
        "a_time_to_live_starts_when_it_is_written",
    ),
    deadline(
        "an increment gives a key without a deadline the default one",
        "crates/store/src/api/read_modify_write.rs",
        "                None if current.is_some() => batch",
        "                None if false => batch",
        "the_default_time_to_live_is_the_same_for_every_way_to_write",
    ),
    deadline(
        "a snapshot reads from a keyspace of another store",
        "crates/store/src/api/keyspace.rs",
        "        match self.engine().instance == engine.instance {\n            true => Ok(()),",
        "        match self.engine().instance == engine.instance {\n            _ if true => Ok(()),\n            \
         true => Ok(()),",
        "handles_of_another_store_are_refused",
    ),
    served(
        "a request that is too large is kept in memory",
        "crates/resp/src/protocol/request.rs",
        (
            "        if bytes > limits.request_bytes_max {\n            self.discard(buffer);",
            "        if false {\n            self.discard(buffer);",
        ),
        ("lib", "protocol::request::tests::a_request_that_is_too_large_is_discarded"),
    ),
    served(
        "a long reply is in memory as a whole",
        "crates/resp/src/data/long_replies.rs",
        ("        if bytes > STREAMED_BYTES && execution.may_stream() {", "        if false {"),
        ("long_replies", "long_replies_are_complete_and_in_order"),
    ),
    served(
        "a long reply of unknown length is not read again from its start",
        "crates/resp/src/data/long_replies.rs",
        ("    source.rewind();\n", ""),
        ("long_replies", "long_replies_are_complete_and_in_order"),
    ),
    served(
        "a part of another reply is made before its size is checked",
        "crates/resp/src/data/values.rs",
        ("        execution.state.memory.check_reply(range.len())?;\n", ""),
        ("long_strings", "a_string_of_zeros_takes_no_space"),
    ),
    served(
        "a patch of a part forgets what the part had",
        "crates/resp/src/data/long_string.rs",
        ("    part.extend_from_slice(old);\n", "    let _ = old;\n"),
        ("long_strings", "long_strings_are_as_other_strings"),
    ),
    served(
        "a string that is set to a short one keeps its parts",
        "crates/resp/src/data/values.rs",
        (
            "    if let Some(head) = head::find(execution, key)? {\n        head.remove(execution, key)?;",
            "    if let Some(head) = head::find(execution, key)?.filter(|_| false) {\n        head.remove(execution, key)?;",
        ),
        ("long_strings", "long_strings_are_as_other_strings"),
    ),
    served(
        "the first head is written while transactions do not look for heads",
        "crates/resp/src/data/execution.rs",
        (
            "        if space == Space::Heads && !self.state.keyspaces.heads().exist() {",
            "        if false {",
        ),
        ("lib", "dispatch::batch::tests::parts_see_the_writes_of_earlier_parts"),
    ),
    served(
        "MSET writes a repeated key as a long string and as a short one",
        "crates/resp/src/commands/strings.rs",
        (
            "    let last = pairs.chunks_exact(2).rev().filter(|pair| seen.insert(&pair[0]));",
            "    let last = pairs.chunks_exact(2).rev().filter(|pair| seen.insert(&pair[0]) || true);",
        ),
        ("long_strings", "a_transaction_sees_its_own_parts"),
    ),
    served(
        "a command whose reply has no memory is executed",
        "crates/resp/src/data/execution.rs",
        ("        if bytes > self.reply_bytes_max {", "        if false {"),
        ("lib", "dispatch::batch::tests::parts_whose_replies_lack_memory_run_alone"),
    ),
    Mutation {
        package: "tidekv-net",
        target: "lib",
        ..mutation(
            "a client that reads a few bytes now and then keeps the memory that others need",
            "crates/net/src/stream.rs",
            "                if self.bytes < PACE_BYTES && is_needed() {",
            "                if self.bytes == 0 && is_needed() {",
            "stream::tests::a_client_that_reads_too_slowly_gives_way_if_memory_is_needed",
        )
    },
    served(
        "a client that reads nothing keeps the memory that others need",
        "crates/resp/src/clients/outbox.rs",
        (
            "        let is_needed = || !is_reserved || budget.is_exhausted();",
            "        let is_needed = || false;",
        ),
        ("long_replies", "a_client_that_reads_nothing_is_closed_when_memory_is_needed"),
    ),
    served(
        "a deadline given as a time of day ignores that the machine's clock was set",
        "crates/resp/src/commands/deadlines.rs",
        (
            "            Self::UnixMilliseconds => number.checked_sub(state.db.clock_offset_ms()),",
            "            Self::UnixMilliseconds => Some(number),",
        ),
        ("clock_steps", "a_time_of_day_is_that_of_the_machine"),
    ),
    reclaimed(
        "an expired table is dropped although an older version is below it",
        "crates/store/src/compaction/dead_tables.rs",
        "                && !version.older_than(level, table).any(|older| has_values(&older))",
        "",
        "expired_entries_do_not_uncover_older_versions",
    ),
    reclaimed(
        "an expired table is dropped although a transaction must find its writes",
        "crates/store/src/compaction/dead_tables.rs",
        " && !present.is_before(table.newest_sequence())",
        "",
        "a_transaction_meets_the_writes_of_tables_that_have_expired_since",
    ),
    served(
        "a flush of a database forgets the hashes that its transaction put into others",
        "crates/resp/src/data/head.rs",
        ("    let may_have_own = execution.sees_own_writes();", "    let may_have_own = false;"),
        (
            "databases",
            "a_flush_in_a_transaction_leaves_hashes_that_it_has_put_into_other_databases",
        ),
    ),
    deadline(
        "a checkpoint has no time of its store",
        "crates/store/src/lifecycle/checkpoint.rs",
        "        clock.write_at(0, &self.clock.record().encode())?;\n",
        "",
        "the_clock_goes_on_after_a_kill_and_in_a_checkpoint",
    ),
    reclaimed(
        "a covered table is dropped although a snapshot sees it",
        "crates/store/src/compaction/dead_tables.rs",
        "return !present.is_between(table.oldest_sequence(), hidden_from);",
        "return true;",
        "what_a_snapshot_sees_stays_until_it_is_released",
    ),
    reclaimed(
        "a table is dropped although a gap between tombstones leaves some of its keys",
        "crates/store/src/compaction/dead_tables.rs",
        "if *fragment.start > *covered_up_to {",
        "if false {",
        "reclaiming_changes_no_answer",
    ),
    reclaimed(
        "a table is dropped for a tombstone that is not newer",
        "crates/store/src/compaction/dead_tables.rs",
        "filter(|&tombstone| tombstone > sequence).min()",
        "min()",
        "reclaiming_changes_no_answer",
    ),
    reclaimed(
        "tables are dropped before the log that deletes their entries is synced",
        "crates/store/src/jobs/table_dropper.rs",
        "            self.sync_log()?;\n",
        "",
        "power_cut_during_a_drop_keeps_whole_prefixes",
    ),
    reclaimed(
        "the release of a snapshot starts no look for what it held",
        "crates/store/src/jobs/table_dropper.rs",
        "if self.jobs.reclaim().is_held() {",
        "if false {",
        "what_a_snapshot_sees_stays_until_it_is_released",
    ),
    reclaimed(
        "what a snapshot holds is rewritten again and again",
        "crates/store/src/compaction/dead_data.rs",
        "    if is_held {\n        dead.is_held = true;\n        return dead;\n    }\n",
        "    let _ = is_held;\n",
        "what_a_snapshot_sees_stays_until_it_is_released",
    ),
    reclaimed(
        "expired entries do not count as dead",
        "crates/store/src/compaction/dead_data.rs",
        "amount: expired(table, present.now_ms)",
        "amount: Amount::default()",
        "nine_tenths_give_their_space_and_their_read_cost_back_within_a_minute",
    ),
    reclaimed(
        "memtables with deletions are never flushed for space",
        "crates/store/src/lifecycle/reclaim.rs",
        "        if !is_due && !is_dense(all, dead) && emptied < EMPTIED_BYTES_MIN {",
        "        if true || !is_due && !is_dense(all, dead) {",
        "nine_tenths_give_their_space_and_their_read_cost_back_within_a_minute",
    ),
    reclaimed(
        "ordinary writes use the space of a log that is for deletions",
        "crates/store/src/write.rs",
        "let reserve = self.logs.reserve_bytes(logs, &self.memory);",
        "let reserve = 0;",
        "a_full_disk_can_be_emptied_again_and_again",
    ),
    reclaimed(
        "deletions wait for flushes that fail on a full disk",
        "crates/store/src/write/full_disk.rs",
        "            && all_delete(&[batch])\n",
        "            && false\n",
        "a_deletion_does_not_wait_for_flushes_that_fail",
    ),
    race(
        "edits that add tables use the space of the manifest that is for drops",
        "crates/store/src/version/manifest/file.rs",
        "let reserve = if edit.adds_files() { RESERVE_BYTES } else { 0 };",
        "let reserve = 0;",
        "version::manifest::file::tests::a_full_disk_leaves_space_for_edits_that_add_nothing",
    ),
    reclaimed(
        "range tombstones count by keys instead of bytes",
        "crates/store/src/compaction/dead_data.rs",
        "first.chain(inner).chain([last])",
        "{ drop(inner); first.chain([last]) }",
        "ranges_count_by_the_bytes_that_they_cover",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "separators of keys whose first different bytes are neighbours are whole keys",
            "crates/store/src/format/key.rs",
            "        out.extend_from_slice(&right[..=shared]);\n",
            "        out.extend_from_slice(left);\n",
            "sst::table::tests::long_keys_take_little_more_than_their_bytes",
        )
    },
    Mutation {
        target: "many_keyspaces",
        ..mutation(
            "only the largest of many small memtables is flushed",
            "crates/store/src/write/rotation.rs",
            "                if bytes >= SHARED_FLUSH_BYTES {\n",
            "                if bytes > 0 {\n",
            "small_memtables_are_flushed_together_when_memory_is_short",
        )
    },
    Mutation {
        target: "many_keyspaces",
        ..mutation(
            "files that are mostly dead stay",
            "crates/store/src/jobs/compactor.rs",
            "        self.schedule_rewrites();\n",
            "",
            "space_of_dropped_keyspaces_comes_back_although_others_share_their_files",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "files beyond the bound stay open",
            "crates/store/src/sst/file_handles.rs",
            "while ring.open > self.open_max && steps > 0 {",
            "while ring.open > usize::MAX - self.open_max && steps > 0 {",
            "sst::file_handles::tests::no_more_files_are_open_than_the_bound",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "a file is removed although its tables are part of the store",
            "crates/store/src/sst/file_handles.rs",
            "        if self.tables.load(Ordering::Acquire) == 0 {\n",
            "        if self.tables.load(Ordering::Acquire) < usize::MAX {\n",
            "sst::file_handles::tests::a_file_is_obsolete_when_its_last_table_is_retired_and_its_last_user_gone",
        )
    },
    Mutation {
        target: "edges",
        ..mutation(
            "a flush on a full disk does not get the space of the next log",
            "crates/store/src/jobs/flusher.rs",
            "(self.logs.give_way(&self.memory)\n",
            "(false\n",
            "a_flush_on_a_full_disk_gets_the_space_of_the_next_log",
        )
    },
    Mutation {
        target: "edges",
        ..mutation(
            "a flush on a full disk does not get the space of a log kept for reuse",
            "crates/store/src/engine/log_set.rs",
            "let (ready, spare) = (next.ready.take(), next.spare.take());",
            "let (ready, spare) = (next.ready.take(), None::<u64>);",
            "a_flush_on_a_full_disk_gets_the_space_of_the_next_log",
        )
    },
    Mutation {
        target: "panics",
        ..mutation(
            "a flush is waited for, and the store still reports the one that failed before",
            "crates/store/src/jobs/flusher.rs",
            "                self.jobs.forget_flush_failure(tree.id);\n",
            "",
            "a_flush_that_panics_is_a_flush_that_fails",
        )
    },
    Mutation {
        target: "panics",
        ..mutation(
            "a job that panics after its work is waited for",
            "crates/store/src/engine/mod.rs",
            "            self.jobs.note_panic(panicked());\n",
            "            let _ = panicked();\n",
            "a_job_that_panics_after_its_work_stops_writes_and_nobody_waits_for_it",
        )
    },
    Mutation {
        target: "panics",
        ..mutation(
            "closing waits for a job that is gone",
            "crates/store/src/jobs/background.rs",
            "running > 0 && !self.jobs.has_panicked()",
            "running > 0",
            "a_job_that_panics_after_its_work_stops_writes_and_nobody_waits_for_it",
        )
    },
    Mutation {
        target: "panics",
        ..mutation(
            "a writer that waits for background work does not hear that it is gone",
            "crates/store/src/write.rs",
            "            self.jobs.wait_for_progress(seen);\n            self.check_writable()?;\n",
            "            self.jobs.wait_for_progress(seen);\n            self.jobs.check_open()?;\n",
            "a_job_that_panics_after_its_work_stops_writes_and_nobody_waits_for_it",
        )
    },
    Mutation {
        target: "trouble",
        ..mutation(
            "clearing what seems empty leaves failed writes in the log",
            "crates/store/src/write.rs",
            "                logs.current.lost().map_or(Ok(()), Err)?;\n",
            "",
            "a_cleared_keyspace_stays_empty_after_a_write_that_failed",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "each opening of the store moves its clock by a part of a millisecond",
            "crates/store/src/engine/store_clock.rs",
            ".saturating_add(unix_ns % NS_PER_MS)",
            ".saturating_add(boot_ns % NS_PER_MS)",
            "engine::store_clock::tests::openings_do_not_move_it",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "a time that was not saved is forgotten",
            "crates/store/src/engine/store_clock.rs",
            "            self.failed_ms.store(record.store_ms, Ordering::Relaxed);\n",
            "            self.has_news.store(false, Ordering::Relaxed);\n            self.failed_ms.store(record.store_ms, Ordering::Relaxed);\n",
            "engine::store_clock::tests::a_record_is_wanted_when_the_last_is_old_and_once",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "a corrected clock is not saved durably",
            "crates/store/src/engine/store_clock.rs",
            "            || self.is_apart_on_disk.load(Ordering::Relaxed)\n",
            "",
            "engine::store_clock::tests::a_record_is_synced_if_the_clocks_differ_in_it_or_in_the_one_that_it_replaces",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "locations of replaced records stay current",
            "crates/tiered/src/device/locate.rs",
            "        self.set_current(gone.iter().copied(), false);\n",
            "        _ = gone;\n",
            "cache::tests::no_code_leads_to_a_removed_or_replaced_record",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "locations of a lost page stay current",
            "crates/tiered/src/device/upkeep.rs",
            "                    self.locations.forget_current();\n",
            "",
            "cache::tests::no_code_leads_to_a_record_of_a_lost_page",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "codes find locations that are not current",
            "crates/tiered/src/index/locations.rs",
            "directory.is_current(place).then(|| directory.location(place))?",
            "directory.location(place)",
            "index::locations::tests::record_that_is_not_current_is_not_found_by_any_code",
        )
    },
    Mutation {
        target: "locations",
        ..tiered(
            "records keep their locations in the buffer",
            "crates/tiered/src/device/upkeep.rs",
            "            self.relocate(&segment.read(), &arranged);\n",
            "",
            "hit_costs_one_read_where_dram_has_the_locations",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a location on flash is read in the buffer",
            "crates/tiered/src/segment/buffer.rs",
            "(location.is_in(self.slot.id) && location.is_in_buffer)",
            "location.is_in(self.slot.id)",
            "segment::buffer::tests::appended_records_are_read_and_summarised",
        )
    },
    Mutation {
        target: "locations",
        ..tiered(
            "locations do not come back after a restart",
            "crates/tiered/src/device/locate.rs",
            "slot.filter(|it| !it.is_small",
            "slot.filter(|it| it.is_small",
            "hit_costs_one_read_where_dram_has_the_locations",
        )
    },
    Mutation {
        target: "locations",
        ..tiered(
            "locations do not come back with more DRAM",
            "crates/tiered/src/device/locate.rs",
            "        partition.is_unknown() || self.widths().code > 0 && !partition.has_codes()",
            "        partition.is_unknown()",
            "locations_go_when_dram_shrinks_and_come_back",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "locations take memory without a limit",
            "crates/tiered/src/index/locations.rs",
            "let has_codes = self.is_on() && self.has_room();",
            "let has_codes = self.is_on();",
            "index::locations::tests::codes_take_no_more_than_their_memory",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "lengths of records are not counted with locations",
            "crates/tiered/src/index/locations.rs",
            "check + code) + directories;",
            "check + code);\n        _ = directories;",
            "index::locations::tests::codes_are_on_where_there_is_memory_for_nearly_all_of_them",
        )
    },
    Mutation {
        target: "locations",
        ..tiered(
            "objects at old locations are rewritten without new ones",
            "crates/tiered/src/device/write_budget.rs",
            "is_new { self.earn(bytes) } else { self.spend(bytes) }",
            "is_new { self.earn(bytes) } else { self.earn(bytes) }",
            "reads_alone_write_nothing",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a location is that of another choice",
            "crates/tiered/src/segment/arrangement.rs",
            "find(|choice| self.place(name, *choice, records) == Some(place))",
            "find(|choice| self.place(name, *choice, records) != Some(place))",
            "index::locations::tests::codes_lead_to_their_locations",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "locations stay when their memory shrinks",
            "crates/tiered/src/device/locate.rs",
            "            self.drop_codes(|| self.locations.is_over());\n",
            "",
            "cache::tests::codes_go_that_take_more_than_their_memory",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a code leads beyond the end of its segment",
            "crates/tiered/src/segment/arrangement.rs",
            "            return (choice < records).then_some(choice);\n",
            "            return Some(choice);\n",
            "segment::arrangement::tests::few_records_keep_their_order",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a segment that keeps its order has no summary",
            "crates/tiered/src/segment/buffer.rs",
            "        self.bytes.extend_from_slice(&summary);\n",
            "        _ = summary;\n",
            "segment::buffer::tests::segment_that_keeps_its_order_is_its_buffer",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "codes of long records exceed their memory",
            "crates/tiered/src/index/locations.rs",
            "numbered_choices(layout).filter(fits)",
            "numbered_choices(layout).filter(|it| fits(it) || true)",
            "index::locations::tests::long_records_are_numbered_where_there_is_memory",
        )
    },
    Mutation {
        target: "locations",
        ..tiered(
            "writes of a segment overwrite each other",
            "crates/tiered/src/device/upkeep.rs",
            "self.data.write_at(at + written as u64, now)?;",
            "self.data.write_at(at, now)?;",
            "hit_costs_one_read_for_long_records",
        )
    },
];
