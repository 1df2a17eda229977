//! Counters by the prefix of a key, the part before its first delimiter: `stats detail`.
//!
//! Guarantees: while counting is off, a request costs a look at a flag. At most [`PREFIXES_MAX`]
//! prefixes are counted; later ones, those that are no word, and keys without a delimiter, are not.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use memchr::memchr;
use parking_lot::Mutex;

/// The delimiter unless a setting gives another one.
pub(crate) const DEFAULT_DELIMITER: u8 = b':';
/// Maximum number of prefixes: a dump of the longest takes 2.6 MB. memcached counts 65,536.
const PREFIXES_MAX: usize = 1 << 13;

/// A line of a dump without its prefix: four numbers of at most 20 digits, and their names.
const LINE_BYTES_MAX: usize = 4 * 20 + 30;

/// A request for one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Get { is_hit: bool },
    Set,
    Delete,
}

#[derive(Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// The counters of all prefixes.
#[derive(Debug)]
pub(crate) struct Prefixes {
    is_on: AtomicBool,
    delimiter: u8,
    counts: Mutex<BTreeMap<Box<str>, Counts>>,
}

impl Prefixes {
    /// Counters that are on if a setting gives the delimiter, as in memcached.
    pub(crate) fn new(delimiter: Option<u8>) -> Self {
        Self {
            is_on: AtomicBool::new(delimiter.is_some()),
            delimiter: delimiter.unwrap_or(DEFAULT_DELIMITER),
            counts: Mutex::default(),
        }
    }

    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Turns counting on or off; the counters stay.
    pub(crate) fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Removes all prefixes.
    pub(crate) fn clear(&self) {
        self.counts.lock().clear();
    }

    /// Counts a request, if counting is on.
    #[inline]
    pub(crate) fn count(&self, key: &[u8], event: Event) {
        if self.is_on() {
            self.add(key, event);
        }
    }

    fn add(&self, key: &[u8], event: Event) {
        let Some(prefix) = prefix_of(key, self.delimiter) else { return };
        let mut all = self.counts.lock();
        if !all.contains_key(prefix) {
            if all.len() >= PREFIXES_MAX {
                return;
            }
            all.insert(prefix.into(), Counts::default());
        }
        let Some(counts) = all.get_mut(prefix) else { return };
        match event {
            Event::Get { is_hit } => {
                counts.gets += 1;
                counts.hits += u64::from(is_hit);
            }
            Event::Set => counts.sets += 1,
            Event::Delete => counts.deletes += 1,
        }
    }

    /// The largest size of a dump now, in bytes.
    pub(crate) fn dump_bytes_max(&self) -> usize {
        self.counts.lock().keys().map(|prefix| prefix.len() + LINE_BYTES_MAX).sum()
    }

    /// A line for each prefix, in order.
    pub(crate) fn dump(&self) -> String {
        let mut lines = String::new();
        for (prefix, Counts { gets, hits, sets, deletes }) in &*self.counts.lock() {
            let _ =
                write!(lines, "PREFIX {prefix} get {gets} hit {hits} set {sets} del {deletes}\r\n");
        }
        lines
    }
}

/// The prefix of a key with that delimiter, if it has one that is a word: keys in base64 may contain any
/// bytes.
fn prefix_of(key: &[u8], delimiter: u8) -> Option<&str> {
    let prefix = std::str::from_utf8(&key[..memchr(delimiter, key)?]).ok()?;
    (!prefix.contains(|c: char| c.is_control() || c == ' ')).then_some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_counted_while_counting_is_on() {
        let prefixes = Prefixes::new(None);
        prefixes.count(b"a:1", Event::Set);
        assert_eq!(prefixes.dump(), "");
        prefixes.turn(true);
        for event in [Event::Set, Event::Get { is_hit: true }, Event::Get { is_hit: false }] {
            prefixes.count(b"a:1", event);
        }
        prefixes.count(b"a", Event::Set);
        prefixes.count(b":a", Event::Delete);
        prefixes.turn(false);
        prefixes.count(b"a:1", Event::Set);
        let lines = "PREFIX  get 0 hit 0 set 0 del 1\r\nPREFIX a get 2 hit 1 set 1 del 0\r\n";
        assert_eq!(prefixes.dump(), lines);
        prefixes.clear();
        assert_eq!(prefixes.dump(), "");
    }

    #[test]
    fn a_delimiter_turns_counting_on_and_a_prefix_is_one_word() {
        let prefixes = Prefixes::new(Some(b'/'));
        prefixes.count(b"a\r\nEND b/x", Event::Delete);
        prefixes.count(b"\xFF/x", Event::Delete);
        prefixes.count(b"a:b/x:y", Event::Delete);
        assert_eq!(prefixes.dump(), "PREFIX a:b get 0 hit 0 set 0 del 1\r\n");
    }

    /// Clients choose the keys.
    #[test]
    fn the_number_of_prefixes_is_bounded() {
        let prefixes = Prefixes::new(Some(b':'));
        for number in 0..=PREFIXES_MAX {
            prefixes.count(format!("{number}:").as_bytes(), Event::Set);
        }
        prefixes.count(b"0:", Event::Set);
        assert_eq!(prefixes.dump().lines().count(), PREFIXES_MAX);
        assert!(prefixes.dump().len() <= prefixes.dump_bytes_max());
        assert!(prefixes.dump().starts_with("PREFIX 0 get 0 hit 0 set 2 del 0\r\n"));
    }
}
