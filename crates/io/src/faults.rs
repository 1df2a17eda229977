//! Faults of a simulated disk: rules for single faults ([`FaultRule`]) and the aftermath of a power
//! loss ([`Tear`]).
//!
//! Plain data; [`crate::MemoryStorage`] applies it.

use std::path::Path;

use crate::error::{ErrorKind, Operation};

/// The fate of unsynced bytes and names at a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tear {
    /// All of them are lost.
    DropUnsynced,
    /// All of them have reached the device.
    KeepUnsynced,
    /// Each unsynced write and name change is kept, lost or (writes only) kept in part, by the
    /// seed.
    Torn {
        /// The seed; the same seed on the same state gives the same aftermath.
        seed: u64,
    },
}

/// A way in which an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The operation does nothing and fails.
    Fail(ErrorKind),
    /// A write stores half of its bytes, and fails.
    ShortWrite,
    /// A read fails as if the file had ended.
    ShortRead,
    /// A read succeeds with one bit wrong.
    FlipBit {
        /// The index of the byte in the read range; modulo its length.
        byte: usize,
        /// The bit of that byte, 0 to 7.
        bit: u8,
    },
    /// A sync fails, and the data that it should have made durable stays visible but never reaches
    /// the device, not even by a later successful sync.
    SyncLost,
    /// A sync of a file fails, and the system drops the pages that it could not write: reads return
    /// the bytes on the device from then on. A sync of a directory fails as with `SyncLost`.
    SyncDropped,
}

impl Fault {
    /// Whether the fault can affect `operation`.
    pub fn can_befall(self, operation: Operation) -> bool {
        match self {
            Self::Fail(_) => true,
            Self::ShortWrite => operation == Operation::Write,
            Self::ShortRead | Self::FlipBit { .. } => operation == Operation::Read,
            Self::SyncLost | Self::SyncDropped => {
                matches!(operation, Operation::Sync | Operation::SyncDirectory)
            }
        }
    }
}

/// The operations that a fault affects.
#[derive(Debug, Clone)]
pub struct FaultRule {
    /// Only this operation; if `None`, all that the fault can affect.
    pub operation: Option<Operation>,
    /// Only paths that contain this text.
    pub path_contains: Option<String>,
    /// The number of matching operations that pass unharmed first.
    pub skip: u64,
    /// The number of operations affected after that; all if `None`.
    pub times: Option<u64>,
    /// The fault.
    pub fault: Fault,
}

impl FaultRule {
    /// `fault` affects every `operation` from now on.
    pub fn always(operation: Operation, fault: Fault) -> Self {
        Self { operation: Some(operation), path_contains: None, skip: 0, times: None, fault }
    }

    /// `fault` affects only the next `operation`.
    pub fn once(operation: Operation, fault: Fault) -> Self {
        Self { times: Some(1), ..Self::always(operation, fault) }
    }

    /// Only on paths that contain `text`.
    #[must_use]
    pub fn on_path(mut self, text: impl Into<String>) -> Self {
        self.path_contains = Some(text.into());
        self
    }

    /// Only after `operations` matching ones have passed.
    #[must_use]
    pub fn after(mut self, operations: u64) -> Self {
        self.skip = operations;
        self
    }

    /// Whether the rule applies to this operation.
    pub(crate) fn matches(&self, operation: Operation, path: &Path) -> bool {
        self.fault.can_befall(operation)
            && self.operation.is_none_or(|only| only == operation)
            && self
                .path_contains
                .as_deref()
                .is_none_or(|text| path.to_string_lossy().contains(text))
    }

    /// Counts one matching operation; returns the fault if it is affected.
    pub(crate) fn strike(&mut self) -> Option<Fault> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        match &mut self.times {
            Some(0) => None,
            Some(times) => {
                *times -= 1;
                Some(self.fault)
            }
            None => Some(self.fault),
        }
    }
}
