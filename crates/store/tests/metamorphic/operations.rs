//! The list of operations: their definitions, and the generation of a list from a seed.
//!
//! An operation names keys and values by numbers, never by the results of earlier operations, so a
//! list without some of its operations is also a valid list: a failing list can therefore be
//! shrunk.

use crate::support::Dice;

/// Number of keyspaces.
pub const SPACES: usize = 3;
/// Maximum number of open snapshots, iterators and watches.
pub const SLOTS: usize = 4;

/// A value, by its generator.
#[derive(Debug, Clone, Copy)]
pub struct Payload {
    pub seed: u32,
    pub len: u32,
}

impl Payload {
    /// The bytes: a number, compressible text, or noise.
    pub fn bytes(self) -> Vec<u8> {
        if self.seed.is_multiple_of(16) {
            return self.seed.to_string().into_bytes();
        }
        let mut out = Vec::with_capacity(self.len as usize + 8);
        let mut state = u64::from(self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        while out.len() < self.len as usize {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = if self.seed % 4 == 1 { state } else { state & 0x3F << 40 | 0x6162_6364 };
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.truncate(self.len as usize);
        out
    }
}

/// The key of a number. The order of keys is the order of numbers; an even key is a prefix of the
/// odd one after it; lengths differ and zero bytes occur.
pub fn key(number: u32) -> Vec<u8> {
    let base = number / 2;
    let mut key = format!("k{base:06x}").into_bytes();
    if number % 2 == 1 {
        key.extend_from_slice(match base % 5 {
            0 => b"\0",
            1 => b"\0\0then",
            2 => b"/a/longer/tail/than/most/others",
            3 => b"\xff",
            _ => b"-",
        });
    }
    key
}

/// A write to one keyspace, in a batch or a transaction.
#[derive(Debug, Clone)]
pub enum Write {
    Put {
        space: usize,
        key: u32,
        value: Payload,
    },
    /// With a TTL in milliseconds; 0 expires at once.
    PutTtl {
        space: usize,
        key: u32,
        value: Payload,
        ttl_ms: u32,
    },
    Delete {
        space: usize,
        key: u32,
    },
    DeleteRange {
        space: usize,
        from: u32,
        to: u32,
    },
}

/// The expected value of a compare-and-set.
#[derive(Debug, Clone, Copy)]
pub enum Expectation {
    /// No value.
    Absence,
    /// The current value.
    Presence,
    /// A value that is certainly not current.
    Wrong,
}

/// A step of a transaction.
#[derive(Debug, Clone)]
pub enum Step {
    Get {
        space: usize,
        key: u32,
    },
    Prefix {
        space: usize,
        key: u32,
        cut: usize,
    },
    Write(Write),
    /// Another writer writes concurrently.
    Foreign(Write),
    /// The store flushes concurrently.
    Flush {
        space: usize,
    },
    Compact {
        space: usize,
        from: u32,
        to: u32,
    },
    Require {
        slot: usize,
    },
}

/// The moment of a read.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    Now,
    Snapshot(usize),
}

/// An iteration: its bounds, length and direction.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    pub space: usize,
    pub moment: Moment,
    /// `None`: from the first key.
    pub from: Option<(u32, bool)>,
    /// `None`: to the last key.
    pub to: Option<(u32, bool)>,
    pub keys_only: bool,
}

#[derive(Debug, Clone)]
pub enum Operation {
    Write(Write),
    Batch(Vec<Write>),
    CompareAndSet {
        space: usize,
        key: u32,
        expected: Expectation,
        new: Option<Payload>,
    },
    Increment {
        space: usize,
        key: u32,
        delta: i64,
    },
    Transaction(Vec<Step>),
    Ingest {
        space: usize,
        first: u32,
        stride: u32,
        count: u32,
        seed: u32,
        sorted: bool,
    },
    Clear {
        space: usize,
    },
    DefaultTtl {
        space: usize,
        ttl_ms: Option<u32>,
    },
    Get {
        space: usize,
        key: u32,
        moment: Moment,
    },
    /// From memory if possible, otherwise from storage.
    GetCached {
        space: usize,
        key: u32,
    },
    Contains {
        space: usize,
        key: u32,
    },
    MultiGet {
        space: usize,
        keys: Vec<u32>,
    },
    /// Takes up to `limit` entries, from the back if `reverse`.
    Range {
        walk: Walk,
        limit: u32,
        reverse: bool,
    },
    Prefix {
        space: usize,
        key: u32,
        cut: usize,
        moment: Moment,
        limit: u32,
    },
    /// Each bit of `ends` selects the end from which the next entry is taken.
    BothEnds {
        walk: Walk,
        ends: u64,
    },
    OpenWalk {
        slot: usize,
        walk: Walk,
    },
    StepWalk {
        slot: usize,
        reverse: bool,
        count: u32,
    },
    CloseWalk {
        slot: usize,
    },
    TakeSnapshot {
        slot: usize,
    },
    DropSnapshot {
        slot: usize,
    },
    Watch {
        slot: usize,
        space: usize,
        key: u32,
    },
    Unwatch {
        slot: usize,
    },
    Flush {
        space: Option<usize>,
    },
    Compact {
        space: usize,
        from: u32,
        to: u32,
    },
    CompactAll,
    Sync,
    Advance {
        ms: u32,
    },
    /// A smaller or larger budget; the settings define its size.
    Budget,
    Reopen,
    /// A checkpoint is made, opened and scanned; with `moves` it then replaces the store.
    Checkpoint {
        moves: bool,
    },
    /// The closed store is opened read-only, scanned, and opened again.
    ReadOnly,
    /// Every entry of every keyspace, in both directions.
    Everything,
    /// Input that must be refused.
    EmptyKey {
        space: usize,
    },
}

