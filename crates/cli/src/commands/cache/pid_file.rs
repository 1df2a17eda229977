//! `-P`: a file with the number of this process.

use std::path::{Path, PathBuf};

use crate::failure::Result;
use crate::files;

/// A file with the number of this process; removed on drop.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file, or replaces one that an earlier process has left.
    pub fn write(path: &Path) -> Result<Self> {
        files::write_text(path, &format!("{}\n", std::process::id()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        files::remove(&self.0);
    }
}
