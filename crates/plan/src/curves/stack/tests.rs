//! The stack compared with caches of every size that really evict, and with a list that is
//! searched.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// An operation on a key.
#[derive(Debug, Clone, Copy)]
enum Step {
    Push(u64, u64),
    Remove(u64),
}

fn steps(keys: u64, bytes: u64) -> impl Strategy<Value = Vec<Step>> {
    let push = (0..keys, 1..=bytes).prop_map(|(key, bytes)| Step::Push(key, bytes));
    let remove = (0..keys).prop_map(Step::Remove);
    prop::collection::vec(prop_oneof![3 => push, 1 => remove], 0..4_000)
}

/// A list of bytes with their keys, the topmost first; `None` is a hole.
#[derive(Debug, Default)]
struct List(Vec<(Option<u64>, u64)>);

impl List {
    fn depth(&self, key: u64) -> Option<u64> {
        let place = self.0.iter().position(|(held, _)| *held == Some(key))?;
        Some(self.0[..=place].iter().map(|(_, bytes)| bytes).sum())
    }

    fn remove(&mut self, key: u64) {
        let held = self.0.iter_mut().filter(|(held, _)| *held == Some(key));
        held.for_each(|(held, _)| *held = None);
    }

    fn push(&mut self, key: u64, bytes: u64) {
        self.remove(key);
        let mut left = bytes;
        for (_, bytes) in self.0.iter_mut().filter(|(held, _)| held.is_none()) {
            let filled = left.min(*bytes);
            *bytes -= filled;
            left -= filled;
        }
        self.0.insert(0, (Some(key), bytes));
    }
}

/// Puts it on top as the first request.
fn push(stack: &mut Stack, key: u64, bytes: u64) {
    stack.push(key, bytes, NonZeroU64::MIN);
}

fn depth(stack: &Stack, key: u64) -> Option<u64> {
    stack.find(key).map(|place| place.depth)
}

proptest! {
    #[test]
    fn stack_equals_simulated_caches_for_objects_of_one_size(steps in steps(60, 1)) {
        let mut stack = Stack::default();
        let mut caches: Vec<VecDeque<u64>> = vec![VecDeque::new(); 40];
        for step in steps {
            let (Step::Push(key, _) | Step::Remove(key)) = step;
            let depth = depth(&stack, key);
            for (below, cache) in caches.iter_mut().enumerate() {
                let has = cache.contains(&key);
                prop_assert_eq!(depth.is_some_and(|depth| depth <= below as u64 + 1), has);
                cache.retain(|held| *held != key);
                if let Step::Push(..) = step {
                    cache.push_front(key);
                    cache.truncate(below + 1);
                }
            }
            match step {
                Step::Push(key, bytes) => push(&mut stack, key, bytes),
                Step::Remove(key) => drop(stack.remove(key)),
            }
        }
    }

    #[test]
    fn depths_equal_those_of_a_searched_list(steps in steps(300, 50)) {
        let (mut stack, mut list) = (Stack::default(), List::default());
        let mut expected = HashMap::new();
        for (step, number) in steps.into_iter().zip(1..) {
            let (Step::Push(key, _) | Step::Remove(key)) = step;
            let place = stack.find(key);
            prop_assert_eq!(place.map(|place| place.depth), list.depth(key));
            prop_assert_eq!(place.map(|place| place.last), expected.get(&key).copied());
            match step {
                Step::Push(key, bytes) => {
                    stack.push(key, bytes, NonZeroU64::new(number).expect("from 1"));
                    list.push(key, bytes);
                    expected.insert(key, LastAccess { number, bytes });
                    prop_assert_eq!((depth(&stack, key), stack.bytes_of(key)), (Some(bytes), Some(bytes)));
                }
                Step::Remove(key) => {
                    stack.remove(key);
                    list.remove(key);
                    expected.remove(&key);
                    prop_assert_eq!(stack.find(key), None);
                }
            }
        }
        for key in 0..300 {
            prop_assert_eq!(depth(&stack, key), list.depth(key));
        }
        let numbers = |expected: Vec<LastAccess>| -> Vec<u64> {
            let mut numbers: Vec<u64> = expected.iter().map(|last| last.number).collect();
            numbers.sort_unstable();
            numbers
        };
        prop_assert_eq!(numbers(stack.last_accesses().collect()), numbers(expected.values().copied().collect()));
        let there = list.0.iter().filter(|(held, _)| held.is_some()).count();
        prop_assert_eq!(stack.len(), there);
    }
}

#[test]
fn memory_is_proportional_to_present_objects() {
    let mut stack = Stack::default();
    for key in 0..1_000_000_u64 {
        push(&mut stack, key, 100);
        if key >= 1_000 {
            stack.remove(key - 1_000);
        }
    }
    assert_eq!(stack.len(), 1_000);
    assert!(stack.memory_bytes() < 1 << 20, "{} bytes", stack.memory_bytes());
    for key in 0..1_000_000 {
        stack.remove(key);
    }
    assert_eq!((stack.len(), stack.find(5)), (0, None));
}
