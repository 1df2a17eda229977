//! The whole store under many schedules: writers, readers, flushes and
//! compactions, each in a thread of the model, on simulated storage. This is the
//! commit pipeline from the queue to the sequence that readers see, and the
//! exchange of views beside it.

use std::sync::Arc;

use tidekv_io::{Executor, Job, ManualClock, MemoryStorage, Priority};
use tidekv_testkit::models::{explore, shuttle};

use crate::{Commit, Db, Durability, Environment, Keyspace, Options, WriteBatch};
use tidekv_cache::CachePolicy;

/// Runs each job in a thread of the model.
#[derive(Debug)]
struct ModelThreads;

impl Executor for ModelThreads {
    fn execute(&self, _priority: Priority, job: Job) {
        shuttle::thread::spawn(job);
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn shutdown(&self) {}

    fn is_inline(&self) -> bool {
        false
    }
}

/// A new store.
fn store() -> (Db, Keyspace) {
    store_with(CachePolicy::default())
}

fn store_with(cache_policy: CachePolicy) -> (Db, Keyspace) {
    let environment = Environment::default()
        .storage(Arc::new(MemoryStorage::new()))
        .clock(Arc::new(ManualClock::new(1_000_000)))
        .executor(Arc::new(ModelThreads));
    let options = Options::default()
        .memory_bytes(1 << 20)
        .memtable_bytes(64 << 10)
        .cache_policy(cache_policy)
        .environment(environment);
    let db = Db::open("/data", options).unwrap();
    if let CachePolicy::AcKey { .. } = cache_policy {
        // Its boundaries begin where they are: entries are to have bytes.
        db.set_cache_policy(CachePolicy::Fixed { kv: 40, kp: 40 });
        db.set_cache_policy(cache_policy);
    }
    let keyspace = db.keyspace("k").unwrap();
    (db, keyspace)
}

fn spawn(
    scene: &(Db, Keyspace),
    body: impl FnOnce(&Db, &Keyspace) + Send + 'static,
) -> shuttle::thread::JoinHandle<()> {
    let (db, keyspace) = scene.clone();
    shuttle::thread::spawn(move || body(&db, &keyspace))
}

fn end(scene: &(Db, Keyspace), threads: impl IntoIterator<Item = shuttle::thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    scene.0.close().unwrap();
}

fn number(value: Option<crate::Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

/// A thread whose write is acknowledged sees it, the leader and the followers
/// of its group alike.
#[test]
fn a_write_is_visible_before_it_is_acknowledged() {
    explore::shuttle("store: three writers read what they wrote", || {
        let scene = store();
        let writers: Vec<_> = (0..3u64)
            .map(|thread| {
                spawn(&scene, move |_, keyspace| {
                    for n in 1..=2u64 {
                        keyspace.put([thread as u8], n.to_le_bytes()).unwrap();
                        assert_eq!(number(keyspace.get([thread as u8]).unwrap()), n);
                    }
                })
            })
            .collect();
        end(&scene, writers);
    });
}

/// Both keys of a batch have the same number in every snapshot, and no reader
/// ever goes back, while memtables are put aside, flushed and compacted.
#[test]
fn batches_are_whole_and_reads_never_go_back() {
    explore::shuttle("store: batches and readers beside flush and compaction", || {
        let scene = store();
        let writer = spawn(&scene, |db, keyspace| {
            for n in 1..=3u64 {
                let mut batch = WriteBatch::new();
                batch.put(keyspace, b"left", n.to_le_bytes());
                batch.put(keyspace, b"right", n.to_le_bytes());
                db.write(batch).unwrap();
            }
        });
        let flusher = spawn(&scene, |db, keyspace| {
            db.flush().unwrap();
            keyspace.compact_range::<&[u8]>(..).unwrap();
        });
        let reader = spawn(&scene, |db, keyspace| {
            let mut seen = 0;
            for _ in 0..2 {
                let now = number(keyspace.get("left").unwrap());
                assert!(now >= seen, "{now} after {seen}");
                let snapshot = db.snapshot();
                let both = ["left", "right"].map(|k| number(snapshot.get(keyspace, k).unwrap()));
                assert!(both[0] == both[1] && both[0] >= now, "{both:?} after {now}");
                seen = both[0];
            }
        });
        end(&scene, [writer, flusher, reader]);
    });
}

/// A snapshot sees what it saw, whatever is written, flushed and compacted.
#[test]
fn a_snapshot_stays_as_it_is() {
    explore::shuttle("store: a snapshot beside flush and compaction", || {
        let scene = store();
        scene.1.put("key", 1u64.to_le_bytes()).unwrap();
        let writer = spawn(&scene, |db, keyspace| {
            keyspace.put("key", 2u64.to_le_bytes()).unwrap();
            db.flush().unwrap();
            keyspace.put("key", 3u64.to_le_bytes()).unwrap();
            keyspace.compact_range::<&[u8]>(..).unwrap();
        });
        let reader = spawn(&scene, |db, keyspace| {
            let snapshot = db.snapshot();
            let first = number(snapshot.get(keyspace, "key").unwrap());
            assert!(first > 0);
            for _ in 0..3 {
                assert_eq!(number(snapshot.get(keyspace, "key").unwrap()), first);
            }
        });
        end(&scene, [writer, reader]);
    });
}

/// Of two transactions that read the same number one fails, also when the
/// memtable that could tell has been flushed in between.
#[test]
fn conditional_writes_exclude_each_other() {
    explore::shuttle("store: two counters in transactions beside a flush", || {
        let scene = store();
        let count = |db: &Db, keyspace: &Keyspace| {
            for _ in 0..2 {
                loop {
                    let mut tx = db.transaction();
                    let now = number(tx.get(keyspace, b"count").unwrap().map(|e| e.value));
                    tx.put(keyspace, b"count", (now + 1).to_le_bytes());
                    if tx.commit(Durability::Buffered).unwrap() == Commit::Done {
                        break;
                    }
                    shuttle::thread::yield_now();
                }
            }
        };
        let counters = [spawn(&scene, count), spawn(&scene, count)];
        let flusher = spawn(&scene, |db, _| db.flush().unwrap());
        for thread in counters.into_iter().chain([flusher]) {
            thread.join().unwrap();
        }
        assert_eq!(number(scene.1.get("count").unwrap()), 4);
        end(&scene, []);
    });
}

/// A flush and readers that leave what they find.
#[test]
fn cached_entries_are_never_older_than_the_tables() {
    for policy in ["kv-only", "kp-only", "ac-key", "ac-key-fixed:0,100,0"] {
        explore::shuttle(&format!("store: two flushes beside two readers, {policy}"), move || {
            let scene = store_with(policy.parse().unwrap());
            scene.1.put([1], 1u64.to_le_bytes()).unwrap();
            scene.1.flush().unwrap();
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    spawn(&scene, |_, keyspace| {
                        let mut last = 1;
                        for _ in 0..3 {
                            let found = number(keyspace.get([1]).unwrap());
                            assert!(found >= last, "{found} after {last}");
                            last = found;
                        }
                    })
                })
                .collect();
            for n in 2..=3u64 {
                scene.1.put([1], n.to_le_bytes()).unwrap();
                scene.1.flush().unwrap();
                assert_eq!(number(scene.1.get([1]).unwrap()), n);
            }
            end(&scene, readers);
        });
    }
}

/// A compaction brings pointers along, an ingest has them forgotten.
#[test]
fn no_pointer_comes_back_after_an_ingest() {
    explore::shuttle("store: an ingest beside a compaction, kp-only", || {
        let scene = store_with("kp-only".parse().unwrap());
        for n in 1..=2u64 {
            scene.1.put([1], n.to_le_bytes()).unwrap();
            scene.1.flush().unwrap();
        }
        assert_eq!(number(scene.1.get([1]).unwrap()), 2);
        let compaction = spawn(&scene, |_, keyspace| keyspace.compact_range::<&[u8]>(..).unwrap());
        scene.1.ingest([([1], 3u64.to_le_bytes())]).unwrap();
        assert_eq!(number(scene.1.get([1]).unwrap()), 3);
        compaction.join().unwrap();
        assert_eq!(number(scene.1.get([1]).unwrap()), 3);
        scene.0.close().unwrap();
    });
}
