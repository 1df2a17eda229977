//! Replies, and what may differ in them: versions, the seconds that a clock has just passed, and what
//! `known.txt` explains.

use std::collections::HashMap;
use std::error::Error;

/// How a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the reply to the request that follows each.
    Complete,
    /// The server waits for more.
    Waiting,
    /// The connection was closed.
    Closed,
}

/// Bytes received, and how they ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub bytes: Vec<u8>,
    pub ending: Ending,
}

impl Reply {
    /// For people.
    pub fn shown(&self) -> String {
        let text = self.bytes.escape_ascii().to_string();
        let cut = if text.len() > 300 { format!("{}…", &text[..300]) } else { text };
        format!("{cut} ({:?}, {} bytes)", self.ending, self.bytes.len())
    }
}

/// Versions of both servers that belong together.
#[derive(Debug, Default)]
pub struct Versions {
    ours: HashMap<u64, u64>,
    memcached: HashMap<u64, u64>,
    /// Pairs seen in the last comparison.
    pub seen: Vec<(u64, u64)>,
}

impl Versions {
    /// Whether the two may be versions of the same state of an object: the same pairs always appear
    /// together.
    fn agree(&mut self, memcached: u64, ours: u64) -> bool {
        if memcached == 0 || ours == 0 {
            return memcached == ours;
        }
        self.seen.push((memcached, ours));
        *self.ours.entry(memcached).or_insert(ours) == ours
            && *self.memcached.entry(ours).or_insert(memcached) == memcached
    }
}

/// A line, or the data behind one.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Line(&'a [u8]),
    Data(&'a [u8]),
}

fn parts(mut bytes: &[u8]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n").unwrap_or(bytes.len());
        let (line, rest) = bytes.split_at(end);
        bytes = rest.get(2..).unwrap_or_default();
        parts.push(Part::Line(line));
        let text = String::from_utf8_lossy(line);
        let mut words = text.split(' ');
        let len = match words.next() {
            Some("VALUE") => words.nth(2),
            Some("VA") => words.next(),
            _ => None,
        };
        if let Some(len) = len.and_then(|len| len.parse::<usize>().ok()) {
            let (data, rest) = bytes.split_at((len + 2).min(bytes.len()));
            parts.push(Part::Data(data));
            bytes = rest;
        }
    }
    parts
}

/// Whether text replies are alike.
pub fn are_texts_alike(memcached: &[u8], ours: &[u8], versions: &mut Versions) -> bool {
    let (memcached, ours) = (parts(memcached), parts(ours));
    memcached.len() == ours.len()
        && memcached.iter().zip(&ours).all(|parts| match parts {
            (Part::Line(memcached), Part::Line(ours)) => are_lines_alike(memcached, ours, versions),
            (memcached, ours) => memcached == ours,
        })
}

fn are_lines_alike(memcached: &[u8], ours: &[u8], versions: &mut Versions) -> bool {
    let (memcached, ours) = (String::from_utf8_lossy(memcached), String::from_utf8_lossy(ours));
    let (memcached, ours): (Vec<&str>, Vec<&str>) =
        (memcached.split(' ').collect(), ours.split(' ').collect());
    let kind = memcached[0];
    memcached.len() == ours.len()
        && memcached.iter().zip(&ours).enumerate().all(|(at, (memcached, ours))| {
            let numbers = |name: &str| {
                let of = |word: &str| word.strip_prefix(name)?.parse::<u64>().ok();
                Some((of(memcached)?, of(ours)?))
            };
            let pair = match kind {
                "VALUE" if at == 4 => numbers(""),
                "HD" | "VA" | "EN" | "NF" | "NS" | "EX" | "NM" => numbers("c"),
                "ME" => numbers("cas="),
                _ => None,
            };
            if let Some((memcached, ours)) = pair {
                return versions.agree(memcached, ours);
            }
            let seconds = match kind {
                "HD" | "VA" => numbers("t"),
                "ME" => numbers("exp="),
                _ => None,
            };
            // memcached updates the time of the last access once a minute at most.
            let is_access = match kind {
                "HD" | "VA" => numbers("l").is_some(),
                _ => kind == "ME" && numbers("la=").is_some(),
            };
            let is_of_slabs =
                kind == "ME" && (memcached.starts_with("size=") || memcached.starts_with("cls="));
            memcached == ours
                || is_of_slabs
                || is_access
                || seconds.is_some_and(|(memcached, ours)| memcached.abs_diff(ours) <= 1)
        })
}

/// Whether replies of the binary protocol are alike.
pub fn are_frames_alike(memcached: &[u8], ours: &[u8], versions: &mut Versions) -> bool {
    let version = |bytes: &[u8], at: usize| {
        bytes
            .get(at + 16..at + 24)
            .map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap_or_default()))
    };
    let mut at = 0;
    while at < memcached.len().max(ours.len()) {
        let (Some(of_memcached), Some(of_ours)) = (version(memcached, at), version(ours, at))
        else {
            return memcached.get(at..) == ours.get(at..);
        };
        if memcached[at..at + 16] != ours[at..at + 16] || !versions.agree(of_memcached, of_ours) {
            return false;
        }
        let len =
            u32::from_be_bytes(memcached[at + 8..at + 12].try_into().unwrap_or_default()) as usize;
        if memcached.get(at + 24..at + 24 + len) != ours.get(at + 24..at + 24 + len) {
            return false;
        }
        at += 24 + len;
    }
    true
}

/// A known difference.
#[derive(Debug)]
struct Rule {
    request: String,
    memcached: String,
    ours: String,
    reason: String,
    count: usize,
}

/// The known differences.
#[derive(Debug)]
pub struct Known(Vec<Rule>);

impl Known {
    /// Parses lines `request | memcached's reply | our reply | reason`; `*` stands for any text, `#`
    /// starts a comment.
    pub fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rule = |line: &str| {
            let [request, memcached, ours, reason] = line.split(" | ").collect::<Vec<_>>()[..]
            else {
                return Err(format!("no rule: {line}").into());
            };
            let [request, memcached, ours, reason] =
                [request, memcached, ours, reason].map(str::to_owned);
            Ok(Rule { request, memcached, ours, reason, count: 0 })
        };
        lines.map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a difference is known; counts it.
    pub fn explains(&mut self, request: &[u8], memcached: &Reply, ours: &Reply) -> bool {
        let request = request.escape_ascii().to_string();
        let text = |reply: &Reply| format!("{} {:?}", reply.bytes.escape_ascii(), reply.ending);
        let (memcached, ours) = (text(memcached), text(ours));
        let rule = self.0.iter_mut().find(|rule| {
            matches(&rule.request, &request)
                && matches(&rule.memcached, &memcached)
                && matches(&rule.ours, &ours)
        });
        rule.map(|rule| rule.count += 1).is_some()
    }

    /// Each rule that applied, and how often.
    pub fn counts(&self) -> impl Iterator<Item = (usize, String)> {
        let used = self.0.iter().filter(|rule| rule.count > 0);
        used.map(|rule| (rule.count, format!("{}: {}", rule.request, rule.reason)))
    }
}

/// Whether the text matches a pattern with `*`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| matches(rest, &text[at..]))
        }),
    }
}
