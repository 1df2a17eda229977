//! `SLOWLOG`: the latest commands whose execution took long.
//!
//! Guarantees, as in Redis: an entry has at most 32 arguments of 128 bytes each, and
//! counts what was cut. Numbers grow and are not reused after a reset. May be used from any thread.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;

/// Arguments of an entry at most; the last one then counts the others.
const ARGUMENTS_MAX: usize = 32;
/// Bytes of an argument at most, without the count of the others.
const ARGUMENT_BYTES_MAX: usize = 128;

/// A slow command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    /// When it was executed, in seconds since 1970.
    pub(crate) unix_s: u64,
    pub(crate) took_us: u64,
    pub(crate) arguments: Vec<Bytes>,
    pub(crate) address: String,
    pub(crate) name: Bytes,
}

/// The slow commands, the newest first.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    entries: VecDeque<SlowCommand>,
    next_id: u64,
}

/// The arguments as an entry has them.
pub(crate) fn shortened(words: &[Bytes]) -> Vec<Bytes> {
    let shorten = |word: &Bytes| match word.len().checked_sub(ARGUMENT_BYTES_MAX) {
        None | Some(0) => Bytes::copy_from_slice(word),
        Some(more) => {
            let note = format!("... ({more} more bytes)");
            Bytes::from([&word[..ARGUMENT_BYTES_MAX], note.as_bytes()].concat())
        }
    };
    if words.len() <= ARGUMENTS_MAX {
        return words.iter().map(shorten).collect();
    }
    let kept = ARGUMENTS_MAX - 1;
    let note = format!("... ({} more arguments)", words.len() - kept);
    words[..kept].iter().map(shorten).chain([Bytes::from(note)]).collect()
}

impl SlowLog {
    /// Adds an entry, with a number of its own, and drops the oldest beyond `len_max`.
    pub(crate) fn add(&self, mut command: SlowCommand, len_max: usize) {
        let mut latest = self.latest.lock();
        command.id = latest.next_id;
        latest.next_id += 1;
        latest.entries.push_front(command);
        latest.entries.truncate(len_max);
    }

    /// The newest entries, at most `count`.
    pub(crate) fn newest(&self, count: usize) -> Vec<SlowCommand> {
        self.latest.lock().entries.iter().take(count).cloned().collect()
    }

    /// The number of entries.
    pub(crate) fn count(&self) -> usize {
        self.latest.lock().entries.len()
    }

    /// Removes all entries.
    pub(crate) fn reset(&self) {
        self.latest.lock().entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(took_us: u64) -> SlowCommand {
        SlowCommand {
            id: 0,
            unix_s: 7,
            took_us,
            arguments: Vec::new(),
            address: String::new(),
            name: Bytes::new(),
        }
    }

    #[test]
    fn the_newest_entries_are_kept() {
        let log = SlowLog::default();
        (0..5).for_each(|us| log.add(command(us), 3));
        let ids: Vec<u64> = log.newest(9).iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [4, 3, 2]);
        assert_eq!(log.newest(1)[0].took_us, 4);
        log.reset();
        assert_eq!(log.count(), 0);
        log.add(command(1), 3);
        assert_eq!(log.newest(1)[0].id, 5);
    }

    #[test]
    fn long_commands_are_shortened() {
        let words = vec![Bytes::from("x".repeat(130)); 40];
        let short = shortened(&words);
        assert_eq!(short.len(), 32);
        assert_eq!(short[0], "x".repeat(128) + "... (2 more bytes)");
        assert_eq!(short[31], "... (9 more arguments)");
        assert_eq!(shortened(&words[..32]).len(), 32);
        assert_eq!(shortened(&[Bytes::from("y".repeat(128))])[0], "y".repeat(128));
    }
}
