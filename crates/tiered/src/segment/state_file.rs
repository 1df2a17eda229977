//! The membership in a file of its own: a copy that does not fail with the devices.
//!
//! The file should be on storage that outlives the process; there it is as durable as the devices'
//! unsynced writes. Two blocks are written alternately, so that one is always intact. If a block is
//! damaged, which might have been the newest, the other counts as one of an earlier boot.
//!
//! After a reboot, which may have lost the last writes, a membership confirms nothing. It may still tell
//! that a device was detached: so the file is synced when a detachment is recorded nowhere else, and when
//! the cache is closed.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tidekv_io::{File, Result, Storage};

use crate::membership::{MEMBERSHIP_BYTES, Membership};
use crate::segment::coding::{Reader, Writer};
use crate::segment::layout::BLOCK_BYTES;

const BYTES: usize = BLOCK_BYTES as usize;

/// The file.
#[derive(Debug)]
pub(crate) struct StateFile {
    file: Arc<dyn File>,
    generation: Mutex<u64>,
}

/// The membership that was found in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// It was written in this boot of the machine: it is the newest.
    InThisBoot(Membership),
    /// There may have been newer ones.
    Before(Membership),
}

impl Recorded {
    pub(crate) fn membership(&self) -> &Membership {
        let (Self::InThisBoot(membership) | Self::Before(membership)) = self;
        membership
    }
}

impl StateFile {
    /// Opens the file, or creates it; returns its membership.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        path: &Path,
        boot: u128,
    ) -> Result<(Self, Option<Recorded>)> {
        let is_new = !storage.exists(path)?;
        // It may be in a directory in which every user can create files.
        let file = storage.open_private(path)?;
        file.allocate(2 * BLOCK_BYTES)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if is_new && let Err(error) = storage.sync_dir(directory.unwrap_or(Path::new("."))) {
            tracing::warn!("the state file may be gone after a power cut: {error}");
        }
        let mut newest: Option<(u64, Recorded)> = None;
        let mut is_damaged = false;
        for at in [0, BLOCK_BYTES] {
            let block = file.read_at(at, BYTES)?;
            let Some(mut reader) = Reader::open(&block, 0) else {
                // It might have been the newest.
                is_damaged |= block.iter().any(|byte| *byte != 0);
                continue;
            };
            let (generation, found_boot) = (reader.u64(), u128::from_le_bytes(reader.bytes()));
            let membership = Membership::decode(&reader.bytes::<MEMBERSHIP_BYTES>());
            let is_newer = newest.as_ref().is_none_or(|(newest, _)| generation > *newest);
            if is_newer && generation > 0 {
                let recorded = match found_boot == boot {
                    true => Recorded::InThisBoot(membership),
                    false => Recorded::Before(membership),
                };
                newest = Some((generation, recorded));
            }
        }
        let generation = newest.as_ref().map_or(0, |(generation, _)| *generation);
        let newest = newest.map(|(_, recorded)| match recorded {
            Recorded::InThisBoot(membership) if is_damaged => Recorded::Before(membership),
            recorded => recorded,
        });
        Ok((Self { file, generation: Mutex::new(generation) }, newest))
    }

    /// Writes the membership.
    pub(crate) fn write(&self, membership: &Membership, boot: u128) -> Result<()> {
        let mut generation = self.generation.lock();
        let next = *generation + 1;
        let block: [u8; BYTES] =
            Writer::new().u64(next).bytes(&boot.to_le_bytes()).bytes(&membership.encode()).seal(0);
        self.file.write_at(next % 2 * BLOCK_BYTES, &block)?;
        *generation = next;
        Ok(())
    }

    /// Makes the last membership outlive a reboot.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}

#[cfg(test)]
mod tests {
    use tidekv_io::MemoryStorage;

    use super::*;

    #[test]
    fn state_file_returns_the_last_write_and_whether_it_was_in_this_boot() {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let path = Path::new("/state");
        let (state, found) = StateFile::open(&storage, path, 1).expect("it is made");
        assert_eq!(found, None);
        let mut membership = Membership::new(5, 2);
        for device_slot in 0..2 {
            membership.attach(device_slot, 7);
            state.write(&membership, 1).expect("it is written");
            let (_, found) = StateFile::open(&storage, path, 1).expect("it is there");
            assert_eq!(found, Some(Recorded::InThisBoot(membership.clone())));
        }
        let (state, found) = StateFile::open(&storage, path, 2).expect("it is there");
        assert_eq!(found, Some(Recorded::Before(membership.clone())));
        // Later boots go on counting.
        membership.detach(0);
        state.write(&membership, 2).expect("it is written");
        let (_, found) = StateFile::open(&storage, path, 2).expect("it is there");
        assert_eq!(found, Some(Recorded::InThisBoot(membership)));
    }

    #[test]
    fn with_a_damaged_block_nothing_is_known_to_be_the_newest() {
        let memory = MemoryStorage::new();
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        let path = Path::new("/state");
        let membership = Membership::new(5, 2);
        let (state, _) = StateFile::open(&storage, path, 1).expect("it is made");
        for _ in 0..2 {
            state.write(&membership, 1).expect("it is written");
        }
        for at in [100, BYTES + 100] {
            memory.corrupt(path, |bytes| bytes[at] ^= 1);
            let (_, found) = StateFile::open(&storage, path, 1).expect("it is there");
            assert_eq!(found, Some(Recorded::Before(membership.clone())));
            memory.corrupt(path, |bytes| bytes[at] ^= 1);
        }
        let (_, found) = StateFile::open(&storage, path, 1).expect("it is there");
        assert_eq!(found, Some(Recorded::InThisBoot(membership)));
    }

    #[test]
    fn a_synced_membership_outlives_a_power_cut() {
        let memory = MemoryStorage::new();
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        let path = Path::new("/state");
        let (state, _) = StateFile::open(&storage, path, 1).expect("it is made");
        let mut membership = Membership::new(5, 2);
        state.write(&membership, 1).expect("it is written");
        state.sync().expect("it is synced");
        let synced = membership.clone();
        membership.attach(0, 7);
        state.write(&membership, 1).expect("it is written");
        let after = memory.after_power_loss(tidekv_io::Tear::DropUnsynced);
        let storage: Arc<dyn Storage> = Arc::new(after);
        let (_, found) = StateFile::open(&storage, path, 2).expect("it is there");
        assert_eq!(found, Some(Recorded::Before(synced)));
    }
}
