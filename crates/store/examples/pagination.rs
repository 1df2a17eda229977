//! Pages of a long list: each page returns a token with which the next one starts.
//!
//! ```sh
//! cargo run -p tidekv --example pagination
//! ```
//!
//! The token contains the last key of the page, so the server keeps no state between pages, every
//! page costs one seek, and entries that are inserted or deleted meanwhile neither repeat nor hide
//! others.

use std::fmt::Write as _;
use std::ops::Bound;

use tidekv::{Db, Keyspace, Options, prefix_end};

struct Page {
    keys: Vec<String>,
    /// Where the next page starts; `None`: this is the last one.
    next: Option<String>,
}

/// The entries whose keys start with `prefix`, at most `limit` of them, after the page that
/// returned `token`.
fn page(
    keyspace: &Keyspace,
    prefix: &str,
    token: Option<&str>,
    limit: usize,
) -> Result<Page, Box<dyn std::error::Error>> {
    let start = match token {
        Some(token) => Bound::Excluded(decode(token).ok_or("the token is invalid")?),
        None => Bound::Included(prefix.as_bytes().to_vec()),
    };
    let end = prefix_end(prefix.as_bytes()).map_or(Bound::Unbounded, Bound::Excluded);
    let mut iter = keyspace.range((start, end));
    let mut keys = Vec::with_capacity(limit);
    let mut last = Vec::new();
    while keys.len() < limit
        && let Some(entry) = iter.next_ref()?
    {
        keys.push(String::from_utf8_lossy(entry.key).into_owned());
        last.clear();
        last.extend_from_slice(entry.key);
    }
    let is_more = iter.next_ref()?.is_some();
    Ok(Page { keys, next: is_more.then(|| encode(&last)) })
}

fn encode(key: &[u8]) -> String {
    key.iter().fold(String::new(), |mut token, byte| {
        write!(token, "{byte:02x}").expect("a string takes everything");
        token
    })
}

fn decode(token: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = token.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), Options::new().memory_bytes(64 << 20))?;
    let posts = db.keyspace("posts")?;
    posts.ingest((0..25).map(|n| (format!("ada/{n:04}"), format!("post {n}"))))?;
    posts.put("alan/0000", "of another author")?;

    let mut token: Option<String> = None;
    let mut seen = Vec::new();
    let mut pages = 0;
    loop {
        let page = page(&posts, "ada/", token.as_deref(), 10)?;
        pages += 1;
        println!("page {pages}: {} posts, next: {:?}", page.keys.len(), page.next);
        seen.extend(page.keys);
        // A post that is deleted between two pages does not shift the next page.
        posts.delete("ada/0000")?;
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(seen.len(), 25);
    assert!(seen.is_sorted() && seen.iter().all(|key| key.starts_with("ada/")));
    assert!(page(&posts, "ada/", Some("no token"), 10).is_err());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}
