//! The stored format of a tier, and the rejection of everything else.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::*;

#[derive(Debug, Default)]
struct Kept(Mutex<HashMap<Box<[u8]>, Bytes>>);

impl SecondaryCache for Kept {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.0.lock().get(key).cloned()
    }

    fn put(&self, key: &[u8], value: Bytes) {
        self.0.lock().insert(key.into(), value);
    }

    fn remove(&self, key: &[u8]) {
        self.0.lock().remove(key);
    }
}

const TABLE: Fingerprints = Fingerprints { contents: 0x11, description: 0x22 };

#[test]
fn names_and_values_match_the_released_format() {
    let kept = Arc::new(Kept::default());
    let tier = BlockTier::new(kept.clone(), 0x0102_0304_0506_0708);
    tier.put(tier.prepare_put(tier.name(9, TABLE, 0x1000), b"envelope"));
    let (name, value) = kept.0.lock().drain().next().unwrap();
    let numbers = [0x0102_0304_0506_0708, 9, 0x11, 0x22, 0x1000_u64].map(u64::to_le_bytes);
    assert_eq!(*name, [b"TideBlk1", numbers.concat().as_slice()].concat());
    // Do not change: blocks that an older version stored would count as wrong.
    assert_eq!(value[..], [&b"envelope"[..], &GOLDEN.to_le_bytes()].concat());
}

const GOLDEN: u64 = 0x3DDF_F198_9F95_9F78;

#[test]
fn only_the_requested_block_is_opened() {
    let kept = Arc::new(Kept::default());
    let tier = BlockTier::new(kept.clone(), 1);
    let others = [
        tier.name(9, TABLE, 8192),
        tier.name(10, TABLE, 4096),
        tier.name(9, Fingerprints { contents: 1, ..TABLE }, 4096),
        tier.name(9, Fingerprints { description: 1, ..TABLE }, 4096),
        BlockTier::new(kept.clone(), 2).name(9, TABLE, 4096),
    ];
    let name = tier.name(9, TABLE, 4096);
    let right = tier.prepare_put(name, b"envelope").value;
    let mut values = others.map(|other| tier.prepare_put(other, b"envelope").value).to_vec();
    values.extend((0..=right.len() - 1).map(|len| right.slice(..len)));
    for bit in 0..right.len() * 8 {
        let mut flipped = right.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        values.push(flipped.into());
    }
    let wrong = values.len() as u64;
    for value in values {
        kept.put(&name.0, value);
        assert_eq!(tier.get(&name, |_| Some(())), None);
        assert_eq!(kept.get(&name.0), None);
    }
    kept.put(&name.0, right);
    assert_eq!(tier.get(&name, |envelope| Some(envelope.to_vec())), Some(b"envelope".to_vec()));
    assert_eq!(tier.get(&others[0], |_| Some(())), None);
    let counted = counters(Some(&tier)).map(|(_, value)| value);
    assert_eq!(counted, [1, 1, wrong, 0]);
    assert_eq!(counters(None).map(|(_, value)| value), [0; 4]);
}

#[test]
fn table_with_unknown_contents_has_no_fingerprints() {
    assert_eq!(Fingerprints::new(0, b"properties", b"top"), None);
    let known = |properties, top| Fingerprints::new(7, properties, top).unwrap();
    assert_eq!(known(b"a", b"b"), known(b"a", b"b"));
    assert_ne!(known(b"a", b"b"), known(b"a", b"c"));
    assert_ne!(known(b"a", b"b"), known(b"c", b"b"));
}
