//! Runs several pieces of work at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The results of `work` for each piece, in any order; `work` gets a slot below `slots` that no
/// other piece has at the same time, so that pieces do not interfere.
pub(crate) fn in_parallel<T: Sync, M: Send>(
    slots: usize,
    pieces: &[T],
    work: impl Fn(&T, usize) -> M + Sync,
) -> Vec<M> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let serve = |slot| {
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let made = work(piece, slot);
            done.lock().expect("nobody panics with it").push(made);
        }
    };
    std::thread::scope(|scope| {
        (0..slots.min(pieces.len())).for_each(|slot| drop(scope.spawn(move || serve(slot))));
    });
    done.into_inner().expect("nobody has panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_and_no_slot_has_two_at_a_time() {
        let pieces: Vec<usize> = (0..200).collect();
        let busy: Vec<AtomicUsize> = (0..3).map(|_| AtomicUsize::new(0)).collect();
        let mut done = in_parallel(3, &pieces, |piece, slot| {
            assert_eq!(busy[slot].fetch_add(1, Ordering::Relaxed), 0);
            std::thread::yield_now();
            busy[slot].fetch_sub(1, Ordering::Relaxed);
            *piece
        });
        done.sort_unstable();
        assert_eq!(done, pieces);
        assert!(in_parallel(3, &[0; 0], |_, _| ()).is_empty());
    }
}
