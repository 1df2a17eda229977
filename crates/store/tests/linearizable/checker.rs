//! Checks whether a history is linearizable: whether every operation can be assigned one moment
//! between its invocation and its return such that, in the order of these moments, all outcomes are
//! correct.
//!
//! Just-in-time linearization, after Lowe, *Testing for Linearizability*
//! (Concurrency and Computation 29, 2017), an ordering of the search of Wing
//! and Gong (*Testing and Verifying Concurrent Objects*, JPDC 17, 1993):
//!
//! 1. Walk over invocations and returns in the order of time. A *configuration* is a state, and the
//!    set of pending operations that have taken effect. Begin with the initial state and no pending
//!    operation.
//! 2. An invocation is pending from now on, without effect so far.
//! 3. At a return, from every configuration in which the operation has had no effect so far, let
//!    pending operations take effect in every possible order until it has. Those orders in which it
//!    has are the new configurations. Configurations are kept in a set, so that no two ways to the
//!    same one are followed twice.
//! 4. If none is left, the history is not linearizable.
//!
//! Changed: nothing; a thread has one pending operation at a time, so the set of effects is a bit
//! mask over threads. Exact, and the time is linear in the length of the history as long as few
//! operations overlap. (The only crate for this that we found, `todc-utils`, has not been
//! maintained since 2023.)

use std::collections::HashSet;

use crate::object::{Operation, State, apply};

/// An operation of one thread. Times come from one clock that orders all of a
/// history's events, each with a time of its own.
#[derive(Debug, Clone)]
pub struct Event {
    /// Below 64.
    pub thread: usize,
    pub invoked: u64,
    pub returned: u64,
    pub operation: Operation,
}

/// A state, and the threads whose operation under way has taken effect.
type Configuration = (State, u64);

/// Why a history is not linearizable.
#[derive(Debug)]
pub struct Violation {
    /// The operation that could not take effect at any moment.
    pub event: Event,
    /// The pending operations at its return.
    pub under_way: Vec<Event>,
    /// The possible states of the object.
    pub states: Vec<State>,
}

/// Checks the history of an object with the initial state `initial`; returns the maximum number of
/// simultaneous configurations.
pub fn check(initial: State, history: &[Event]) -> Result<usize, Box<Violation>> {
    let invocations = history.iter().enumerate().map(|(i, event)| (event.invoked, false, i));
    let returns = history.iter().enumerate().map(|(i, event)| (event.returned, true, i));
    let mut points: Vec<_> = invocations.chain(returns).collect();
    points.sort_unstable();
    let mut under_way: [Option<usize>; 64] = [None; 64];
    let mut configurations = HashSet::from([(initial, 0u64)]);
    let mut most = 1;
    for (_, is_return, index) in points {
        let event = &history[index];
        if !is_return {
            assert!(under_way[event.thread].is_none(), "a thread does one thing at a time");
            under_way[event.thread] = Some(index);
            continue;
        }
        let next = settle(&configurations, event.thread, |thread| {
            under_way[thread].map(|index| &history[index].operation)
        });
        if next.is_empty() {
            let under_way = under_way.iter().flatten().filter(|i| **i != index);
            return Err(Box::new(Violation {
                event: event.clone(),
                under_way: under_way.map(|&index| history[index].clone()).collect(),
                states: configurations.iter().map(|(state, _)| *state).collect(),
            }));
        }
        most = most.max(next.len());
        configurations = next;
        under_way[event.thread] = None;
    }
    Ok(most)
}

