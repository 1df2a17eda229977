//! Filters of all kinds: false-positive rates, golden bytes, and malformed bytes.

use super::*;
use crate::format::checksum::key_hash;
use proptest::prelude::*;
use tidekv_testkit::golden::Dump;

const KINDS: [FilterKind; 2] = [FilterKind::Bloom, FilterKind::Cuckoo];

fn hash(key: u64) -> u64 {
    key_hash(&key.to_be_bytes())
}

fn filter_of(kind: FilterKind, bits: u8, keys: std::ops::Range<u64>) -> BuiltFilter {
    let mut builder = FilterBuilder::new(kind, NonZeroU8::new(bits).unwrap());
    keys.for_each(|key| builder.add(hash(key)));
    let bytes = builder.bytes();
    let built = builder.finish();
    assert!(built.filter.len() >= bytes && built.filter.len() <= bytes + bytes / 50 + 16);
    assert_eq!(built.mirror.is_empty(), kind == FilterKind::Bloom);
    built
}

#[test]
fn false_positive_rates_are_bounded() {
    const KEYS: u64 = 20_000;
    const ABSENT: u64 = 200_000;
    for kind in KINDS {
        for (bits, percent_max) in [(10, 1.05), (16, 0.15), (4, 45.0)] {
            let BuiltFilter { filter, .. } = filter_of(kind, bits, 0..KEYS);
            let hits = |keys: std::ops::Range<u64>| {
                keys.filter(|&key| may_contain(&filter, hash(key))).count() as f64
            };
            assert_eq!(hits(0..KEYS) as u64, KEYS);
            let percent = 100.0 * hits(KEYS..KEYS + ABSENT) / ABSENT as f64;
            assert!(percent <= percent_max, "{kind:?}, {bits} bits per key: {percent} % pass");
        }
    }
}

#[test]
fn versions_of_a_key_count_once() {
    for kind in KINDS {
        let mut builder = FilterBuilder::new(kind, NonZeroU8::new(10).unwrap());
        for key in 0..100u64 {
            for _ in 0..50 {
                builder.add(hash(key));
            }
        }
        assert!(builder.finish().filter.len() < 200);
    }
}

#[test]
fn bloom_filter_matches_golden_bytes() {
    let bloom = filter_of(FilterKind::Bloom, 10, 0..60).filter;
    let mut dump = Dump::new(
        "The filter of the keys 0 to 59 (eight bytes each, big-endian) at 10 bits a key. \
         See crates/store/src/sst/filter/blocked_bloom.rs.",
    );
    let lines = [(64, "First line"), (128, "Second line")];
    dump.parts(&bloom, &[&lines[..], &[(130, "Probes, kind")]].concat());
    let released = dump.hold_against("filter");
    let passes = |key: u64| usize::from(may_contain(&released[0].1, hash(key)));
    assert_eq!((0..60).map(passes).sum::<usize>(), 60);
    assert!((60..1060).map(passes).sum::<usize>() < 50);
}

#[test]
fn cuckoo_filter_matches_golden_bytes() {
    let built = filter_of(FilterKind::Cuckoo, 10, 0..60);
    let mut dump = Dump::new(
        "The cuckoo filter of the keys 0 to 59 (eight bytes each, big-endian) at 10 bits a \
         key, its mirror, and a repair of it. See crates/store/src/sst/filter/cuckoo.rs.",
    );
    dump.file("filter");
    let end = built.filter.len();
    dump.parts(&built.filter, &[(end - 6, "Buckets"), (end, "Their number, bits, kind")]);
    dump.file("mirror");
    dump.part("Tails", &built.mirror);
    let absent = (60..).map(hash).find(|&hash| may_contain(&built.filter, hash)).unwrap();
    let FilterAnswer::Matches(matches) = look(&built.filter, absent) else { panic!() };
    let (bucket, _) = matches.buckets().next().unwrap();
    let at = bucket as usize * MIRROR_BUCKET_BYTES;
    let tails = tails(*built.mirror[at..].first_chunk().unwrap());
    let repair = matches.repair(bucket, tails, None).unwrap();
    dump.file("repair");
    dump.part("Bits of the residents, seed, bucket", &repair.pack(bucket).to_le_bytes());
    let released = dump.hold_against("cuckoo-filter");
    assert!((0..60).all(|key| may_contain(&released[0].1, hash(key))));
    let packed = u64::from_le_bytes(released[2].1[..].try_into().unwrap());
    let (bucket, repair) = Repair::unpack(packed);
    let FilterAnswer::Matches(matches) = look(&released[0].1, absent) else { panic!() };
    assert!(!matches.pass_with(|it| (it == bucket).then_some(repair)));
}

#[test]
fn malformed_filter_lets_every_key_pass() {
    for kind in KINDS {
        let filter = filter_of(kind, 10, 0..100).filter;
        for len in 0..filter.len() {
            let cut = &filter[..len];
            assert!(may_contain(cut, 77) || cut.last().is_some_and(|&kind| kind < 3));
        }
        let mut other_kind = filter.clone();
        *other_kind.last_mut().unwrap() = 3;
        assert!((0..1000).all(|h| may_contain(&other_kind, h << 32)));
        let mut odd = filter;
        odd.insert(0, 0);
        assert!((0..1000).all(|h| may_contain(&odd, h << 32)));
    }
}

#[test]
fn keys_with_the_same_hash_get_a_filter() {
    let mut builder = FilterBuilder::new(FilterKind::Cuckoo, NonZeroU8::new(10).unwrap());
    (0..20).for_each(|n| {
        builder.add(n);
        builder.add(77);
    });
    let built = builder.finish();
    assert!(built.mirror.is_empty());
    assert!((0..20).chain([77]).all(|hash| may_contain(&built.filter, hash)));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_safe(mut bytes in prop::collection::vec(any::<u8>(), 0..300), hash: u64, kind in 0..4u8) {
        may_contain(&bytes, hash);
        bytes.push(kind);
        if let FilterAnswer::Matches(matches) = look(&bytes, hash) {
            assert!(matches.pass_with(|_| None));
        }
    }
}
