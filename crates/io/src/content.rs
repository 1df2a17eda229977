//! The bytes of a simulated file: copied in constant time, and shared until one of the copies is
//! written.
//!
//! A crash test clones thousands of aftermaths, each with all files, and reads a small part of
//! each; so the bytes are in chunks behind `Arc`s. Bytes that were never written read as zero and
//! take no memory.

use std::sync::Arc;

const CHUNK_BYTES: usize = 4096;

type Chunk = [u8; CHUNK_BYTES];

/// Bytes with copy on write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    len: u64,
    /// May be shorter than `len` requires, and has holes: both read as zeros. Bytes of a chunk at
    /// and past `len` are zero.
    chunks: Arc<Vec<Option<Arc<Chunk>>>>,
}

/// The location of byte `offset`: chunk and offset in it.
fn locate(offset: u64) -> (usize, usize) {
    let offset = usize::try_from(offset).expect("simulated files fit memory");
    (offset / CHUNK_BYTES, offset % CHUNK_BYTES)
}

impl Content {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(0, bytes);
        content
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `into` from `offset` on; false if the content ends before.
    pub(crate) fn read(&self, offset: u64, mut into: &mut [u8]) -> bool {
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > self.len) {
            return false;
        }
        let (mut chunk, mut at) = locate(offset);
        while !into.is_empty() {
            let (now, later) = into.split_at_mut(into.len().min(CHUNK_BYTES - at));
            match self.chunks.get(chunk).and_then(Option::as_deref) {
                Some(bytes) => now.copy_from_slice(&bytes[at..at + now.len()]),
                None => now.fill(0),
            }
            into = later;
            (chunk, at) = (chunk + 1, 0);
        }
        true
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len).expect("simulated files fit memory")];
        self.read(0, &mut bytes);
        bytes
    }

    /// Writes `bytes` at `offset`, growing as needed.
    pub(crate) fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        self.len = self.len.max(end);
        let chunks = Arc::make_mut(&mut self.chunks);
        let (last, _) = locate(end - 1);
        if chunks.len() <= last {
            chunks.resize(last + 1, None);
        }
        let (mut chunk, mut at) = locate(offset);
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - at));
            let slot = chunks[chunk].get_or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
            Arc::make_mut(slot)[at..at + now.len()].copy_from_slice(now);
            bytes = later;
            (chunk, at) = (chunk + 1, 0);
        }
    }

    /// Replaces the existing bytes of this range by zeros that take no memory.
    pub(crate) fn punch(&mut self, offset: u64, bytes: u64) {
        let (start, end) = (offset.min(self.len), offset.saturating_add(bytes).min(self.len));
        let chunks = Arc::make_mut(&mut self.chunks);
        let mut at = start;
        while at < end {
            let (number, from) = locate(at);
            let upto = (end - at + from as u64).min(CHUNK_BYTES as u64) as usize;
            match chunks.get_mut(number) {
                Some(chunk) if upto - from == CHUNK_BYTES => *chunk = None,
                Some(Some(chunk)) => Arc::make_mut(chunk)[from..upto].fill(0),
                _ => {}
            }
            at += (upto - from) as u64;
        }
    }

    /// Cuts off, or adds zeros.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (last, kept) = locate(len);
            let chunks = Arc::make_mut(&mut self.chunks);
            chunks.truncate(if kept > 0 { last + 1 } else { last });
            if let Some(Some(chunk)) = chunks.get_mut(last) {
                Arc::make_mut(chunk)[kept..].fill(0);
            }
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        SetLen(u64),
        Punch(u64, u64),
        Copy,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..20_000_u64, prop::collection::vec(any::<u8>(), 0..9000)).prop_map(|(o, b)| Step::Write(o, b)),
            2 => (0..25_000_u64).prop_map(Step::SetLen),
            2 => (0..25_000_u64, 0..15_000_u64).prop_map(|(o, b)| Step::Punch(o, b)),
            1 => Just(Step::Copy),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 200 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn behaves_like_a_vector(steps in prop::collection::vec(step(), 1..20)) {
            let mut content = Content::default();
            let mut model = Vec::new();
            let mut copies = Vec::new();
            for step in steps {
                match step {
                    Step::Write(offset, bytes) => {
                        content.write(offset, &bytes);
                        if !bytes.is_empty() {
                            let (start, end) = (offset as usize, offset as usize + bytes.len());
                            model.resize(model.len().max(end), 0);
                            model[start..end].copy_from_slice(&bytes);
                        }
                    }
                    Step::SetLen(len) => {
                        content.set_len(len);
                        model.resize(len as usize, 0);
                    }
                    Step::Punch(offset, bytes) => {
                        content.punch(offset, bytes);
                        let end = model.len().min((offset + bytes) as usize);
                        model[end.min(offset as usize)..end].fill(0);
                    }
                    Step::Copy => copies.push((content.clone(), model.clone())),
                }
                prop_assert_eq!(content.len(), model.len() as u64);
                prop_assert_eq!(&content.to_vec(), &model);
            }
            for (copy, then) in copies {
                prop_assert_eq!(copy.to_vec(), then, "a copy does not see later writes");
            }
        }
    }

    #[test]
    fn a_read_past_the_end_fails_and_touches_nothing() {
        let content = Content::from_bytes(b"abc");
        let mut into = *b"....";
        assert!(!content.read(0, &mut into));
        assert!(!content.read(u64::MAX, &mut into));
        assert_eq!(&into, b"....");
        assert!(content.read(1, &mut into[..2]));
        assert_eq!(&into, b"bc..");
    }
}
