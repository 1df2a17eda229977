//! Replies as both servers should give them, and the differences that are known.

use std::error::Error;

/// A decoded reply. Lists and sets differ, but not the two kinds of nulls and texts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Null,
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    List(Vec<Value>),
    Set(Vec<Value>),
    /// Keys and values in turn.
    Map(Vec<Value>),
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::List(items) => f.debug_list().entries(items).finish(),
            Self::Set(items) => f.debug_set().entries(items).finish(),
            Self::Map(items) => f.debug_set().entries(items).finish(),
        }
    }
}

/// Milliseconds by which remaining times may differ.
const TTL_DIFFERENCE_MAX: i64 = 10_000;

fn is(words: &[Vec<u8>], names: &[&str]) -> bool {
    names.iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()))
}

/// Sorts the elements of a list in groups of `size`.
fn sorted(items: Vec<Value>, size: usize) -> Vec<Value> {
    let mut groups: Vec<Vec<Value>> = items.chunks(size).map(<[Value]>::to_vec).collect();
    groups.sort();
    groups.concat()
}

/// The elements of a reply to `HELLO` without the number of the connection.
fn without_id(mut items: Vec<Value>) -> Vec<Value> {
    let id = items.iter().position(|item| *item == Value::Bulk(b"id".to_vec()));
    if let Some(number) = id.and_then(|at| items.get_mut(at + 1)) {
        *number = Value::Null;
    }
    items
}

/// The reply to `words` without what Redis leaves open.
pub fn normalized(words: &[Vec<u8>], reply: Value) -> Value {
    match reply {
        Value::List(items) if is(words, &["HELLO"]) => Value::List(without_id(items)),
        Value::Map(items) if is(words, &["HELLO"]) => Value::Map(without_id(items)),
        Value::List(items) if is(words, &["KEYS", "HKEYS", "HVALS"]) => {
            Value::List(sorted(items, 1))
        }
        Value::List(items) if is(words, &["HGETALL"]) => Value::List(sorted(items, 2)),
        Value::Map(items) => Value::Map(sorted(items, 2)),
        // A cursor and its elements: walks in one step are compared.
        Value::List(mut parts) if is(words, &["SCAN", "HSCAN"]) && parts.len() == 2 => {
            if let Value::List(items) = parts.remove(1) {
                let size = if is(words, &["SCAN"]) { 1 } else { 2 };
                parts.push(Value::List(sorted(items, size)));
            }
            Value::List(parts)
        }
        // Random choices: only their number.
        Value::List(items) if is(words, &["HRANDFIELD"]) => Value::Integer(items.len() as i64),
        Value::Bulk(_) if is(words, &["HRANDFIELD", "RANDOMKEY"]) => Value::Simple("one".into()),
        Value::List(_) if is(words, &["TIME"]) => Value::Simple("a time".into()),
        Value::Integer(_) if is(words, &["SLOWLOG"]) => Value::Simple("some".into()),
        Value::Integer(bytes) if is(words, &["MEMORY"]) => Value::Simple(format!("{}", bytes > 0)),
        other => other,
    }
}

/// Maps and sets as lists.
fn as_list(value: Value) -> Value {
    match value {
        Value::Map(items) | Value::Set(items) | Value::List(items) => {
            Value::List(items.into_iter().map(as_list).collect())
        }
        other => other,
    }
}

/// Whether two normalized replies to `words` are the same; `queued` are the commands of an `EXEC`.
pub fn are_alike(words: &[Vec<u8>], queued: &[Vec<Vec<u8>>], redis: &Value, ours: &Value) -> bool {
    match (redis, ours) {
        (Value::Integer(a), Value::Integer(b))
            if is(words, &["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]) =>
        {
            a == b || (*a > 0 && *b > 0 && a.abs_diff(*b) <= TTL_DIFFERENCE_MAX as u64)
        }
        (Value::List(a), Value::List(b)) if is(words, &["EXEC"]) && a.len() == queued.len() => {
            let are_alike = |((words, a), b): ((&Vec<Vec<u8>>, &Value), &Value)| {
                // Redis encodes what was answered before a HELLO in the old protocol.
                let (a, b) = (as_list(a.clone()), as_list(b.clone()));
                are_alike(words, &[], &normalized(words, a), &normalized(words, b))
            };
            a.len() == b.len() && queued.iter().zip(a).zip(b).all(are_alike)
        }
        _ => redis == ours,
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            text.char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .any(|at| matches(rest, &text[at..]))
        }),
    }
}

/// Whether both are the same number, as far as a `f64` shows.
fn are_close(a: &str, b: &str) -> bool {
    let numbers = a.parse::<f64>().ok().zip(b.parse::<f64>().ok());
    numbers.is_some_and(|(a, b)| (a - b).abs() <= a.abs() * 1e-15)
}

/// A known difference: patterns of the command and of both replies, and the reason.
#[derive(Debug)]
struct Rule {
    command: String,
    redis: String,
    ours: String,
    reason: String,
    count: usize,
}

/// The known differences.
#[derive(Debug)]
pub struct Known(Vec<Rule>);

impl Known {
    /// Parses a file of lines `command | Redis's reply | our reply | reason`; `#` starts a comment.
    /// `~` as our reply: about the same number.
    pub fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let mut rules = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let parts: Vec<&str> = line.split(" | ").collect();
            let [command, redis, ours, reason] = parts[..] else {
                return Err(format!("no rule: {line}").into());
            };
            let [command, redis, ours, reason] = [command, redis, ours, reason].map(str::to_owned);
            rules.push(Rule { command, redis, ours, reason, count: 0 });
        }
        Ok(Self(rules))
    }

    /// Whether a difference is known; counts it.
    pub fn explains(&mut self, words: &[Vec<u8>], redis: &Value, ours: &Value) -> bool {
        let command: Vec<String> =
            words.iter().map(|word| word.to_ascii_uppercase().escape_ascii().to_string()).collect();
        let command = command.join(" ");
        let text = |value: &Value| match value {
            Value::Error(text) | Value::Simple(text) => text.clone(),
            Value::Bulk(bytes) => bytes.escape_ascii().to_string(),
            other => format!("{other:?}"),
        };
        let (redis, ours) = (text(redis), text(ours));
        let applies = |rule: &&mut Rule| {
            matches(&rule.command, &command)
                && matches(&rule.redis, &redis)
                && (rule.ours == "~" && are_close(&redis, &ours) || matches(&rule.ours, &ours))
        };
        match self.0.iter_mut().find(applies) {
            Some(rule) => {
                rule.count += 1;
                true
            }
            None => false,
        }
    }

    /// Number of differences so far.
    pub fn count(&self) -> usize {
        self.0.iter().map(|rule| rule.count).sum()
    }

    /// How often each rule applied, and its command and reason.
    pub fn counts(&self) -> impl Iterator<Item = (usize, String)> {
        let used = self.0.iter().filter(|rule| rule.count > 0);
        used.map(|rule| (rule.count, format!("{}: {}", rule.command, rule.reason)))
    }
}
