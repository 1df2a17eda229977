//! Ways to break the store, each with the test that must notice. The runner is
//! `examples/mutations.rs`; `tests/mutations.rs` holds the list against the
//! sources, so that it cannot rot.

/// A change of the code that breaks a promise.
#[derive(Debug, Clone, Copy)]
pub struct Mutation {
    /// What the broken store does, in a few words.
    pub name: &'static str,
    /// From the root of the workspace.
    pub file: &'static str,
    /// Stands exactly once in the file.
    pub find: &'static str,
    /// What stands there instead; it must compile.
    pub replace: &'static str,
    pub package: &'static str,
    /// The file of tests, `crates/*/tests/<target>.rs`; `lib`: a unit test, which
    /// is named with its modules.
    pub target: &'static str,
    /// The one test that must fail.
    pub test: &'static str,
}

/// In the store, caught by one of its promises.
const fn mutation(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { name, file, find, replace, package: "tidekv", target: "promises", test }
}

/// Between threads, caught by a model (`tests/models.rs` beside the code).
const fn race(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { name, file, find, replace, package: "tidekv", target: "lib", test }
}

/// Of the caches of entries and pointers, caught by one of their promises.
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

/// Of bulk ingests.
const fn ingested(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "ingest", ..mutation(name, file, find, replace, test) }
}

/// Of what is brought back when a store is opened.
const fn warm(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "warm_start", ..mutation(name, file, find, replace, test) }
}

/// Of the cache tier, caught by what looks for stale values.
const fn tiered(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { package: "tidekv-tiered", target: "truth", name, file, find, replace, test }
}

/// Of what filters unlearn.
const fn unlearned(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "filter_repair", ..mutation(name, file, find, replace, test) }
}

/// Of the tier under the block cache.
const fn below(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    test: &'static str,
) -> Mutation {
    Mutation { target: "tier", ..mutation(name, file, find, replace, test) }
}

