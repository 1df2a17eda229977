//! Why the lab stops: one sentence, and whether it was called wrongly.

use std::fmt::Display;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why the lab stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The sentence, without a full stop.
    pub message: String,
    /// Called wrongly, rather than something went wrong.
    pub is_usage: bool,
}

impl Failure {
    /// Something went wrong.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_usage: false }
    }

    /// The lab was called wrongly.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_usage: true }
    }

    /// An operation of the system failed; `what` is "could not read X".
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
