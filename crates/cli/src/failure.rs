//! The failure of a command: one sentence and the exit code. The caller that
//! creates it names the file, key or option in the sentence.

/// The exit code of a command that failed, and of `get` for a missing key.
pub const FAILED: u8 = 1;

/// The exit code of a usage error.
pub const USAGE: u8 = 2;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a command fails.
#[derive(Debug)]
pub struct Failure {
    /// The sentence, without a full stop. Empty: print nothing.
    pub message: String,
    /// The exit code.
    pub code: u8,
}

impl Failure {
    /// The command failed.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FAILED }
    }

    /// The arguments are wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// The reader of the output has closed the pipe, as `head` does: not an error.
    pub fn reader_is_gone() -> Self {
        Self { message: String::new(), code: 0 }
    }

    /// The failure of a system call; `what` is "could not read X".
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
            tidekv::ErrorKind::Locked => ": close it there first, or connect to its server",
            tidekv::ErrorKind::Full => ": free some space and try again",
            tidekv::ErrorKind::OutOfMemory => " (`--memory`, if the command has it)",
            tidekv::ErrorKind::Corrupt => ": run `tidekv check`, and restore it from a backup copy",
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
