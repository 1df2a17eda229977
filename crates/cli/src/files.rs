//! The user's own files: config, password, the input of `import` and the output of
//! `export`. (`tidekv-io` handles the store's files.)

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these are files of the user, not of the store: no simulation runs over them"
)]

mod gzip;

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::terminal::Standard;

/// Enough for sequential speed.
const BUFFER_BYTES: usize = 256 << 10;

fn could_not(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::system(format_args!("could not {what} {}", path.display()), error)
}

/// The text of a small file.
pub fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| could_not("read", path, &error))
}

/// Creates a directory and its missing parents.
pub fn create_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| could_not("create", path, &error))
}

/// A file, or standard input for `-`, and its length if known.
pub fn open_input(path: &Path) -> Result<(Box<dyn BufRead + Send>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())), None));
    }
    let file = File::open(path).map_err(|error| could_not("open", path, &error))?;
    let metadata = file.metadata().map_err(|error| could_not("inspect", path, &error))?;
    if metadata.is_dir() {
        return Err(Failure::new(format!("{} is a directory: give a file", path.display())));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, file)), bytes))
}

/// The first bytes of a `zstd` file.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The content of `input`, decompressed if it is compressed.
pub fn decompressed(mut input: impl BufRead + Send + 'static) -> Result<Box<dyn BufRead + Send>> {
    let failed = |error: io::Error| Failure::system("could not read the input", &error);
    let head = input.fill_buf().map_err(failed)?;
    if head.starts_with(&gzip::MAGIC) {
        let content = gzip::Gunzip::new(input);
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, content)));
    }
    if head.starts_with(&ZSTD) {
        let decoder = zstd::Decoder::with_buffer(input).map_err(failed)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)));
    }
    Ok(Box::new(input))
}

/// All of standard input, at most `bytes_max` bytes.
pub fn read_input(bytes_max: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(bytes_max as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::system("could not read standard input", &error))?;
    if bytes.len() > bytes_max {
        let message = format!("standard input is longer than {bytes_max} bytes, the longest value");
        return Err(Failure::new(message));
    }
    Ok(bytes)
}

/// The destination of a command's output.
///
/// Guarantees: a regular file appears under its name, or replaces the one of that name, only when it
/// is complete and on stable storage. What is no regular file (a device, a FIFO) is written, not
/// replaced; a link stays, and what it leads to is written, by the same rules.
pub enum Output {
    /// Standard output.
    Standard(BufWriter<Standard>),
    /// A device or a FIFO.
    Through {
        /// What is written.
        file: BufWriter<File>,
        /// Its name.
        path: PathBuf,
    },
    /// Written to a temporary file, which [`Output::finish`] renames.
    Aside {
        /// The temporary file.
        file: BufWriter<File>,
        /// Its name; removed if the output does not finish.
        temporary: Temporary,
        /// Its final name.
        path: PathBuf,
    },
}

/// Removes the file on drop.
pub struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Fails after the rename.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether both are the same file.
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Whether `path` leads to what standard output is, such as `/dev/stdout`: opening it anew would
/// begin at the start of the file.
fn is_standard_output(found: &Metadata) -> bool {
    let own = rustix::fs::fstat(io::stdout());
    own.is_ok_and(|own| (found.dev(), found.ino()) == (own.st_dev, own.st_ino))
}

impl Output {
    /// Standard output.
    pub fn standard() -> Self {
        Self::Standard(BufWriter::with_capacity(BUFFER_BYTES, Standard::output()))
    }

    /// What `path` names: a file, a device, a FIFO, or a link to one.
    pub fn file(path: &Path) -> Result<Self> {
        let Ok(named) = fs::symlink_metadata(path) else { return Self::aside(path) };
        if named.is_file() {
            return Self::aside(path);
        }
        match fs::metadata(path) {
            Ok(found) if is_standard_output(&found) => Ok(Self::standard()),
            Ok(found) if found.is_file() => {
                let target = fs::canonicalize(path);
                let target = target.map_err(|error| could_not("follow", path, &error))?;
                // A link in `/proc` can lead to a file that has lost its name.
                match fs::metadata(&target).is_ok_and(|target| is_same(&target, &found)) {
                    true => Self::aside(&target),
                    false => Self::through(path),
                }
            }
            // Also a link to a name that does not exist yet.
            _ => Self::through(path),
        }
    }

    /// Writes what `path` names as it is.
    fn through(path: &Path) -> Result<Self> {
        let opened = File::options().write(true).create(true).truncate(true).open(path);
        let file = opened.map_err(|error| could_not("open", path, &error))?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self::Through { file, path: path.to_owned() })
    }

    /// A file whose final name is `path`.
    fn aside(path: &Path) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(Failure::usage(format!("{} is not a file name", path.display())));
        };
        let mut aside = name.to_owned();
        aside.push(format!(".{}.tmp", std::process::id()));
        let temporary = Temporary(path.with_file_name(aside));
        let file = File::create(&temporary.0)
            .map_err(|error| could_not("create", &temporary.0, &error))?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self::Aside { file, temporary, path: path.to_owned() })
    }

    /// Explains an error of writing.
    pub fn failure(&self, error: &io::Error) -> Failure {
        match self {
            Self::Standard(_) => Failure::output(error),
            Self::Through { path, .. } | Self::Aside { path, .. } => {
                could_not("write", path, error)
            }
        }
    }

    /// Flushes the buffer and gives the file its final name; whether the output is
    /// other than standard output.
    pub fn finish(mut self) -> Result<bool> {
        self.flush().map_err(|error| self.failure(&error))?;
        if let Self::Aside { file, temporary, path } = &self {
            let finish = || {
                file.get_ref().sync_all()?;
                fs::rename(&temporary.0, path)?;
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
            };
            finish().map_err(|error| could_not("finish", path, &error))?;
        }
        Ok(!matches!(self, Self::Standard(_)))
    }
}

/// Writes a small output to what `path` names.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    let mut out = Output::file(path)?;
    out.write_all(text.as_bytes()).map_err(|error| out.failure(&error))?;
    out.finish().map(drop)
}

/// Whether there is a regular file at `path` itself, which is no link.
pub fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Removes a file that this process has written; one that is already gone is fine.
pub fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("could not remove {}: {error}", path.display());
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::Through { file, .. } | Self::Aside { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::Through { file, .. } | Self::Aside { file, .. } => file.flush(),
        }
    }
}
