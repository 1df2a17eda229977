//! The errors of the store: a few kinds, each of which tells the caller how to react, and a message
//! that names the file, the key or the limit.

use std::sync::Arc;

/// How the caller should react to an error.
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// # let keyspace = db.keyspace("default")?;
/// use tidekv::ErrorKind;
///
/// let error = keyspace.put("", "value").unwrap_err();
/// match error.kind() {
///     ErrorKind::InvalidInput => assert!(error.to_string().contains("at least 1 byte")),
///     ErrorKind::Full => { /* free some space; reads still work */ }
///     kind => panic!("{kind:?}"),
/// }
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request violates a limit or rule: change it.
    InvalidInput,
    /// The directory, keyspace or version does not exist or cannot be used as requested.
    Unavailable,
    /// Another process (or another handle of this one) has the directory open.
    Locked,
    /// The disk is full: free some space. Reads still work; writes work again afterwards.
    Full,
    /// It does not fit the memory budget: split it, or raise the budget
    /// ([`Options::memory_bytes`](crate::Options::memory_bytes)). Nothing was changed.
    OutOfMemory,
    /// A file is damaged; the message names it. Restore it from a copy.
    Corrupt,
    /// The storage failed. Reads still work; if the message says so, writes are refused until the
    /// store is reopened.
    Storage,
    /// The store was closed, or opened read-only.
    Closed,
}

/// The error of a store operation: a [kind](Error::kind) and a message that names the file, the key
/// or the limit. Cheap to clone.
///
/// ```
/// use tidekv::{Error, ErrorKind};
///
/// let error = Error::invalid("the name is empty").context("user 7");
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert_eq!(error.to_string(), "user 7: the name is empty");
/// ```
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that carries `message`, a whole sentence without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into(), source: None }
    }

    /// Input that violates a limit or rule.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// There is no store where one was expected.
    pub(crate) fn no_store(directory: &std::path::Path) -> Self {
        let message = format!("there is no store in {}", directory.display());
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Damage found in the file at `path`.
    pub fn corrupt(path: &std::path::Path, what: impl std::fmt::Display) -> Self {
        Self::new(ErrorKind::Corrupt, format!("{} is damaged: {what}", path.display()))
    }

    /// How the caller should react.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The kind of the error of the storage that caused it.
    fn storage_kind(&self) -> Option<tidekv_io::ErrorKind> {
        self.source.as_ref()?.downcast_ref::<tidekv_io::Error>().map(tidekv_io::Error::kind)
    }

    /// Whether the storage failed, and did not only lack a file.
    pub(crate) fn is_of_storage(&self) -> bool {
        self.storage_kind().is_some_and(|kind| kind != tidekv_io::ErrorKind::NotFound)
    }

    /// Whether only writes failed, because the disk is full or its file system is read-only.
    pub(crate) fn prevents_only_writes(&self) -> bool {
        self.kind == ErrorKind::Full || self.storage_kind() == Some(tidekv_io::ErrorKind::ReadOnly)
    }

    /// The same error with `context` in front of its message.
    #[must_use]
    pub fn context(&self, context: impl std::fmt::Display) -> Self {
        Self {
            kind: self.kind,
            message: format!("{context}: {}", self.message).into(),
            source: self.source.clone(),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

impl From<tidekv_io::Error> for Error {
    fn from(error: tidekv_io::Error) -> Self {
        let kind = match error.kind() {
            tidekv_io::ErrorKind::NotFound => ErrorKind::Unavailable,
            tidekv_io::ErrorKind::Locked => ErrorKind::Locked,
            tidekv_io::ErrorKind::Full => ErrorKind::Full,
            tidekv_io::ErrorKind::ShortRead => ErrorKind::Corrupt,
            _ => ErrorKind::Storage,
        };
        Self { kind, message: error.to_string().into(), source: Some(Arc::new(error)) }
    }
}
