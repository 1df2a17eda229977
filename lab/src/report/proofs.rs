//! The proofs that `docs/reliability.md` tells of: what each checks, and how it is
//! repeated. What they found comes from their rows.

/// One kind of proof.
pub(crate) struct Proof<'a> {
    /// The experiment's name in the rows.
    pub(crate) name: &'a str,
    pub(crate) title: &'a str,
    /// What is checked, in two or three sentences.
    pub(crate) what: &'a str,
    /// The commands that repeat it, one a line.
    pub(crate) command: &'a str,
    /// The metric that says how many cases a run checked.
    pub(crate) cases: &'a str,
    /// Whether the document counts its runs and lists none but those with a loss.
    pub(crate) is_counted: bool,
}

/// All of them, in the order of the document.
pub(crate) const PROOFS: &[Proof<'static>] = &[
    Proof {
        name: "proof-power",
        title: "Power cuts",
        what: "A recorded workload (batches over keyspaces, synced and unsynced, flushes, \
               compactions, range deletes, expiry, checkpoints, bulk ingest) runs on the simulated \
               disk, and power is cut at every storage operation, also of the recoveries that \
               follow; what was not synced is dropped, kept or torn. Each aftermath is opened and \
               held against a model: nothing synced is lost, unsynced writes survive as a prefix \
               without holes, no batch is half there.",
        command: "TIDEKV_POWER_SEEDS=20 TIDEKV_POWER_TORN=3 TIDEKV_POWER_SAMPLE=20 \
                  cargo test --release -p tidekv --test power",
        cases: "cuts",
        is_counted: false,
    },
    Proof {
        name: "proof-faults",
        title: "Failing storage",
        what: "Every storage operation of such a workload fails in turn, in every way that it can \
               (EIO, ENOSPC, short reads and writes, a failed sync), once, several times and until \
               the disk is repaired. The error must reach the caller, reads must go on, nothing \
               acknowledged may be lost, and once the cause is gone the store writes again or says \
               that it must be reopened. No failed sync is tried again as if nothing had happened.",
        command: "TIDEKV_FAULTS_SEEDS=4 TIDEKV_FAULTS_SAMPLE=1 \
                  cargo test --release -p tidekv --test faults",
        cases: "faults",
        is_counted: false,
    },
    Proof {
        name: "proof-kill",
        title: "Killed servers",
        what: "The real server on a real disk is killed (SIGKILL) at random under load and started \
               again with other settings. Clients remember what was acknowledged and what was only \
               sent: every key must hold a value between the two.",
        command: "TIDEKV_KILL_ROUNDS=100 cargo test --release -p tidekv-cli --test kill",
        cases: "rounds",
        is_counted: false,
    },
    Proof {
        name: "proof-metamorphic",
        title: "The same answers under any settings",
        what: "One list of operations runs under many random settings (cache sizes, tiny budgets, \
               memtables and levels, compression, forced flushes and reopenings). All histories \
               must be equal.",
        command: "TIDEKV_METAMORPHIC_OPERATIONS=20000000 \
                  cargo test --release -p tidekv --test metamorphic",
        cases: "operations",
        is_counted: false,
    },
    Proof {
        name: "proof-linearizability",
        title: "Concurrent histories",
        what: "Threads get, put, compare-and-set and write batches while flushes and compactions \
               run; what they saw and when is recorded. For every key there must be an order of \
               operations that explains all answers and contradicts no clock.",
        command: "cargo test --release -p tidekv --test linearizable",
        cases: "operations",
        is_counted: false,
    },
    Proof {
        name: "proof-cache-truth",
        title: "Nothing stale from the cache tier",
        what: "Objects are stored, read, changed, touched and removed in a cache of DRAM and one to \
               three flash devices, which fail, vanish, return, are damaged and read wrongly, while \
               the process is killed (also in the middle of a write), restarted and the power cut. \
               Whatever is found under a key must be what was stored last under it, to the byte, \
               and before its deadline. With fingerprints of 8 bits keys push each other out of \
               the index all the time. `gets` were checked; `losses` are wrong or stale values.",
        command: "TIDEKV_TRUTH_OPERATIONS=208000000 \
                  cargo test --release -p tidekv-tiered --test truth",
        cases: "gets",
        is_counted: false,
    },
    Proof {
        name: "proof-cache-threads",
        title: "Nothing stale between threads",
        what: "Threads read and write the same few keys of such a cache, whose devices fail and \
               return, with DRAM so small that objects come and go all the time. A get finds what \
               stood there at some moment while it ran, or nothing.",
        command: "TIDEKV_TIERED_HITS=20000000 \
                  cargo test --release -p tidekv-tiered --test threads",
        cases: "gets",
        is_counted: false,
    },
    Proof {
        name: "proof-cache-kill",
        title: "Killed caches",
        what: "The real server of the cache tier, on real files, is killed (SIGKILL) at random \
               under load and started again. Clients remember what was acknowledged: no deleted, \
               overwritten or expired object is found again, and no other key's.",
        command: "TIDEKV_CACHE_KILL_ROUNDS=100 \
                  cargo test --release -p tidekv-cli --test cache_kill",
        cases: "kills",
        is_counted: false,
    },
    Proof {
        name: "proof-cache-corpus",
        title: "Real files through the cache",
        what: "Files of 4 KiB to 1 MiB of a usual system are set through a socket in the real server \
               of the cache tier, with a thirty-second of them in DRAM, and asked for in random order. \
               Every byte of every answer and its flags are compared. `losses` are answers with \
               other ones; what was not there is a miss.",
        command: "cargo run --release -p tidekv-lab -- run bigkv-corpus --subject tidekv:cache-served",
        cases: "gets",
        is_counted: false,
    },
    Proof {
        name: "proof-models",
        title: "Interleavings of threads",
        what: "The product's own code (memtable, commit queue, cache shards, the whole store) runs \
               under loom, which goes through all executions that the memory model allows, and \
               under shuttle, which draws many schedules. Every execution must keep what the \
               model asserts.",
        command: "TIDEKV_MODELS_EXHAUSTIVE=1 TIDEKV_MODELS_SCHEDULES=100000 \
                  cargo test --release -p tidekv -p tidekv-cache --lib models::",
        cases: "executions",
        is_counted: false,
    },
    Proof {
        name: "proof-miri",
        title: "Undefined behaviour",
        what: "The modules that hold `unsafe` run their tests under Miri, which interprets every \
               instruction and stops at undefined behaviour: stray pointers, data races, leaks.",
        command: "cargo run -p tidekv-testkit --example sanitizers miri",
        cases: "tests",
        is_counted: false,
    },
    Proof {
        name: "proof-tsan",
        title: "Data races",
        what: "The stress test of the store runs with the thread sanitizer built into it and into \
               the standard library. It reports every pair of accesses that nothing orders.",
        command: "TIDEKV_THREADS_SCALE=10 cargo run -p tidekv-testkit --example sanitizers tsan",
        cases: "tests",
        is_counted: false,
    },
    Proof {
        name: "proof-fuzz",
        title: "Arbitrary bytes",
        what: "Decoders of tables, logs, manifest, RESP and import formats read what fuzzing finds \
               and what bit flips make of good files. They must answer with an error or with right \
               data, never with a panic or with more memory than the input warrants.",
        command: "cargo +nightly fuzz run TARGET",
        cases: "executions",
        is_counted: false,
    },
    Proof {
        name: "proof-mutations",
        title: "Tests that notice",
        what: "The store is broken on purpose, one mutation at a time, such as a log that is not \
               synced before the acknowledgement. The test named for it must fail, and pass without \
               the mutation: a check that cannot fail proves nothing.",
        command: "cargo run -p tidekv-testkit --example mutations",
        cases: "caught",
        is_counted: true,
    },
];
