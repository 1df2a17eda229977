//! Commands that walk over many keys or fields, in their order.
//!
//! Cursors are those of [`cursors`](crate::state::cursors). `DBSIZE` counts all keys, so it is
//! exact and slow. `RANDOMKEY` draws random entries: see [`samples`](crate::data::samples).

use std::ops::Bound;

use bytes::Bytes;
use tidekv::{Entry, Keyspace, NextWithin, Snapshot};
use tidekv_io::Random;

use crate::commands::errors::{SYNTAX, integer, is_word, operand};
use crate::data::execution::{Execution, KeyBounds, prefix_end};
use crate::data::hash::PageLimits;
use crate::data::head::Head;
use crate::data::long_replies::{self, Source};
use crate::data::samples::{self, RandomKey};
use crate::data::values::{self, StringValue, Value};
use crate::data::walk::Walk;
use crate::protocol::glob;
use crate::protocol::number::parse_u64;
use crate::protocol::reply::{CommandError, CommandResult, Reply, SequenceKind, Streamed};
use crate::state::cursors::Scope;
use crate::state::keyspaces::Space;

/// The default `COUNT` of `SCAN`.
const COUNT_DEFAULT: usize = 10;

/// Keys among which one is chosen if random draws find none.
const NEIGHBOURS: usize = 100;

/// The memory of an element of a reply in addition to its bytes.
const ELEMENT_BYTES: usize = size_of::<Reply>();

/// A step of `SCAN` or `HSCAN` ends after about this many bytes, whatever its `COUNT`.
const SCAN_BYTES_MAX: usize = 256 << 10;
/// A step of `SCAN` visits at most this many keys, whatever its `COUNT`.
const SCAN_KEYS_MAX: usize = 100_000;
/// A step of `SCAN` or `HSCAN` ends after it has skipped this many deleted or expired keys or fields,
/// even if it has found none. Skipping them takes a few milliseconds.
const SCAN_SKIPS_MAX: u64 = 10_000;

const EVERYTHING: KeyBounds = (Bound::Unbounded, Bound::Unbounded);

/// A key and its entry. `None`: the walk reached its limit of skipped keys at this key.
type Found = Result<(Bytes, Option<Entry>), CommandError>;

/// A walk in either direction whose next entry can be looked at.
struct Peekable {
    walk: Walk,
    is_reverse: bool,
    peeked: Option<Option<Found>>,
}

impl Peekable {
    fn new(walk: Walk, is_reverse: bool) -> Self {
        Self { walk, is_reverse, peeked: None }
    }

    fn step(&mut self, skips_left: &mut u64) -> Option<Found> {
        let with_entry =
            |item: <Walk as Iterator>::Item| item.map(|(key, entry)| (key, Some(entry)));
        if self.is_reverse {
            return self.walk.next_back().map(with_entry);
        }
        match self.walk.next_within(skips_left) {
            Ok(NextWithin::Entry(key, entry)) => Some(Ok((key, Some(entry)))),
            Ok(NextWithin::SkipLimit(key)) => Some(Ok((key, None))),
            Ok(NextWithin::End) => None,
            Err(error) => Some(Err(error)),
        }
    }

    fn peek(&mut self, skips_left: &mut u64) -> Option<&Found> {
        if self.peeked.is_none() {
            self.peeked = Some(self.step(skips_left));
        }
        self.peeked.as_ref().and_then(Option::as_ref)
    }

    /// What was peeked at.
    fn take(&mut self) -> Option<Found> {
        self.peeked.take().flatten()
    }

    fn rewind(&mut self) {
        self.peeked = None;
        self.walk.rewind();
    }
}

/// All keys of a range in order, each once, with their values.
struct KeyWalk {
    strings: Peekable,
    heads: Peekable,
    is_reverse: bool,
}

/// A key and its value; `None` as in [`Found`].
type FoundKey = Result<(Bytes, Option<Value>), CommandError>;

impl KeyWalk {
    /// All keys in ascending order; short strings without their bytes.
    fn new(execution: &mut Execution<'_>, bounds: KeyBounds) -> Result<Self, CommandError> {
        Self::with(execution, bounds, true, false)
    }

