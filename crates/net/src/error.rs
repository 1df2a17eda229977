//! Why a server does not start: few kinds, each saying what to do about it,
//! and a sentence that names the address, file or setting.
//!
//! What a client does wrong is no error of this kind; it is answered with a
//! reply of its protocol and never ends the server.

/// What the caller should do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting breaks a rule: change it.
    InvalidInput,
    /// An address is taken or not of this machine, or a file is not readable.
    Unavailable,
    /// The store underneath failed.
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
    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// A setting breaks a rule, which the sentence says.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidInput, message: message.into(), source: None }
    }

    /// An address, a file or a thread that is named cannot be had.
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
