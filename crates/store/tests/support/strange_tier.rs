//! Tiers that behave correctly, and others that misbehave in every way.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::Mutex;
use tidekv::{Bytes, SecondaryCache};

use super::Dice;

/// Maximum number of bytes: beyond it, everything is dropped at once.
const BYTES_MAX: usize = 16 << 20;

/// The behaviour of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temper {
    /// Correct.
    Faithful,
    /// Loses entries at random, and drops new ones.
    Forgetful,
    /// Returns the value of another key, every other time.
    Confused,
    /// Returns a modified value, every other time.
    Noisy,
}

impl Temper {
    pub const ALL: [Self; 4] = [Self::Faithful, Self::Forgetful, Self::Confused, Self::Noisy];
}

/// A tier in memory.
#[derive(Debug)]
pub struct StrangeTier {
    temper: Temper,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    values: BTreeMap<Box<[u8]>, Bytes>,
    bytes: usize,
}

impl StrangeTier {
    pub fn new(temper: Temper, seed: u64) -> Self {
        let state = State { dice: Dice(seed), values: BTreeMap::new(), bytes: 0 };
        Self { temper, state: Mutex::new(state) }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.state.lock().values.len()
    }
}

impl State {
    /// The value after `key`, in a ring.
    fn of_another(&mut self, key: &[u8]) -> Option<Bytes> {
        let behind = (Bound::Excluded(key), Bound::Unbounded);
        let next = self.values.range::<[u8], _>(behind).nth(self.dice.below(3) as usize);
        next.or_else(|| self.values.iter().next()).map(|(_, value)| value.clone())
    }

    fn noise(&mut self, value: &Bytes) -> Bytes {
        let mut noise = value.to_vec();
        let at = self.dice.below(noise.len().max(1) as u64) as usize;
        match self.dice.below(4) {
            0 => noise.truncate(at),
            1 => noise.push(0),
            2 => noise.fill(7),
            _ => noise[at] ^= 1 << self.dice.below(8),
        }
        noise.into()
    }
}

impl SecondaryCache for StrangeTier {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        let state = &mut *self.state.lock();
        if self.temper != Temper::Faithful && state.dice.one_in(2) {
            match self.temper {
                Temper::Confused => return state.of_another(key),
                Temper::Noisy => {
                    let value = state.values.get(key)?.clone();
                    return Some(state.noise(&value));
                }
                _ => return None,
            }
        }
        state.values.get(key).cloned()
    }

    fn put(&self, key: &[u8], value: Bytes) {
        let state = &mut *self.state.lock();
        if state.bytes + value.len() > BYTES_MAX {
            state.values.clear();
            state.bytes = 0;
        }
        if self.temper == Temper::Forgetful && state.dice.one_in(2) {
            state.values.remove(key);
            return;
        }
        state.bytes += value.len();
        state.values.insert(key.into(), value);
    }

    fn remove(&self, key: &[u8]) {
        self.state.lock().values.remove(key);
    }
}