    /// `keys_only`: short strings without their bytes.
    fn with(
        execution: &mut Execution<'_>,
        bounds: KeyBounds,
        keys_only: bool,
        is_reverse: bool,
    ) -> Result<Self, CommandError> {
        let strings = execution.range(Space::Strings, bounds.clone(), keys_only)?;
        // The type is in the head.
        let heads = execution.range(Space::Heads, bounds, false)?;
        let walk = |walk| Peekable::new(walk, is_reverse);
        Ok(Self { strings: walk(strings), heads: walk(heads), is_reverse })
    }

    /// The next key in ascending order, if it is within `skips_left` deleted or expired ones.
    fn next_within(&mut self, skips_left: &mut u64) -> Option<FoundKey> {
        let is_head = match (self.strings.peek(skips_left), self.heads.peek(skips_left)) {
            (Some(Ok((string, entry))), Some(Ok((head, head_entry)))) if string == head => {
                // Two entries: the command line has added a string to a key with a head.
                let both_have_entries = entry.is_some() && head_entry.is_some();
                let is_head = !both_have_entries && head_entry.is_some();
                if both_have_entries {
                    self.heads.take();
                }
                is_head
            }
            (Some(Ok((string, _))), Some(Ok((head, _)))) => (head < string) != self.is_reverse,
            (Some(_), _) => false,
            (None, _) => true,
        };
        if is_head {
            let decode = |entry: Entry| Head::decode(&entry).map(Value::from);
            let item = self.heads.take()?;
            return Some(item.and_then(|(key, entry)| Ok((key, entry.map(decode).transpose()?))));
        }
        let value = |entry| Value::String(StringValue::Short(entry));
        Some(self.strings.take()?.map(|(key, entry)| (key, entry.map(value))))
    }

    fn rewind(&mut self) {
        self.strings.rewind();
        self.heads.rewind();
    }
}

