//! The user's own files: config, password, the input of `import` and the output of
//! `export`. (`tidekv-io` handles the store's files.)

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these are files of the user, not of the store: no simulation runs over them"
)]

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
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

/// Writes a small file.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| could_not("write", path, &error))
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

/// The first bytes of a `gzip` file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The first bytes of a `zstd` file.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The content of `input`, decompressed if it is compressed.
pub fn decompressed(mut input: impl BufRead + Send + 'static) -> Result<Box<dyn BufRead + Send>> {
    let failed = |error: io::Error| Failure::system("could not read the input", &error);
    let head = input.fill_buf().map_err(failed)?;
    if head.starts_with(&GZIP) {
        let decoder = flate2::bufread::MultiGzDecoder::new(input);
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)));
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

/// The destination of an export: standard output, or a file that appears under its
/// name only when it is complete and on stable storage.
pub enum Output {
    /// Standard output.
    Standard(BufWriter<Standard>),
    /// Written to a temporary file, which [`Output::finish`] renames.
    Aside {
        /// The temporary file.
        file: BufWriter<File>,
        /// Its name; removed if the export does not finish.
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

impl Output {
    /// Standard output.
    pub fn standard() -> Self {
        Self::Standard(BufWriter::with_capacity(BUFFER_BYTES, Standard::output()))
    }

    /// A file whose final name is `path`.
    pub fn aside(path: &Path) -> Result<Self> {
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
            Self::Aside { path, .. } => could_not("write", path, error),
        }
    }

    /// Flushes the buffer and gives the file its final name; whether the output is a
    /// file.
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
        Ok(matches!(self, Self::Aside { .. }))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::Aside { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::Aside { file, .. } => file.flush(),
        }
    }
}
