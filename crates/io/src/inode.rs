//! A simulated file without its names: the visible bytes, the durable bytes, and the unsynced
//! changes between the two.
//!
//! Invariant: unless a sync was lost, `durable` with all `pending` changes applied in order is
//! `visible`. Not synchronised; the storage's lock guards it.

use crate::content::Content;
use crate::faults::Tear;
use crate::random::{Random, SeededRandom};

/// One unsynced change of a file.
#[derive(Debug, Clone)]
enum Change {
    Write { offset: u64, bytes: Box<[u8]> },
    SetLen(u64),
    Punch { offset: u64, bytes: u64 },
}

/// The bytes of a file on a disk with a volatile cache.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    visible: Content,
    durable: Content,
    pending: Vec<Change>,
    /// Whether a lost sync has separated `visible` from the bytes that can become durable.
    lost: bool,
}

impl Inode {
    /// A file whose bytes are all durable.
    pub(crate) fn durable(content: Content) -> Self {
        Self { visible: content.clone(), durable: content, ..Self::default() }
    }

    pub(crate) fn visible(&self) -> &Content {
        &self.visible
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.visible.write(offset, bytes);
        self.pending.push(Change::Write { offset, bytes: bytes.into() });
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if len != self.visible.len() || self.lost {
            self.visible.set_len(len);
            self.pending.push(Change::SetLen(len));
        }
    }

    pub(crate) fn punch(&mut self, offset: u64, bytes: u64) {
        self.visible.punch(offset, bytes);
        self.pending.push(Change::Punch { offset, bytes });
    }

    pub(crate) fn sync(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if self.lost {
            pending.iter().for_each(|change| change.apply(&mut self.durable));
        } else {
            self.durable = self.visible.clone();
        }
    }

    /// A sync that fails: the unsynced bytes stay visible and never become
    /// durable, as when a system marks pages clean that it could not write.
    pub(crate) fn lose_pending(&mut self) {
        self.lost |= !self.pending.is_empty();
        self.pending.clear();
    }

    /// A sync that fails and drops the unsynced bytes.
    pub(crate) fn drop_pending(&mut self) {
        self.pending.clear();
        self.visible = self.durable.clone();
        self.lost = false;
    }

    /// The bytes on the device after a power loss now.
    pub(crate) fn aftermath(&self, tear: Tear, random: &SeededRandom) -> Content {
        match tear {
            Tear::DropUnsynced => self.durable.clone(),
            Tear::KeepUnsynced if !self.lost => self.visible.clone(),
            Tear::KeepUnsynced => {
                let mut content = self.durable.clone();
                self.pending.iter().for_each(|change| change.apply(&mut content));
                content
            }
            Tear::Torn { .. } => {
                let mut content = self.durable.clone();
                for change in &self.pending {
                    change.apply_torn(&mut content, random);
                }
                content
            }
        }
    }
}

impl Change {
    fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write(*offset, bytes),
            Self::SetLen(len) => content.set_len(*len),
            Self::Punch { offset, bytes } => content.punch(*offset, *bytes),
        }
    }

    fn apply_torn(&self, content: &mut Content, random: &SeededRandom) {
        let fate = random.below(4);
        match (fate, self) {
            (0, _) => {}
            (1, _) | (_, Self::SetLen(_) | Self::Punch { .. }) => self.apply(content),
            (2, Self::Write { offset, bytes }) => {
                content.write(*offset, &bytes[..below(random, bytes.len())]);
            }
            (_, Self::Write { offset, bytes }) => {
                let start = below(random, bytes.len());
                let len = below(random, bytes.len() - start);
                content.write(offset + start as u64, &bytes[start..start + len]);
            }
        }
    }
}

/// An offset from 0 to `len`, both included.
fn below(random: &SeededRandom, len: usize) -> usize {
    // A prefix of zero bytes equals a lost write, and is as likely as any other.
    usize::try_from(random.below(len as u64 + 1)).expect("not above a length in memory")
}

/// The random numbers of an aftermath.
pub(crate) fn dice(tear: Tear) -> SeededRandom {
    let seed = match tear {
        Tear::Torn { seed } => seed,
        Tear::DropUnsynced | Tear::KeepUnsynced => 0,
    };
    let random = SeededRandom::new(seed);
    random.next_u64();
    random
}