impl Iterator for KeyWalk {
    type Item = Result<(Bytes, Value), CommandError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_within(&mut { u64::MAX })? {
                Ok((key, Some(value))) => return Some(Ok((key, value))),
                Ok((_, None)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The greatest key.
fn greatest(execution: &mut Execution<'_>) -> Result<Option<Bytes>, CommandError> {
    let last = KeyWalk::with(execution, EVERYTHING, true, true)?.next();
    Ok(last.transpose()?.map(|(key, _)| key))
}

/// The range of keys that may match `pattern`, after `last` if it is given.
fn bounds_of(pattern: Option<&[u8]>, last: Option<Bytes>) -> KeyBounds {
    let prefix = Bytes::from(pattern.map_or_else(Vec::new, glob::literal_prefix));
    let end = prefix_end(&prefix);
    let start = match last {
        Some(last) if last >= prefix => Bound::Excluded(last),
        _ => Bound::Included(prefix),
    };
    (start, end)
}

/// The keys that match a pattern, as elements of a reply.
struct MatchingKeys {
    walk: KeyWalk,
    pattern: Bytes,
}

impl Source for MatchingKeys {
    fn next(&mut self) -> Option<CommandResult> {
        let found = self.walk.find(|item| match item {
            Ok((key, _)) => glob::matches(&self.pattern, key),
            Err(_) => true,
        });
        Some(found?.map(|(key, _)| Reply::Bulk(key)))
    }

    fn rewind(&mut self) {
        self.walk.rewind();
    }
}

pub(crate) fn keys(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    // A copy: the argument is a part of the request.
    let pattern = Bytes::copy_from_slice(&arguments[0]);
    let walk = KeyWalk::new(execution, bounds_of(Some(&pattern), None))?;
    let keys = MatchingKeys { walk, pattern };
    long_replies::reply(execution, SequenceKind::Array, None, keys)
}

pub(crate) fn dbsize(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let mut count = 0;
    for item in KeyWalk::new(execution, EVERYTHING)? {
        item?;
        count += 1;
    }
    Ok(Reply::Integer(count))
}

pub(crate) fn randomkey(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    if execution.sees_own_writes() {
        // Draws do not see them.
        let walk = KeyWalk::new(execution, EVERYTHING)?;
        return choose(execution, walk);
    }
    match samples::random_key(execution)? {
        RandomKey::Key(key) => Ok(Reply::Bulk(key)),
        RandomKey::Empty => Ok(Reply::Null),
        RandomKey::NotFound => random_neighbour(execution),
    }
}

/// One of the keys of a walk, all equally likely (reservoir sampling).
fn choose(
    execution: &Execution<'_>,
    walk: impl Iterator<Item = <KeyWalk as Iterator>::Item>,
) -> CommandResult {
    let mut chosen = None;
    for (seen, item) in walk.enumerate() {
        let (key, _) = item?;
        let lot = u128::from(execution.state.random.next_u64());
        if (lot * (seen as u128 + 1)) >> 64 == 0 {
            chosen = Some(key);
        }
    }
    Ok(Reply::bulk_or_null(chosen))
}

/// One of the keys after a random position between the first and the last key, or of the first
/// ones if there are none: for a database in which nearly everything was removed.
fn random_neighbour(execution: &mut Execution<'_>) -> CommandResult {
    let Some(last) = greatest(execution)? else {
        return Ok(Reply::Null);
    };
    let first = match KeyWalk::new(execution, EVERYTHING)?.next() {
        Some(item) => item?.0,
        None => return Ok(Reply::Null),
    };
    let target = between(&first, &last, execution.state.random.next_u64());
    let bounds = (Bound::Included(target), Bound::Unbounded);
    let walk = KeyWalk::new(execution, bounds)?.take(NEIGHBOURS);
    match choose(execution, walk)? {
        Reply::Null => Ok(Reply::Bulk(last)),
        found => Ok(found),
    }
}

/// A position between two keys: their common prefix, and eight bytes after it.
fn between(first: &[u8], last: &[u8], random: u64) -> Bytes {
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = &key[shared..key.len().min(shared + 8)];
        bytes[..rest.len()].copy_from_slice(rest);
        u64::from_be_bytes(bytes)
    };
    let (low, high) = (number(first), number(last));
    let span = u128::from(high - low) + 1;
    let step = ((u128::from(random) * span) >> 64) as u64;
    Bytes::from([&first[..shared], &(low + step).to_be_bytes()].concat())
}

const INVALID_CURSOR: CommandError = CommandError::text("ERR invalid cursor");

/// The options of `SCAN` and `HSCAN`.
#[derive(Debug)]
struct ScanOptions<'a> {
    cursor: u64,
    pattern: Option<&'a Bytes>,
    count: usize,
    kind: Option<&'a Bytes>,
}

impl<'a> ScanOptions<'a> {
    fn parse(arguments: &'a [Bytes], takes_type: bool) -> Result<Self, CommandError> {
        let cursor = cursor_number(&arguments[0]).ok_or(INVALID_CURSOR)?;
        let mut options = Self { cursor, pattern: None, count: COUNT_DEFAULT, kind: None };
        let mut arguments = arguments[1..].iter();
        while let Some(argument) = arguments.next() {
            if is_word(argument, "MATCH") {
                options.pattern = Some(operand(&mut arguments)?);
            } else if is_word(argument, "COUNT") {
                let count = integer(operand(&mut arguments)?)?;
                options.count =
                    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
            } else if is_word(argument, "TYPE") && takes_type {
                options.kind = Some(operand(&mut arguments)?);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }

    fn matches(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, element))
    }
}

/// Parses a cursor like C's `strtoul`: signs are allowed, and a negative number is a large one.
fn cursor_number(argument: &[u8]) -> Option<u64> {
    match argument {
        [b'-', digits @ ..] if !digits.is_empty() => Some(parse_u64(digits)?.wrapping_neg()),
        [b'+', digits @ ..] if !digits.is_empty() => parse_u64(digits),
        [] => Some(0),
        digits => parse_u64(digits),
    }
}

/// Whether no walk can have returned the cursor: in Redis such a walk is at its end.
fn is_beyond(cursor: u64) -> bool {
    cursor >= 1 << 53
}

fn scan_reply(cursor: u64, elements: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::text(cursor.to_string()), Reply::Array(elements)])
}