pub const MUTATIONS: &[Mutation] = &[
    mutation(
        "the log is not synced before the acknowledgement",
        "crates/store/src/write.rs",
        "logs.current.sync()?;",
        "",
        "a_synced_write_survives_a_loss_of_power",
    ),
    mutation(
        "the directory is not synced after CURRENT was renamed",
        "crates/store/src/version/manifest/file.rs",
        "    storage.rename(&temporary, &directory.join(CURRENT))?;\n    names.sync()",
        "    storage.rename(&temporary, &directory.join(CURRENT))?;\n    Ok(())",
        "a_keyspace_in_a_new_manifest_survives_a_loss_of_power",
    ),
    mutation(
        "the directory is not synced after a recycled log was renamed",
        "crates/store/src/jobs/logs.rs",
        "        self.names.sync()?;\n",
        "",
        "a_synced_write_in_a_recycled_log_survives_a_loss_of_power",
    ),
    mutation(
        "the manifest names a table before its bytes are synced",
        "crates/io/src/append.rs",
        "        self.file.sync()?;\n",
        "",
        "a_flushed_table_survives_a_loss_of_power",
    ),
    mutation(
        "the manifest names a table before its name is synced",
        "crates/store/src/jobs/flusher.rs",
        "        self.names.sync()?;\n",
        "",
        "a_flushed_table_survives_a_loss_of_power",
    ),
    mutation(
        "a flush does not sync the log",
        "crates/store/src/jobs/flusher.rs",
        "        self.executor.execute(Priority::Low, Box::new(move || drop(same.sync_up_to(offset))));\n\
         \x20       move || syncer.sync_up_to(offset)\n",
        "        move || {\n            drop((same, syncer, offset));\n            Ok(())\n        }\n",
        "a_batch_of_which_half_was_flushed_survives_whole",
    ),
    mutation(
        "an opening passes over writes that are in no table",
        "crates/store/src/jobs/flusher.rs",
        "        oldest.map_or(put_aside_at, |oldest| oldest.min(put_aside_at))\n",
        "        let _ = oldest;\n        put_aside_at\n",
        "an_opening_passes_over_what_is_in_tables",
    ),
    mutation(
        "a log is synced before the one in front of it",
        "crates/store/src/wal/writer.rs",
        "        self.syncing.lock().in_front = Some(front);\n",
        "        drop(front);\n        self.is_front_synced.store(true, Ordering::Release);\n",
        "a_synced_write_takes_with_it_what_the_log_in_front_holds",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "what is synced of an empty log says nothing of the one in front",
            "crates/store/src/wal/writer.rs",
            "let is_done = || self.is_front_synced() && self.synced() >= offset;",
            "let is_done = || self.synced() >= offset;",
            "wal::tests::nothing_of_a_log_is_synced_before_those_in_front",
        )
    },
    mutation(
        "what follows a torn log counts",
        "crates/store/src/lifecycle/recovery.rs",
        "what \\\n                         was not synced in the logs behind it goes as well\");\n\
         \x20                   return Ok(());\n",
        "what \\\n                         was not synced in the logs behind it goes as well\");\n",
        "what_follows_a_torn_log_goes_with_it",
    ),
    mutation(
        "a torn log is believed to be torn, whatever was synced behind it",
        "crates/store/src/wal/reader.rs",
        "if vouches_for_logs_in_front(file, witness)? {",
        "if vouches_for_logs_in_front(file, witness)? && witness == 0 {",
        "a_torn_log_in_front_of_a_synced_one_is_damaged",
    ),
    mutation(
        "no mark says that the logs in front were synced",
        "crates/store/src/wal/writer.rs",
        "            self.write_frame(|out| out.push(RECORD_MARK))?;\n            self.unvouched.clear();\n",
        "            self.unvouched.clear();\n",
        "a_torn_log_in_front_of_a_synced_one_is_damaged",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "a writer waits for the sync of its log before it vouches for the one in front",
            "crates/store/src/wal/writer.rs",
            "                    self.vouch_for_front()?;\n",
            "                    self.vouch()?;\n",
            "wal::tests::a_writer_does_not_wait_for_a_sync_beside_it",
        )
    },
    mutation(
        "an ingest leaves a torn place in the log in front of it",
        "crates/store/src/lifecycle/upkeep.rs",
        "            if !logs.current.is_open() {\n                self.switch_log(logs)?;\n            }\n",
        "",
        "a_write_that_failed_does_not_come_back_over_an_ingest",
    ),
    mutation(
        "a sync of a torn log leaves no witness",
        "crates/store/src/wal/writer.rs",
        "Health::Finished => Ok(()),\n            // A mark",
        "Health::Finished | Health::Torn(_) => Ok(()),\n            // A mark",
        "a_sync_of_a_torn_log_vouches_for_the_one_in_front",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "a log knows nothing of those further in front",
            "crates/store/src/wal/writer.rs",
            "        self.unvouched.clone_from(&front.unvouched);\n",
            "",
            "wal::tests::a_log_takes_nothing_behind_any_that_is_lost",
        )
    },
    mutation(
        "nobody makes the next log ready",
        "crates/store/src/write.rs",
        "        self.ask_for_next_log();\n",
        "",
        "writers_do_not_wait_for_the_next_log",
    ),
    mutation(
        "a log that could not be made ready is not made again",
        "crates/store/src/jobs/logs.rs",
        "        self.make_ready(&mut next)?;\n",
        "        if next.number.is_none() {\n            self.make_ready(&mut next)?;\n        }\n",
        "a_log_that_could_not_be_made_ready_is_made_when_it_is_needed",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "whoever comes to a page of a recycled log has the disk read it",
            "crates/store/src/wal/writer.rs",
            "Self { own_until: 0, ..Self::new(file, number) }",
            "Self::new(file, number)",
            "wal::tests::whoever_comes_to_a_page_of_an_earlier_life_writes_all_of_it",
        )
    },
    mutation(
        "a sync that failed behind the writers' backs is not told to them",
        "crates/store/src/wal/writer.rs",
        "        syncing.failure = Some(error.clone());\n\
         \x20       self.is_lost.store(true, Ordering::Release);\n",
        "        let _ = syncing;\n",
        "a_flush_that_cannot_sync_the_log_ends_writing",
    ),
    mutation(
        "the checksum of a block is not tested",
        "crates/store/src/sst/block/envelope.rs",
        "if stored != computed {",
        "if stored != computed && disk.is_empty() {",
        "a_damaged_block_is_not_read",
    ),
    mutation(
        "the checksum of a frame of the log is not tested",
        "crates/store/src/wal/format.rs",
        "    checksum(log_number, &frame[4..]) == header.checksum",
        "    checksum(log_number, &frame[4..]) == header.checksum || frame.len() > 16",
        "a_damaged_frame_of_the_log_is_not_replayed",
    ),
    mutation(
        "recovery goes on past a torn record",
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
        "keyspace.resolve(key.as_ref(), Some(self.sequence))?",
        "keyspace.resolve(key.as_ref(), None)?",
        "a_snapshot_gets_what_was_there",
    ),
    mutation(
        "a walk of a snapshot ignores its sequence number",
        "crates/store/src/api/snapshot.rs",
        "range, self.sequence)",
        "range, self.handle.engine().visible())",
        "a_snapshot_walks_over_what_was_there",
    ),
    mutation(
        "a flush drops a tombstone above older versions",
        "crates/store/src/compaction/retain.rs",
        "let oldest = stripe == 0 && is_base(key);",
        "let oldest = stripe == 0 && (is_base(key) || trailer.kind() == Kind::Delete);",
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
        "a_range_deletion_reaches_over_the_ends_of_tables",
    ),
    mutation(
        "half of a batch is applied before the log is written",
        "crates/store/src/write.rs",
        "                self.append(logs, first, batches, sync).inspect_err(|_| {\n",
        "                let bytes = batches[0].encoded().expect(\"checked before\");\n\
         let half = batches[0].len().div_ceil(2);\n\
         for (operation, at) in Operations::new(bytes).flatten().zip(first..).take(half) {\n\
         let tree = self.tree(operation.keyspace).expect(\"checked before\");\n\
         apply(&tree, operation.kind, operation.key, operation.payload, at, 0);\n\
         }\n\
         self.append(logs, first, batches, sync).inspect_err(|_| {\n",
        "a_batch_that_the_log_refused_leaves_nothing",
    ),
    mutation(
        "a walk skips the memtables that wait for their flush",
        "crates/store/src/read/visible.rs",
        "for memtable in view.memtables() {",
        "for memtable in std::iter::once(&view.memtable) {",
        "a_walk_sees_memtables_that_wait_for_their_flush",
    ),
    mutation(
        "the file of a table is removed while a walk reads it",
        "crates/store/src/version/levels.rs",
        "        self.file.is_obsolete.store(true, Ordering::Release);\n",
        "        self.file.trash.tables.lock().push(self.file.id);\n",
        "a_table_stays_while_a_walk_reads_it",
    ),
    Mutation {
        target: "trouble",
        ..mutation(
            "a checkpoint trusts the sync of a directory after a failed one",
            "crates/store/src/lifecycle/upkeep.rs",
            "|parent| self.names.sync_in(parent)",
            "|parent| Ok(self.storage.sync_dir(parent)?)",
            "a_checkpoint_is_not_vouched_for_by_the_sync_after_a_failed_one",
        )
    },
    Mutation {
        target: "trouble",
        ..mutation(
            "an opening takes a record of a log twice",
            "crates/store/src/lifecycle/recovery.rs",
            "        if first <= *last {",
            "        if first < *last {",
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
            "crates/store/src/lifecycle/upkeep.rs",
            "                0 => overlapping(&table) && Some(table.newest_sequence()) <= newest,",
            "                0 if newest.is_none() => false,",
            "api::db::tests::quiet::a_range_is_compacted_also_while_level_0_is_merged_with_itself",
        )
    },
    Mutation {
        package: "tidekv-resp",
        target: "lib",
        ..mutation(
            "a request read at one go leaves what was known of its beginning",
            "crates/resp/src/protocol/request.rs",
            "                        self.reset();\n                        return Ok(Some(arguments));",
            "                        return Ok(Some(arguments));",
            "protocol::request::tests::a_request_in_pieces_leaves_nothing_to_the_next",
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
        "a slot gets its prefix before what it leads to",
        "crates/store/src/memtable/sorted_list.rs",
        "            self.targets[slot + 1].store(self.target(slot), Ordering::Release);\n\
         \x20           let moved = self.prefixes[slot].load(Ordering::Relaxed);\n\
         \x20           self.prefixes[slot + 1].store(moved, Ordering::Release);\n",
        "            let moved = self.prefixes[slot].load(Ordering::Relaxed);\n\
         \x20           self.prefixes[slot + 1].store(moved, Ordering::Release);\n\
         \x20           self.targets[slot + 1].store(self.target(slot), Ordering::Release);\n",
        "memtable::sorted_list::tests::models::a_page_that_splits_loses_nothing",
    ),
    race(
        "two threads take the same bytes of the arena",
        "crates/store/src/memtable/arena.rs",
        "let start = self.used.fetch_add(len, Ordering::Relaxed);",
        "let start = self.used.load(Ordering::Relaxed);\n\
         self.used.store(start + len, Ordering::Relaxed);",
        "memtable::arena::tests::models::no_byte_is_handed_out_twice_where_chunks_change",
    ),
    race(
        "the filter of a memtable forgets what came before it",
        "crates/store/src/memtable/mod.rs",
        "        let mut node = self.list.first();\n",
        "        let mut node = self.list.last();\n",
        "memtable::tests::models::\
         a_filter_that_comes_into_being_hides_nothing_that_is_visible",
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
        "writers are told before the leader lets readers see the group",
        "crates/store/src/write.rs",
        "None => self.queue.submit(request, weight, |group| self.lead(&group)),\n",
        "None => {\n\
         let mut seen = None;\n\
         let outcome = self.queue.submit(request, weight, |group| {\n\
         let before = self.visible();\n\
         let outcomes = self.lead(&group);\n\
         seen = Some(self.visible.swap(before, Ordering::AcqRel));\n\
         outcomes\n\
         });\n\
         seen.map(|seen| self.visible.fetch_max(seen, Ordering::AcqRel));\n\
         outcome\n\
         }\n",
        "api::db::tests::models::a_write_is_visible_before_it_is_acknowledged",
    ),
    race(
        "readers see a group before it is in the memtables",
        "crates/store/src/write.rs",
        "            self.insert(first, batches, log);\n",
        "            self.visible.store(last, Ordering::Release);\n\
         self.insert(first, batches, log);\n",
        "api::db::tests::models::batches_are_whole_and_reads_never_go_back",
    ),
    race(
        "a reader does not look again once it leads the flight of a block",
        "crates/store/src/sst/blocks.rs",
        "        let landed = self.landed_or_noted(address);",
        "        let landed = None::<BlockRef>;",
        "sst::blocks::tests::models::a_cold_block_is_read_once_however_its_readers_meet",
    ),
    Mutation {
        package: "tidekv-cache",
        ..race(
            "a shard of the cache is changed outside of its lock",
            "crates/cache/src/block/mod.rs",
            "        let dropped = shard.insert(hash, id, tag, value, charge, arrival);\n        \
             drop(shard);\n        \
             drop(dropped);\n",
            "        let mut blocks =\n\
             std::mem::replace(&mut shard.blocks, Ordered::new(Eviction::Lru, 0));\n\
             drop(shard);\n\
             let mut shard = self.shard(hash).lock();\n\
             std::mem::swap(&mut shard.blocks, &mut blocks);\n\
             drop(shard.insert(hash, id, tag, value, charge, arrival));\n",
            "block::tests::models::changes_of_the_capacity_leave_all_shards_with_the_last_one",
        )
    },
    race(
        "a merge takes entries in whatever order they come",
        "crates/store/src/compaction/retain.rs",
        "            Ordering::Equal | Ordering::Greater => return Decision::Misplaced,\n",
        "            Ordering::Equal | Ordering::Greater => false,\n",
        "compaction::retain::tests::entries_out_of_order_are_noticed_whether_they_are_kept_or_not",
    ),
    Mutation {
        package: "tidekv-resp",
        ..race(
            "a round that another writer has undone is answered as done",
            "crates/resp/src/dispatch/group_commit.rs",
            "            Ok(Ok(Commit::Conflict)) => later.push(waiting),\n",
            "            Ok(Ok(Commit::Conflict)) => waiting.answer(Outcome::Done(replies)),\n",
            "dispatch::group_commit::tests::what_another_writer_has_changed_is_read_again",
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
        "a get asks the caches and not the memtables",
        "crates/store/src/read/point_lookup.rs",
        "match self.ask_memtables(see) {",
        "match None::<R> {",
        "a_memtable_goes_before_the_caches",
    ),
    stale(
        "a flush does not tell of new versions",
        "crates/store/src/compaction/cache_invalidation.rs",
        "self.point.update(hash, name, entry).then_some(Tag { hash, from: None })",
        "entry.and(None)",
        "a_flush_brings_the_caches_up_to_date",
    ),
    stale(
        "a flush does not redirect pointers",
        "crates/store/src/jobs/flusher.rs",
        "            cache_invalidation::redirect(self.caches.point(), &output.placed);\n",
        "",
        "a_flush_brings_the_caches_up_to_date",
    ),
    stale(
        "a deletion leaves the pointer",
        "crates/cache/src/point/shard.rs",
        "                self.kp.remove(fingerprint);\n",
        "",
        "a_flush_brings_the_caches_up_to_date",
    ),
    stale(
        "a range that is deleted stays in the caches",
        "crates/store/src/jobs/flusher.rs",
        "            point.forget(is_covered, |_| false);\n",
        "            let _ = is_covered;\n",
        "a_range_that_was_deleted_is_not_in_the_caches",
    ),
    stale(
        "a pointer is followed below a range tombstone",
        "crates/store/src/read/point_read.rs",
        "&& !self.lookup.view.version.tombstoned().iter().any(covers)",
        "|| self.lookup.view.version.tombstoned().iter().any(covers)",
        "a_range_that_was_deleted_is_not_in_the_caches",
    ),
    stale(
        "an ingest leaves the caches as they are",
        "crates/store/src/lifecycle/upkeep.rs",
        "        self.forget_span(tree, &version, &span);\n",
        "",
        "an_ingest_takes_the_place_of_what_the_caches_hold",
    ),
    stale(
        "what was found before a flush is kept",
        "crates/cache/src/point/cache.rs",
        "if !epoch.holds(shard.epoch.load(Ordering::Relaxed)) {",
        "if !epoch.holds(epoch.0) {",
        "what_was_found_before_a_flush_is_not_kept",
    ),
    stale(
        "what is found during an ingest is kept",
        "crates/store/src/lifecycle/upkeep.rs",
        "let change = self.caches.point().begin_change();",
        "let change = self.caches.point().advance_epoch();",
        "what_was_found_during_an_ingest_is_not_kept",
    ),
    stale(
        "a snapshot is answered with what came later",
        "crates/store/src/read/point_lookup.rs",
        "            _ => sequence <= self.known,",
        "            _ => true,",
        "a_snapshot_sees_what_it_saw",
    ),
    Mutation {
        target: "lib",
        ..stale(
            "a read of many keys has what came later of one of them",
            "crates/store/src/read/point_lookup.rs",
            "            0 => self.is_at_snapshot || self.tree.flushed() <= self.known,",
            "            0 => true,",
            "api::keyspace::tests::a_version_without_a_sequence_is_not_older_than_its_flush",
        )
    },
    stale(
        "a snapshot follows a pointer to what came later",
        "crates/store/src/read/point_read.rs",
        "        sequence <= self.lookup.reader.known\n            && !",
        "        !",
        "a_snapshot_sees_what_it_saw",
    ),
    stale(
        "what a snapshot finds is kept for all",
        "crates/store/src/api/keyspace.rs",
        "        at.is_none().then(|| self",
        "        Some(at).map(|_| self",
        "what_a_snapshot_finds_is_not_kept",
    ),
    stale(
        "a key is taken for another one of its fingerprint",
        "crates/store/src/sst/table/probe.rs",
        "        entry_at(block, pointer.len, pointer.position as usize, user_key)",
        "        let position = block.view().lower_bound(user_key, Trailer(u64::MAX));\n\
                 entry_at(block, pointer.len, position, user_key)",
        "keys_that_share_a_fingerprint_are_not_taken_for_each_other",
    ),
    stale(
        "pointers are lost to compactions",
        "crates/store/src/jobs/compactor.rs",
        "        cache_invalidation::relocate(self.caches.point(), placed, parts.compaction.output_level);\n",
        "",
        "pointers_follow_their_entries_through_compactions",
    ),
    stale(
        "keyspaces share the entries of the caches",
        "crates/store/src/read/point_lookup.rs",
        "        Name { keyspace: self.reader.tree.id, key: self.key.user_key }\n",
        "        Name { keyspace: 0, key: self.key.user_key }\n",
        "keyspaces_do_not_answer_for_each_other",
    ),
    Mutation {
        package: "tidekv-cache",
        ..race(
            "a pointer follows an entry that it does not lead to",
            "crates/cache/src/point/shard.rs",
            "is_some_and(|entry| entry.pointer == from)",
            "is_some()",
            "point::cache::tests::a_sync_brings_the_new_value_and_a_deletion_takes_all",
        )
    },
    Mutation {
        package: "tidekv-cache",
        ..race(
            "a flush lets what was found before it in",
            "crates/cache/src/point/cache.rs",
            "        self.count_up(1 << UNDER_WAY_BITS);\n",
            "",
            "point::cache::tests::models::nothing_stale_comes_in_beside_flushes",
        )
    },
    Mutation {
        package: "tidekv-cache",
        ..race(
            "what is found while the tree changes comes in",
            "crates/cache/src/point/cache.rs",
            "self.0 == now && now & ((1 << UNDER_WAY_BITS) - 1) == 0",
            "self.0 == now",
            "point::cache::tests::models::nothing_stale_comes_in_beside_ingests",
        )
    },
    race(
        "a compaction brings pointers along when others may have installed something",
        "crates/store/src/jobs/compactor.rs",
        "        cache_invalidation::relocate(self.caches.point(), placed, parts.compaction.output_level);\n        \
         parts.tree.install_tables(&removed, added);\n        \
         drop(structure);\n        \
         self.after_install();\n",
        "        parts.tree.install_tables(&removed, added);\n        \
         drop(structure);\n        \
         self.after_install();\n        \
         cache_invalidation::relocate(self.caches.point(), placed, parts.compaction.output_level);\n",
        "api::db::tests::models::no_pointer_comes_back_after_an_ingest",
    ),
    stale(
        "what a compaction has seen expire stays in the caches",
        "crates/store/src/compaction/cache_invalidation.rs",
        "                    point.update(name_hash(name), name, None);\n",
        "                    let _ = (point, name);\n",
        "what_a_compaction_has_seen_expire_stays_so",
    ),
    stale(
        "a key meets the damage behind the pointer of another one",
        "crates/store/src/read/point_read.rs",
        "(Err(_), Stage::Pointer(..)) =>",
        "(Err(_), Stage::Memory) =>",
        "damage_behind_the_pointer_of_another_key_is_not_met",
    ),
    stale(
        "what a compaction writes is cold, however hot what it reads",
        "crates/store/src/jobs/compactor.rs",
        "_ => Some(Rule::HotBlockCarryover),",
        "_ => None,",
        "hot_blocks_stay_in_memory_through_compactions",
    ),
    stale(
        "all that a compaction writes is hot",
        "crates/store/src/compaction/hot_block_carryover.rs",
        "data: f32::from(cache.heat(BlockId { table, offset })) / entries.max(1) as f32",
        "data: 15.0",
        "hot_blocks_stay_in_memory_through_compactions",
    ),
    warm(
        "what logs hold is not told to pointers that have come back",
        "crates/store/src/lifecycle/recovery.rs",
        "            cache_invalidation::redirect(self.caches.point(), &output.placed);\n",
        "",
        "pointers_that_come_back_are_synced_with_what_the_log_holds",
    ),
    warm(
        "pointers into tables of another time come back",
        "crates/store/src/jobs/warm_start.rs",
        "            self.restore_pointers(&pointers, shards);\n        }\n",
        "        }\n        self.restore_pointers(&pointers, shards);\n",
        "pointers_into_other_tables_do_not_come_back",
    ),
    ingested(
        "each table of an ingest counts for the stall",
        "crates/store/src/jobs/background.rs",
        "runs = runs.max(version.runs().len());",
        "runs = runs.max(version.level(0).len());",
        "the_tables_of_one_ingest_stop_nobody",
    ),
    ingested(
        "what is ingested counts as debt of writers",
        "crates/store/src/compaction/picker.rs",
        "    metas.filter(|meta| meta.sequence_override == 0)",
        "    metas.filter(|_| true)",
        "what_is_ingested_is_no_debt_of_writers_while_it_waits",
    ),
    ingested(
        "tables of one ingest stand in any order",
        "crates/store/src/version/levels.rs",
        "let key = if by_ingest > 0 { &*self.meta.smallest } else { &[] };",
        "let key: &[u8] = &[];",
        "runs_of_ingests_are_read_as_one_order",
    ),
    ingested(
        "who ingests waits for nothing",
        "crates/store/src/lifecycle/upkeep.rs",
        "        self.queue.exclusive(|| self.wait_for_merges())?;\n",
        "",
        "who_ingests_waits_where_who_writes_would",
    ),
    ingested(
        "who ingests does not look at what has piled up since somebody wrote",
        "crates/store/src/write.rs",
        "        self.with_logs(|logs| logs.has_room_until = 0);\n        \
             self.make_room(0)",
        "        self.make_room(0)",
        "who_ingests_waits_where_who_writes_would",
    ),
    warm(
        "values of another time come back",
        "crates/store/src/jobs/warm_start.rs",
        "        if is_of_these {\n            self.restore_values(&mut list.keys);\n",
        "        self.restore_values(&mut list.keys);\n        if is_of_these {\n",
        "values_of_other_tables_do_not_come_back",
    ),
    warm(
        "tables of other contents are the same",
        "crates/store/src/jobs/listing.rs",
        "properties.contents,",
        "0,",
        "values_of_a_twin_do_not_come_back",
    ),
    warm(
        "tables of other range deletions are the same",
        "crates/store/src/jobs/listing.rs",
        "        key_hash(&ranges),\n",
        "        0 * key_hash(&ranges),\n",
        "what_a_twin_has_deleted_does_not_come_back",
    ),
    warm(
        "values stay in a list that nobody can use",
        "crates/store/src/jobs/warm_start.rs",
        "            note_failure(self.put_hot_list(&list));\n",
        "",
        "values_of_other_tables_do_not_come_back",
    ),
    warm(
        "a list stays where nobody wants one",
        "crates/store/src/jobs/warm_start.rs",
        "            note_failure(self.put_list(HOT, None));\n",
        "",
        "values_of_other_tables_do_not_come_back",
    ),
    warm(
        "values come back behind what logs hold",
        "crates/store/src/lifecycle/recovery.rs",
        "        let hot_list = self.take_hot_list();\n        \
             let made = Mutex::new(Vec::new());\n        \
             // Else each opening of a full disk would fill it further.\n        \
             let (mut edit, tables, number) =\n            \
             self.load_logs(&made).inspect_err(|_| self.remove_tables(&made.lock()))?;\n",
        "        let made = Mutex::new(Vec::new());\n        \
             let (mut edit, tables, number) =\n            \
             self.load_logs(&made).inspect_err(|_| self.remove_tables(&made.lock()))?;\n        \
             let hot_list = self.take_hot_list();\n",
        "values_that_come_back_are_synced_with_what_the_log_holds",
    ),
    warm(
        "a list has values that are in no table",
        "crates/store/src/jobs/listing.rs",
        "sequence <= written.flushed || written.ingested.contains(&sequence);",
        "sequence <= 1 << 50;",
        "what_came_into_no_table_is_in_no_list",
    ),
    warm(
        "what was written before an ingest counts as flushed",
        "crates/store/src/jobs/listing.rs",
        "or_default().flushed = keyspace.flushed;",
        "or_default().flushed =\n                \
             keyspace.flushed.max(self.tree(id).map_or(0, |tree| tree.flushed()));",
        "what_came_into_no_table_is_in_no_list",
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
        "a list has names alone",
        "crates/store/src/jobs/listing.rs",
        "if tables.vouch_for(entry) {",
        "if tables.vouch_for(entry) && times > 200 {",
        "the_values_of_the_hottest_keys_come_back_without_a_read",
    ),
    Mutation {
        target: "lib",
        ..mutation(
            "long values that were asked for once more come into a list before short ones",
            "crates/store/src/jobs/listing.rs",
            "f32::from(times) / both_bytes as f32;",
            "f32::from(times);",
            "jobs::listing::tests::what_saves_most_for_its_bytes_comes_first",
        )
    },
    Mutation {
        target: "extremes",
        ..mutation(
            "range tombstones fill no memtable",
            "crates/store/src/memtable/mod.rs",
            "self.charge() as u64 >= bytes || self.tombstones.any.load(Ordering::Relaxed) && is_long()",
            "self.charge() as u64 >= bytes || bytes == 0 && is_long()",
            "ranges_that_lie_within_one_another_are_written_once",
        )
    },
    Mutation {
        target: "extremes",
        ..mutation(
            "a fragment keeps a tombstone too few for an old snapshot",
            "crates/store/src/format/range_tombstones.rs",
            "older.checked_sub(1)",
            "older.checked_sub(2)",
            "ranges_that_lie_within_one_another_are_written_once",
        )
    },
    Mutation {
        target: "lib",
        ..mutation(
            "a fragment keeps every tombstone that covers it",
            "crates/store/src/format/range_tombstones.rs",
            "older.checked_sub(1).map(|last| snapshots[last])",
            "let _ = older;\n            sequence.checked_sub(1)",
            "format::range_tombstones::tests::ranges_within_one_another_take_memory_by_their_number",
        )
    },
    warm(
        "a list is read whatever memory it takes",
        "crates/store/src/jobs/warm_start.rs",
        "if bytes > LIST_EXCESS_MAX * self.list_bytes_max() {",
        "if bytes > 1000 * LIST_EXCESS_MAX * self.list_bytes_max() {",
        "a_list_that_would_take_much_of_the_memory_is_not_read",
    ),
    Mutation {
        target: "lib",
        ..cached(
            "a cache of which each shard is nearly full has room",
            "crates/cache/src/block/mod.rs",
            "2 * self.sum(|shard| usize::from(shard.has_room_for_one())) > self.shards.len()",
            "self.charged_bytes() + (64 << 10) < self.capacity()",
            "block::tests::a_cache_is_full_though_every_shard_has_some_bytes_left",
        )
    },
    warm(
        "keys are brought back in any order",
        "crates/store/src/jobs/listing.rs",
        "(Reverse(hot.times), hot.keyspace)",
        "hot.keyspace",
        "the_hottest_come_back_first",
    ),
    warm(
        "what KV has lent is lost",
        "crates/store/src/warm/borrowed_budget.rs",
        "self.lend(|_| 0.0);",
        "",
        "kv_lends_what_it_does_not_fill_yet_and_has_it_back",
    ),
    warm(
        "what brings back what was hot takes the lock that closing holds",
        "crates/store/src/jobs/warm_start.rs",
        "            if engine.is_closed.load(Ordering::Acquire) {\n                \
             return;\n            \
             }\n",
        "            let Ok(_gate) = engine.enter() else { return };\n",
        "a_store_is_closed_while_what_was_hot_is_brought_back",
    ),
    cached(
        "KV wants bytes for values that it does not hold",
        "crates/cache/src/point/shard.rs",
        "let is_for_kv = self.kv.can_hold(&resolved.entry);",
        "let is_for_kv = true;",
        "point::shard::tests::longer_values_want_as_many_more_bytes",
    ),
    cached(
        "KV wants as many bytes for long values as for short ones",
        "crates/cache/src/point/shard.rs",
        "        self.made_for = due;\n        Some(self.ghost())",
        "        (due > self.made_for).then(|| self.ghost()).and(None)",
        "point::shard::tests::longer_values_want_as_many_more_bytes",
    ),
    cached(
        "KP wants bytes that it does not fill",
        "crates/cache/src/point/shard.rs",
        "                && !self.kp.can_grow()",
        "                && kp_ghost.charged_bytes() > 0",
        "point::shard::tests::pointers_want_no_more_than_they_fill",
    ),
    cached(
        "blocks of all extents are alike",
        "crates/cache/src/block/shard.rs",
        "Arrival::Alone if is_equal => is_behind,",
        "Arrival::Alone if is_equal => false,",
        "block::tests::of_blocks_that_are_asked_for_alike_those_of_some_extents_stay",
    ),
    cached(
        "what comes together is let in as what comes alone",
        "crates/cache/src/block/shard.rs",
        "if blocks > 1 { Self::Together } else { Self::Alone }",
        "if blocks > 1 { Self::Alone } else { Self::Alone }",
        "block::tests::a_read_of_several_blocks_brings_them_together",
    ),
    Mutation {
        name: "the store does not say that it read several blocks at once",
        file: "crates/store/src/sst/blocks.rs",
        find: "let arrival = Arrival::of_read(run.len());",
        replace: "let arrival = Arrival::Alone;",
        package: "tidekv",
        target: "lib",
        test: "sst::blocks::tests::blocks_that_are_read_together_stay_together",
    },
    Mutation {
        name: "scans pay for merges with blocks that they go through",
        file: "crates/store/src/sst/table/fetch.rs",
        find: "self.is_sought && self.walked == 0 && ask == Ask::Storage",
        replace: "self.walked == 0 && ask == Ask::Storage",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::what_does_not_seek_pays_for_no_merge",
    },
    Mutation {
        name: "seeks that read alone pay nothing",
        file: "crates/store/src/sst/table/fetch.rs",
        find: "if is_seek { Purpose::Seek } else { Purpose::Any }",
        replace: "if is_seek && ask == Ask::Forward { Purpose::Seek } else { Purpose::Any }",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_seek_pays_where_it_reads_alone",
    },
    Mutation {
        name: "a run's pay is gone when level 0 is merged with itself",
        file: "crates/store/src/compaction/picker.rs",
        find: "let staying = if self.output_level == self.level { &*self.inputs } else { &[] };",
        replace: "let staying: &[Arc<TableHandle>] = &[];",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::what_a_run_has_paid_is_not_lost_when_level_0_is_merged_with_itself",
    },
    Mutation {
        name: "merges for seeks are paid for with what stays a run",
        file: "crates/store/src/compaction/picker.rs",
        find: "if self.output_level == self.level { all - most } else { all }",
        replace: "if most > 0 { all } else { 0 }",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::what_a_run_has_paid_is_not_lost_when_level_0_is_merged_with_itself",
    },
    Mutation {
        name: "a merge for seeks that failed is tried for nothing",
        file: "crates/store/src/jobs/compactor.rs",
        find: "is_paid(version).inspect(Compaction::spend_seek_bytes)",
        replace: "is_paid(version)",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_merge_that_fails_is_paid_for_again",
    },
    Mutation {
        name: "merges for seeks begin beside others",
        file: "crates/store/src/jobs/compactor.rs",
        find: "if self.compactions_running.load(Ordering::Acquire) > 0 || trees.iter().any(is_needed) {",
        replace: "if trees.iter().any(is_needed) {",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::no_merge_for_seeks_begins_beside_another",
    },
    Mutation {
        name: "what a table of the base level has paid is gone with a merge from above",
        file: "crates/store/src/compaction/picker.rs",
        find: "for table in staying.iter().chain(&self.lower) {",
        replace: "for table in staying {",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::what_a_table_has_paid_stays_when_another_is_merged_into_it",
    },
    Mutation {
        name: "who finds a block in memory pays for its read",
        file: "crates/store/src/sst/blocks.rs",
        find: "        let result = match landed.or_else(|| self.get_from_tier(address)) {",
        replace: "        if landed.is_some() {\n            self.note_purpose(address, purpose);\n        }\n        let result = match landed.or_else(|| self.get_from_tier(address)) {",
        package: "tidekv",
        target: "lib",
        test: "sst::blocks::tests::who_reads_for_a_seek_pays_for_it_once",
    },
    Mutation {
        name: "seeks pay for merges of level 0 alone",
        file: "crates/store/src/compaction/picker.rs",
        find: "let paid = below.filter(Compaction::is_paid_by_seeks);",
        replace: "let paid = below.filter(Compaction::is_paid_by_seeks).take(0);",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_table_of_a_level_between_is_merged_once_it_is_paid_for",
    },
    Mutation {
        name: "runs are merged that scans have not paid for",
        file: "crates/store/src/compaction/picker.rs",
        find: "READ_AND_WRITTEN * self.cost_bytes()",
        replace: "self.cost_bytes() / 4",
        package: "tidekv",
        target: "lib",
        test: "api::db::tests::seeks::a_run_in_which_scans_have_read_as_much_as_merging_it_costs_is_merged",
    },
    Mutation {
        name: "a look at what scans have paid for comes as seldom where tables are small",
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
        "point::kp::tests::few_bytes_hold_pointers_too",
    ),
    cached(
        "what comes together makes holes",
        "crates/cache/src/block/shard.rs",
        "Arrival::Together if is_behind => rate < rival_rate * BEHIND_TOGETHER,",
        "Arrival::Together if is_equal => is_behind,",
        "block::tests::blocks_that_come_together_make_no_holes",
    ),
    cached(
        "pointers are kept that spare nothing",
        "crates/cache/src/point/shard.rs",
        "let spares = reads > data_reads ||",
        "let spares = reads >= data_reads ||",
        "point::shard::tests::a_pointer_is_kept_where_it_would_have_spared_a_read",
    ),
    cached(
        "a search does not see that a few pointers are worth much",
        "crates/cache/src/partition/controller.rs",
        "if !takes_first =>",
        "=>",
        "partition::controller::tests::a_search_sees_that_a_few_pointers_are_worth_much",
    ),
    cached(
        "a search goes by what is wanted most of all pointers",
        "crates/cache/src/partition/controller.rs",
        "c == Component::Kp && split[c as usize] < self.window_bytes;",
        "c == Component::Kp;",
        "partition::controller::tests::a_search_goes_by_the_average_once_there_are_pointers_enough",
    ),
    cached(
        "pointers get their bytes by the page",
        "crates/cache/src/point/kp.rs",
        "const CHUNK_BUCKETS: usize = 8;",
        "const CHUNK_BUCKETS: usize = 32;",
        "point::kp::tests::few_bytes_hold_pointers_too",
    ),
    cached(
        "as much of every ghost is near",
        "crates/cache/src/partition/ghost.rs",
        "self.ways.div_ceil(self.near_part)",
        "self.ways.div_ceil(NEAR_PART)",
        "partition::ghost::tests::another_part_may_be_near",
    ),
    stale(
        "what a flush keeps for a snapshot is the newest version",
        "crates/store/src/compaction/cache_invalidation.rs",
        "is_value(t) && t.sequence() > covered",
        "is_value(t) && t.sequence() > covered.min(0)",
        "what_a_flush_keeps_for_a_snapshot_is_not_the_newest_version",
    ),
    cached(
        "what is in memory anyway pushes out what saves reads",
        "crates/cache/src/point/kv.rs",
        "self.charged_bytes() + self.chunk_bytes + table <= self.capacity",
        "self.charged_bytes() + table <= self.capacity",
        "point::shard::tests::what_is_in_memory_anyway_comes_in_where_nothing_leaves_for_it",
    ),
    stale(
        "what is in memory anyway counts for nothing",
        "crates/store/src/read/point_read.rs",
        "} else if admission.is_shown_unread {",
        "} else if admission.is_shown_unread && false {",
        "what_is_asked_for_often_comes_to_the_values_though_its_blocks_are_in_memory",
    ),
    stale(
        "what the filter was not asked for is absent",
        "crates/store/src/sst/table/probe.rs",
        "Look::Skip => self.go_behind(partition),",
        "Look::Skip => Stage::Done,",
        "filters_that_save_nothing_are_passed_by",
    ),
    cached(
        "boundaries that have settled sway as they did before",
        "crates/cache/src/partition/controller.rs",
        "            Self::Follow { .. } => apart * apart,",
        "            Self::Follow { .. } => apart,",
        "partition::controller::tests::who_follows_goes_far_only_where_credits_are_far_apart",
    ),
    cached(
        "what nothing had to leave for counts as a price of nothing",
        "crates/cache/src/point/kv.rs",
        "            let Some(price) = leaving.last().map(|&last| living[last].worth) else {\n                \
         break (chunks, living, leaving);\n            };\n",
        "            let price = leaving.last().map_or(0.0, |&last| living[last].worth);\n",
        "point::kv::tests::what_is_good_stays_though_it_came_together",
    ),
    cached(
        "every chunk of values loses a quarter in its turn",
        "crates/cache/src/point/kv.rs",
        "price <= self.price_usual * PRICE_UNUSUAL",
        "price <= f32::MAX",
        "point::kv::tests::what_is_good_stays_though_it_came_together",
    ),
    cached(
        "a value is overwritten under its old number",
        "crates/cache/src/point/kv.rs",
        "            write_value(chunk, at, entry);\n        }\n        fits\n",
        "            write_value(chunk, at, &KvEntry { stamp: 0, ..*entry });\n        \
         }\n        fits\n",
        "point::kv::tests::a_value_as_long_as_the_old_one_takes_its_place",
    ),
    cached(
        "looks that save nothing keep a filter",
        "crates/cache/src/block/shard.rs",
        "look(&self.blocks.peek(hash, &id)?.value)",
        "look(&self.blocks.get(hash, &id)?.value)",
        "block::tests::looks_that_save_nothing_do_not_keep_a_filter",
    ),
    cached(
        "counters end where they are exact",
        "crates/cache/src/partition/sketch.rs",
        "[usize::from(least)].saturating_add(times);",
        "[usize::from(least)].saturating_add(times).min(W::EXACT.into());",
        "partition::sketch::tests::wide_counters_are_right_to_within_an_eighth",
    ),
    cached(
        "a line that was halved just now has counted for as long as others",
        "crates/cache/src/partition/sketch.rs",
        "            _ => f32::from(count) / self.span(hash),",
        "            _ => f32::from(count),",
        "partition::sketch::tests::rates_of_all_lines_are_of_the_same_time",
    ),
    cached(
        "what is in memory comes in only where nothing leaves for it",
        "crates/cache/src/point/shard.rs",
        "if self.kv_price > 0.0 && worth >= self.kv_price {",
        "if false {",
        "point::shard::tests::what_is_in_memory_comes_in_where_it_is_asked_for_more_than_what_leaves",
    ),
    cached(
        "what is in memory comes in whatever it is worth",
        "crates/cache/src/point/shard.rs",
        "if self.kv_price > 0.0 && worth >= self.kv_price {",
        "if self.kv_price > 0.0 {",
        "point::shard::tests::what_is_in_memory_comes_in_where_it_is_asked_for_more_than_what_leaves",
    ),
    cached(
        "a read is wanted of which only one block was known",
        "crates/cache/src/block/mod.rs",
        "hit.min(others)",
        "if hit.window > 0.0 { hit } else { others }",
        "block::tests::a_read_is_wanted_once_and_only_if_all_its_blocks_were_known",
    ),
    cached(
        "a read is wanted once for each of its blocks",
        "crates/cache/src/block/mod.rs",
        "saved = Some((shard, hit.min(others)));",
        "saved = Some((shard, { let mut all = others; all += hit; all }));",
        "block::tests::a_read_is_wanted_once_and_only_if_all_its_blocks_were_known",
    ),
    cached(
        "an heir comes in as if nobody had asked for its content",
        "crates/cache/src/block/mod.rs",
        "        if let Some(sketch) = shard.admission.sketch() {\n            \
             sketch.raise(spread(hash as u32), times);\n",
        "        if let Some(sketch) = shard.admission.sketch() {\n            \
             sketch.raise(spread(hash as u32), times.min(1));\n",
        "block::tests::an_heir_comes_in_by_what_its_content_was_asked_for",
    ),
    cached(
        "all newcomers are held against the same block",
        "crates/cache/src/block/shard.rs",
        "        self.blocks.renew_oldest();\n",
        "",
        "block::tests::newcomers_are_held_against_one_block_after_the_other",
    ),
    cached(
        "what is asked for often is as old as when it came",
        "crates/cache/src/eviction/lists.rs",
        "if age > 1 {",
        "if age > 0x7FFF {",
        "eviction::lru::tests::what_is_asked_for_lazily_and_often_outlives_all_others",
    ),
    cached(
        "what is among the newest moves all the same",
        "crates/cache/src/eviction/lists.rs",
        "if age > 1 {",
        "if age < 2 || age > 1 {",
        "eviction::lru::tests::asked_for_lazily_the_newest_stay_where_they_are_and_others_move",
    ),
    cached(
        "of old blocks none but the oldest moves when it is asked for",
        "crates/cache/src/eviction/lists.rs",
        "if age > 1 {",
        "if age > 12 {",
        "eviction::lru::tests::asked_for_lazily_the_newest_stay_where_they_are_and_others_move",
    ),
    cached(
        "a ghost that knows a sample of the keys speaks for these alone",
        "crates/cache/src/partition/ghost.rs",
        "(f64::from(self.sampling), self.keeps_last)",
        "(1.0, self.keeps_last)",
        "point::shard::tests::a_sample_of_the_keys_wants_what_all_of_them_do",
    ),
    cached(
        "so it does where nothing was read",
        "crates/cache/src/point/shard.rs",
        "answered.window as u32",
        "u32::from(answered.window > 0.0)",
        "point::shard::tests::a_sample_of_the_keys_wants_what_all_of_them_do",
    ),
    cached(
        "all newcomers of a ghost are held against the same one",
        "crates/cache/src/partition/ghost.rs",
        "                bucket.rotate_right(1);\n",
        "",
        "partition::ghost::tests::what_is_asked_for_stays_through_a_flood_of_what_is_not",
    ),
    cached(
        "a read of one block is not wanted",
        "crates/cache/src/block/mod.rs",
        "None => shard.note_read(hash),",
        "None => {}",
        "block::tests::who_reads_alone_looks_once_more_and_says_that_it_reads",
    ),
    cached(
        "a read is near of which one block was",
        "crates/cache/src/partition/ghost.rs",
        "near: self.near.min(other.near)",
        "near: self.near.max(other.near)",
        "block::tests::a_read_is_near_only_if_all_its_blocks_are",
    ),
    cached(
        "who is asked for right now counts as asked for more than others",
        "crates/cache/src/partition/ghost.rs",
        "sketch.rate_before(spread(fingerprint))",
        "sketch.rate(spread(fingerprint))",
        "partition::ghost::tests::among_equals_each_part_of_the_window_has_as_many_hits",
    ),
    cached(
        "what was noted last is near",
        "crates/cache/src/partition/ghost.rs",
        "asked > times || asked == times && at < place",
        "at < place || asked > f32::MAX - times * 0.0",
        "partition::ghost::tests::near_are_those_that_are_asked_for_most",
    ),
    cached(
        "what has room gets more",
        "crates/cache/src/caches.rs",
        "step.min(room_max.saturating_sub(room))",
        "step.min(room.max(step))",
        "caches::tests::what_has_room_gets_little_more",
    ),
    cached(
        "each part may take what any could fill",
        "crates/cache/src/partition/controller.rs",
        "let bytes_max = bytes_max[winner];",
        "let bytes_max = bytes_max.into_iter().max().unwrap_or(0);",
        "partition::controller::tests::who_has_room_gets_no_more_and_is_waited_for",
    ),
    cached(
        "boundaries are searched for by the first part of the window",
        "crates/cache/src/partition/controller.rs",
        "Self::Search { .. } if !takes_first => credit.window,",
        "Self::Search { .. } if !takes_first => credit.window.max(credit.near),",
        "partition::controller::tests::the_place_is_found_where_more_is_of_no_use",
    ),
    cached(
        "boundaries stay where the average over the window has them",
        "crates/cache/src/partition/controller.rs",
        "credit.window.max(credit.near)",
        "credit.window",
        "partition::controller::tests::the_place_is_found_where_more_is_of_no_use",
    ),
    cached(
        "boundaries are searched for once",
        "crates/cache/src/partition/controller.rs",
        "if is_far_from(settled, STRAYED)",
        "if false && is_far_from(settled, STRAYED)",
        "partition::controller::tests::who_has_strayed_far_searches_again",
    ),
    cached(
        "boundaries that move on have settled",
        "crates/cache/src/partition/controller.rs",
        "Self::Settle { from, .. } if is_far_from(from, STILL) => settle,",
        "",
        "partition::controller::tests::who_goes_on_has_not_settled_and_does_not_search_again",
    ),
    cached(
        "a search takes as many steps however little they move",
        "crates/cache/src/partition/controller.rs",
        "(bytes_max as f64 / step_max).min(1.0)",
        "1.0",
        "partition::controller::tests::a_search_goes_by_what_its_steps_can_move",
    ),
    cached(
        "a search ends while nothing is wanted",
        "crates/cache/src/partition/controller.rs",
        "if can_judge {",
        "if true || can_judge {",
        "partition::controller::tests::a_search_goes_by_what_its_steps_can_move",
    ),
    cached(
        "boundaries that are put somewhere are searched for",
        "crates/cache/src/partition/controller.rs",
        "self.course = Course::Search { steps: 0.0 }.next(split, 0.0);",
        "let _ = split;",
        "partition::controller::tests::boundaries_that_are_put_somewhere_follow_from_there",
    ),
    cached(
        "a restart searches for boundaries that it has put somewhere",
        "crates/cache/src/caches.rs",
        "control.tide.settle_at(split);",
        "let _ = split;",
        "caches::tests::boundaries_that_are_put_somewhere_are_not_searched_for",
    ),
    cached(
        "a handful of near hits moves boundaries",
        "crates/cache/src/partition/controller.rs",
        "_ if credit.window < CREDIT_MIN =>",
        "_ if false =>",
        "partition::controller::tests::near_credits_say_nothing_where_there_are_few",
    ),
    cached(
        "ghosts of large caches know all keys",
        "crates/cache/src/caches.rs",
        "if is_sampled { POINT_SAMPLING } else { 1 }",
        "if is_sampled { 1 } else { 1 }",
        "caches::tests::ghosts_of_a_large_cache_know_a_sample_of_the_keys",
    ),
    cached(
        "where targets stay, a component without bytes gets some",
        "crates/cache/src/ac_key/shard.rs",
        "!self.boundaries.are_fixed() ||",
        "true ||",
        "ac_key::shard::tests::where_targets_stay_a_component_without_bytes_gets_nothing",
    ),
    cached(
        "boundaries that are to stay move",
        "crates/cache/src/ac_key/earc.rs",
        "Self::with(None, split)",
        "Self::with(Some(100_000.0), split)",
        "caches::tests::without_adaptation_ac_keys_boundaries_stay_and_what_has_no_bytes_gets_nothing",
    ),
    Mutation {
        target: "charges",
        ..cached(
            "lists keep the memory of entries that have left",
            "crates/cache/src/eviction/lists.rs",
            "if self.nodes.len() <= self.len() + self.len() / 4 + FREE_NODES_MAX {",
            "if self.len() <= self.nodes.len() {",
            "what_is_charged_is_what_is_allocated",
        )
    },
    unlearned(
        "a filter is repaired with the bits of another bucket",
        "crates/store/src/sst/table/repair.rs",
        "self.tails_at(&blocks.read_to_repair(&mirror)?, at)?",
        "self.tails_at(&blocks.read_to_repair(&mirror)?, at * 0)?",
        "what_is_asked_for_again_and_again_stops_costing_reads",
    ),
    unlearned(
        "a version that the reader may not see counts as none",
        "crates/store/src/sst/table/probe.rs",
        "(self.key.sequence >= properties.largest_sequence).then_some",
        "(self.key.sequence < u64::MAX).then_some",
        "versions_that_a_reader_may_not_see_are_no_false_positives",
    ),
    unlearned(
        "repairs of filters have no rate",
        "crates/store/src/sst/filter_repair.rs",
        "now_ns >= self.not_before_ns.load(Ordering::Relaxed)",
        "now_ns < u64::MAX",
        "repairs_are_held_to_their_rate",
    ),
    unlearned(
        "what filters had unlearned is believed of any table of the same number",
        "crates/store/src/jobs/filter_repairer.rs",
        "(properties.id, properties.file_bytes, properties.contents)",
        "(properties.id, 1, properties.contents.min(1))",
        "a_list_of_another_store_or_of_other_tables_is_not_believed",
    ),
    unlearned(
        "what filters had unlearned is not there in the next life",
        "crates/store/src/lifecycle/recovery.rs",
        "        self.restore_learned();\n",
        "",
        "what_was_learned_is_known_in_the_next_life",
    ),
    race(
        "what passed a filter once is repaired",
        "crates/store/src/sst/filter_repair.rs",
        "if !found.can_unlearn || !self.came_before(&found) {",
        "if !found.can_unlearn {",
        "sst::filter_repair::tests::what_comes_twice_is_repaired",
    ),
    race(
        "the bits of a repair are not those of its seed",
        "crates/store/src/sst/filter/cuckoo.rs",
        "bits: tails.map(|tail| seeded(tail, seed))",
        "bits: tails.map(|tail| seeded(tail, seed / 2))",
        "sst::filter::cuckoo::tests::repairs_make_no_key_fail_and_last",
    ),
    race(
        "a torn list of what filters had unlearned is believed",
        "crates/store/src/warm/list_file.rs",
        "found == magic && sum == checksum(magic, reader.rest())",
        "found == magic && (sum == checksum(magic, reader.rest()) || sum > 0)",
        "warm::repair_list::tests::what_is_torn_or_damaged_is_no_list",
    ),
    Mutation {
        package: "tidekv-tiered",
        target: "sizes",
        ..mutation(
            "a slot that goes because fewer may be in use is not written as free",
            "crates/tiered/src/device/limit.rs",
            "            self.write_slot(&Slot::free(id))?;\n",
            "",
            "a_kill_while_flash_gets_smaller_leaves_what_was_stored_last",
        )
    },
    Mutation {
        package: "tidekv-tiered",
        target: "sizes",
        ..mutation(
            "flash that comes back does not know how much of it may be used",
            "crates/tiered/src/fleet/flash.rs",
            "        device.set_slots_max(",
            "        let _unused = (",
            "a_device_that_comes_back_has_the_limit_of_today",
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
            "curves::watch::tests::what_was_lost_is_not_taken_for_hits",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "who is to keep what he has is planned for",
            "crates/plan/src/planner/elastic.rs",
            "let fixed = |number: &usize| seen[*number].is_fixed;",
            "let fixed = |number: &usize| seen[*number].is_fixed && seen.len() > 9;",
            "planner::elastic::tests::who_is_fixed_keeps_what_he_has",
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
            "planner::elastic::tests::all_together_never_have_more_than_there_is",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "by a guess somebody has less",
            "crates/plan/src/planner/elastic.rs",
            "if seen[number].is_guessed { sizes[number] }",
            "if seen[number].is_guessed && seen.len() > 9 { sizes[number] }",
            "planner::elastic::tests::by_a_guess_nobody_has_less",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "somebody else cannot have his latency",
            "crates/plan/src/planner/elastic.rs",
            "Infeasible::Sla { tenant: change[tenant], least_us }",
            "Infeasible::Sla { tenant: change[tenant].min(tenant), least_us }",
            "planner::elastic::tests::who_cannot_have_what_is_asked_is_named_among_all",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "what a miss takes is forgotten where nothing was missed",
            "crates/observe/src/curves.rs",
            "self.backend.end_window();",
            "self.backend = BackendTimes::default();",
            "curves::tests::each_tenant_has_a_curve_of_his_own",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "an object that is made for who fills it ends a miss",
            "crates/observe/src/curves/backend.rs",
            "        us >= SOONEST_US\n",
            "        us >= SOONEST_US || us < SOONEST_US\n",
            "curves::tests::what_a_miss_takes_ends_with_what_a_client_stores",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "the end of a window forgets who waits",
            "crates/observe/src/curves.rs",
            "*missed_us + LONGEST_US > latest_us",
            "*missed_us + LONGEST_US * 2 < latest_us",
            "curves::tests::what_a_miss_takes_ends_with_what_a_client_stores",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "a hit of what was stored before is a miss of every cache",
            "crates/observe/src/curves.rs",
            "AccessKind::Hit(bytes, ttl_ms) if !self.watch.has(key, at_ms) => {",
            "AccessKind::Hit(bytes, ttl_ms) if bytes == 0 && !self.watch.has(key, at_ms) => {",
            "curves::tests::what_was_there_before_is_learnt_from_its_hits",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "what comes back after a gap lives forever",
            "crates/observe/src/curves.rs",
            "self.unknown += 1.0 / self.watch.rate();\n                (Action::Set(bytes), ttl_ms)",
            "self.unknown += 1.0 / self.watch.rate();\n                (Action::Set(bytes), ttl_ms.filter(|_| false))",
            "curves::tests::in_bursts_objects_die_as_well",
        )
    },
    Mutation {
        package: "tidekv-observe",
        target: "lib",
        ..mutation(
            "what nobody has looked at counts as hits",
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
            "who finds the queue full goes on",
            "crates/observe/src/curves.rs",
            "of_tenant.gate.shut();",
            "_ = of_tenant.gate.is_closed();",
            "curves::tests::what_a_full_queue_has_no_room_for_is_counted",
        )
    },
    Mutation {
        package: "tidekv-plan",
        target: "lib",
        ..mutation(
            "a cache that is made much smaller is made as small at once",
            "crates/plan/src/planner/elastic.rs",
            "const ROOM: (f64, f64) = (0.3, 1.0);",
            "const ROOM: (f64, f64) = (0.3, 0.3);",
            "planner::elastic::tests::a_cache_that_is_made_much_smaller_keeps_what_is_asked_on_the_way",
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
            "data::execution::tests::a_command_that_is_run_again_has_read_once",
        )
    },
    tiered(
        "what is stored anew is not invalidated on flash",
        "crates/tiered/src/device/flash_device.rs",
        "        self.log_invalidation(name, sequence)?;\n        self.set(&mut partition, name, Entry::gone",
        "        self.set(&mut partition, name, Entry::gone",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "a touch leaves the copy on flash as it was",
        "crates/tiered/src/tenant/pool.rs",
        "        self.counters.stores.add(1);\n        self.forget_copies(shard, hash);",
        "        self.counters.stores.add(1);\n        if held.found.accessed_s == now_s {\n            self.forget_copies(shard, hash);\n        }",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "a record read from flash is any key's",
        "crates/tiered/src/segment/record.rs",
        "    if found_key != key {",
        "    if found_key.len() > 1 << 16 {",
        "nothing_else_is_found_either_when_fingerprints_collide",
    ),
    tiered(
        "an object is served in the second in which it expires",
        "crates/tiered/src/object.rs",
        "self.0.is_some_and(|second| second.get() <= now_s)",
        "self.0.is_some_and(|second| second.get() < now_s)",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "DRAM serves what has expired",
        "crates/tiered/src/tenant/pool.rs",
        "if shard.peek(hash, key)?.found.object.deadline.has_passed(now_s) {",
        "if now_s == 0 && shard.peek(hash, key)?.found.object.deadline.has_passed(now_s) {",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "segments from before everything was cleared are there after a kill",
        "crates/tiered/src/device/recovery.rs",
        "Some(entry) if entry.is_whole && entry.order >= superblock.first_segment => entry,",
        "Some(entry) if entry.is_whole => entry,",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "a clearing of flash is not written down",
        "crates/tiered/src/device/flash_device.rs",
        "            superblock.first_segment = first_segment;\n",
        "",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "a hot entry stays when its record goes",
        "crates/tiered/src/device/flash_device.rs",
        "        self.hot.remove(name);\n    }\n",
        "    }\n",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "what was read is kept whatever has happened to its key since",
        "crates/tiered/src/cache.rs",
        "recall.outcome.take().filter(|_| is_valid)",
        "recall.outcome.take().filter(|_| is_valid || hash != 0)",
        "nothing_is_found_but_what_was_stored_last",
    ),
    Mutation {
        target: "tenants",
        ..tiered(
            "a key is any tenant's whose prefix it begins with",
            "crates/tiered/src/tenant/tenants.rs",
            "prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));",
            "prefixes.sort_by_key(|(prefix, _)| prefix.len());",
            "who_stores_much_pushes_out_his_own_only",
        )
    },
    Mutation {
        target: "keeps",
        ..tiered(
            "flash is believed in another run of the machine",
            "crates/tiered/src/fleet/array.rs",
            "            && (superblock.is_closed || superblock.boot == boot)\n",
            "",
            "after_a_cut_of_power_flash_begins_empty",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "older metadata is believed beside newer objects",
            "crates/tiered/src/segment/mark.rs",
            "self.device == superblock.device && self.session <= superblock.session",
            "self.device == superblock.device",
            "cache::tests::metadata_that_does_not_fit_its_device_brings_nothing_old_back",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a device that cannot be read says still that it was closed in order",
            "crates/tiered/src/device/recovery.rs",
            "        files.claim(left)?;\n",
            "",
            "cache::tests::what_was_left_out_at_a_start_is_not_believed_at_the_next",
        )
    },
    Mutation {
        target: "keeps",
        ..tiered(
            "it is never written down from where a recovery begins",
            "crates/tiered/src/device/upkeep.rs",
            "            if cursor.is_multiple_of(part) {",
            "            if cursor.is_multiple_of(usize::MAX) && part > 0 {",
            "a_recovery_looks_at_little_however_much_is_there",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "a checkpoint cuts what a page still has off the log",
            "crates/tiered/src/device/flash_device.rs",
            "Entry::record(name.fingerprint, spot), first);",
            "Entry::record(name.fingerprint, spot), sequence);",
            "cache::tests::what_a_page_still_has_is_not_cut_off_the_log",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "that a device has left is not written down for good",
            "crates/tiered/src/fleet/flash.rs",
            "            flash.inner.sync_membership()?;\n",
            "",
            "cache::tests::what_was_left_out_at_a_start_is_not_believed_at_the_next",
        )
    },
    Mutation {
        target: "tenants",
        ..tiered(
            "flash of other tenants is believed",
            "crates/tiered/src/cache.rs",
            "first.tenants == tenants && told.all",
            "first.tenants < u64::MAX && told.all",
            "who_comes_back_finds_nothing_of_the_time_before",
        )
    },
    Mutation {
        target: "lib",
        ..tiered(
            "that the last invalidation is missing is not noticed",
            "crates/tiered/src/segment/invalidations.rs",
            "(is_whole && has_one_end && !self.is_damaged)",
            "(is_whole && !self.is_damaged)",
            "segment::invalidations::tests::one_that_is_missing_or_damaged_is_noticed",
        )
    },
    tiered(
        "a recovery takes operations as their segments come",
        "crates/tiered/src/index/replay.rs",
        "segments.next_if(|segment| next.is_none_or(|next| segment.order < next))",
        "segments.next_if(|segment| next.is_none_or(|next| segment.order > next))",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "a device that left is not told of",
        "crates/tiered/src/fleet/flash.rs",
        "            membership.detach(number);\n            leaving.extend(self.tell_all(&membership));\n",
        "            membership.detach(number);\n",
        "nothing_is_found_but_what_was_stored_last",
    ),
    tiered(
        "a device is believed without a witness",
        "crates/tiered/src/fleet/array.rs",
        "let is_confirmed = has_state || found.is_confirmed_by(present);",
        "let is_confirmed = has_state || found.is_confirmed_by(present) || boot != [0; 16];",
        "nothing_is_found_but_what_was_stored_last",
    ),
    below(
        "blocks are known to the tier by number and place alone",
        "crates/store/src/sst/block_tier.rs",
        "let numbers = [store, table, contents, description, offset];",
        "let numbers = [store, table, contents & 0, description & 0, offset];",
        "a_store_that_is_made_anew_finds_nothing_of_the_one_before",
    ),
    Mutation {
        target: "lib",
        ..below(
            "what a tier returns is believed if it is some block of that place",
            "crates/store/src/sst/block_tier.rs",
            ".filter(|(envelope, sum)| name.sum(envelope).to_le_bytes() == **sum)",
            ".filter(|(_, sum)| sum.len() == SUM_BYTES)",
            "sst::block_tier::tests::nothing_but_the_block_itself_is_opened",
        )
    },
    below(
        "a scan's reading ahead fills the tier",
        "crates/store/src/sst/blocks.rs",
        "let way = if run.len() == 1 { Way::ByTier } else { Way::PastTier };",
        "let way = if run.is_empty() { Way::PastTier } else { Way::ByTier };",
        "compactions_and_what_scans_read_ahead_go_past_the_tier",
    ),
    Mutation {
        target: "lib",
        ..tiered(
            "what is too large for a tier leaves what stood there before",
            "crates/tiered/src/tier.rs",
            "            return Self::remove(self, key);",
            "            return;",
            "tier::tests::what_cannot_be_kept_leaves_nothing_behind",
        )
    },
];
