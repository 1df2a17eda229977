//! `tidekv-lab advise`: traces in several formats, data of a store, and the recommendations.

use std::path::Path;

use serde_json::Value;
use tidekv::{Db, Options};

use crate::run::{Done, TestDirectory, run};

fn advise(place: &TestDirectory, arguments: &[&str]) -> Done {
    let out = place.file("results");
    let out =
        ["--keep-caches", "--threads", "2", "--alternations", "1", "--out", out.to_str().unwrap()];
    run(&[&["advise"], arguments, &out].concat())
}

fn rows(place: &TestDirectory) -> Vec<Value> {
    let text = std::fs::read_to_string(place.file("results").join("rows.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Two thousand requests of five hundred keys, in columns.
fn csv() -> String {
    let line = |at: u64| {
        let key = at * at % 503;
        match at % 10 {
            0 => format!("{at},put,key{key},80\n"),
            1 => format!("{at},scan,key{key},\n"),
            _ => format!("{at},get,key{key},120\n"),
        }
    };
    "time,op,key,size\n".to_owned() + &(0..2000).map(line).collect::<String>()
}

#[test]
fn a_trace_is_measured_with_each_candidate_setting() {
    let place = TestDirectory::new();
    let trace = place.write("requests.csv", csv() + "broken\n");
    let done = advise(&place, &["--trace", text(&trace), "--cache", "5%,20KiB"]);
    assert_eq!(done.code, 0, "{done:?}");
    let out = done.text();
    for says in [
        "requests.csv: 2,000 requests (80 % gets, 10 % puts, 10 % scans) of 252 keys, ",
        "1 malformed lines skipped; the first: line 2002: ",
        "With a cache of 20 KiB:",
        "tidekv:tide with its default settings: ",
        "    policy block-only: ",
        "    Advice: ",
    ] {
        assert!(out.contains(says), "{says:?} is not in {out}");
    }
    let rows = rows(&place);
    // Two sizes, three policies and a filter; and two more turns of each if a change was kept.
    assert_eq!(rows.iter().filter(|row| row["params"].get("round").is_none()).count(), 8);
    for row in &rows {
        assert_eq!(
            (&row["experiment"], &row["params"]["workload"]),
            (&"advise".into(), &"requests.csv".into())
        );
        assert_eq!(row["params"]["operations"], 1000);
        assert!(row["metrics"]["ops_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["metrics"]["reads_per_op"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["metrics"]["p99_us"].as_f64().unwrap() > 0.0, "{row}");
    }
    // All were measured before.
    let turns = || std::fs::read_to_string(place.file("results").join("turns.jsonl")).unwrap();
    let before = turns();
    let again = advise(&place, &["--trace", text(&trace), "--cache", "5%,20KiB"]);
    assert_eq!((again.text(), turns()), (out, before.clone()));
    // Another trace with that name and the same numbers of requests and keys is a different one.
    place.write("requests.csv", csv().replace(",get,key0,", ",get,key1,") + "broken\n");
    advise(&place, &["--trace", text(&trace), "--cache", "5%"]);
    assert!(turns().len() > before.len());
    let report = run(&["report", text(&place.file("results"))]);
    assert_eq!(report.code, 0, "{report:?}");
}

#[test]
fn logs_of_redis_are_traces() {
    let place = TestDirectory::new();
    let command = |at: u32| {
        let key = format!("k{}", at % 50);
        match at % 4 {
            0 => format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$5\r\nvalue\r\n", key.len()),
            _ => format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()),
        }
    };
    let log = place.write("appendonly.aof", (0..400).map(command).collect::<String>());
    let arguments = ["--trace", text(&log), "--json", "--by", "reads_per_op"];
    let done = advise(&place, &arguments);
    assert_eq!(done.code, 0, "{done:?}");
    let printed: Vec<Value> =
        done.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(printed.len() == 4 || printed.len() == 6, "{printed:?}");
    assert_eq!(printed[0]["params"]["entries"], 50);
    assert_eq!(printed[0]["params"]["cache_percent"], 10.0);
}

#[test]
fn data_of_a_store_is_read_and_unchanged() {
    let place = TestDirectory::new();
    let db = Db::open(place.data(), Options::default()).unwrap();
    let keyspace = db.keyspace("default").unwrap();
    for at in 0..20 {
        keyspace.put(format!("key{at}"), "value").unwrap();
    }
    drop(keyspace);
    db.close().unwrap();
    let before = place.contents();
    let done = advise(&place, &["--data", text(&place.data()), "--requests", "500"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.text().contains("data: 500 requests (100 % gets) of 20 keys, "), "{done:?}");
    assert!(done.text().contains("The store records no requests: "), "{done:?}");
    assert_eq!(place.contents(), before);
}

#[test]
fn invalid_inputs_of_advise_are_explained() {
    let place = TestDirectory::new();
    let trace = place.write("requests.csv", csv());
    let trace = text(&trace);
    let fails = |arguments: &[&str], code: i32, says: &[&str]| {
        advise(&place, arguments).fails(code, says);
    };
    fails(&["--trace", trace, "--format", "twiter"], 2, &["twiter", "twitter"]);
    fails(&["--trace", trace, "--by", "speed"], 2, &["speed", "ops_per_s"]);
    fails(&["--trace", trace, "--cache", "much"], 2, &["much", "20%"]);
    fails(&["--trace", trace, "--subject", "rocksdb:options"], 2, &["rocksdb:options"]);
    fails(&["--trace", text(&place.file("none"))], 1, &["none"]);
    fails(&["--data", text(&place.file("none"))], 1, &["none"]);
    let nonsense = place.write("nonsense", "this is\nno trace\n");
    fails(&["--trace", text(&nonsense)], 2, &["--format"]);
    let broken = place.write("broken.csv", "key,op\na,fly\n");
    fails(&["--trace", text(&broken), "--strict"], 1, &["line 2", "fly"]);
    assert_eq!(advise(&place, &[]).code, 2);
    assert_eq!(advise(&place, &["--trace", trace, "--data", "."]).code, 2);
}
