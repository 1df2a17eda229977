//! Tenants of a cache: no tenant evicts another's objects, in DRAM or on flash, and each finds its
//! own again after a kill.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tidekv_io::{Clock, ManualClock, MemoryStorage, SeededRandom, Storage, Tear};
use tidekv_tiered::{
    Cache, Cursor, Deadline, Environment, FlashOptions, Object, Options, TenantOptions, TenantStats,
};

const NOW_MS: u64 = 1_700_000_000_000;

fn options(flash_bytes: u64) -> Options {
    let tenant = |name: &str, prefix: &str, dram_bytes, flash_bytes| TenantOptions {
        name: name.into(),
        prefix: prefix.into(),
        dram_bytes,
        flash_bytes,
    };
    let flash =
        (flash_bytes > 0).then(|| FlashOptions { path: "/flash".into(), bytes: flash_bytes });
    Options {
        dram_bytes: 8 << 20,
        flash: flash.into_iter().collect(),
        object_bytes_max: 64 << 10,
        segment_bytes: Some(64 << 10),
        state: Some("/state".into()),
        tenants: vec![
            tenant("shop", "s:", 3 << 20, flash_bytes / 4),
            tenant("sale", "s:sale:", 2 << 20, flash_bytes / 4),
        ],
        ..Options::default()
    }
}

fn open(storage: &MemoryStorage, options: &Options) -> Cache {
    let environment = Environment {
        storage: Arc::new(storage.clone()) as Arc<dyn Storage>,
        clock: Arc::new(ManualClock::new(NOW_MS)) as Arc<dyn Clock>,
        random: Arc::new(SeededRandom::new(1)),
        boot: 1,
        is_inline: true,
    };
    Cache::open(options, &environment).expect("there is enough")
}

fn store(cache: &Cache, key: &str) {
    let value = Bytes::from(key.repeat(4_000 / key.len()));
    let version = cache.next_version();
    let object = Object { value, flags: 0, deadline: Deadline::NEVER, version, marks: 0 };
    cache.store(key.as_bytes(), object);
}

fn hits(cache: &Cache, prefix: &str, count: usize) -> usize {
    let is_there = |n: &usize| {
        let key = format!("{prefix}{n}");
        let found = cache.get(key.as_bytes());
        found.is_some_and(|found| found.object.value == key.repeat(4_000 / key.len()))
    };
    (0..count).filter(is_there).count()
}

fn tenant(cache: &Cache, number: usize) -> TenantStats {
    cache.tenant_stats().swap_remove(number)
}

#[test]
fn tenant_evicts_only_its_own_objects() {
    for flash_bytes in [0, 64 << 20] {
        let storage = MemoryStorage::new();
        let cache = open(&storage, &options(flash_bytes));
        (0..300).for_each(|n| store(&cache, &format!("s:{n}")));
        (0..200).for_each(|n| store(&cache, &format!("s:sale:{n}")));
        (0..30_000).for_each(|n| store(&cache, &format!("other:{n}")));
        (0..20_000).for_each(|n| store(&cache, &format!("s:sale:new:{n}")));
        assert_eq!(hits(&cache, "s:", 300), 300);
        assert_eq!(hits(&cache, "s:sale:", 200), 0, "there was more of his own");
        let [others, shop, sale] = [0, 1, 2].map(|number| tenant(&cache, number));
        let names = [&others, &shop, &sale].map(|it| (it.name.clone(), it.prefix.clone()));
        let named = |name: &str, prefix: &str| (name.to_owned(), prefix.as_bytes().to_vec());
        assert_eq!(names, [named("default", ""), named("shop", "s:"), named("sale", "s:sale:")]);
        assert_eq!([&others, &shop, &sale].map(|it| it.cache.stores), [30_000, 300, 20_200]);
        assert_eq!((shop.cache.evicted, shop.cache.misses, sale.cache.misses), (0, 0, 200));
        assert_eq!(shop.flash_bytes_max, flash_bytes / 4);
        let all = cache.stats();
        assert_eq!((all.stores, all.dram_bytes_max), (50_500, 8 << 20));
        assert_eq!(all, others.cache + shop.cache + sale.cache);
    }
}

