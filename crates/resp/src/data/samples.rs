//! Random keys of a database, and its size as random keys show it.
//!
//! Both draw stored versions at random ([`tidekv::Keyspace::draw`]), which reads a few blocks for
//! each draw, however large the database is.

use bytes::Bytes;
use tidekv::{Draw, Keyspace};
use tidekv_io::Random;

use crate::data::execution::Execution;
use crate::data::values;
use crate::protocol::reply::CommandError;
use crate::state::keyspaces::Space;
use crate::state::server_state::{Estimate, State};

/// Draws before [`random_key`] gives up: with one present entry in a hundred versions, one search
/// in twenty thousand does.
const DRAWS_MAX: usize = 1_000;

/// A database with at most this many versions is counted, not estimated: it takes milliseconds.
const COUNTED_VERSIONS_MAX: u64 = 10_000;

/// Draws of an estimate: its deviation is a few percent.
const ESTIMATE_DRAWS: usize = 512;

/// How long an estimate is used: monitoring asks every few seconds.
const ESTIMATE_NS: u64 = 10_000_000_000;

/// The outcome of a search for a random key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RandomKey {
    /// The database stores nothing.
    Empty,
    /// Nearly all of what it stores was overwritten or removed.
    NotFound,
    Key(Bytes),
}

fn spaces(state: &State, slot: usize) -> impl Iterator<Item = &Keyspace> {
    [Space::Strings, Space::Heads]
        .into_iter()
        .filter_map(move |space| state.keyspaces.get(slot, space))
}

/// A random key of the database; all are about equally likely.
pub(crate) fn random_key(execution: &mut Execution<'_>) -> Result<RandomKey, CommandError> {
    let state = execution.state;
    for _ in 0..DRAWS_MAX {
        let slot = execution.slot();
        let all: u64 = spaces(state, slot).map(Keyspace::versions).sum();
        if all == 0 {
            return Ok(RandomKey::Empty);
        }
        let mut chosen = ((u128::from(state.random.next_u64()) * u128::from(all)) >> 64) as u64;
        let keyspace = spaces(state, slot).find(|keyspace| {
            let versions = keyspace.versions();
            let is_here = chosen < versions;
            chosen = chosen.saturating_sub(versions);
            is_here
        });
        let Some(keyspace) = keyspace else { continue };
        // The execution may read another moment.
        if let Draw::Entry(key, _) = keyspace.draw(|| state.random.next_u64())?
            && values::find(execution, &key)?.is_some()
        {
            return Ok(RandomKey::Key(key));
        }
    }
    Ok(RandomKey::NotFound)
}

/// Sums of the entries of a keyspace.
#[derive(Debug, Default)]
struct Sums {
    keys: u64,
    expires: u64,
    ttl_ms: u128,
}

impl Sums {
    fn add(&mut self, expires_at_ms: Option<u64>, now_ms: u64) {
        self.keys += 1;
        if let Some(deadline) = expires_at_ms {
            self.expires += 1;
            self.ttl_ms += u128::from(deadline.saturating_sub(now_ms));
        }
    }
}

/// The size of the database in `slot`: exact if it is small, otherwise an estimate of at most ten
/// seconds ago.
pub(crate) fn size(state: &State, slot: usize) -> tidekv::Result<Estimate> {
    let now_ns = state.monotonic_ns();
    let versions: u64 = spaces(state, slot).map(Keyspace::versions).sum();
    let is_small = versions <= COUNTED_VERSIONS_MAX;
    let known = state.estimates.lock()[slot];
    if let Some(known) = known
        && !is_small
        && now_ns.saturating_sub(known.made_ns) < ESTIMATE_NS
    {
        return Ok(known);
    }
    let mut total = Sums::default();
    for keyspace in spaces(state, slot) {
        let sums = if is_small { count(state, keyspace)? } else { estimate(state, keyspace)? };
        total.keys += sums.keys;
        total.expires += sums.expires;
        total.ttl_ms += sums.ttl_ms;
    }
    let mean_ttl_ms = (total.ttl_ms / u128::from(total.expires.max(1))) as u64;
    let Sums { keys, expires, .. } = total;
    let size = Estimate { keys, expires, mean_ttl_ms, made_ns: now_ns };
    state.estimates.lock()[slot] = (!is_small).then_some(size);
    Ok(size)
}

fn count(state: &State, keyspace: &Keyspace) -> tidekv::Result<Sums> {
    let now_ms = state.now_ms();
    let mut sums = Sums::default();
    for item in keyspace.iter().keys_only() {
        sums.add(item?.1.expires_at_ms, now_ms);
    }
    Ok(sums)
}

fn estimate(state: &State, keyspace: &Keyspace) -> tidekv::Result<Sums> {
    let now_ms = state.now_ms();
    let mut sums = Sums::default();
    let mut drawn = 0;
    for _ in 0..ESTIMATE_DRAWS {
        match keyspace.draw(|| state.random.next_u64())? {
            Draw::Empty => break,
            Draw::Missed => {}
            Draw::Stale => drawn += 1,
            Draw::Entry(_, entry) => {
                drawn += 1;
                sums.add(entry.expires_at_ms, now_ms);
            }
        }
    }
    let scaled = |part: u128| part * u128::from(keyspace.versions()) / u128::from(drawn.max(1_u64));
    Ok(Sums {
        keys: scaled(u128::from(sums.keys)) as u64,
        expires: scaled(u128::from(sums.expires)) as u64,
        ttl_ms: scaled(sums.ttl_ms),
    })
}
