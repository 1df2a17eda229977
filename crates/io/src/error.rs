//! The error of every storage operation: the operation, the path, and the system's error.
//!
//! [`ErrorKind`] tells callers how they can react; the operating system's error is the source.
//! `Display` is one sentence with the file's path.

use std::path::{Path, PathBuf};

/// The storage operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Creating a file that did not exist.
    Create,
    /// Opening an existing file.
    Open,
    /// Reading bytes of a file.
    Read,
    /// Writing bytes of a file.
    Write,
    /// Making a file's bytes durable.
    Sync,
    /// Making a directory's entries durable.
    SyncDirectory,
    /// Reserving space for a file.
    Allocate,
    /// Releasing the space of a part of a file.
    PunchHole,
    /// Changing a file's length.
    Truncate,
    /// Querying a file's length or existence.
    Inspect,
    /// Renaming a file.
    Rename,
    /// Removing a file or directory.
    Remove,
    /// Making a hard link.
    Link,
    /// Creating a directory.
    CreateDirectory,
    /// Listing a directory.
    List,
    /// Taking a directory's lock.
    Lock,
}

impl Operation {
    /// The verb used in messages ("could not *read* …").
    pub fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::SyncDirectory => "sync the directory",
            Self::Allocate => "reserve space for",
            Self::PunchHole => "give back room of",
            Self::Truncate => "set the length of",
            Self::Inspect => "inspect",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Link => "link",
            Self::CreateDirectory => "create the directory",
            Self::List => "list",
            Self::Lock => "lock",
        }
    }
}

/// The kind of an error, by the caller's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path does not exist.
    NotFound,
    /// The path exists already.
    AlreadyExists,
    /// Another process holds the lock.
    Locked,
    /// No space (or quota) is left: free some and try again.
    Full,
    /// The file ended before the requested bytes.
    ShortRead,
    /// The system does not support the operation here.
    Unsupported,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The file may belong to another user: it is a link, or others can write it.
    Foreign,
    /// The device or the system failed (EIO and all others).
    Failed,
}

/// A storage operation that failed.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    operation: Operation,
    path: PathBuf,
    source: Option<std::sync::Arc<std::io::Error>>,
}

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` that no system call reported.
    pub fn new(kind: ErrorKind, operation: Operation, path: impl Into<PathBuf>) -> Self {
        Self { kind, operation, path: path.into(), source: None }
    }

    /// The system's error for `operation` on `path`; the kind follows from it.
    pub fn from_system(
        operation: Operation,
        path: impl Into<PathBuf>,
        source: std::io::Error,
    ) -> Self {
        use std::io::ErrorKind as System;
        let kind = match source.kind() {
            System::NotFound => ErrorKind::NotFound,
            System::AlreadyExists => ErrorKind::AlreadyExists,
            System::StorageFull | System::QuotaExceeded => ErrorKind::Full,
            System::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            System::UnexpectedEof => ErrorKind::ShortRead,
            System::Unsupported | System::CrossesDevices => ErrorKind::Unsupported,
            _ => ErrorKind::Failed,
        };
        Self { kind, operation, path: path.into(), source: Some(std::sync::Arc::new(source)) }
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The path of the operation.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "could not {} {}", self.operation.verb(), self.path.display())?;
        match (&self.source, self.kind) {
            (Some(source), _) => write!(f, ": {source}"),
            (None, ErrorKind::NotFound) => f.write_str(": it does not exist"),
            (None, ErrorKind::AlreadyExists) => f.write_str(": it exists already"),
            (None, ErrorKind::Locked) => f.write_str(": another process holds it"),
            (None, ErrorKind::Full) => f.write_str(": no space is left"),
            (None, ErrorKind::ShortRead) => f.write_str(": the file is shorter than it should be"),
            (None, ErrorKind::Unsupported) => f.write_str(": not supported here"),
            (None, ErrorKind::ReadOnly) => f.write_str(": the file system is read-only"),
            (None, ErrorKind::Foreign) => f.write_str(
                ": it is a link, no regular file, or can be written by other users; remove it",
            ),
            (None, ErrorKind::Failed) => f.write_str(": the device failed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}
