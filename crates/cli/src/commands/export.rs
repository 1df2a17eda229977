//! `export`: writes the entries of a keyspace to a file, from which `import`
//! restores every byte.

use std::ffi::OsString;
use std::path::PathBuf;

use tidekv::Keyspace;

use super::point::bytes_of;
use super::scan::bounds;
use super::store_args::StoreArgs;
use crate::failure::Result;
use crate::files::Output;
use crate::formats::{Format, Record};
use crate::output;
use crate::progress::{Progress, show_rate};
use crate::quantity::{count, show_size};
use crate::store;

/// Write the entries of a keyspace to standard output or a file.
///
/// The entries are a consistent snapshot, in ascending key order, so importing the file
/// is fast. The directory may be open in a server.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tidekv export --data ./data --format binary --out all.tide\n  \
    tidekv export --data ./data --prefix user: | gzip > users.tsv.gz"
)]
pub struct Export {
    #[command(flatten)]
    place: StoreArgs,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Tsv)]
    format: Format,

    /// Only keys that begin with this.
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,

    /// --prefix is base64.
    #[arg(long)]
    key_base64: bool,

    /// Output file, which appears only when it is complete, or a device, FIFO or link, which is
    /// written; `-` for standard output [default: -].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// With --out, print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Export {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let prefix = self.prefix.as_ref();
        let prefix = prefix.map(|key| bytes_of("--prefix", key, self.key_base64)).transpose()?;
        let db = store::open_to_read(&self.place.data)?;
        let keyspace = store::existing_keyspace(&db, &self.place.keyspace)?;
        let out = self.out.as_ref().filter(|path| path.as_os_str() != "-");
        let mut out = match out {
            Some(path) => Output::file(path)?,
            None => Output::standard(),
        };
        let whole = keyspace.as_ref().filter(|_| prefix.is_none());
        let mut progress = Progress::new(whole.map(Keyspace::storage_bytes));
        let (entries, bytes) = self.write(keyspace, prefix, &mut out, &mut progress)?;
        if !out.finish()? {
            return Ok(());
        }
        let seconds = progress.seconds();
        output::line(&if self.json {
            serde_json::json!({"entries": entries, "bytes": bytes, "seconds": seconds}).to_string()
        } else {
            let (size, rate) = (show_size(bytes), show_rate(entries, bytes, seconds));
            let entries = count(entries, "entry", "entries");
            format!("exported {entries}, {size}, in {seconds:.2} s ({rate})")
        })
    }

    fn write(
        &self,
        keyspace: Option<Keyspace>,
        prefix: Option<Vec<u8>>,
        out: &mut Output,
        progress: &mut Progress,
    ) -> Result<(u64, u64)> {
        let mut writer = self.format.writer();
        let (mut entries, mut bytes) = (0, 0);
        writer.begin(out).map_err(|error| out.failure(&error))?;
        for item in keyspace.iter().flat_map(|k| k.range(bounds(prefix.clone(), None, None))) {
            let (key, entry) = item?;
            let record =
                Record { key: &key, value: &entry.value, expires_at_ms: entry.expires_at_ms };
            writer.write(out, record).map_err(|error| out.failure(&error))?;
            entries += 1;
            bytes += (key.len() + entry.value.len()) as u64;
            progress.step(bytes);
        }
        writer.end(out).map_err(|error| out.failure(&error))?;
        Ok((entries, bytes))
    }
}
