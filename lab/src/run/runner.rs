//! Runs experiments: builds the required stores, lets subjects take turns, and writes rows.
//!
//! For every point: alternation 0 of all subjects, alternation 1 of all subjects, and so on, so
//! that a slow minute of the machine affects all of them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tidekv_io::{Clock, SystemClock};
use tidekv_testkit::evidence::{Row, Value};

use crate::experiment::{Experiment, Params, Point, StoreEnd, StorePlan, Subjects};
use crate::experiments::limit::SIM_TIDE;
use crate::failure::{Failure, Result};
use crate::groups::{is_value, text_of};
use crate::harness::job::{Drive, Ending, Job, Length, Measurement, ReplayPart, WarmUp};
use crate::harness::worker;
use crate::load::workload::{Kind, Workload};
use crate::machine::kernel;
use crate::machine::parallel::in_parallel;
use crate::quantity::show_duration;
use crate::run::place::{ROWS, RunDirectories, TURNS, build_of_this_binary, copy_directory};
use crate::run::splits;
use crate::run::summary::{
    Metrics, Series, is_of_time, measured_row, metrics, metrics_of_parts, series_of_model,
    verdict_rows, warnings,
};
use crate::run::turn::{Turn, TurnId, TurnLog};
use crate::scale::Scale;
use crate::subject::{Caches, FlashSettings, Search, Settings, SubjectRecord};
use crate::subjects::nothing::NOTHING;

/// The options of a run.
pub(crate) struct Runner<'a> {
    /// All subjects, or the named ones.
    pub(crate) subjects: Vec<SubjectRecord>,
    pub(crate) are_subjects_named: bool,
    pub(crate) place: RunDirectories,
    pub(crate) scale: Scale,
    /// Only points with all these parameters.
    pub(crate) wheres: Vec<(String, String)>,
    pub(crate) seed: u64,
    /// Rebuild the stores of earlier runs.
    pub(crate) rebuilds: bool,
    /// Drop the page cache before every turn, if permitted.
    pub(crate) drops_caches: bool,
    /// Stores built by this run.
    pub(crate) fresh: Mutex<Vec<PathBuf>>,
    /// The number of turns measured at the same time; 1: undisturbed turns.
    pub(crate) cells_at_once: usize,
    /// Receives progress messages.
    pub(crate) tell: &'a (dyn Fn(&str) + Sync),
}

/// One pending turn of one subject.
#[derive(Clone, Copy)]
struct TurnPlan<'a> {
    experiment: &'a Experiment,
    point: &'a Point,
    record: &'a SubjectRecord,
    alternation: u64,
}

/// Receives rows as they are ready.
pub(crate) type Show<'a> = &'a mut dyn FnMut(&[Row]) -> Result<()>;

/// The progress of a run.
struct Progress {
    points: usize,
    done: usize,
    clock: SystemClock,
    /// The completion time of the last point.
    then_ns: u64,
    /// Points that took time, and their total time; others were measured before.
    measured: u32,
    taken_ns: u64,
}

impl Progress {
    fn new(points: usize) -> Self {
        let clock = SystemClock::new();
        let then_ns = clock.monotonic_ns();
        Self { points, done: 0, clock, then_ns, measured: 0, taken_ns: 0 }
    }

    /// The remaining time after one more point, which was measured or found in the log; empty after
    /// the last one.
    fn behind_one(&mut self, is_measured: bool) -> Option<String> {
        let now_ns = self.clock.monotonic_ns();
        if is_measured {
            self.measured += 1;
            self.taken_ns += now_ns - self.then_ns;
        }
        self.then_ns = now_ns;
        self.done += 1;
        let left = self.points - self.done;
        if left == 0 || self.measured == 0 {
            return None;
        }
        let seconds = self.taken_ns as f64 / 1e9 / f64::from(self.measured) * left as f64;
        let left = show_duration(seconds);
        Some(format!("{} of {} points done, about {left} left", self.done, self.points))
    }
}

