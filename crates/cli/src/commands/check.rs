//! `check`: verifies every checksum and invariant of a store's files.

use std::path::PathBuf;

use serde_json::json;
use tidekv::check::{CheckReport, Damage, check};
use tidekv::inspect::LogEnding;

use crate::failure::{Failure, Result};
use crate::output;
use crate::progress::Progress;
use crate::quantity::{count, show_size};

/// Verify every checksum and invariant of a store.
///
/// Reads every byte, writes none, and continues after the first damage. Lists the
/// damaged files, and then ends with exit code 1. Says what the next opening will cut
/// off after a loss of power, which is no damage. The directory may be open in a
/// server.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidekv check --data ./data")]
pub struct Check {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let mut progress = Progress::new(None);
        let report = check(&self.data, None, &mut |at| {
            progress.set_bytes(at.bytes);
            let name = at.file.file_name().unwrap_or_default();
            progress.show(at.bytes_done, &name.to_string_lossy());
        })?;
        drop(progress);
        if self.json {
            output::line(&to_json(&report).to_string())?;
        } else {
            self.print_report(&report)?;
        }
        let mut files: Vec<_> = report.damage.iter().map(|damage| &damage.file).collect();
        files.dedup();
        match &files[..] {
            [] if !report.unreadable.is_empty() => {
                let what = count(report.unreadable.len() as u64, "file", "files");
                let message = format!("{what} could not be read, and may or may not be damaged");
                Err(Failure::new(message))
            }
            [] if report.is_in_use => {
                let data = self.data.display();
                let message = format!(
                    "{data} is in use, and changed too fast to be checked: check a checkpoint of it"
                );
                Err(Failure::new(message))
            }
            [] => Ok(()),
            [file] => {
                let file = file.display();
                Err(Failure::new(format!("{file} is damaged: restore it from a backup copy")))
            }
            files => {
                let (count, data) = (files.len(), self.data.display());
                let message =
                    format!("{count} files of {data} are damaged: restore them from a backup copy");
                Err(Failure::new(message))
            }
        }
    }

    fn print_report(&self, report: &CheckReport) -> Result<()> {
        for found in report.damage.iter().chain(&report.unreadable).chain(&report.torn) {
            output::line(&found.message)?;
        }
        for log in &report.logs {
            let (number, end) = (log.number, log.end);
            let records = count(log.records, "record", "records");
            let ending = match log.ending {
                LogEnding::Complete { .. } => "closed".into(),
                LogEnding::Open => "open".into(),
                LogEnding::Torn => {
                    format!("open, incomplete record or other bytes at offset {end} ignored")
                }
            };
            output::line(&format!("log {number}: {records}, {ending}"))?;
        }
        for (names, what) in [
            (&report.left_over, "obsolete, removed at the next open of the store"),
            (&report.foreign, "not a file of the store"),
        ] {
            for name in names {
                output::line(&format!("{name}: {what}"))?;
            }
        }
        let verdict = match report {
            report if !report.damage.is_empty() => "damaged",
            report if !report.unreadable.is_empty() || report.is_in_use => "not fully checked",
            _ => "sound",
        };
        output::line(&format!(
            "{} is {verdict}: {} with {} and {}, {}, {} read",
            self.data.display(),
            count(report.tables, "table", "tables"),
            count(report.blocks, "block", "blocks"),
            count(report.entries, "entry", "entries"),
            count(report.logs.len() as u64, "log", "logs"),
            show_size(report.bytes)
        ))
    }
}

fn to_json(report: &CheckReport) -> serde_json::Value {
    let findings = |found: &[Damage]| -> Vec<serde_json::Value> {
        let to_json = |found: &Damage| {
            let file = found.file.display().to_string();
            json!({"file": file, "message": found.message})
        };
        found.iter().map(to_json).collect()
    };
    let logs = report.logs.iter().map(super::inspect::log_to_json);
    json!({
        "sound": report.damage.is_empty() && report.unreadable.is_empty() && !report.is_in_use,
        "damage": findings(&report.damage),
        "torn": findings(&report.torn),
        "unreadable": findings(&report.unreadable),
        "in_use": report.is_in_use,
        "tables": report.tables,
        "blocks": report.blocks,
        "entries": report.entries,
        "bytes": report.bytes,
        "logs": logs.collect::<Vec<_>>(),
        "left_over": report.left_over,
        "foreign": report.foreign,
    })
}
