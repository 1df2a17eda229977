//! `profile` of traces in the forms in which they are published: sizes, times, and broken lines.

use serde_json::Value;

use crate::profile::profile;
use crate::run::{Done, TestDirectory, run};

/// Gets of objects of more than a MiB, some of them often: number, object, size of key and of value.
fn requests() -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..REQUESTS).map(|number| {
        let object = (number * number + 7 * number) % 9_001;
        (number, object, 20 + object % 10, 200 + object % 400)
    })
}

const REQUESTS: usize = 9_000;

fn text(header: &str, line: impl Fn((usize, usize, usize, usize)) -> String) -> Vec<u8> {
    let lines: String = requests().map(|it| line(it) + "\n").collect();
    format!("{header}{lines}").into_bytes()
}

fn records(sizes: impl Fn(u32, u32) -> [[u8; 4]; 3]) -> Vec<u8> {
    let record = |(number, object, key, value): (usize, usize, usize, usize)| {
        let sizes = sizes(key as u32, value as u32).concat();
        [&(number as u32).to_le_bytes()[..], &(object as u64).to_le_bytes(), &sizes].concat()
    };
    requests().flat_map(record).collect()
}

/// A trace has the same curve in each form, of whole objects or of keys and values, and the same
/// seconds.
#[test]
fn a_trace_has_the_same_curve_in_text_and_in_binary() {
    let place = TestDirectory::new();
    let kvcache = text("key,op,size,op_count,key_size,op_time\n", |it| {
        let (number, object, key, value) = it;
        format!("{object},GET,{value},1,{key},{number}")
    });
    let twitter = text("", |(number, object, key, value)| {
        format!("{number},anonymous{object},{key},{value},1,get,0")
    });
    let simulator = text("# time, object, size, next_access_vtime\n", |it| {
        let (number, object, key, value) = it;
        format!("{number}, {object}, {}, -1", key + value)
    });
    let oracle = records(|key, value| [(key + value).to_le_bytes(), [0xff; 4], [0xff; 4]]);
    let twr: Vec<u8> = records(|key, value| {
        [(key << 22 | value).to_le_bytes(), (1_u32 << 24).to_le_bytes(), [0; 4]]
    });
    // A record of these ends four bytes earlier.
    let twr: Vec<u8> = twr.chunks(24).flat_map(|record| &record[..20]).copied().collect();
    let profile = |format: &str, bytes: &[u8], how: &[&str]| -> Value {
        let trace = place.write("trace", bytes);
        let usual = ["profile", "--json", "--format", format, trace.to_str().unwrap()];
        serde_json::from_slice(run(&[&usual[..], how].concat()).ok()).unwrap()
    };
    for how in [
        &["--exact"][..],
        &["--slabs"],
        &["--policy", "lru", "--rate", "1", "--sizes", "1MiB"],
        &["--exact", "--overhead", "0"],
    ] {
        let whole = profile("oracle", &oracle, how);
        let counted = (whole["requests"].as_f64(), whole["seconds"].as_f64());
        assert_eq!(counted, (Some(9_000.0), Some(8_999.0)));
        let last = whole["points"].as_array().unwrap().last().unwrap();
        assert!(last[1].as_f64().unwrap() < 0.9, "{whole}");
        assert_eq!(profile("csv", &simulator, how), whole, "{how:?}");
        let divided = profile("twr", &twr, how);
        assert_eq!(profile("kvcache", &kvcache, how), divided, "{how:?}");
        assert_eq!(profile("twitter", &twitter, how), divided, "{how:?}");
        if how.contains(&"--overhead") {
            assert_eq!(whole, divided);
            assert!(whole["points"].as_array().unwrap().len() > 2, "{whole}");
        }
    }
}