impl Runner<'_> {
    /// Measures all selected points of `experiment` and passes on rows point by point. Returns the
    /// number of failed turns.
    pub(crate) fn run(&self, experiment: &Experiment, show: Show<'_>) -> Result<usize> {
        let points = (experiment.points)(&self.scale).into_iter();
        self.run_points(experiment, points.filter(|p| self.is_wanted(p)).collect(), show)
    }

    /// Measures `points` and passes on rows point by point. A failed turn becomes a row with the
    /// error, and its subject is skipped at that point; returns the number of failures.
    pub(crate) fn run_points(
        &self,
        experiment: &Experiment,
        points: Vec<Point>,
        show: Show<'_>,
    ) -> Result<usize> {
        let mut log = TurnLog::open(&self.place.file(TURNS))?;
        let mut all: Vec<Series> = Vec::new();
        let mut failed = 0;
        let mut progress = Progress::new(points.len());
        let mut turns_before = 0;
        for (at, point) in points.iter().enumerate() {
            if at % self.cells_at_once == 0 {
                turns_before = log.len();
                let behind = points.len().min(at + self.cells_at_once);
                self.measure_ahead(experiment, &points[at..behind], &mut log)?;
            }
            let subjects = self.subjects_of(experiment, point);
            if subjects.is_empty() && point.model.is_none() {
                (self.tell)(&format!(
                    "{}: skipped, none of its subjects is selected: {}",
                    experiment.name,
                    brief(point)
                ));
                continue;
            }
            let point = self.paced(experiment, point.clone(), &subjects, &mut log)?;
            let from = all.len();
            match &point.model {
                Some(model) => {
                    (self.tell)(&format!("{}: {}", experiment.name, brief(&point)));
                    let seeds = (0..point.alternations).map(|at| self.seed.wrapping_add(at));
                    let found: Vec<_> = seeds.map(|seed| model.run(seed)).collect::<Result<_>>()?;
                    all.extend(series_of_model(&point.params, found.concat()));
                }
                None => {
                    let (series, failures) = self.turns(experiment, &point, &subjects, &mut log)?;
                    all.extend(series);
                    self.record(&failures)?;
                    show(&failures)?;
                    failed += failures.len();
                }
            }
            let rows = all[from..].iter();
            let rows = rows.flat_map(|series| self.rows_of(experiment, &point, series, &all));
            let rows: Vec<Row> = rows.collect();
            self.record(&rows)?;
            show(&rows)?;
            let is_measured = point.model.is_some() || log.len() > turns_before;
            if let Some(words) = progress.behind_one(is_measured) {
                (self.tell)(&words);
            }
        }
        Ok(failed)
    }

    /// The measurement of a subject at a point, and its verdicts compared with `all` measurements.
    fn rows_of(
        &self,
        experiment: &Experiment,
        point: &Point,
        series: &Series,
        all: &[Series],
    ) -> Vec<Row> {
        let mut row = measured_row(experiment, series, self.seed);
        if let Some(commit) = self.store_commit(point, series.subject) {
            row = row.metric("store_commit", commit);
        }
        let is_judged =
            series.subject.starts_with("tidekv") || series.subject == SIM_TIDE || point.is_of_drive;
        let mut rows = vec![row];
        if is_judged {
            rows.extend(verdict_rows(experiment, series, all, self.seed));
        }
        if self.cells_at_once > 1 {
            // Concurrent turns disturb each other, so their times are invalid.
            rows.retain(|row| {
                !row.metrics.get("of").is_some_and(|of| of.as_str().is_some_and(is_of_time))
            });
            let marked = |row: Row| row.metric("cells_at_once", self.cells_at_once);
            rows = rows.into_iter().map(marked).collect();
        }
        rows
    }

    /// Measures all turns of `points` that are not in the log in parallel, if requested. They
    /// disturb each other, so their counts are valid and their times are not. A failed one is
    /// retried once, alone.
    fn measure_ahead(
        &self,
        experiment: &Experiment,
        points: &[Point],
        log: &mut TurnLog,
    ) -> Result<()> {
        if self.cells_at_once == 1 {
            return Ok(());
        }
        let subjects: Vec<_> = points.iter().map(|it| self.subjects_of(experiment, it)).collect();
        let mut wanted: Vec<(TurnId, TurnPlan<'_>)> = Vec::new();
        for (point, records) in points.iter().zip(&subjects) {
            for record in records.iter().filter(|record| record.search == Search::Nothing) {
                // Two turns that build the same store would conflict. A failed build is reported
                // when its turn is measured.
                let is_there = self.store_for(point, record).is_ok();
                for alternation in (0..point.alternations).filter(|_| is_there) {
                    let plan = TurnPlan { experiment, point, record, alternation };
                    let id = self.id_of(&plan);
                    if log.find(&id).is_none() {
                        wanted.push((id, plan));
                    }
                }
            }
        }
        let found = in_parallel(self.cells_at_once, &wanted, |(id, plan), slot| {
            self.measure(plan, slot).ok().map(|measurement| Turn { id: id.clone(), measurement })
        });
        found.into_iter().flatten().try_for_each(|turn| log.add(turn))
    }

    /// All turns of all subjects at one point, and rows of those that failed.
    fn turns(
        &self,
        experiment: &Experiment,
        point: &Point,
        subjects: &[SubjectRecord],
        log: &mut TurnLog,
    ) -> Result<(Vec<Series>, Vec<Row>)> {
        let mut failures: Vec<Row> = Vec::new();
        let mut taking_part: Vec<(&SubjectRecord, Point)> = Vec::new();
        for record in subjects {
            match self.with_best_split(experiment, point, record, log) {
                Ok(point) => taking_part.push((record, point)),
                Err(failure) => {
                    failures.push(self.failed(experiment, point, record, &failure)?);
                }
            }
        }
        let mut all: Vec<Series> = Vec::new();
        let mut note = |subject, params: Params, found: Metrics, warnings: Vec<String>| {
            let is_it = |series: &&mut Series| series.subject == subject && series.params == params;
            if let Some(series) = all.iter_mut().find(is_it) {
                series.turns.push(found);
                series.warnings.extend(warnings);
            } else {
                all.push(Series { subject, params, turns: vec![found], warnings });
            }
        };
        for alternation in 0..point.alternations {
            let mut failed = Vec::new();
            for (record, point) in &taking_part {
                let found = match self.turn(experiment, point, record, alternation, log) {
                    Ok(found) => found,
                    Err(failure) => {
                        failures.push(self.failed(experiment, point, record, &failure)?);
                        failed.push(record.name);
                        continue;
                    }
                };
                let params = point.params.clone();
                note(
                    record.name,
                    params,
                    metrics(point, &found),
                    warnings(&found, point.is_buffered),
                );
                for (params, metrics) in metrics_of_parts(point, &found) {
                    note(record.name, params, metrics, Vec::new());
                }
            }
            taking_part.retain(|(record, _)| !failed.contains(&record.name));
        }
        // The measurements of a subject before its failure are not used as a baseline.
        let is_whole = |series: &Series| !failures.iter().any(|row| row.subject == series.subject);
        all.retain(is_whole);
        Ok((all, failures))
    }

    /// A row with the error of a turn. A usage error ends the run at once.
    fn failed(
        &self,
        experiment: &Experiment,
        point: &Point,
        record: &SubjectRecord,
        failure: &Failure,
    ) -> Result<Row> {
        if failure.is_usage {
            return Err(failure.clone());
        }
        (self.tell)(&format!("{} {} failed: {failure}", experiment.name, record.name));
        let mut row = Row::new(experiment.name, record.name).seed(self.seed);
        row.params = point.params.clone();
        Ok(row.metric("error", failure.to_string()))
    }

    /// The subjects of `experiment` at `point`.
    fn subjects_of(&self, experiment: &Experiment, point: &Point) -> Vec<SubjectRecord> {
        if point.is_of_drive {
            return vec![NOTHING];
        }
        let takes_part = |record: &&SubjectRecord| match experiment.subjects {
            Subjects::Only(names) => names.contains(&record.name),
            _ if self.are_subjects_named => true,
            Subjects::Default => record.is_default,
            Subjects::Also(names) => record.is_default || names.contains(&record.name),
        };
        let is_wanted =
            |record: &&SubjectRecord| point.only.is_empty() || point.only.contains(&record.name);
        self.subjects.iter().filter(takes_part).filter(is_wanted).copied().collect()
    }

    /// `point` with the best fixed boundaries of its subject: those with the fewest reads, searched
    /// with half the operations.
    fn with_best_split(
        &self,
        experiment: &Experiment,
        point: &Point,
        record: &SubjectRecord,
        log: &mut TurnLog,
    ) -> Result<Point> {
        let mut best = point.clone();
        match record.search {
            Search::Nothing => {}
            Search::Split(caches) => {
                best.policy = Some(self.best_split(experiment, point, record, caches, log)?);
            }
            Search::SplitOfPhase(caches) => {
                let phases = point.drive.iter().flat_map(|drive| &drive.phases).enumerate();
                let mut policies = Vec::new();
                for (at, phase) in phases {
                    let mut one = point.clone();
                    one.params.insert("searched".into(), phase.name.clone().into());
                    if let Some(drive) = &mut one.drive {
                        drive.phases = vec![drive.phases[at].clone()];
                    }
                    policies.push(self.best_split(experiment, &one, record, caches, log)?);
                }
                let phases = best.drive.iter_mut().flat_map(|drive| &mut drive.phases);
                phases.zip(policies).for_each(|(phase, policy)| phase.policy = Some(policy));
            }
        }
        Ok(best)
    }

    fn best_split(
        &self,
        experiment: &Experiment,
        point: &Point,
        record: &SubjectRecord,
        caches: Caches,
        log: &mut TurnLog,
    ) -> Result<String> {
        let found = splits::search(caches, |tenths| {
            let mut tried = point.clone();
            let policy = splits::policy(caches, tenths);
            tried.params.insert("split".into(), policy.clone().into());
            tried.policy = Some(policy);
            tried.counts_everything = true;
            if let Some(drive) = &mut tried.drive {
                drive.shorten();
            }
            let found = self.turn(experiment, &tried, record, 0, log)?;
            found
                .settled_reads_per_op()
                .ok_or_else(|| Failure::new(format!("{} does not count reads", record.name)))
        })?;
        let policy = splits::policy(caches, found);
        (self.tell)(&format!("{} {}: the best is {policy}", experiment.name, record.name));
        Ok(policy)
    }

    /// Whether the experiment has a selected point.
    pub(crate) fn has_points(&self, experiment: &Experiment) -> bool {
        (experiment.points)(&self.scale).iter().any(|point| self.is_wanted(point))
    }

    fn is_wanted(&self, point: &Point) -> bool {
        self.wheres.iter().all(|(name, wanted)| {
            point.params.get(name).is_some_and(|value| is_value(value, wanted))
        })
    }

    /// Appends the new rows.
    fn record(&self, rows: &[Row]) -> Result<()> {
        let path = self.place.file(ROWS);
        let failed = |e| Failure::system(format!("rows in {}", path.display()), e);
        let known = match tidekv_testkit::evidence::read(&path) {
            Ok(rows) => rows,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(failed(e)),
        };
        let is_known = |row: &&Row| {
            known.iter().any(|other| {
                (&other.experiment, &other.subject) == (&row.experiment, &row.subject)
                    && (&other.params, &other.metrics) == (&row.params, &row.metrics)
            })
        };
        rows.iter()
            .filter(|row| !is_known(row))
            .try_for_each(|row| row.append_to(&path).map_err(failed))
    }

    /// Sets the arrival rate of a point that needs a fraction of the slowest subject's throughput.
    fn paced(
        &self,
        experiment: &Experiment,
        mut point: Point,
        subjects: &[SubjectRecord],
        log: &mut TurnLog,
    ) -> Result<Point> {
        let Some(share) = point.share_of_slowest else { return Ok(point) };
        let mut closed = point.clone();
        closed.params.insert("loop".into(), "closed".into());
        let mut slowest = f64::INFINITY;
        for record in subjects {
            let found = self.turn(experiment, &closed, record, 0, log)?;
            slowest = slowest.min(found.operations as f64 / found.seconds);
        }
        let rate = (slowest * share / 100.0).floor().max(1.0) * 100.0;
        point.params.insert("arrivals_per_s".into(), (rate as u64).into());
        if let Some(drive) = &mut point.drive {
            drive.arrivals_per_s = Some(rate);
        }
        Ok(point)
    }

    /// One turn of one subject, from the log if this binary has measured it.
    fn turn(
        &self,
        experiment: &Experiment,
        point: &Point,
        record: &SubjectRecord,
        alternation: u64,
        log: &mut TurnLog,
    ) -> Result<Measurement> {
        let plan = TurnPlan { experiment, point, record, alternation };
        let id = self.id_of(&plan);
        if let Some(found) = log.find(&id) {
            return Ok(found.clone());
        }
        let measurement = self.measure(&plan, 0)?;
        log.add(Turn { id, measurement: measurement.clone() })?;
        Ok(measurement)
    }

    fn id_of(&self, plan: &TurnPlan<'_>) -> TurnId {
        TurnId {
            experiment: plan.experiment.name.to_owned(),
            subject: plan.record.name.to_owned(),
            params: plan.point.params.clone(),
            seed: self.seed,
            alternation: plan.alternation,
            seconds: self.scale.seconds,
            build: build_of_this_binary(),
            cells_at_once: self.cells_at_once,
            keeps_caches: !self.drops_caches,
        }
    }

    /// Runs a turn; `slot` distinguishes concurrent turns.
    fn measure(&self, plan: &TurnPlan<'_>, slot: usize) -> Result<Measurement> {
        let &TurnPlan { experiment, point, record, alternation } = plan;
        let directory = self.prepare(point, record, slot)?;
        let job = Job {
            subject: record.name.to_owned(),
            directory: directory.clone(),
            settings: Settings {
                memory_bytes: point.memory_bytes,
                cache_bytes: point.cache_bytes,
                is_compressed: point.is_compressed,
                is_buffered: point.is_buffered,
                choices: point.choices.clone(),
                counts_everything: point.counts_everything,
                policy: point.policy.clone(),
                warm_start: point.drive.as_ref().is_some_and(Drive::starts_warm),
                is_filling: false,
                flash: point.flash.clone(),
            },
            process_bytes: point.process_bytes.filter(|_| record.uses_kernel_cache),
            value_bytes: point.value_bytes as usize,
            // Alternations have different seeds, subjects the same.
            seed: self.seed.wrapping_add(alternation),
            drive: point.drive.clone(),
            replay: point.replay.as_ref().map(|plan| plan.job(ReplayPart::Requests)),
            corpus: point.corpus.clone(),
            reclaim: point.reclaim,
            memory: None,
            ending: point.ending,
        };
        let of = format!("{}/{}", alternation + 1, point.alternations);
        (self.tell)(&format!("{} {} {of}: {}", experiment.name, record.name, brief(point)));
        if self.drops_caches && self.cells_at_once == 1 {
            kernel::drop_caches();
        }
        let mut measurement = worker::run(&job)?;
        // The device's counters cover all concurrent turns.
        measurement.has_device &= self.cells_at_once == 1;
        if directory == self.place.scratch(slot) {
            self.place.remove(&directory)?;
        }
        Ok(measurement)
    }

    /// The commit whose build created the store of a point.
    fn store_commit(&self, point: &Point, subject: &str) -> Option<String> {
        let record = self.subjects.iter().find(|record| record.name == subject)?;
        let plan = point.store.as_ref()?;
        self.place.built_by(&self.store_of(point, plan, record))
    }

    /// The directory of the store of `plan`; its name contains the non-default choices that affect
    /// tables.
    fn store_of(&self, point: &Point, plan: &StorePlan, record: &SubjectRecord) -> PathBuf {
        let mut name = match &point.replay {
            Some(replay) => format!("replay-{:016x}-{}", replay.fingerprint, plan.memory_bytes),
            None => plan.name(),
        };
        for choice in record.choices {
            match point.choices.get(choice.name) {
                Some(value) if value != choice.usual && (choice.is_of_tables)(value) => {
                    name.push_str(&format!("-{}-{value}", choice.name));
                }
                _ => {}
            }
        }
        if let Some(FlashSettings { bytes, devices, .. }) = point.flash {
            name.push_str(&format!("-flash-{bytes}x{devices}"));
        }
        self.place.store(record.format, &name)
    }

    /// The initial store of a turn, built if missing; `None`: it begins with none.
    fn store_for(&self, point: &Point, record: &SubjectRecord) -> Result<Option<PathBuf>> {
        point.store.as_ref().map(|plan| self.build(point, plan, record)).transpose()
    }

    /// The directory in which a turn finds its store.
    fn prepare(&self, point: &Point, record: &SubjectRecord, slot: usize) -> Result<PathBuf> {
        let scratch = self.place.scratch(slot);
        match self.store_for(point, record)? {
            None => self.place.clear(&scratch)?,
            // An open store has one owner.
            Some(built) if !point.changes_store && self.cells_at_once == 1 => return Ok(built),
            Some(built) => {
                self.place.remove(&scratch)?;
                copy_directory(&built, &scratch)?;
            }
        }
        Ok(scratch)
    }

    /// The store of `plan`, built if missing.
    fn build(&self, point: &Point, plan: &StorePlan, record: &SubjectRecord) -> Result<PathBuf> {
        let directory = self.store_of(point, plan, record);
        let is_stale = self.rebuilds && !self.is_fresh(&directory);
        if !is_stale && self.place.built_by(&directory).is_some() {
            return Ok(directory);
        }
        (self.tell)(&format!("building a store: {}", directory.display()));
        self.place.clear(&directory)?;
        let drive = Drive {
            workload: Workload {
                key_bytes: plan.key_bytes,
                ..Workload::only(Kind::Put, plan.choice.clone(), plan.entries)
            },
            threads: 1,
            fills_first: false,
            warm_up: WarmUp::None,
            warm_up_seconds_max: 0.0,
            length: Length::Operations(plan.entries),
            operations_per_sample: 1000,
            arrivals_per_s: None,
            holds: 0,
            phases: Vec::new(),
        };
        let replay = point.replay.as_ref().map(|plan| plan.job(ReplayPart::Load));
        worker::run(&Job {
            subject: record.name.to_owned(),
            directory: directory.clone(),
            settings: Settings {
                is_compressed: plan.is_compressed,
                choices: point.choices.clone(),
                counts_everything: false,
                is_filling: true,
                flash: point.flash.clone(),
                ..Settings::usual(plan.memory_bytes)
            },
            process_bytes: None,
            value_bytes: plan.value_bytes as usize,
            seed: self.seed,
            drive: replay.is_none().then_some(drive),
            replay,
            corpus: None,
            reclaim: None,
            memory: None,
            ending: match plan.end {
                StoreEnd::Settled => Ending::Settle,
                StoreEnd::Merged => Ending::Merge,
                StoreEnd::Killed => Ending::AwaitKill,
            },
        })?;
        self.place.mark_built(&directory, &tidekv_testkit::evidence::commit())?;
        self.fresh.lock().expect("nobody panics with it").push(directory.clone());
        Ok(directory)
    }

    fn is_fresh(&self, store: &Path) -> bool {
        self.fresh.lock().expect("nobody panics with it").iter().any(|fresh| fresh == store)
    }
}

/// The parameters of a point in one line.
fn brief(point: &Point) -> String {
    let show = |(name, value): (&String, &Value)| format!("{name} {}", text_of(value));
    point.params.iter().map(show).collect::<Vec<_>>().join(", ")
}