/// The configurations in which the operation of `thread` has taken effect.
fn settle<'a>(
    configurations: &HashSet<Configuration>,
    thread: usize,
    under_way: impl Fn(usize) -> Option<&'a Operation>,
) -> HashSet<Configuration> {
    let mut seen = configurations.clone();
    let mut open: Vec<Configuration> = configurations.iter().copied().collect();
    let mut settled = HashSet::new();
    while let Some((state, effective)) = open.pop() {
        if effective & 1 << thread != 0 {
            settled.insert((state, effective & !(1 << thread)));
            continue;
        }
        for other in (0..64).filter(|other| effective & 1 << other == 0) {
            let Some(operation) = under_way(other) else { continue };
            if let Some(state) = apply(&state, operation) {
                let next = (state, effective | 1 << other);
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ABSENT;

    const EMPTY: State = [ABSENT; 4];

    fn event(thread: usize, invoked: u64, returned: u64, operation: Operation) -> Event {
        Event { thread, invoked, returned, operation }
    }

    fn read(thread: usize, invoked: u64, returned: u64, value: i64) -> Event {
        event(thread, invoked, returned, Operation::Read(vec![(0, value)]))
    }

    fn write(thread: usize, invoked: u64, returned: u64, value: i64) -> Event {
        event(thread, invoked, returned, Operation::Write(vec![(0, value)]))
    }

    #[test]
    fn good_histories_pass() {
        let overlapping_reads_may_differ =
            [write(0, 1, 10, 7), read(1, 2, 5, ABSENT), read(2, 3, 9, 7)];
        let a_write_may_be_seen_before_it_returns =
            [write(0, 1, 20, 7), read(1, 2, 3, 7), read(1, 4, 5, 7)];
        let a_hidden_write =
            [write(0, 1, 20, 7), write(1, 2, 21, 8), read(2, 22, 23, 7), read(2, 24, 25, 7)];
        // 8, then 7, although 7 was begun first.
        let out_of_order = [write(0, 1, 30, 7), write(1, 2, 10, 8), read(2, 11, 12, 8)];
        let both_or_neither = [
            event(0, 1, 9, Operation::Write(vec![(0, 1), (2, 2)])),
            event(1, 2, 4, Operation::Read(vec![(0, ABSENT), (2, ABSENT)])),
            event(1, 5, 8, Operation::Read(vec![(0, 1), (2, 2)])),
        ];
        let adding = [
            event(0, 1, 9, Operation::Add { slot: 1, delta: 5, sum: 12 }),
            event(1, 2, 8, Operation::Add { slot: 1, delta: 7, sum: 7 }),
        ];
        let histories: [&[Event]; 6] = [
            &overlapping_reads_may_differ,
            &a_write_may_be_seen_before_it_returns,
            &a_hidden_write,
            &out_of_order,
            &both_or_neither,
            &adding,
        ];
        for history in histories {
            check(EMPTY, history).unwrap_or_else(|violation| panic!("{violation:?}"));
        }
    }

    #[test]
    fn bad_histories_are_rejected() {
        let stale = [write(0, 1, 2, 7), read(1, 3, 4, ABSENT)];
        let back = [write(0, 1, 20, 7), read(1, 2, 3, 7), read(2, 4, 5, ABSENT)];
        let from_nowhere = [write(0, 1, 2, 7), read(1, 3, 4, 8)];
        let lost = [write(0, 1, 5, 7), write(1, 2, 6, 8), read(2, 7, 8, 7), read(2, 9, 10, 8)];
        let half = [
            event(0, 1, 9, Operation::Write(vec![(0, 1), (2, 2)])),
            event(1, 2, 8, Operation::Read(vec![(0, 1), (2, ABSENT)])),
        ];
        let both_won = [
            event(
                0,
                1,
                9,
                Operation::CompareAndSet { slot: 0, expected: ABSENT, new: 1, is_done: true },
            ),
            event(
                1,
                2,
                8,
                Operation::CompareAndSet { slot: 0, expected: ABSENT, new: 2, is_done: true },
            ),
        ];
        let nobody_won = [event(
            0,
            1,
            2,
            Operation::CompareAndSet { slot: 0, expected: ABSENT, new: 1, is_done: false },
        )];
        let lost_update = [
            event(0, 1, 9, Operation::Add { slot: 1, delta: 5, sum: 5 }),
            event(1, 2, 8, Operation::Add { slot: 1, delta: 7, sum: 7 }),
        ];
        let read_skew = [
            write(0, 1, 2, 7),
            event(
                1,
                3,
                4,
                Operation::Transaction { reads: vec![(0, ABSENT)], writes: vec![(1, 1)] },
            ),
        ];
        let histories: [&[Event]; 9] = [
            &stale,
            &back,
            &from_nowhere,
            &lost,
            &half,
            &both_won,
            &nobody_won,
            &lost_update,
            &read_skew,
        ];
        for history in histories {
            check(EMPTY, history).expect_err("it is not linearizable");
        }
    }

    /// Compares with the definition: every order that respects time is tried.
    #[test]
    fn checker_agrees_with_exhaustive_search() {
        fn some_order(state: State, left: &[Event]) -> bool {
            let may_be_next = |i: &usize| {
                left.iter().enumerate().all(|(j, e)| j == *i || e.returned > left[*i].invoked)
            };
            left.is_empty()
                || (0..left.len()).filter(may_be_next).any(|i| {
                    let mut rest = left.to_vec();
                    let event = rest.remove(i);
                    apply(&state, &event.operation).is_some_and(|state| some_order(state, &rest))
                })
        }
        let mut dice = crate::support::Dice(7);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..4000 {
            let mut times: Vec<u64> = (0..12).collect();
            for i in (1..times.len()).rev() {
                times.swap(i, dice.below(i as u64 + 1) as usize);
            }
            let history: Vec<Event> = (0..6)
                .map(|thread| {
                    let (a, b) = (times[2 * thread], times[2 * thread + 1]);
                    let value = dice.below(3) as i64;
                    let operation = match dice.below(4) {
                        0 => Operation::Write(vec![(0, value)]),
                        1 => Operation::Add { slot: 0, delta: 1, sum: value + 1 },
                        2 => Operation::CompareAndSet {
                            slot: 0,
                            expected: value,
                            new: 1,
                            is_done: dice.one_in(2),
                        },
                        _ => Operation::Read(vec![(0, value)]),
                    };
                    event(thread, a.min(b), a.max(b), operation)
                })
                .collect();
            let is_right = some_order([0; 4], &history);
            assert_eq!(check([0; 4], &history).is_ok(), is_right, "{history:?}");
            if is_right { good += 1 } else { bad += 1 }
        }
        assert!(good > 100 && bad > 100, "{good} good, {bad} bad");
    }
}
