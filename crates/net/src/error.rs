//! Errors of starting a server: a few kinds, each with a different remedy, and a
//! message that names the address, file or setting.
//!
//! Errors of clients are not among them: they are answered in the client's
//! protocol and never stop the server.

/// The kind of an error, which says what the caller should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting breaks a rule: change it.
    InvalidInput,
    /// An address is in use or not local, or a file is not readable.
    Unavailable,
    /// The store failed.
    Store,
}

/// The error of starting or stopping a server.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of starting or stopping a server.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// A setting breaks a rule, which the message states.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidInput, message: message.into(), source: None }
    }

    /// The named address, file or thread is unavailable.
    pub fn unavailable(
        what: impl std::fmt::Display,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let message = format!("{what}: {source}");
        Self { kind: ErrorKind::Unavailable, message, source: Some(Box::new(source)) }
    }

    /// The store underneath failed.
    pub fn store(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let message = source.to_string();
        Self { kind: ErrorKind::Store, message, source: Some(Box::new(source)) }
    }
}
