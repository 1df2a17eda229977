//! The requests of Redis commands.
//!
//! A field of a hash is a key of its own: the hash's, a zero byte and the field's name.

use super::request::{Kind, Request, Requests};

/// One word of a command. Of a long one only the beginning is kept, and its length.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Word {
    pub(super) begin: Vec<u8>,
    pub(super) bytes: u64,
}

impl From<&[u8]> for Word {
    fn from(bytes: &[u8]) -> Self {
        Self { begin: bytes.to_owned(), bytes: bytes.len() as u64 }
    }
}

/// The bytes kept of a word: the length limit of a key.
pub(super) const KEPT_BYTES_MAX: u64 = 64 << 10;

/// A command with more bytes of keys is skipped; only an attacker would write one.
const EXPANDED_BYTES_MAX: u64 = 256 << 20;

/// Approximate bytes of a number as Redis writes it.
const NUMBER_BYTES: u64 = 8;

/// The present time of a trace, in seconds since 1970, if it is known.
pub(super) type Now = Option<f64>;

/// The requests of a command; none for a command without a known key. A command with too few words
/// has none, as a server would refuse it.
pub(super) fn requests(words: &[Word], now: Now) -> Requests {
    let Some((name, rest)) = words.split_first() else { return Requests::new() };
    if expanded_bytes(rest) > EXPANDED_BYTES_MAX {
        return Requests::new();
    }
    let key = |word: &Word| (word.bytes <= KEPT_BYTES_MAX).then(|| word.begin.clone());
    let of = |kind: Kind, words: &[Word]| -> Requests {
        words.iter().filter_map(|word| Some(Request::new(kind, key(word)?))).collect()
    };
    let put = |of: &Word, value: u64| {
        Some(Request { value_bytes: Some(value), ..Request::new(Kind::Put, key(of)?) })
    };
    let field = |hash: &Word, name: &Word| {
        let all = [&hash.begin[..], &[0], &name.begin[..]].concat();
        Word { bytes: all.len() as u64, begin: all }
    };
    let fields_of = |hash: &Word, names: &[Word]| -> Vec<Word> {
        names.iter().map(|name| field(hash, name)).collect()
    };
    let upper = name.begin.to_ascii_uppercase();
    match (&*upper, rest) {
        (
            b"GETEX" | b"EXPIRE" | b"PEXPIRE" | b"EXPIREAT" | b"PEXPIREAT" | b"PERSIST",
            [one, ..],
        ) => {
            let get = (&*upper == b"GETEX").then(|| of(Kind::Get, std::slice::from_ref(one)));
            let change = new_ttl(&upper, &rest[1..], now).and_then(|ttl_seconds| {
                Some(Request { ttl_seconds, ..Request::new(Kind::Expire, key(one)?) })
            });
            get.into_iter().flatten().chain(change).collect()
        }
        (b"GET" | b"GETRANGE" | b"STRLEN", [one, ..]) => of(Kind::Get, std::slice::from_ref(one)),
        (b"MGET" | b"EXISTS" | b"TOUCH", keys) => of(Kind::Get, keys),
        (b"SET", [one, value, options @ ..]) => {
            let ttl_seconds = ttl(options, now);
            let put = put(one, value.bytes);
            put.map(|put| Request { ttl_seconds, ..put }).into_iter().collect()
        }
        (b"SETNX" | b"GETSET" | b"APPEND", [one, value]) => {
            put(one, value.bytes).into_iter().collect()
        }
        (b"SETEX" | b"PSETEX", [one, time, value]) => {
            let divisor = if name.begin.len() == b"PSETEX".len() { 1000 } else { 1 };
            let ttl_seconds = number(time).map(|time| time.div_ceil(divisor));
            let put = put(one, value.bytes);
            put.map(|put| Request { ttl_seconds, ..put }).into_iter().collect()
        }
        (b"MSET" | b"MSETNX", pairs) => {
            pairs.chunks_exact(2).filter_map(|pair| put(&pair[0], pair[1].bytes)).collect()
        }
        (b"INCR" | b"DECR" | b"INCRBY" | b"DECRBY" | b"INCRBYFLOAT", [one, ..]) => {
            let get = of(Kind::Get, std::slice::from_ref(one));
            get.into_iter().chain(put(one, NUMBER_BYTES)).collect()
        }
        (b"DEL" | b"UNLINK", keys) => of(Kind::Delete, keys),
        (b"GETDEL", [one]) => {
            let of_kind = |kind| of(kind, std::slice::from_ref(one));
            [of_kind(Kind::Get), of_kind(Kind::Delete)].concat()
        }
        (b"HGET" | b"HMGET" | b"HEXISTS", [hash, fields @ ..]) => {
            of(Kind::Get, &fields_of(hash, fields))
        }
        (b"HSET" | b"HMSET" | b"HSETNX", [hash, pairs @ ..]) => {
            let put = |pair: &[Word]| put(&field(hash, &pair[0]), pair[1].bytes);
            pairs.chunks_exact(2).filter_map(put).collect()
        }
        (b"HDEL", [hash, fields @ ..]) => of(Kind::Delete, &fields_of(hash, fields)),
        _ => Requests::new(),
    }
}

