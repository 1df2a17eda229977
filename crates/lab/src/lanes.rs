//! Work that is done several pieces at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `work` makes of each piece, in no order; it is told which of at most `lanes` lanes it is
/// in, so that pieces that are under way at the same time stay out of each other's way.
pub(crate) fn at_once<T: Sync, M: Send>(
    lanes: usize,
    pieces: &[T],
    work: impl Fn(&T, usize) -> M + Sync,
) -> Vec<M> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let lane = |lane| {
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let made = work(piece, lane);
            done.lock().expect("nobody panics with it").push(made);
        }
    };
    std::thread::scope(|scope| {
        (0..lanes.min(pieces.len())).for_each(|number| drop(scope.spawn(move || lane(number))));
    });
    done.into_inner().expect("nobody has panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_and_no_lane_does_two_at_a_time() {
        let pieces: Vec<usize> = (0..200).collect();
        let busy: Vec<AtomicUsize> = (0..3).map(|_| AtomicUsize::new(0)).collect();
        let mut done = at_once(3, &pieces, |piece, lane| {
            assert_eq!(busy[lane].fetch_add(1, Ordering::Relaxed), 0);
            std::thread::yield_now();
            busy[lane].fetch_sub(1, Ordering::Relaxed);
            *piece
        });
        done.sort_unstable();
        assert_eq!(done, pieces);
        assert!(at_once(3, &[0; 0], |_, _| ()).is_empty());
    }
}