/// The scope of cursors over all keys of a database; that of a hash comes from its identity.
fn all_keys(execution: &Execution<'_>) -> Scope {
    execution.database() as Scope
}

pub(crate) fn scan(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let options = ScanOptions::parse(arguments, true)?;
    if is_beyond(options.cursor) {
        return Ok(scan_reply(0, Vec::new()));
    }
    let scope = all_keys(execution);
    let last = execution.state.cursors.position(scope, options.cursor);
    let bounds = bounds_of(options.pattern.map(|pattern| &pattern[..]), last);
    let mut walk = KeyWalk::new(execution, bounds)?;
    let mut replies = Vec::new();
    let mut bytes = 0;
    let mut last = Bytes::new();
    let mut skips_left = SCAN_SKIPS_MAX;
    for _ in 0..options.count.min(SCAN_KEYS_MAX) {
        if bytes > SCAN_BYTES_MAX || skips_left == 0 {
            break;
        }
        let Some(item) = walk.next_within(&mut skips_left) else { break };
        let (key, value) = item?;
        last = key.clone();
        let Some(value) = value else { break };
        let kind = value.type_name();
        if options.kind.is_none_or(|wanted| is_word(wanted, kind)) && options.matches(&key) {
            bytes += key.len() + ELEMENT_BYTES;
            replies.push(Reply::Bulk(key));
        }
    }
    let cursor = match walk.next_within(&mut skips_left) {
        None => 0,
        Some(more) => {
            more?;
            execution.state.cursors.remember(scope, &last)
        }
    };
    Ok(scan_reply(cursor, replies))
}

pub(crate) fn hscan(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    // The cursor, the key, the options: Redis's order of checks.
    cursor_number(&arguments[1]).ok_or(INVALID_CURSOR)?;
    let Some(hash) = values::find_hash(execution, &arguments[0])? else {
        return Ok(scan_reply(0, Vec::new()));
    };
    let options = ScanOptions::parse(&arguments[1..], false)?;
    let scope = xxhash_rust::xxh3::xxh3_64(&hash.identity);
    let last = execution.state.cursors.position(scope, options.cursor);
    let limits =
        PageLimits { fields: options.count, bytes: SCAN_BYTES_MAX, skips_left: SCAN_SKIPS_MAX };
    let (fields, reached) = hash.fields_behind(execution, last.as_deref(), limits)?;
    let cursor = reached.map_or(0, |last| execution.state.cursors.remember(scope, &last));
    let matching = fields.into_iter().filter(|(field, _)| options.matches(field));
    let replies = matching.flat_map(|(field, value)| [Reply::Bulk(field), Reply::Bulk(value)]);
    Ok(scan_reply(cursor, replies.collect()))
}

/// Parses a bound of `TIDE.RANGE`: `-` and `+` for the ends, `(key` exclusive, `[key` or `key`
/// inclusive.
pub(crate) fn range_bound(argument: &Bytes) -> Bound<Bytes> {
    match argument.first() {
        Some(b'-' | b'+') if argument.len() == 1 => Bound::Unbounded,
        Some(b'(') => Bound::Excluded(argument.slice(1..)),
        Some(b'[') => Bound::Included(argument.slice(1..)),
        _ => Bound::Included(argument.clone()),
    }
}

