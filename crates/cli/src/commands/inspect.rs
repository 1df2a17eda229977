//! `inspect`: the content of a store's files.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use tidekv::inspect::{
    Field, Inspector, KeyspaceDescription, LogDescription, LogEnding, LogRecord, ManifestEdit,
    StoreDescription, TableDescription, TableSummary,
};

use crate::failure::Result;
use crate::output::{self, put_bytes, show_key};
use crate::quantity::{count, show_size};

/// Show the internals of a store: levels, files, the blocks of a table, the manifest, the
/// write-ahead log.
///
/// Writes nothing. The directory may be open in a server.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv inspect --data ./data\n  \
    tidekv inspect --data ./data --table 13 --json")]
pub struct Inspect {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Show the blocks of the table with this number.
    #[arg(long, value_name = "N", conflicts_with_all = ["log", "manifest"])]
    table: Option<u64>,

    /// Show the records of the write-ahead logs, one per line.
    #[arg(long, conflicts_with = "manifest")]
    log: bool,

    /// Show the edits of the manifest.
    #[arg(long)]
    manifest: bool,

    /// Print JSON objects.
    #[arg(long)]
    json: bool,
}

impl Inspect {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let inspector = Inspector::new(&self.data, None)?;
        match (self.table, self.log, self.manifest) {
            (Some(id), ..) => self.show_table(&inspector.table(id)?),
            (_, true, _) => self.show_logs(&inspector),
            (.., true) => self.show_manifest(&inspector.manifest()?),
            _ => self.show_store(&inspector.store()?),
        }
    }

    fn show_store(&self, store: &StoreDescription) -> Result<()> {
        if self.json {
            return output::line(&store_to_json(store).to_string());
        }
        output::line(&format!(
            "store {:016x}, manifest {}, last sequence {}, next file {}, logs from {}",
            store.store, store.manifest, store.last_sequence, store.next_file, store.min_log
        ))?;
        for keyspace in &store.keyspaces {
            show_keyspace(keyspace)?;
        }
        output::line("files")?;
        for file in &store.files {
            let (name, size) = (&file.name, show_size(file.bytes));
            output::line(&format!("  {name:<20} {size:>12}  {}", file.role.name()))?;
        }
        Ok(())
    }

    fn show_table(&self, table: &TableDescription) -> Result<()> {
        if self.json {
            return output::line(&table_to_json(table).to_string());
        }
        output::line(&format!("table {} of keyspace {}", table.id, table.keyspace))?;
        output::line(&format!(
            "  keys {} to {}",
            show_key(&table.smallest),
            show_key(&table.largest)
        ))?;
        for (name, number) in &table.numbers {
            output::line(&format!("  {name:<20} {number:>14}"))?;
        }
        output::line("  block          offset      bytes    content  entries")?;
        for block in &table.blocks {
            output::line(&format!(
                "  {:<8} {:>12} {:>10} {:>10} {:>8}",
                block.kind, block.offset, block.bytes, block.content_bytes, block.entries
            ))?;
        }
        Ok(())
    }

    fn show_manifest(&self, edits: &[ManifestEdit]) -> Result<()> {
        for edit in edits {
            if self.json {
                output::line(&edit_to_json(edit).to_string())?;
                continue;
            }
            output::line(&format!("edit at offset {}", edit.offset))?;
            for change in &edit.changes {
                let fields = change.fields.iter().map(|(name, field)| match field {
                    Field::Number(number) => format!(" {name}={number}"),
                    Field::Bytes(bytes) => format!(" {name}={}", show_key(bytes)),
                    Field::Text(text) => format!(" {name}={text:?}"),
                });
                output::line(&format!("  {:<14}{}", change.kind, fields.collect::<String>()))?;
            }
        }
        Ok(())
    }

    fn show_logs(&self, inspector: &Inspector) -> Result<()> {
        // The first error of printing, such as a closed pipe.
        let mut printed = Ok(());
        let logs = inspector.logs(|record| {
            if printed.is_ok() {
                printed = self.show_record(&record);
            }
        })?;
        printed?;
        for log in &logs {
            if self.json {
                output::line(&log_to_json(log).to_string())?;
                continue;
            }
            let ending = match log.ending {
                LogEnding::Complete { successor } => format!("closed, log {successor} follows"),
                LogEnding::Open => "open".into(),
                LogEnding::Torn => "open, then an incomplete record or other bytes".into(),
            };
            let (number, end) = (log.number, log.end);
            let records = count(log.records, "record", "records");
            output::line(&format!("log {number}: {records}, {end} bytes, {ending}"))?;
        }
        Ok(())
    }

    fn show_record(&self, record: &LogRecord) -> Result<()> {
        if self.json {
            return output::line(&record_to_json(record).to_string());
        }
        for (at, operation) in record.operations.iter().enumerate() {
            let sequence = record.sequence + at as u64;
            let more = match (&operation.range_end, operation.expires_at_ms) {
                (Some(end), _) => format!("up to {}", show_key(end)),
                (_, Some(deadline)) => {
                    format!("{} bytes until {deadline} ms", operation.value_bytes)
                }
                _ if operation.kind == "put" => format!("{} bytes", operation.value_bytes),
                _ => String::new(),
            };
            output::line(&format!(
                "log {} offset {} sequence {sequence} keyspace {} {} {} {more}",
                record.log,
                record.offset,
                operation.keyspace,
                operation.kind,
                show_key(&operation.key)
            ))?;
        }
        Ok(())
    }
}

