//! Commands on the closed store, killed too: `compact`, `checkpoint`,
//! `import`, and `check`, which must find it sound.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidekv_io::SeededRandom;

use crate::process::{LogOutput, run_for, tidekv};

/// Records of an imported file, and the length of their values: several batches.
const RECORDS: u64 = 1200;
const VALUE_BYTES: usize = 4000;

const KEYSPACE: &str = "imported";

/// The counts of the commands, and the content of the imported keyspace.
#[derive(Debug, Default)]
pub struct Upkeep {
    pub killed: u64,
    pub finished: u64,
    /// Commands whose standard error failed.
    pub failing_logs: u64,
    /// Keys and the number of the import that wrote them.
    imported: BTreeMap<String, u64>,
    imports: u64,
}

fn life(dice: &SeededRandom) -> Option<Duration> {
    (dice.below(4) > 0).then(|| Duration::from_micros(dice.below(60_000)))
}

/// Whether `tidekv check` finds the store sound.
pub fn check(data: &Path) -> Result<(), String> {
    let output = tidekv(&["check"], data).stdout(Stdio::piped()).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("check: {}", String::from_utf8_lossy(&output.stdout))),
    }
}

impl Upkeep {
    /// Runs one command and perhaps kills it.
    pub fn step(&mut self, directory: &Path, dice: &SeededRandom) -> Result<(), String> {
        let data = directory.join("data");
        match dice.below(3) {
            0 => {
                let memory = ["8MiB", "32MiB"][dice.below(2) as usize];
                let command = &mut tidekv(&["compact", "--memory", memory], &data);
                let status = run_for(self.with_log(command, dice), life(dice));
                self.count(status, "compact").map(|_| ())
            }
            1 => self.checkpoint(directory, &data, dice),
            _ => self.import(directory, &data, dice),
        }
    }

    /// Gives the command a standard error, which may fail.
    fn with_log<'c>(&mut self, command: &'c mut Command, dice: &SeededRandom) -> &'c mut Command {
        let log = LogOutput::new(dice);
        self.failing_logs += u64::from(log.fails());
        log.give(command);
        command
    }

    /// Counts a run; returns whether it completed.
    fn count(
        &mut self,
        status: Option<std::process::ExitStatus>,
        what: &str,
    ) -> Result<bool, String> {
        match status {
            None => self.killed += 1,
            Some(status) if status.success() => self.finished += 1,
            Some(status) => return Err(format!("{what} ended with {status}")),
        }
        Ok(status.is_some())
    }

    /// Makes a checkpoint; a complete one replaces the store.
    fn checkpoint(
        &mut self,
        directory: &Path,
        data: &Path,
        dice: &SeededRandom,
    ) -> Result<(), String> {
        let target = directory.join("copy");
        let command = &mut tidekv(&["checkpoint"], data);
        let status = run_for(self.with_log(command.arg(&target), dice), life(dice));
        if self.count(status, "checkpoint")? {
            check(&target)?;
            std::fs::rename(data, directory.join("old")).unwrap();
            std::fs::rename(&target, data).unwrap();
            std::fs::remove_dir_all(directory.join("old")).unwrap();
        } else if target.exists() {
            std::fs::remove_dir_all(&target).unwrap();
        }
        Ok(())
    }

    /// After a killed import, the keyspace contains a prefix of the records of the file, and its
    /// previous content for the rest.
    fn import(&mut self, directory: &Path, data: &Path, dice: &SeededRandom) -> Result<(), String> {
        self.imports += 1;
        let (file, import) = (directory.join("records.tsv"), self.imports);
        let (step, first) = ([1, 7, 601][dice.below(3) as usize], dice.below(RECORDS));
        let keys: Vec<String> = (0..RECORDS)
            .map(|i| format!("record-{:05}", (first + i * step) % (RECORDS + 1)))
            .collect();
        let mut text = String::new();
        for key in &keys {
            writeln!(text, "{key}\t{import}{}", ".".repeat(VALUE_BYTES)).unwrap();
        }
        std::fs::write(&file, text).unwrap();
        let command = &mut tidekv(&["import", "--keyspace", KEYSPACE], data);
        let command = self.with_log(command.arg(&file), dice);
        let status = run_for(command, life(dice).map(|life| life * 2));
        let is_whole = self.count(status, "import")?;
        let found = self.scan(data)?;
        let mut possible = self.imported.clone();
        for key in &keys {
            // A completed import has written all of them.
            if !is_whole && found == possible {
                break;
            }
            possible.insert(key.clone(), import);
        }
        if found != possible {
            return Err(format!(
                "import {import} (whole: {is_whole}) left {} records, of which {} are new: no \
                 beginning of the file",
                found.len(),
                found.values().filter(|&&by| by == import).count()
            ));
        }
        self.imported = possible;
        Ok(())
    }

    /// The content of the imported keyspace.
    fn scan(&self, data: &Path) -> Result<BTreeMap<String, u64>, String> {
        let mut command = tidekv(&["scan", "--keyspace", KEYSPACE], data);
        let output = command.stdout(Stdio::piped()).output().unwrap();
        if !output.status.success() {
            // The first import creates the keyspace; it may have been killed
            // before that.
            return match self.imported.is_empty() {
                true => Ok(BTreeMap::new()),
                false => Err("the imported keyspace is gone".into()),
            };
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let record = |line: &str| {
            let (key, value) = line.split_once('\t').ok_or("a line without a tab")?;
            let number = value.trim_end_matches('.');
            if value.len() != number.len() + VALUE_BYTES {
                return Err(format!("{key} has {} bytes", value.len()));
            }
            Ok((key.to_owned(), number.parse().map_err(|_| format!("{key} has {number:?}"))?))
        };
        text.lines().map(record).collect()
    }

    /// Compares the imported keyspace with its expected content.
    pub fn check_imported(&self, data: &Path) -> Result<(), String> {
        match self.scan(data)? == self.imported {
            true => Ok(()),
            false => Err("the imported keyspace has changed".into()),
        }
    }
}
