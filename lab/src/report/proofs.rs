//! The proofs in `docs/reliability.md`: the checks of each, and the commands to repeat it. Their
//! results come from rows.

/// One kind of proof.
pub(crate) struct Proof<'a> {
    /// The experiment's name in the rows.
    pub(crate) name: &'a str,
    pub(crate) title: &'a str,
    /// The checks, in two or three sentences.
    pub(crate) what: &'a str,
    /// The commands that repeat it, one per line.
    pub(crate) command: &'a str,
    /// The metric with the number of checked cases of a run.
    pub(crate) cases: &'a str,
    /// Whether the document only counts its runs and lists those with a loss.
    pub(crate) is_counted: bool,
}

/// All of them, in the order of the document.
pub(crate) const PROOFS: &[Proof<'static>] = &[
    Proof {
        name: "proof-power",
        title: "Power cuts",
        what: "A recorded workload (batches over keyspaces, synced and unsynced, flushes, \
               compactions, range deletes, expiry, checkpoints, bulk ingest, a machine's clock \
               that is set back and forward) runs on the simulated disk, and power is cut at every \
               storage operation, including those of the recoveries that follow; unsynced data is \
               dropped, kept or torn. The test opens the store after each cut and compares it with \
               a model: no synced write is lost, unsynced writes survive as a prefix without \
               holes, no batch is incomplete.",
        command: "TIDEKV_POWER_SEEDS=20 TIDEKV_POWER_TORN=3 TIDEKV_POWER_SAMPLE=20 \
                  cargo test --release -p tidekv --test power",
        cases: "cuts",
        is_counted: false,
    },
    Proof {
        name: "proof-faults",
        title: "Failing storage",
        what: "Every storage operation of such a workload fails in turn, in every possible way \
               (EIO, ENOSPC, short reads and writes, a failed sync), once, several times and \
               until the disk is repaired. The error must reach the caller, reads must continue, \
               no acknowledged write may be lost, and once the cause is gone the store accepts \
               writes again or reports that it must be reopened. A failed sync is never silently \
               retried.",
        command: "TIDEKV_FAULTS_SEEDS=4 TIDEKV_FAULTS_SAMPLE=1 \
                  cargo test --release -p tidekv --test faults",
        cases: "faults",
        is_counted: false,
    },
    Proof {
        name: "proof-kill",
        title: "Killed servers",
        what: "The real server on a real disk is killed (SIGKILL) at random under load and \
               restarted with other settings. Clients record the acknowledged and the pending \
               writes: every key must have a value between the two, and expire when it must. Some \
               servers have a standard error that fails, few file handles, or a machine whose \
               clock was set by an hour while they were down.",
        command: "TIDEKV_KILL_ROUNDS=100 cargo test --release -p tidekv-cli --test kill",
        cases: "rounds",
        is_counted: false,
    },
    Proof {
        name: "proof-metamorphic",
        title: "Identical results under all settings",
        what: "One list of operations runs under many random settings (cache sizes, tiny budgets, \
               memtables and levels, compression, forced flushes and reopenings, a machine's clock \
               that is set). All histories must be equal.",
        command: "TIDEKV_METAMORPHIC_OPERATIONS=20000000 \
                  cargo test --release -p tidekv --test metamorphic",
        cases: "operations",
        is_counted: false,
    },
    Proof {
        name: "proof-linearizability",
        title: "Concurrent histories",
        what: "Threads get, put, compare-and-set and write batches while flushes and compactions \
               run; the test records all results with their times. For every key there must be \
               an order of operations that is consistent with all results and times.",
        command: "cargo test --release -p tidekv --test linearizable",
        cases: "operations",
        is_counted: false,
    },
    Proof {
        name: "proof-cache-truth",
        title: "No stale values from the cache tier",
        what: "Objects are stored, read, changed, touched and removed in a cache of DRAM and one \
               to three flash devices, which fail, vanish, return, are damaged and return wrong \
               data, while the process is killed (also in the middle of a write), restarted and \
               the power cut. Every hit must return the last stored value of its key, to the \
               byte, before its expiry. With fingerprints of 8 bits keys evict each other from \
               the index all the time. `gets` were checked; `losses` are wrong or stale values.",
        command: "TIDEKV_TRUTH_OPERATIONS=208000000 \
                  cargo test --release -p tidekv-tiered --test truth",
        cases: "gets",
        is_counted: false,
    },
    Proof {
        name: "proof-cache-threads",
        title: "No stale values with concurrent threads",
        what: "Threads read and write the same few keys of such a cache, whose devices fail and \
               return, with DRAM so small that objects are evicted all the time. A get returns a \
               value that its key had at some time during the get, or a miss.",
        command: "TIDEKV_TIERED_HITS=20000000 \
                  cargo test --release -p tidekv-tiered --test threads",
        cases: "gets",
        is_counted: false,
    },
    Proof {
        name: "proof-cache-kill",
        title: "Killed caches",
        what: "The real cache server, on real files, is killed (SIGKILL) at random under load \
               and restarted. Clients record the acknowledged operations: no get returns a \
               deleted, overwritten or expired object, or that of another key.",
        command: "TIDEKV_CACHE_KILL_ROUNDS=100 \
                  cargo test --release -p tidekv-cli --test cache_kill",
        cases: "kills",
        is_counted: false,
    },
    Proof {
        name: "proof-cache-corpus",
        title: "Real files through the cache",
        what: "Files of 4 KiB to 1 MiB of a typical system are set through a socket in the real \
               cache server, with a thirty-second of them in DRAM, and read in random order. \
               Every byte of every response and its flags are compared. `losses` are responses \
               with differences; absent objects are misses.",
        command: "cargo run --release -p tidekv-lab -- run bigkv-corpus --subject tidekv:cache-served",
        cases: "gets",
        is_counted: false,
    },
    Proof {
        name: "proof-models",
        title: "Interleavings of threads",
        what: "The product's own code (memtable, commit queue, cache shards, the whole store) \
               runs under loom, which explores all executions that the memory model allows, and \
               under shuttle, which samples many schedules. Every execution must satisfy the \
               assertions of the model.",
        command: "TIDEKV_MODELS_EXHAUSTIVE=1 TIDEKV_MODELS_SCHEDULES=100000 \
                  cargo test --release -p tidekv -p tidekv-cache --lib models::",
        cases: "executions",
        is_counted: false,
    },
    Proof {
        name: "proof-miri",
        title: "Undefined behaviour",
        what: "The modules with `unsafe` code run their tests under Miri, which interprets every \
               instruction and stops at undefined behaviour: invalid pointers, data races, \
               leaks.",
        command: "cargo run -p tidekv-testkit --example sanitizers miri",
        cases: "tests",
        is_counted: false,
    },
    Proof {
        name: "proof-tsan",
        title: "Data races",
        what: "The stress test of the store runs with the thread sanitizer built into it and \
               into the standard library. It reports every pair of unordered accesses.",
        command: "TIDEKV_THREADS_SCALE=10 cargo run -p tidekv-testkit --example sanitizers tsan",
        cases: "tests",
        is_counted: false,
    },
    Proof {
        name: "proof-fuzz",
        title: "Arbitrary bytes",
        what: "Decoders of tables, logs, manifest, RESP and import formats read the inputs that \
               fuzzing finds and valid files with flipped bits. They must return an error or \
               correct data, and never panic or take more memory than the input warrants.",
        command: "cargo +nightly fuzz run TARGET",
        cases: "executions",
        is_counted: false,
    },
    Proof {
        name: "proof-mutations",
        title: "Mutation tests",
        what: "The store is broken on purpose, one mutation at a time, such as a log that is not \
               synced before the acknowledgement. The test named for it must fail, and must pass \
               without the mutation: a check that cannot fail proves nothing.",
        command: "cargo run -p tidekv-testkit --example mutations",
        cases: "caught",
        is_counted: true,
    },
];
