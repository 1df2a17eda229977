//! Errors of opening and configuring a cache. Reads and writes return none: a device fault is a
//! miss, and is counted.

/// What the caller should do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is out of bounds: change it.
    InvalidInput,
    /// Another process has locked the device.
    Locked,
    /// A device that is required cannot be used.
    Storage,
}

/// The error of an operation on a cache.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<tidekv_io::Error>,
}

/// The result of an operation on a cache.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A setting is out of bounds; `message` is a sentence without a full stop.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidInput, message: message.into(), source: None }
    }

    /// The same error, prefixed with the tenant's name.
    pub(crate) fn of_tenant(self, name: &str) -> Self {
        Self { message: format!("tenant {name}: {}", self.message), ..self }
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<tidekv_io::Error> for Error {
    fn from(error: tidekv_io::Error) -> Self {
        let kind = match error.kind() {
            tidekv_io::ErrorKind::Locked => ErrorKind::Locked,
            _ => ErrorKind::Storage,
        };
        Self { kind, message: error.to_string(), source: Some(error) }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}
