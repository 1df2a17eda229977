//! Rows in the order of a report: by experiment, then by point. The last row of a measurement
//! counts.

use std::path::{Path, PathBuf};

use tidekv_testkit::evidence::{COMPRESSED, Row};

use crate::experiment::{Answer, Experiment, Params};
use crate::experiments::catalogue;
use crate::failure::{Failure, Result};
use crate::report::show::{is_judged, is_verdict, judged_metric, target_of};
use crate::run::place::ROWS;

/// All measurements of one experiment.
pub(crate) struct Results {
    pub(crate) name: String,
    /// Its entry in the catalogue, if it still exists.
    pub(crate) experiment: Option<&'static Experiment>,
    pub(crate) points: Vec<PointResults>,
}

/// All measurements at one point.
pub(crate) struct PointResults {
    pub(crate) params: Params,
    /// One row per subject.
    pub(crate) measured: Vec<Row>,
    /// Rows over time, with `t`, in their order.
    pub(crate) over_time: Vec<Row>,
    pub(crate) verdicts: Vec<Row>,
}

impl Results {
    /// The rows of all subjects at all points.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Row> {
        self.points.iter().flat_map(|point| &point.measured)
    }

    /// The paper's statements, and our result for each.
    pub(crate) fn answers(&self) -> Vec<(&'static str, Answer)> {
        let statements = self.experiment.map_or(&[][..], |experiment| experiment.statements);
        let rows: Vec<&Row> = self.measured().collect();
        statements.iter().filter_map(|it| Some((it.says, (it.ask)(&rows)?))).collect()
    }

    /// Verdicts on targets.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = &Row> {
        self.points.iter().flat_map(|point| &point.verdicts).filter(|row| is_judged(row))
    }
}

/// The results in the directory of a run. Compressed rows, which are published, come before
/// uncompressed ones: later measurements count.
pub(crate) fn read_results(directory: &Path) -> Result<Vec<Results>> {
    let mut paths = row_files(directory);
    if paths.is_empty() {
        // The error names the file that a run would have written.
        paths.push(directory.join(ROWS));
    }
    let mut rows = Vec::new();
    for path in paths {
        let read = tidekv_testkit::evidence::read(&path)
            .map_err(|e| Failure::system(format!("could not read {}", path.display()), e))?;
        rows.extend(read);
    }
    Ok(gather(rows))
}

/// Whether `directory` itself has rows.
pub(crate) fn has_rows(directory: &Path) -> bool {
    !row_files(directory).is_empty()
}

#[expect(clippy::disallowed_methods, reason = "a log of the workshop, not data of a store")]
fn row_files(directory: &Path) -> Vec<PathBuf> {
    [format!("{ROWS}.{COMPRESSED}"), ROWS.to_owned()]
        .map(|name| directory.join(name))
        .into_iter()
        .filter(|path| path.is_file())
        .collect()
}