/// The shape of a list.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    pub operations: usize,
    /// Numbers of keys are below this; a power of two.
    pub keys: u32,
    pub value_bytes_max: u32,
}

/// From thousands of operations on few keys, which conflict with each other, to enough to fill
/// several levels.
pub const PROFILES: [Profile; 4] = [
    Profile { operations: 4_000, keys: 64, value_bytes_max: 300 },
    Profile { operations: 20_000, keys: 1 << 11, value_bytes_max: 160 },
    Profile { operations: 60_000, keys: 1 << 14, value_bytes_max: 240 },
    Profile { operations: 200_000, keys: 1 << 16, value_bytes_max: 120 },
];

impl Profile {
    /// The approximate number of live bytes once a list has run for a while.
    pub fn bytes(&self) -> u64 {
        u64::from(self.keys) * u64::from(self.value_bytes_max / 2 + 16)
    }
}

/// Generates a list.
pub struct Generator {
    dice: Dice,
    profile: Profile,
    /// The position of the sequential writer.
    cursor: u32,
}

impl Generator {
    pub fn new(seed: u64, profile: Profile) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66);
        let cursor = dice.below(u64::from(profile.keys)) as u32;
        Self { dice, profile, cursor }
    }

    pub fn list(mut self) -> Vec<Operation> {
        let mut list: Vec<_> = (0..self.profile.operations).map(|_| self.operation()).collect();
        list.extend([Operation::Everything, Operation::Reopen, Operation::Everything]);
        list
    }

    fn small(&mut self, n: u64) -> u32 {
        self.dice.below(n) as u32
    }

    fn space(&mut self) -> usize {
        // Most in one, so that it grows levels.
        [0, 0, 0, 0, 1, 1, 2][self.dice.below(7) as usize]
    }

    fn key(&mut self) -> u32 {
        let keys = u64::from(self.profile.keys);
        match self.dice.below(10) {
            // A few hot keys across the range.
            0..4 => {
                let place = (0..3).map(|_| self.dice.below(keys)).min().unwrap_or(0) / 8;
                (place.wrapping_mul(0x9E37_79B1) % keys) as u32
            }
            4..6 => {
                self.cursor = (self.cursor + 1) % self.profile.keys;
                self.cursor
            }
            _ => self.dice.below(keys) as u32,
        }
    }

    fn payload(&mut self) -> Payload {
        let len = match self.dice.below(20) {
            0 => 0,
            1 => self.small(u64::from(self.profile.value_bytes_max) * 8),
            _ => self.small(u64::from(self.profile.value_bytes_max)),
        };
        Payload { seed: self.small(1 << 30), len }
    }

    fn span(&mut self) -> (u32, u32) {
        let from = self.key();
        let len = match self.dice.below(30) {
            0 => self.profile.keys / 6,
            1..4 => 80,
            _ => 8,
        };
        (from, from + self.small(u64::from(len) + 1))
    }

    fn write(&mut self) -> Write {
        let space = self.space();
        match self.dice.below(50) {
            0 => {
                let (from, to) = self.span();
                Write::DeleteRange { space, from, to }
            }
            1..8 => Write::Delete { space, key: self.key() },
            8..12 => {
                let (key, value) = (self.key(), self.payload());
                Write::PutTtl { space, key, value, ttl_ms: self.small(400) }
            }
            _ => Write::Put { space, key: self.key(), value: self.payload() },
        }
    }

    fn writes(&mut self) -> Vec<Write> {
        (0..1 + self.dice.below(8)).map(|_| self.write()).collect()
    }

    fn slot(&mut self) -> usize {
        self.dice.below(SLOTS as u64) as usize
    }

    fn moment(&mut self) -> Moment {
        if self.dice.one_in(3) { Moment::Snapshot(self.slot()) } else { Moment::Now }
    }

    fn walk(&mut self) -> Walk {
        let (from, len) = (self.key(), 1 + self.small(120));
        Walk {
            space: self.space(),
            moment: self.moment(),
            from: (!self.dice.one_in(12)).then(|| (from, self.dice.one_in(4))),
            to: (!self.dice.one_in(12)).then(|| (from + len, self.dice.one_in(4))),
            keys_only: self.dice.one_in(8),
        }
    }

    fn transaction(&mut self) -> Operation {
        let mut steps = Vec::new();
        for _ in 0..1 + self.dice.below(9) {
            let (space, key) = (self.space(), self.key());
            steps.push(match self.dice.below(24) {
                0..8 => Step::Get { space, key },
                8..10 => Step::Prefix { space, key, cut: 1 + self.dice.below(2) as usize },
                10..18 => Step::Write(self.write()),
                18..20 => Step::Foreign(self.write()),
                // Another writer writes the keys that were just read.
                20 => {
                    let target = steps.iter().rev().find_map(|step| match step {
                        Step::Get { space, key } => Some((*space, *key)),
                        _ => None,
                    });
                    let (space, key) = target.unwrap_or((space, key));
                    Step::Foreign(Write::Delete { space, key })
                }
                21 => Step::Flush { space },
                22 if self.dice.one_in(4) => {
                    let (from, to) = self.span();
                    Step::Compact { space, from, to }
                }
                _ => Step::Require { slot: self.slot() },
            });
        }
        Operation::Transaction(steps)
    }

    fn read(&mut self) -> Operation {
        let (space, key) = (self.space(), self.key());
        match self.dice.below(40) {
            0..18 => Operation::Get { space, key, moment: self.moment() },
            18..26 => Operation::GetCached { space, key },
            26..28 => Operation::Contains { space, key },
            28..31 => {
                let keys = (0..self.dice.below(12)).map(|_| self.key()).collect();
                Operation::MultiGet { space, keys }
            }
            31..34 => {
                let (walk, reverse) = (self.walk(), self.dice.one_in(2));
                Operation::Range { walk, limit: self.small(40), reverse }
            }
            34 => {
                let (moment, cut) = (self.moment(), 1 + self.dice.below(2) as usize);
                Operation::Prefix { space, key, cut, moment, limit: self.small(40) }
            }
            35..37 => {
                let ends = u64::from(self.small(1 << 31)) << 1 | 1;
                Operation::BothEnds { walk: self.walk(), ends }
            }
            37 => Operation::OpenWalk { slot: self.slot(), walk: self.walk() },
            38 => {
                let (reverse, count) = (self.dice.one_in(2), 1 + self.small(12));
                Operation::StepWalk { slot: self.slot(), reverse, count }
            }
            _ => Operation::CloseWalk { slot: self.slot() },
        }
    }

    fn operation(&mut self) -> Operation {
        match self.dice.below(1000) {
            0..380 => Operation::Write(self.write()),
            380..410 => Operation::Batch(self.writes()),
            410..450 => {
                let new = (!self.dice.one_in(4)).then(|| self.payload());
                let expected = match self.dice.below(4) {
                    0 => Expectation::Absence,
                    1 => Expectation::Wrong,
                    _ => Expectation::Presence,
                };
                Operation::CompareAndSet { space: self.space(), key: self.key(), expected, new }
            }
            450..480 => {
                let delta = match self.dice.below(20) {
                    0 => i64::MAX,
                    _ => i64::from(self.small(100)) - 50,
                };
                Operation::Increment { space: self.space(), key: self.key(), delta }
            }
            480..492 => self.transaction(),
            492..994 => self.read(),
            _ => self.event(),
        }
    }

    /// A rare operation.
    fn event(&mut self) -> Operation {
        let (space, slot) = (self.space(), self.slot());
        match self.dice.below(400) {
            0..60 => Operation::TakeSnapshot { slot },
            60..90 => Operation::DropSnapshot { slot },
            90..130 => Operation::Watch { slot, space, key: self.key() },
            130..150 => Operation::Unwatch { slot },
            150..180 => {
                let space = (!self.dice.one_in(4)).then_some(space);
                Operation::Flush { space }
            }
            180..192 => {
                let (from, to) = self.span();
                Operation::Compact { space, from, to }
            }
            192..240 => Operation::Sync,
            240..310 => Operation::Advance { ms: self.small(60) },
            310..330 => Operation::Budget,
            330..340 => {
                let ttl_ms = (!self.dice.one_in(3)).then(|| self.small(500));
                Operation::DefaultTtl { space: SPACES - 1, ttl_ms }
            }
            340..352 => Operation::Ingest {
                space,
                first: self.key(),
                stride: 1 + self.small(3),
                count: self.small(200),
                seed: self.small(1 << 30),
                sorted: !self.dice.one_in(10),
            },
            352..354 => Operation::Clear { space: self.space().max(1) },
            354 => Operation::Clear { space },
            355..362 => Operation::Reopen,
            362..366 => Operation::Checkpoint { moves: self.dice.one_in(2) },
            366..369 => Operation::ReadOnly,
            369..371 => Operation::CompactAll,
            371..374 => Operation::Everything,
            _ => Operation::EmptyKey { space },
        }
    }
}