/// The time to live that a command gives an existing key, an inner `None` for ever; `None` if it
/// gives none, or one that is unknown.
fn new_ttl(name: &[u8], arguments: &[Word], now: Now) -> Option<Option<u64>> {
    let persists = |word: &Word| word.begin.eq_ignore_ascii_case(b"PERSIST");
    let time = arguments.first();
    match name {
        b"PERSIST" => Some(None),
        b"GETEX" if arguments.iter().any(persists) => Some(None),
        b"GETEX" => ttl(arguments, now).map(Some),
        b"EXPIRE" => number(time?).map(Some),
        b"PEXPIRE" => number(time?).map(|ms| Some(ms.div_ceil(1000))),
        b"EXPIREAT" => until(number(time?)? as f64, now).map(Some),
        _ => until(number(time?)? as f64 / 1e3, now).map(Some),
    }
}

/// Bytes of all keys of a command: each of a hash's fields has its key.
fn expanded_bytes(words: &[Word]) -> u64 {
    let first = words.first().map_or(0, |word| word.begin.len() as u64);
    let fields: u64 = words.iter().map(|word| word.begin.len() as u64).sum();
    first * words.len() as u64 + fields
}

/// The time to live in the options of `SET` and `GETEX`.
fn ttl(options: &[Word], now: Now) -> Option<u64> {
    options.windows(2).find_map(|pair| match &*pair[0].begin.to_ascii_uppercase() {
        b"EX" => number(&pair[1]),
        b"PX" => number(&pair[1]).map(|ms| ms.div_ceil(1000)),
        b"EXAT" => until(number(&pair[1])? as f64, now),
        b"PXAT" => until(number(&pair[1])? as f64 / 1e3, now),
        _ => None,
    })
}

/// The seconds until a time, at least 1; `None` if the present is unknown.
fn until(unix_s: f64, now: Now) -> Option<u64> {
    Some((unix_s - now?).ceil().max(1.0) as u64)
}

/// Whether a command sets a deadline as a time since 1970, as all do in an append-only file.
pub(super) fn has_deadline(words: &[Word]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    let is = |word: &Word, names: [&[u8]; 2]| {
        names.iter().any(|name| word.begin.eq_ignore_ascii_case(name))
    };
    is(name, [b"EXPIREAT", b"PEXPIREAT"])
        || is(name, [b"SET", b"GETEX"]) && rest.iter().skip(1).any(|it| is(it, [b"EXAT", b"PXAT"]))
}

fn number(word: &Word) -> Option<u64> {
    std::str::from_utf8(&word.begin).ok()?.parse().ok()
}
