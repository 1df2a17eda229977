//! `-P`: a file with the ID of this process.

use std::path::{Path, PathBuf};

use crate::files;

/// A file with the ID of this process; removed on drop, unless it is another process' by then.
pub struct PidFile {
    path: PathBuf,
    text: String,
}

impl PidFile {
    /// Writes the file, or replaces one that an earlier process has left. If that fails, the server
    /// runs without it, as memcached does.
    pub fn write(path: &Path) -> Option<Self> {
        let text = format!("{}\n", std::process::id());
        if let Err(failure) = files::write_text(path, &text) {
            tracing::warn!("-P: {}", failure.message);
            return None;
        }
        Some(Self { path: path.to_owned(), text })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Neither a device nor the target of a link is ours.
        if files::is_regular(&self.path)
            && files::read_text(&self.path).is_ok_and(|text| text == self.text)
        {
            files::remove(&self.path);
        }
    }
}
