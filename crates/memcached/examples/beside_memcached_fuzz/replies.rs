//! The comparison of replies, and the differences that are known.

use std::error::Error;

/// Seconds by which times may differ: the clocks of both servers tick independently.
const SECONDS_MAX: u64 = 3;

/// Bytes as text: `{x*300}` stands for 300 times `x`. About `limit` characters at most.
pub fn shortened(bytes: &[u8], limit: usize) -> String {
    let mut text = String::new();
    for run in bytes.chunk_by(|a, b| a == b) {
        let byte = run[0].escape_ascii();
        match run.len() {
            ..9 => text.extend(run.iter().map(|byte| byte.escape_ascii().to_string())),
            count => text.push_str(&format!("{{{byte}*{count}}}")),
        }
        if text.len() > limit {
            return format!("{text}… ({} bytes)", bytes.len());
        }
    }
    text
}

/// Whether two replies of the text protocol are the same, apart from what depends on the time, and
/// from the sizes and classes that `me` tells.
pub fn are_alike(request: &[u8], stock: &[u8], ours: &[u8]) -> bool {
    if stock == ours {
        return true;
    }
    let is_meta = [&b"mg "[..], b"ma ", b"me "]
        .iter()
        .any(|name| request.windows(name.len()).any(|window| window == *name));
    let (stock, ours): (Vec<_>, Vec<_>) = (lines(stock).collect(), lines(ours).collect());
    is_meta
        && stock.len() == ours.len()
        && stock.iter().zip(ours).all(|(a, b)| are_alike_lines(a, b))
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

fn are_alike_lines(stock: &[u8], ours: &[u8]) -> bool {
    let is_told = [&b"HD"[..], b"VA ", b"ME "].iter().any(|code| stock.starts_with(code));
    let words = |line| <[u8]>::split(line, |&byte| byte == b' ' || byte == b'\r');
    stock == ours
        || is_told
            && words(stock).count() == words(ours).count()
            && words(stock).zip(words(ours)).all(|(a, b)| a == b || are_alike_words(a, b))
}

fn are_alike_words(stock: &[u8], ours: &[u8]) -> bool {
    let numbers = |name: &str| {
        let number = |word: &[u8]| -> Option<u64> {
            std::str::from_utf8(word.strip_prefix(name.as_bytes())?).ok()?.parse().ok()
        };
        number(stock).zip(number(ours))
    };
    ["t", "exp="]
        .iter()
        .any(|name| numbers(name).is_some_and(|(a, b)| a.abs_diff(b) <= SECONDS_MAX))
        || ["l", "la=", "size=", "cls="].iter().any(|name| numbers(name).is_some())
}

/// The versions in a reply of the text protocol.
pub fn versions(reply: &[u8]) -> Vec<u64> {
    let words = |line| <[u8]>::split(line, |&byte| byte == b' ' || byte == b'\r');
    let mut found = Vec::new();
    for line in lines(reply) {
        let parts: Vec<&str> =
            words(line).filter_map(|word| std::str::from_utf8(word).ok()).collect();
        match parts[..] {
            ["HD" | "VA", ref rest @ ..] => {
                let numbers =
                    rest.iter().filter_map(|word| word.strip_prefix('c')?.parse::<u64>().ok());
                found.extend(numbers);
            }
            ["VALUE", _, _, _, version, _] => found.extend(version.parse::<u64>()),
            _ => {}
        }
    }
    found
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

/// Whether both servers have closed the connection, memcached after a part of our reply.
fn is_beginning(stock: &str, ours: &str) -> bool {
    let parts = stock.strip_suffix("<closed>").zip(ours.strip_suffix("<closed>"));
    parts.is_some_and(|(stock, ours)| ours.starts_with(stock))
}

/// A known difference: patterns of the request and of both replies, and the reason.
#[derive(Debug)]
struct Rule {
    request: String,
    stock: String,
    ours: String,
    reason: String,
    count: usize,
}

/// The known differences.
#[derive(Debug)]
pub struct Known(Vec<Rule>);

impl Known {
    /// Parses a file of lines `request | memcached's reply | our reply | reason`; `#` starts a
    /// comment. `~` as memcached's reply: the beginning of ours, before both close the connection.
    pub fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let mut rules = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let parts: Vec<&str> = line.split(" | ").collect();
            let [request, stock, ours, reason] = parts[..] else {
                return Err(format!("no rule: {line}").into());
            };
            let [request, stock, ours, reason] = [request, stock, ours, reason].map(str::to_owned);
            rules.push(Rule { request, stock, ours, reason, count: 0 });
        }
        Ok(Self(rules))
    }

    /// Whether a difference is known; counts it.
    pub fn explains(&mut self, request: &str, stock: &str, ours: &str) -> bool {
        let applies = |rule: &&mut Rule| {
            matches(&rule.request, request)
                && (rule.stock == "~" && is_beginning(stock, ours) || matches(&rule.stock, stock))
                && matches(&rule.ours, ours)
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

    /// How often each rule applied, and its request and reason.
    pub fn counts(&self) -> impl Iterator<Item = (usize, String)> {
        let used = self.0.iter().filter(|rule| rule.count > 0);
        used.map(|rule| (rule.count, format!("{}: {}", rule.request, rule.reason)))
    }
}