pub(crate) fn tide_range(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (mut limit, mut is_reverse, mut keys_only) = (usize::MAX, false, false);
    let mut options = arguments[2..].iter();
    while let Some(option) = options.next() {
        if is_word(option, "LIMIT") {
            // As in Redis's ranges, a negative limit means no limit.
            limit = usize::try_from(integer(operand(&mut options)?)?).unwrap_or(usize::MAX);
        } else if is_word(option, "REVERSE") {
            is_reverse = true;
        } else if is_word(option, "KEYSONLY") {
            keys_only = true;
        } else {
            return Err(SYNTAX);
        }
    }
    let bounds = (range_bound(&arguments[0]), range_bound(&arguments[1]));
    // No key is after the last or before the first.
    if &arguments[0][..] == b"+" || &arguments[1][..] == b"-" {
        return Ok(Reply::Array(Vec::new()));
    }
    let parts = execution.snapshot_of(Space::Fields);
    let walk = KeyWalk::with(execution, bounds, keys_only, is_reverse)?;
    let mut range = Range { walk, parts, keys_only, limit, left: limit, value: None };
    if range.parts.is_some() {
        return long_replies::reply(execution, SequenceKind::Array, None, range);
    }
    let (mut replies, mut bytes) = (Vec::new(), 0);
    while let Some((key, string)) = range.next_string().transpose()? {
        replies.push(Reply::Bulk(key));
        if !keys_only {
            replies.push(Reply::Bulk(string.whole(execution)?));
        }
        bytes += replies.iter().rev().take(2).map(Reply::bytes_len).sum::<usize>();
        execution.state.memory.check_reply(bytes)?;
    }
    Ok(Reply::Array(replies))
}

/// The keys of a range, with their values unless `keys_only`, as elements of a reply.
struct Range {
    walk: KeyWalk,
    /// Where the parts of long strings are read; `None` if they are read elsewhere.
    parts: Option<(Snapshot, Keyspace)>,
    keys_only: bool,
    limit: usize,
    /// How many more strings are wanted.
    left: usize,
    /// The value of the key that was the last element.
    value: Option<Reply>,
}

impl Range {
    /// The next string with its key.
    fn next_string(&mut self) -> Option<Result<(Bytes, StringValue), CommandError>> {
        self.left = self.left.checked_sub(1)?;
        loop {
            match self.walk.next()? {
                Ok((key, Value::String(string))) => return Some(Ok((key, string))),
                Ok((_, Value::Hash(_))) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn value_of(&self, string: StringValue) -> Option<Reply> {
        match (string, &self.parts) {
            _ if self.keys_only => None,
            (StringValue::Short(entry), _) => Some(Reply::Bulk(entry.value)),
            (StringValue::Long(string), Some((snapshot, parts))) => {
                let all = 0..string.len as usize;
                Some(Streamed::bulk(string.len, string.stream(snapshot, parts, all)))
            }
            (StringValue::Long(_), None) => None,
        }
    }
}

impl Source for Range {
    fn next(&mut self) -> Option<CommandResult> {
        if let Some(value) = self.value.take() {
            return Some(Ok(value));
        }
        let next = self.next_string()?;
        Some(next.map(|(key, string)| {
            self.value = self.value_of(string);
            Reply::Bulk(key)
        }))
    }

    fn rewind(&mut self) {
        self.walk.rewind();
        self.left = self.limit;
        self.value = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_position_is_between_the_keys() {
        for (first, last) in [("a", "b"), ("user:001", "user:999"), ("a", "a"), ("ab", "abc")] {
            for random in [0, u64::MAX / 2, u64::MAX] {
                let place = between(first.as_bytes(), last.as_bytes(), random);
                let shared = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
                assert_eq!(place[..shared], first.as_bytes()[..shared]);
                let mut padded = last.as_bytes().to_vec();
                padded.resize(place.len().max(padded.len()), 0);
                assert!(place <= padded, "{place:?} {last}");
            }
        }
    }

    #[test]
    fn patterns_bound_the_walk() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(
            bounds_of(Some(b"user:*"), None),
            (Bound::Included(bytes("user:")), Bound::Excluded(bytes("user;")))
        );
        assert_eq!(
            bounds_of(Some(b"user:*"), Some(bytes("user:7"))).0,
            Bound::Excluded(bytes("user:7"))
        );
        assert_eq!(bounds_of(Some(b"b*"), Some(bytes("a"))).0, Bound::Included(bytes("b")));
        assert_eq!(bounds_of(None, None), (Bound::Included(bytes("")), Bound::Unbounded));
    }
}