/// Each of ten objects is set once and lives for ten seconds by what follows; then it is requested.
fn expiring(after_set: impl Fn(u32, &str) -> String) -> String {
    let line = |at: u32, words: &str| format!("{at}.000000 [0 127.0.0.1:6000] {words}\n");
    let of = |object: u32| {
        let (at, key) = (1_700_000_000 + 100 * object, format!("\"key{object}\""));
        let set = line(at, &format!("\"set\" {key} \"value\""));
        let change = line(at + 1, &after_set(at + 1, &key));
        let gets = [5, 50].map(|later| line(at + later, &format!("\"get\" {key}")));
        [set, change, gets.concat()].concat()
    };
    (0..10).map(of).collect()
}

#[test]
fn keys_that_redis_expires_are_missed() {
    let place = TestDirectory::new();
    let misses = |trace: &str| -> f64 {
        let done = profile(&place, trace, &["--exact", "--sets-only"]);
        done.text().trim_end().rsplit_once(',').unwrap().1.parse().unwrap()
    };
    assert_eq!(misses(&expiring(|_, key| format!("\"get\" {key}"))), 0.0);
    for words in [
        |_: u32, key: &str| format!("\"expire\" {key} \"10\""),
        |_, key: &str| format!("\"PEXPIRE\" {key} \"10000\""),
        |at, key: &str| format!("\"expireat\" {key} \"{}\"", at + 10),
        |at, key: &str| format!("\"set\" {key} \"value\" \"PXAT\" \"{}000\"", at + 10),
        |_, key: &str| format!("\"set\" {key} \"value\" \"px\" \"10000\""),
    ] {
        // The first get of two comes in time.
        assert_eq!(misses(&expiring(words)), 0.5, "{}", words(1, "key"));
    }
}

#[test]
fn an_append_only_file_without_reads_says_so() {
    let place = TestDirectory::new();
    let file = "#TS:1700000000\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
    profile(&place, file, &[]).fails(1, &["no gets", "append-only file"]);
}

fn disk(lines: usize, broken: usize, header: &str) -> String {
    let line = |number: usize| match number < broken {
        true => format!("{},hm,1,Read,,4096\n", 128_166_372_003_061_629_u64 + number as u64),
        false => format!("{},hm,1,Read,{},4096,1331\n", 128_166_372_003_061_629_u64, number << 12),
    };
    format!("{header}{}", (0..lines).rev().map(line).collect::<String>())
}

const DISK_HEADER: &str = "\u{feff}Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";

/// A trace of which nearly all lines were broken had a curve, and an exit code of 0.
#[test]
fn a_trace_of_mostly_broken_lines_is_an_error() {
    let place = TestDirectory::new();
    let of = |broken: usize| -> Done { profile(&place, &disk(1_000, broken, DISK_HEADER), &[]) };
    assert_eq!(of(0).ok(), profile(&place, &disk(1_000, 0, ""), &[]).ok());
    let few = of(10);
    assert!(few.code == 0 && few.err.contains("skipped 10 malformed lines"), "{few:?}");
    for broken in [50, 500, 960] {
        let done = of(broken);
        let says = format!("{} % of the lines are malformed", broken / 10);
        assert!(done.code == 1 && done.err.contains(&says), "{done:?}");
    }
}

#[test]
fn milliseconds_are_said_and_seconds_are_right() {
    let place = TestDirectory::new();
    let trace = |unit: u64| {
        let line = |at: u64| format!("{},key{},10\n", (1_700_000_000 + at) * unit, at % 7);
        format!("time,key,value_size\n{}", (0..100).map(line).collect::<String>())
    };
    for (unit, says) in [(1, ""), (1_000, "read as milliseconds"), (1_000_000, "microseconds")] {
        let done = profile(&place, &trace(unit), &["--json"]);
        let curve: Value = serde_json::from_slice(&done.out).unwrap();
        assert_eq!((done.code, curve["seconds"].as_f64().map(f64::round)), (0, Some(99.0)));
        assert!(done.err.contains(says) && done.err.is_empty() == says.is_empty(), "{done:?}");
    }
}