fn show_keyspace(keyspace: &KeyspaceDescription) -> Result<()> {
    output::line(&format!(
        "keyspace {:?} (number {}), flushed up to sequence {}, {} filters",
        keyspace.name,
        keyspace.id,
        keyspace.flushed,
        keyspace.options.filter_kind.name()
    ))?;
    for (level, tables) in keyspace.levels.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
        let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
        let entries: u64 = tables.iter().map(|table| table.entries).sum();
        let (size, entries) = (show_size(bytes), count(entries, "entry", "entries"));
        let number = count(tables.len() as u64, "table", "tables");
        output::line(&format!("  level {level}: {number}, {size}, {entries}"))?;
        for table in tables {
            let (from, to) = (show_key(&table.smallest), show_key(&table.largest));
            let (id, size) = (table.id, show_size(table.bytes));
            let entries = count(table.entries, "entry", "entries");
            let dead = match table.tombstones + table.range_tombstones {
                0 => String::new(),
                dead => format!(", {}", count(dead, "tombstone", "tombstones")),
            };
            output::line(&format!("    table {id}: {size}, {entries}{dead}, {from} to {to}"))?;
        }
    }
    Ok(())
}

/// A log as an object.
pub fn log_to_json(log: &LogDescription) -> Value {
    let (ending, successor) = match log.ending {
        LogEnding::Complete { successor } => ("complete", Some(successor)),
        LogEnding::Open => ("open", None),
        LogEnding::Torn => ("torn", None),
    };
    json!({
        "log": log.number,
        "bytes": log.bytes,
        "end": log.end,
        "records": log.records,
        "ending": ending,
        "successor": successor,
    })
}

fn store_to_json(store: &StoreDescription) -> Value {
    let keyspaces = store.keyspaces.iter().map(|keyspace| {
        let levels = keyspace
            .levels
            .iter()
            .map(|tables| tables.iter().map(summary_to_json).collect::<Vec<_>>());
        json!({
            "id": keyspace.id,
            "name": keyspace.name,
            "flushed": keyspace.flushed,
            "block_bytes": keyspace.options.block_bytes,
            "filter_kind": keyspace.options.filter_kind.name(),
            "filter_bits_per_key": keyspace.options.filter_bits_per_key,
            "default_ttl_ms": keyspace.options.default_ttl.map(|ttl| ttl.as_millis() as u64),
            "levels": levels.collect::<Vec<_>>(),
        })
    });
    let files = store
        .files
        .iter()
        .map(|file| json!({"name": file.name, "bytes": file.bytes, "role": file.role.name()}));
    json!({
        "store": format!("{:016x}", store.store),
        "manifest": store.manifest,
        "next_file": store.next_file,
        "last_sequence": store.last_sequence,
        "min_log": store.min_log,
        "keyspaces": keyspaces.collect::<Vec<_>>(),
        "files": files.collect::<Vec<_>>(),
    })
}

fn summary_to_json(table: &TableSummary) -> Value {
    let mut object = Map::new();
    object.insert("table".into(), table.id.into());
    object.insert("bytes".into(), table.bytes.into());
    object.insert("entries".into(), table.entries.into());
    object.insert("tombstones".into(), table.tombstones.into());
    object.insert("range_tombstones".into(), table.range_tombstones.into());
    object.insert("largest_sequence".into(), table.largest_sequence.into());
    object.insert("earliest_deadline_ms".into(), table.earliest_deadline_ms.into());
    object.insert("largest_is_exclusive".into(), table.largest_is_exclusive.into());
    put_bytes(&mut object, "smallest", &table.smallest);
    put_bytes(&mut object, "largest", &table.largest);
    object.into()
}

fn table_to_json(table: &TableDescription) -> Value {
    let mut object = Map::new();
    object.insert("table".into(), table.id.into());
    object.insert("keyspace".into(), table.keyspace.into());
    for (name, number) in &table.numbers {
        object.insert((*name).into(), (*number).into());
    }
    put_bytes(&mut object, "smallest", &table.smallest);
    put_bytes(&mut object, "largest", &table.largest);
    let blocks = table.blocks.iter().map(|block| {
        json!({
            "kind": block.kind,
            "offset": block.offset,
            "bytes": block.bytes,
            "content_bytes": block.content_bytes,
            "entries": block.entries,
        })
    });
    object.insert("blocks".into(), blocks.collect());
    object.into()
}

fn edit_to_json(edit: &ManifestEdit) -> Value {
    let changes = edit.changes.iter().map(|change| {
        let mut object = Map::new();
        object.insert("kind".into(), change.kind.into());
        for (name, field) in &change.fields {
            match field {
                Field::Number(number) => drop(object.insert((*name).into(), (*number).into())),
                Field::Text(text) => drop(object.insert((*name).into(), text.as_str().into())),
                Field::Bytes(bytes) => put_bytes(&mut object, name, bytes),
            }
        }
        Value::from(object)
    });
    json!({"offset": edit.offset, "changes": changes.collect::<Vec<_>>()})
}

fn record_to_json(record: &LogRecord) -> Value {
    let operations = record.operations.iter().map(|operation| {
        let mut object = Map::new();
        object.insert("kind".into(), operation.kind.into());
        object.insert("keyspace".into(), operation.keyspace.into());
        put_bytes(&mut object, "key", &operation.key);
        if let Some(end) = &operation.range_end {
            put_bytes(&mut object, "range_end", end);
        }
        object.insert("value_bytes".into(), operation.value_bytes.into());
        object.insert("expires_at_ms".into(), operation.expires_at_ms.into());
        Value::from(object)
    });
    json!({
        "log": record.log,
        "offset": record.offset,
        "sequence": record.sequence,
        "operations": operations.collect::<Vec<_>>(),
    })
}
