//! The cache as a tier: a lookup returns the last value put or nothing, on flash too and after a
//! kill.

use std::collections::HashMap;
use std::sync::Arc;

use tidekv_io::{ManualClock, MemoryStorage, Random, SeededRandom, Tear};

use super::*;
use crate::environment::Environment;
use crate::options::{FlashOptions, Options};

fn cache_on(storage: &MemoryStorage) -> Cache {
    let environment = Environment {
        storage: Arc::new(storage.clone()),
        clock: Arc::new(ManualClock::new(1_700_000_000_000)),
        random: Arc::new(SeededRandom::new(1)),
        boot: 7,
        is_inline: true,
    };
    let options = Options {
        dram_bytes: 1 << 20,
        flash: vec![FlashOptions { path: "/flash".into(), bytes: 2 << 20 }],
        object_bytes_max: 128 << 10,
        segment_bytes: Some(64 << 10),
        state: Some("/state".into()),
        ..Options::default()
    };
    Cache::open(&options, &environment).expect("it opens")
}

#[test]
fn tier_returns_the_last_value_put() {
    let mut storage = MemoryStorage::new();
    let mut cache = cache_on(&storage);
    let random = SeededRandom::new(2);
    let mut model: HashMap<u64, Bytes> = HashMap::new();
    let mut hits = 0;
    for step in 0..20_000_u64 {
        let tier: &dyn SecondaryCache = &cache;
        let n = random.next_u64() % 500;
        let key = n.to_le_bytes();
        match random.next_u64() % 8 {
            0..3 => {
                let value = Bytes::from(vec![step as u8; 1 + (random.next_u64() % 9_000) as usize]);
                tier.put(&key, value.clone());
                model.insert(n, value);
            }
            3 => {
                tier.remove(&key);
                model.remove(&n);
            }
            _ => {
                if let Some(found) = tier.get(&key) {
                    assert_eq!(Some(&found), model.get(&n), "step {step}");
                    hits += 1;
                }
            }
        }
        if step % 5_000 == 4_999 {
            drop(cache);
            storage = storage.after_power_loss(Tear::KeepUnsynced);
            cache = cache_on(&storage);
            assert_eq!(cache.warm_devices(), 1);
        }
    }
    assert!(hits > 4_000, "{hits}");
}

#[test]
fn value_that_cannot_be_kept_removes_the_old_one() {
    let cache = cache_on(&MemoryStorage::new());
    let tier: &dyn SecondaryCache = &cache;
    tier.put(b"key", Bytes::from_static(b"small"));
    tier.put(b"key", vec![1; 128 << 10 | 1].into());
    assert_eq!(tier.get(b"key"), None);
    let long = [b'k'; KEY_BYTES_MAX + 1];
    tier.put(&long, Bytes::from_static(b"small"));
    tier.remove(&long);
    assert_eq!(tier.get(&long), None);
    tier.put(&long[1..], Bytes::from_static(b"small"));
    assert_eq!(tier.get(&long[1..]).as_deref(), Some(&b"small"[..]));
}
