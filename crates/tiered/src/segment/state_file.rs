//! The membership in a file of its own: a copy that does not fail with the devices.
//!
//! The file should be on storage that outlives the process but not a reboot; there it is as durable
//! as the devices' unsynced writes. Two blocks are written alternately, so that one is always
//! intact. A damaged block makes the file void: it might have been the newest.

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

impl StateFile {
    /// Opens the file, or creates it; returns its membership, if that was written in this boot of
    /// the machine.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        path: &Path,
        boot: u128,
    ) -> Result<(Self, Option<Membership>)> {
        // It may be in a directory in which every user can create files.
        let file = storage.open_private(path)?;
        file.allocate(2 * BLOCK_BYTES)?;
        let mut newest: Option<(u64, Membership)> = None;
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
            if is_newer && found_boot == boot && generation > 0 {
                newest = Some((generation, membership));
            }
        }
        let generation = newest.as_ref().map_or(0, |(generation, _)| *generation);
        let state = Self { file, generation: Mutex::new(generation) };
        let newest = newest.filter(|_| !is_damaged);
        Ok((state, newest.map(|(_, membership)| membership)))
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
}

#[cfg(test)]
mod tests {
    use tidekv_io::MemoryStorage;

    use super::*;

    #[test]
    fn state_file_returns_the_last_write_of_this_boot() {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let path = Path::new("/state");
        let (state, found) = StateFile::open(&storage, path, 1).expect("it is made");
        assert_eq!(found, None);
        let mut membership = Membership::new(5, 2);
        for device_slot in 0..2 {
            membership.attach(device_slot, 7);
            state.write(&membership, 1).expect("it is written");
            let (_, found) = StateFile::open(&storage, path, 1).expect("it is there");
            assert_eq!(found.as_ref(), Some(&membership));
        }
        let (_, found) = StateFile::open(&storage, path, 2).expect("it is there");
        assert_eq!(found, None);
    }

    #[test]
    fn damaged_block_voids_the_state_file() {
        let memory = MemoryStorage::new();
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        let path = Path::new("/state");
        let (state, _) = StateFile::open(&storage, path, 1).expect("it is made");
        for _ in 0..2 {
            state.write(&Membership::new(5, 2), 1).expect("it is written");
        }
        for at in [100, BYTES + 100] {
            memory.corrupt(path, |bytes| bytes[at] ^= 1);
            let (_, found) = StateFile::open(&storage, path, 1).expect("it is there");
            assert_eq!(found, None);
            memory.corrupt(path, |bytes| bytes[at] ^= 1);
        }
        let (_, found) = StateFile::open(&storage, path, 1).expect("it is there");
        assert!(found.is_some());
    }
}
