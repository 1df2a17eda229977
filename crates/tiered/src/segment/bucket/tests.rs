//! Buckets: records, damage, random bytes.

use super::*;

const SEGMENT: SegmentId = SegmentId { slot: 3, generation: 70_000 };

fn small(value: &[u8], full: bool) -> SmallObject {
    let object = Object {
        value: Bytes::copy_from_slice(value),
        flags: if full { u32::MAX } else { 0 },
        deadline: if full { Deadline::at(12_345) } else { Deadline::NEVER },
        version: if full { u64::MAX } else { 0 },
        marks: if full { 5 } else { 0 },
    };
    let found = CachedObject { object, was_fetched: full, accessed_s: 99 };
    SmallObject { found, epoch: if full { u32::MAX } else { 0 } }
}

#[test]
fn objects_are_found_under_their_own_keys() {
    let mut bucket = vec![0xff; BUCKET_BYTES];
    clear(&mut bucket);
    let mut stored = Vec::new();
    for n in 0.. {
        let key = format!("key-{n}").into_bytes();
        let mut object = small(&vec![n as u8; n * 7 % 300], n % 2 == 0);
        object.found.object.version >>= n % 64;
        object.epoch >>= n % 32;
        if object.record_bytes(key.len()) > room(&bucket) {
            break;
        }
        let before = room(&bucket);
        append(&mut bucket, &key, &object);
        assert_eq!(room(&bucket), before - object.record_bytes(key.len()));
        stored.push((key, object));
    }
    assert!(stored.len() > 15);
    let all = |bucket: &[u8], stored: &[(Vec<u8>, SmallObject)]| {
        assert_eq!(records(bucket).count(), stored.len());
        for (key, object) in stored {
            assert_eq!(find(bucket, key).as_ref(), Some(object));
        }
        assert_eq!(find(bucket, b"other"), None);
    };
    all(&bucket, &stored);
    seal(&mut bucket, 9, SEGMENT, 4);
    all(&bucket, &stored);
    let (key, _) = stored.remove(5);
    assert!(remove(&mut bucket, &key).is_some() && remove(&mut bucket, &key).is_none());
    all(&bucket, &stored);
}

#[test]
fn only_the_sealed_bucket_itself_is_intact() {
    let mut bucket = vec![0xff; BUCKET_BYTES];
    clear(&mut bucket);
    append(&mut bucket, b"key", &small(b"value", true));
    seal(&mut bucket, 9, SEGMENT, 4);
    assert!(is_intact(&bucket, 9, SEGMENT, 4));
    let later = SegmentId { generation: SEGMENT.generation + 65_536, ..SEGMENT };
    assert!(!is_intact(&bucket, 8, SEGMENT, 4) && !is_intact(&bucket, 9, SEGMENT, 5));
    assert!(!is_intact(&bucket, 9, later, 4) && !is_intact(&bucket[..4_000], 9, SEGMENT, 4));
    for at in 0..BUCKET_BYTES {
        bucket[at] ^= 0x10;
        assert!(!is_intact(&bucket, 9, SEGMENT, 4), "byte {at}");
        bucket[at] ^= 0x10;
    }
}

#[test]
fn random_bytes_are_no_records_out_of_bounds() {
    let mut seed = 7_u64;
    for _ in 0..2_000 {
        let byte = |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        };
        let mut bucket: Vec<u8> = (0..BUCKET_BYTES).map(byte).collect();
        for record in records(&bucket) {
            let _: SmallObject = record.to_object();
        }
        remove(&mut bucket, b"k");
    }
}
