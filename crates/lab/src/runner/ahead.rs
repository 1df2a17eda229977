//! Turns of several cells of a sweep at once.
//!
//! They disturb each other, so that counts are what they say, and time says nothing; rows name
//! how many there were (`cells_at_once`). What is measured ahead goes into the log of turns, where
//! the run finds it; what fails ahead is tried once more, alone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Cell, Runner};
use crate::experiment::{Experiment, Point};
use crate::failure::Result;
use crate::job::Measurement;
use crate::subject::Search;
use crate::turn::{Turn, TurnId, TurnLog};

impl Runner<'_> {
    /// Measures all turns of `points` that are not in the log, at most
    /// [`Runner::cells_at_once`] of them at a time.
    pub(super) fn measure_ahead(
        &self,
        experiment: &Experiment,
        points: &[Point],
        log: &mut TurnLog,
    ) -> Result<()> {
        let subjects: Vec<_> = points.iter().map(|it| self.subjects_of(experiment, it)).collect();
        let mut wanted: Vec<(TurnId, Cell<'_>)> = Vec::new();
        for (point, records) in points.iter().zip(&subjects) {
            for record in records.iter().filter(|record| record.search == Search::Nothing) {
                // Two that build the same store would be in each other's way. Whoever cannot
                // says so when it is measured.
                let is_there = self.store_for(point, record).is_ok();
                for alternation in (0..point.alternations).filter(|_| is_there) {
                    let cell = Cell { experiment, point, record, alternation };
                    let id = self.id_of(&cell);
                    if log.find(&id).is_none() {
                        wanted.push((id, cell));
                    }
                }
            }
        }
        let next = AtomicUsize::new(0);
        let found: Mutex<Vec<(TurnId, Measurement)>> = Mutex::default();
        std::thread::scope(|scope| {
            for lane in 0..self.cells_at_once.min(wanted.len()) {
                let (next, found, wanted) = (&next, &found, &wanted);
                scope.spawn(move || {
                    while let Some((id, cell)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Ok(measurement) = self.measure(cell, lane) {
                            let mut found = found.lock().expect("nobody panics with it");
                            found.push((id.clone(), measurement));
                        }
                    }
                });
            }
        });
        let found = found.into_inner().expect("nobody has panicked");
        found.into_iter().try_for_each(|(id, measurement)| log.add(Turn { id, measurement }))
    }
}
