//! The output of a benchmark: the machine and the settings, so that the numbers can be quoted, and
//! the phases.

use serde_json::{Value, json};

use super::host::Host;
use super::load::KEY_BYTES;
use super::phase::{Measured, SCAN_ENTRIES};
use crate::quantity::show_size;

/// The settings of all phases.
#[derive(Debug)]
pub struct Settings {
    pub entries: u64,
    pub value_bytes: usize,
    pub threads: u64,
    pub memory_bytes: u64,
    /// Each write is on stable storage when it returns.
    pub is_synced: bool,
    /// Duration of a phase that reads.
    pub seconds: f64,
    pub get_percent: u64,
}

impl Settings {
    fn durability(&self) -> &'static str {
        if self.is_synced { "sync" } else { "buffered" }
    }
}

const MIB: f64 = 1024.0 * 1024.0;

/// The printed quantiles: name in JSON, column header, quantile.
const QUANTILES: [(&str, &str, f64); 4] = [
    ("p50", "p50 µs", 0.5),
    ("p99", "p99 µs", 0.99),
    ("p999", "p99.9 µs", 0.999),
    ("max", "max µs", 1.0),
];

/// The rates of a phase.
impl Measured {
    fn per_second(&self, number: u64) -> f64 {
        number as f64 / self.seconds.max(1e-9)
    }

    fn per_operation(&self, number: u64) -> f64 {
        number as f64 / self.operations.max(1) as f64
    }

    fn latency_us(&self, quantile: f64) -> f64 {
        match self.latencies_ns.is_empty() {
            true => 0.0,
            false if quantile == 1.0 => self.latencies_ns.max() as f64 / 1e3,
            false => self.latencies_ns.value_at_quantile(quantile) as f64 / 1e3,
        }
    }
}

/// Two lines on machine and settings, then a table with one line per phase.
pub fn table(host: &Host, settings: &Settings, phases: &[Measured]) -> String {
    let filesystem = host.filesystem.as_deref().unwrap_or("unknown file system");
    let mut out = format!(
        "tidekv {} on {} cores, {} of memory, {}; data in {} ({filesystem})\n",
        env!("CARGO_PKG_VERSION"),
        host.cores,
        show_size(host.memory_bytes),
        host.kernel,
        host.path,
    );
    out += &format!(
        "{} entries, keys of {KEY_BYTES} bytes, values of {} bytes, {} threads, memory {}, \
         durability {}, {} s per phase that reads, scans of {SCAN_ENTRIES} entries, mixed: {} % \
         gets and {} % puts\n\n",
        settings.entries,
        settings.value_bytes,
        settings.threads,
        show_size(settings.memory_bytes),
        settings.durability(),
        settings.seconds,
        settings.get_percent,
        100 - settings.get_percent,
    );
    out += &format!("{:<5} {:>11} {:>9}", "phase", "ops/s", "MiB/s");
    QUANTILES.iter().for_each(|(_, head, _)| out += &format!(" {head:>10}"));
    out += &format!(" {:>9} {:>11} {:>14}", "reads/op", "B read/op", "B written/op");
    for phase in phases {
        out += &format!(
            "\n{:<5} {:>11.0} {:>9.1}",
            phase.phase.name(),
            phase.per_second(phase.operations),
            phase.per_second(phase.user_bytes) / MIB,
        );
        for (_, _, quantile) in QUANTILES {
            out += &format!(" {:>10.1}", phase.latency_us(quantile));
        }
        out += &format!(
            " {:>9.2} {:>11.0} {:>14.0}",
            phase.per_operation(phase.storage_reads),
            phase.per_operation(phase.storage_read_bytes),
            phase.per_operation(phase.storage_written_bytes),
        );
    }
    let checked: u64 = phases.iter().map(|phase| phase.values_checked).sum();
    let wrong: u64 = phases.iter().map(|phase| phase.wrong_values).sum();
    if checked > 0 {
        out += &format!("\n\n{checked} values were read and checked; {wrong} were wrong.");
    }
    out
}

/// The same data as one JSON object.
pub fn json(host: &Host, settings: &Settings, phases: &[Measured]) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": {
            "cores": host.cores,
            "memory_bytes": host.memory_bytes,
            "kernel": host.kernel,
            "path": host.path,
            "filesystem": host.filesystem,
        },
        "settings": {
            "entries": settings.entries,
            "key_bytes": KEY_BYTES,
            "value_bytes": settings.value_bytes,
            "threads": settings.threads,
            "memory_bytes": settings.memory_bytes,
            "durability": settings.durability(),
            "seconds": settings.seconds,
            "scan_entries": SCAN_ENTRIES,
            "mixed_get_percent": settings.get_percent,
        },
        "phases": phases.iter().map(phase).collect::<Vec<Value>>(),
    })
}

fn phase(measured: &Measured) -> Value {
    let latency_us: serde_json::Map<String, Value> = QUANTILES
        .iter()
        .map(|&(name, _, quantile)| (name.to_owned(), measured.latency_us(quantile).into()))
        .collect();
    json!({
        "phase": measured.phase.name(),
        "operations": measured.operations,
        "seconds": measured.seconds,
        "ops_per_s": measured.per_second(measured.operations),
        "mib_per_s": measured.per_second(measured.user_bytes) / MIB,
        "latency_us": latency_us,
        "storage_reads_per_op": measured.per_operation(measured.storage_reads),
        "storage_read_bytes_per_op": measured.per_operation(measured.storage_read_bytes),
        "storage_written_bytes_per_op": measured.per_operation(measured.storage_written_bytes),
        "values_checked": measured.values_checked,
        "wrong_values": measured.wrong_values,
    })
}
