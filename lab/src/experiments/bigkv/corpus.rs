//! `bigkv-corpus`: real files as objects, through a real socket, with every byte of every response
//! compared.
//!
//! Files of 4 KiB to 1 MiB from the system: documents, libraries, headers, a compiler with its
//! documentation, or those below `--corpus`. Each is set once with its own flags, from several
//! connections at once. Then each is requested once in random order. DRAM holds a thirty-second of
//! the files' maximum size, flash one and a half times all of it; so nearly every response comes
//! from flash. Writes that flash cannot keep up with become misses later, and are reported.
//!
//! The rate is that of requests, including the read of the file for the comparison.

use tidekv_testkit::evidence::Value;

use crate::experiment::{Experiment, Params, Point, Rule, Subjects, Target};
use crate::experiments::engine::filling;
use crate::harness::corpus::{VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use crate::harness::job::{CorpusJob, Ending};
use crate::load::keys::{Choice, KEY_BYTES};
use crate::scale::{Scale, Shape};
use crate::subject::FlashSettings;
use crate::subjects::served::{MEMCACHED_EXTSTORE, TIDEKV_CACHE_SERVED};

const CACHES: &[&str] = &[TIDEKV_CACHE_SERVED.name, MEMCACHED_EXTSTORE.name];

const THREADS: u64 = 8;
/// Memory in addition to the cache: the client has a list of all files, and the kernel their names,
/// and both sides of each connection may hold a value of the largest size.
const BESIDE_BYTES: u64 = 256 << 20;
/// Close to the mean size of the files of a typical system.
const OBJECT_BYTES: u64 = 24 << 10;

/// The maximum number of files and their maximum bytes.
fn most(scale: &Scale) -> (u64, u64) {
    if scale.is_quick { (900, 256 << 20) } else { (100_000, 2 << 30) }
}

/// The last parts of the directories; the paths above them are private.
fn name(scale: &Scale) -> String {
    let parts = scale.corpus.iter().map(|directory| {
        let part = directory.file_name().unwrap_or_default();
        part.to_string_lossy().into_owned()
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "usual".to_owned() } else { parts.join(",") }
}

fn points(scale: &Scale) -> Vec<Point> {
    let (objects_max, bytes_max) = most(scale);
    let (memory_bytes, flash_bytes) = ((bytes_max / 32).max(16 << 20), bytes_max * 3 / 2);
    let params: Params = [
        ("files", Value::from(name(scale))),
        ("objects_max", objects_max.into()),
        ("value_bytes", VALUE_BYTES_MIN.into()),
        ("value_bytes_max", VALUE_BYTES_MAX.into()),
        ("memory_bytes", memory_bytes.into()),
        ("flash_bytes", flash_bytes.into()),
        ("devices", 1.into()),
        ("threads", THREADS.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let shape = Shape { entries: objects_max, value_bytes: VALUE_BYTES_MIN, is_compressed: false };
    let corpus = CorpusJob {
        name: name(scale),
        directories: scale.corpus.clone(),
        objects_max,
        bytes_max,
        threads: THREADS,
    };
    vec![Point {
        params,
        memory_bytes,
        process_bytes: Some(memory_bytes + BESIDE_BYTES),
        drive: None,
        corpus: Some(corpus),
        ending: Ending::Close,
        alternations: 1,
        flash: Some(FlashSettings {
            bytes: flash_bytes,
            devices: 1,
            object_bytes: KEY_BYTES as u64 + OBJECT_BYTES,
            index_bytes: None,
        }),
        only: CACHES,
        ..filling(scale, shape, THREADS, Choice::Uniform, 1)
    }]
}

pub(super) const CORPUS: Experiment = Experiment {
    name: "bigkv-corpus",
    about: "real files of 4 KiB to 1 MiB, set through a socket and read in random order, every \
            byte compared, with DRAM that is small compared with flash",
    paper: "",
    claim: "no response has a wrong byte or wrong flags, and nearly all files are hits",
    subjects: Subjects::Only(CACHES),
    points,
    targets: &[
        Target::new("wrong_values", Rule::AtMost(0.0)),
        Target::new("hit_ratio", Rule::AtLeast(0.95)),
    ],
    ..Experiment::USUAL
};
