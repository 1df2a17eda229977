//! The checked object: four keys that are read and written together, two in each of two keyspaces,
//! with sequential semantics.

/// Number of keys that belong together.
pub const SLOTS: usize = 4;

/// The value of an absent key.
pub const ABSENT: i64 = i64::MIN;

/// The values of the keys.
pub type State = [i64; SLOTS];

/// An operation with its outcome. Each takes effect in one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// These slots had these values.
    Read(Vec<(usize, i64)>),
    /// These slots were set to these values.
    Write(Vec<(usize, i64)>),
    CompareAndSet {
        slot: usize,
        expected: i64,
        new: i64,
        is_done: bool,
    },
    /// A number was added, with this sum.
    Add {
        slot: usize,
        delta: i64,
        sum: i64,
    },
    /// While these slots had these values, those were set to those.
    Transaction {
        reads: Vec<(usize, i64)>,
        writes: Vec<(usize, i64)>,
    },
}

/// The state after `operation`, if its outcome is possible in `state`.
pub fn apply(state: &State, operation: &Operation) -> Option<State> {
    let holds = |reads: &[(usize, i64)]| reads.iter().all(|&(slot, value)| state[slot] == value);
    let with = |writes: &[(usize, i64)]| {
        let mut next = *state;
        writes.iter().for_each(|&(slot, value)| next[slot] = value);
        next
    };
    match operation {
        Operation::Read(reads) => holds(reads).then_some(*state),
        Operation::Write(writes) => Some(with(writes)),
        &Operation::CompareAndSet { slot, expected, new, is_done } => {
            let next = if is_done { with(&[(slot, new)]) } else { *state };
            ((state[slot] == expected) == is_done).then_some(next)
        }
        &Operation::Add { slot, delta, sum } => {
            let before = if state[slot] == ABSENT { 0 } else { state[slot] };
            (before.wrapping_add(delta) == sum).then(|| with(&[(slot, sum)]))
        }
        Operation::Transaction { reads, writes } => holds(reads).then(|| with(writes)),
    }
}
