//! When writers rest, and how much may then be read to put level 0 in order.
//!
//! Under load level 0 is left to grow, for each merge of it rewrites much of the
//! base level. What stands there when writing ends would slow reads for as long as
//! nothing is written: so once nothing has come to level 0 for [`QUIET`], the engine
//! merges it (`picker::pick_in_quiet` says with what), as far as the guarantee lets
//! it.
//!
//! Guarantee: such merges read no more than [`SPARE_PER_BYTE`] bytes for each byte
//! that came to level 0 by a flush or from an earlier life of the store.
//! So writers that pause ever so often cannot have it rewritten over and over.
//!
//! Pure: the engine tells the time and does the work.

use std::time::Duration;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Nobody has written in earnest for so long: flushes under load come many times
/// as often.
const QUIET: Duration = Duration::from_millis(500);

/// Bytes that merges in the quiet may read for each byte that came to level 0.
const SPARE_PER_BYTE: u64 = 2;

/// When level 0 was last written to, and what merging it may cost.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// Somebody will look.
    is_watched: AtomicBool,
    changed_at_ns: AtomicU64,
    spare_bytes: AtomicU64,
}

impl Quiet {
    /// Notes that level 0 has changed, and that `bytes` have come to it. Returns when
    /// to look whether it has become quiet, unless somebody will anyway.
    pub(crate) fn note_change(&self, bytes: u64, now_ns: u64) -> Option<Duration> {
        self.changed_at_ns.store(now_ns, Ordering::Relaxed);
        self.spare_bytes.fetch_add(bytes.saturating_mul(SPARE_PER_BYTE), Ordering::Relaxed);
        (!self.is_watched.swap(true, Ordering::AcqRel)).then_some(QUIET)
    }

    /// When to look again; `None`: it is quiet, and the next change asks for another
    /// look.
    pub(crate) fn look(&self, now_ns: u64) -> Option<Duration> {
        let since = self.changed_at_ns.load(Ordering::Relaxed);
        let passed = Duration::from_nanos(now_ns.saturating_sub(since));
        if passed < QUIET {
            return Some(QUIET - passed);
        }
        self.is_watched.store(false, Ordering::Release);
        None
    }

    /// What merges may read now.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spare_bytes.load(Ordering::Relaxed)
    }

    /// A merge reads `bytes`, no more than were to spare. One after another, each with
    /// its look at [`Quiet::spare_bytes`].
    pub(crate) fn spend(&self, bytes: u64) {
        self.spare_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_once_the_last_change_is_long_ago() {
        let quiet = Quiet::default();
        let at_ms = |ms: u64| ms * 1_000_000;
        assert_eq!(quiet.note_change(10, at_ms(1000)), Some(QUIET));
        assert_eq!(quiet.note_change(20, at_ms(1200)), None, "somebody looks already");
        assert_eq!(quiet.look(at_ms(1500)), Some(Duration::from_millis(200)));
        assert_eq!(quiet.look(at_ms(1700)), None);
        assert_eq!(quiet.note_change(5, at_ms(1701)), Some(QUIET), "looked for anew");
        assert_eq!(quiet.spare_bytes(), 70);
        quiet.spend(60);
        assert_eq!(quiet.spare_bytes(), 10);
    }
}