/// Sorts rows.
pub(crate) fn gather(rows: Vec<Row>) -> Vec<Results> {
    let mut all: Vec<Results> = Vec::new();
    for row in rows {
        let results = match all.iter_mut().position(|results| results.name == row.experiment) {
            Some(at) => &mut all[at],
            None => {
                let name = row.experiment.clone();
                let experiment = catalogue::find(&name);
                all.push(Results { name, experiment, points: Vec::new() });
                all.last_mut().expect("it was pushed")
            }
        };
        let points = &mut results.points;
        let mut params = row.params.clone();
        let moment = params.remove("t");
        let point = match points.iter().position(|point| point.params == params) {
            Some(at) => &mut points[at],
            None => {
                let (measured, over_time, verdicts) = Default::default();
                points.push(PointResults { params, measured, over_time, verdicts });
                points.last_mut().expect("it was pushed")
            }
        };
        let (rows, is_same): (_, fn(&Row, &Row) -> bool) = match is_verdict(&row) {
            _ if moment.is_some() => (&mut point.over_time, |one, other| {
                one.subject == other.subject && one.params == other.params
            }),
            true => (&mut point.verdicts, |one, other| {
                one.subject == other.subject
                    && target_of(one) == target_of(other)
                    && one.metrics.get("baseline") == other.metrics.get("baseline")
                    && one.metrics.get("is_at_least") == other.metrics.get("is_at_least")
                    && judged_metric(one) == judged_metric(other)
            }),
            false => (&mut point.measured, |one, other| one.subject == other.subject),
        };
        match rows.iter().position(|other| is_same(other, &row)) {
            Some(at) => rows[at] = row,
            None => rows.push(row),
        }
    }
    let order = |name: &str| {
        catalogue::all().position(|experiment| experiment.name == name).unwrap_or(usize::MAX)
    };
    all.sort_by_key(|results| order(&results.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "rows of a test, not data of a store")]
    fn published_rows_are_read_and_later_ones_count() {
        let directory = tempfile::tempdir().unwrap();
        let (plain, compressed) =
            (directory.path().join(ROWS), directory.path().join("rows.jsonl.zst"));
        let row = |keys: u64, ops: f64| {
            Row::new("engine-open", "x").param("keys", keys).metric("ops_per_s", ops)
        };
        let ops = || -> Vec<f64> {
            let results = read_results(directory.path()).unwrap();
            results[0].measured().map(|row| row.number("ops_per_s").unwrap()).collect()
        };
        assert!(!has_rows(directory.path()));
        assert!(read_results(directory.path()).is_err());
        row(1, 1.0).append_to(&plain).unwrap();
        row(2, 2.0).append_to(&plain).unwrap();
        let bytes = zstd::encode_all(&std::fs::read(&plain).unwrap()[..], 3).unwrap();
        std::fs::write(&compressed, bytes).unwrap();
        std::fs::remove_file(&plain).unwrap();
        assert!(has_rows(directory.path()));
        assert_eq!(ops(), [1.0, 2.0]);
        row(2, 3.0).append_to(&plain).unwrap();
        assert_eq!(ops(), [1.0, 3.0]);
    }

    #[test]
    fn rows_over_time_belong_to_their_point() {
        let row = |t: Option<u64>, ops: f64| {
            let row = Row::new("ackey-phase", "tidekv:tide").param("threads", 8);
            let row = row.metric("ops_per_s", ops);
            t.map_or(row.clone(), |t| row.param("t", t))
        };
        let rows = vec![row(None, 1.0), row(Some(10), 2.0), row(Some(20), 3.0), row(Some(10), 4.0)];
        let results = gather(rows);
        let point = &results[0].points[0];
        assert_eq!((results[0].points.len(), point.measured.len()), (1, 1));
        let ops: Vec<_> = point.over_time.iter().map(|row| row.number("ops_per_s")).collect();
        assert_eq!(ops, [Some(4.0), Some(3.0)]);
    }

    #[test]
    fn the_last_row_counts_and_experiments_are_in_order() {
        let row = |experiment: &str, threads: u64, ops: f64| {
            Row::new(experiment, "tidekv:block-lru")
                .param("threads", threads)
                .metric("ops_per_s", ops)
        };
        let verdict = |of: &str, ratio: f64| {
            let row = row("engine-open", 1, 0.0);
            row.metric("of", of).metric("ratio", ratio).metric("target", 1.0)
        };
        let results = gather(vec![
            row("engine-open", 1, 1.0),
            row("engine-fill-seq", 1, 2.0),
            row("engine-open", 2, 3.0),
            verdict("open_s", 1.0),
            verdict("ops_per_s", 2.0),
            row("engine-open", 1, 4.0),
            verdict("open_s", 3.0),
        ]);
        let names: Vec<&str> = results.iter().map(|results| &*results.name).collect();
        assert_eq!(names, ["engine-fill-seq", "engine-open"]);
        let open = &results[1];
        assert_eq!(open.points.len(), 2);
        assert_eq!(open.points[0].measured[0].number("ops_per_s"), Some(4.0));
        let ratios: Vec<_> = open.verdicts().map(|row| row.number("ratio").unwrap()).collect();
        assert_eq!(ratios, [3.0, 2.0]);
    }
}
