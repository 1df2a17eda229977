//! Why a command fails: one sentence for people, and the exit code. What the
//! sentence names (a file, key or option) is up to whoever makes it.

/// The exit code of a command that failed, and of `get` for a missing key.
pub const FAILED: u8 = 1;

/// The exit code of a command that was called wrongly.
pub const USAGE: u8 = 2;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a command fails.
#[derive(Debug)]
pub struct Failure {
    /// The sentence, without a full stop. Empty: nothing is to be said.
    pub message: String,
    /// The exit code.
    pub code: u8,
}

impl Failure {
    /// The command could not do what it was asked for.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FAILED }
    }

    /// The command was asked wrongly.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// Whoever read the output has gone, as `head` does: nothing went wrong.
    pub fn reader_is_gone() -> Self {
        Self { message: String::new(), code: 0 }
    }

    /// The failure of an operation of the system; `what` is "could not read X".
    pub fn system(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self::new(format!("{what}: {error}"))
    }

    /// The failure of writing to standard output.
    pub fn output(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::reader_is_gone(),
            _ => Self::system("could not write to standard output", error),
        }
    }
}

impl From<tidekv::Error> for Failure {
    fn from(error: tidekv::Error) -> Self {
        let advice = match error.kind() {
            tidekv::ErrorKind::Locked => ": close it there first, or go through its server",
            tidekv::ErrorKind::Full => ": free some space and try again",
            tidekv::ErrorKind::Corrupt => ": see `tidekv check`, and restore it from a copy",
            _ => "",
        };
        Self::new(format!("{error}{advice}"))
    }
}

impl From<tidekv_tiered::Error> for Failure {
    fn from(error: tidekv_tiered::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<tidekv_net::Error> for Failure {
    fn from(error: tidekv_net::Error) -> Self {
        Self::new(error.to_string())
    }
}