#[test]
fn each_tenant_finds_its_objects_after_a_kill() {
    let (storage, options) = (MemoryStorage::new(), options(64 << 20));
    let cache = open(&storage, &options);
    for prefix in ["other:", "s:", "s:sale:"] {
        (0..3_000).for_each(|n| store(&cache, &format!("{prefix}{n}")));
    }
    let before = ["other:", "s:", "s:sale:"].map(|prefix| hits(&cache, prefix, 3_000));
    assert!(before.iter().all(|hits| *hits > 2_900), "{before:?}");
    for path in ["/flash", "/flash.shop", "/flash.sale.meta", "/state.sale"] {
        assert!(storage.exists(Path::new(path)).expect("it can be seen"), "{path}");
    }
    let storage = storage.after_power_loss(Tear::KeepUnsynced);
    let cache = open(&storage, &options);
    assert_eq!(cache.warm_devices(), 3);
    let after = ["other:", "s:", "s:sale:"].map(|prefix| hits(&cache, prefix, 3_000));
    assert!(after.iter().all(|hits| *hits > 2_000), "{after:?}");
    cache.clear();
    assert_eq!(["other:", "s:", "s:sale:"].map(|prefix| hits(&cache, prefix, 3_000)), [0; 3]);
}

#[test]
fn memory_moves_between_tenants() {
    let cache = open(&MemoryStorage::new(), &options(0));
    (0..2_000).for_each(|n| store(&cache, &format!("s:{n}")));
    let before = tenant(&cache, 1).cache.dram_objects;
    cache.set_tenant_dram_bytes("shop", 5 << 20).expect("it is enough");
    cache.set_tenant_dram_bytes("default", 1 << 20).expect("it is enough");
    (0..2_000).for_each(|n| store(&cache, &format!("s:{n}")));
    let after = tenant(&cache, 1).cache.dram_objects;
    assert!(after * 10 > before * 15, "{before}, then {after}");
    assert_eq!(cache.stats().dram_bytes_max, 8 << 20);
    cache.set_dram_bytes(9 << 20).expect("it is enough");
    assert_eq!(tenant(&cache, 0).cache.dram_bytes_max, 2 << 20);
    assert!(cache.set_dram_bytes(7 << 20).is_err(), "nothing is left for the others");
    assert!(cache.set_tenant_dram_bytes("sale", 1000).is_err());
    let unknown = cache.set_tenant_dram_bytes("nobody", 1 << 20).expect_err("there is none");
    assert!(unknown.to_string().contains("no tenant nobody"));
}

#[test]
fn visit_sees_the_objects_of_all_tenants() {
    let cache = open(&MemoryStorage::new(), &options(0));
    let mut expected = Vec::new();
    for prefix in ["other:", "s:", "s:sale:"] {
        for n in 0..50 {
            store(&cache, &format!("{prefix}{n}"));
            expected.push(format!("{prefix}{n}").into_bytes());
        }
    }
    let (mut cursor, mut seen) = (Some(Cursor::default()), Vec::new());
    while let Some(from) = cursor {
        cursor = cache.visit(from, 7, |key, _| seen.push(key.to_vec()));
    }
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
}

#[test]
fn error_names_the_tenant_with_too_little() {
    let mut few = options(0);
    few.tenants[1].dram_bytes = 1000;
    let environment =
        Environment::new(Arc::new(MemoryStorage::new()), Arc::new(ManualClock::new(1)));
    let error = Cache::open(&few, &environment).expect_err("it is too little").to_string();
    assert!(error.starts_with("tenant sale: "), "{error}");
}

/// A key changes its tenant when prefixes change; its copy with the previous tenant must not be
/// found when they change back.
#[test]
fn returning_tenant_finds_none_of_its_former_objects() {
    let with = options(64 << 20);
    let others: Vec<Options> = vec![
        Options { tenants: Vec::new(), ..with.clone() },
        {
            let mut renamed = with.clone();
            renamed.tenants[0].prefix = b"x:".to_vec();
            renamed
        },
        {
            let mut without_flash = with.clone();
            without_flash.tenants[1].flash_bytes = 0;
            without_flash.tenants[1].name = "other".into();
            without_flash
        },
    ];
    for (number, other) in others.iter().enumerate() {
        for is_flushed in [false, true] {
            let storage = MemoryStorage::new();
            let cache = open(&storage, &with);
            for prefix in ["other:", "s:", "s:sale:"] {
                (0..1_000).for_each(|n| store(&cache, &format!("{prefix}{n}")));
            }
            cache.close();
            drop(cache);
            let cache = open(&storage, other);
            for prefix in ["other:", "s:", "s:sale:"] {
                (0..1_000).for_each(|n| cache.remove(format!("{prefix}{n}").as_bytes()));
            }
            if is_flushed {
                cache.clear();
            }
            cache.close();
            drop(cache);
            let cache = open(&storage, &with);
            let found = ["other:", "s:", "s:sale:"].map(|prefix| hits(&cache, prefix, 1_000));
            assert_eq!((number, found), (number, [0; 3]));
        }
    }
}
