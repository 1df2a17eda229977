//! Puts and gets of long keys or large values, for the memory that they take.

use crate::failure::{Failure, Result};
use crate::harness::job::{Job, KeyPart, Measurement, MemoryJob};
use crate::load::dice::{Dice, mix};
use crate::subject::Subject;

/// The bytes of a long key that differ.
pub(crate) const DIFFERENT_BYTES: usize = 16;

/// Key `at` with `bytes` bytes, of which the first ones differ, or the last ones.
pub(crate) fn long_key(at: u64, bytes: usize, part: KeyPart) -> Vec<u8> {
    let same = vec![b'k'; bytes.saturating_sub(DIFFERENT_BYTES)];
    let different = format!("{:016x}", mix(at)).into_bytes();
    match part {
        KeyPart::First => [different, same].concat(),
        KeyPart::Last => [same, different].concat(),
    }
}

/// Executes a job.
pub(crate) fn run(
    memory: &MemoryJob,
    job: &Job,
    subject: &dyn Subject,
    measurement: &mut Measurement,
) -> Result<()> {
    // Once: it is memory of this process too.
    let value = vec![b'v'; memory.value_bytes];
    for at in (0..memory.entries).filter(|_| memory.puts) {
        subject.put(&long_key(at, memory.key_bytes, memory.different), &value)?;
        measurement.operations += 1;
    }
    let mut dice = Dice::new(job.seed);
    for _ in 0..memory.gets {
        let key = long_key(dice.below(memory.entries), memory.key_bytes, memory.different);
        if !subject.get(&key, &mut |_| {})? {
            return Err(Failure::new("an entry that was put is missing"));
        }
        measurement.operations += 1;
    }
    Ok(())
}
