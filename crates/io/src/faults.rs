//! What a simulated disk can be told to do wrong: the rules of single faults
//! ([`FaultRule`]) and what a loss of power leaves behind ([`Tear`]).
//!
//! Plain data; [`crate::MemoryStorage`] acts on it.

use std::path::Path;

use crate::error::{ErrorKind, Operation};

/// What becomes of unsynced bytes and names when the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tear {
    /// All of them are lost.
    DropUnsynced,
    /// All of them happen to have reached the device.
    KeepUnsynced,
    /// Each unsynced write and change of names is kept, lost or (writes only)
    /// kept in part, as the seed decides.
    Torn {
        /// Decides; the same seed on the same state gives the same aftermath.
        seed: u64,
    },
}

/// One way in which an operation goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The operation does nothing and fails.
    Fail(ErrorKind),
    /// A write leaves half of its bytes behind, and fails.
    ShortWrite,
    /// A read fails as if the file had ended.
    ShortRead,
    /// A read succeeds with one bit wrong.
    FlipBit {
        /// Which byte of what is read; counted round when it is shorter.
        byte: usize,
        /// Which bit of that byte, 0 to 7.
        bit: u8,
    },
    /// A sync fails, and what it should have made durable stays visible but
    /// never reaches the device, not even by a later sync that succeeds.
    SyncLost,
    /// A sync of a file fails, and the system drops the pages that it could
    /// not write: reads show what the device holds, and so it stays. A sync of
    /// a directory goes wrong as with `SyncLost`.
    SyncDropped,
}

impl Fault {
    /// Whether the fault can befall `operation`.
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

/// Which operations a fault befalls.
#[derive(Debug, Clone)]
pub struct FaultRule {
    /// Only this operation; every one that the fault can befall when `None`.
    pub operation: Option<Operation>,
    /// Only paths that contain this text.
    pub path_contains: Option<String>,
    /// How many matching operations pass unharmed first.
    pub skip: u64,
    /// How many operations the fault befalls after that; all when `None`.
    pub times: Option<u64>,
    /// What goes wrong.
    pub fault: Fault,
}

impl FaultRule {
    /// `fault` befalls every `operation` from now on.
    pub fn always(operation: Operation, fault: Fault) -> Self {
        Self { operation: Some(operation), path_contains: None, skip: 0, times: None, fault }
    }

    /// `fault` befalls the next `operation` only.
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

    /// Whether the rule is about such an operation.
    pub(crate) fn matches(&self, operation: Operation, path: &Path) -> bool {
        self.fault.can_befall(operation)
            && self.operation.is_none_or(|only| only == operation)
            && self
                .path_contains
                .as_deref()
                .is_none_or(|text| path.to_string_lossy().contains(text))
    }

    /// Counts one matching operation; the fault, if it befalls it.
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
