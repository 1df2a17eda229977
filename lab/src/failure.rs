//! The failure of a command: one sentence, and whether it is a usage error.

use std::fmt::Display;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// The failure of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The sentence, without a full stop.
    pub message: String,
    /// A usage error.
    pub is_usage: bool,
}

impl Failure {
    /// Another error.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_usage: false }
    }

    /// A usage error.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_usage: true }
    }

    /// A failed system call; `what` is "could not read X".
    pub fn system(what: impl Display, error: impl Display) -> Self {
        Self::new(format!("{what}: {error}"))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<tidekv::Error> for Failure {
    fn from(error: tidekv::Error) -> Self {
        Self::new(error.to_string())
    }
}
