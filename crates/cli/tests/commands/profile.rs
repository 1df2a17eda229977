//! `profile`: from a trace to a curve and its picture.

use std::io::Write;

use serde_json::Value;

use crate::run::{Done, TestDirectory, run};

pub(crate) fn profile(place: &TestDirectory, trace: &str, arguments: &[&str]) -> Done {
    let trace = place.write("trace", trace);
    run(&[&["profile"], arguments, &[trace.to_str().unwrap()]].concat())
}

/// A thousand cyclic gets over ten objects of 100 bytes including their keys, each set again at a miss.
fn circle() -> String {
    let line = |at: u64| format!("{at},key{},7,93,1,get,0\n", at % 10);
    (0..1_000).map(line).collect()
}

#[test]
fn a_trace_becomes_a_curve() {
    let place = TestDirectory::new();
    for how in [&["--exact"][..], &[], &["--rate", "1"]] {
        let done = profile(&place, &circle(), &[how, &["--overhead", "0"]].concat());
        // A cache smaller than the cycle misses every request.
        assert_eq!(
            std::str::from_utf8(done.ok()),
            Ok("size,miss_ratio\n0,1.000000\n1000,0.010000\n")
        );
    }
    let picture = place.file("curve.svg");
    profile(&place, &circle(), &["--svg", picture.to_str().unwrap()]).ok();
    assert!(std::fs::read_to_string(&picture).unwrap().starts_with("<svg "));
    compared_curves_are_drawn(&place, picture.to_str().unwrap());
    let done = profile(&place, &circle(), &["--objects", "--json", "--overhead", "0"]);
    let file: Value = serde_json::from_slice(done.ok()).unwrap();
    assert_eq!((&file["unit"], &file["requests"]), (&"objects".into(), &1000.0.into()));
    assert_eq!((&file["seconds"], &file["object_bytes"]), (&999.0.into(), &100.0.into()));
    assert_eq!(file["points"], serde_json::json!([[0, 1.0], [10, 0.01]]));
    // Each object takes about 159 bytes in memcached and a chunk of 192; a page has 5461 of them.
    let done = profile(&place, &circle(), &["--slabs"]);
    assert_eq!(
        std::str::from_utf8(done.ok()),
        Ok("size,miss_ratio\n0,1.000000\n1048576,0.010000\n")
    );
}

/// Beside the curve of the trace, those of files.
fn compared_curves_are_drawn(place: &TestDirectory, picture: &str) {
    let other = place.write("other.curve", "size,miss_ratio\n4096,0.25\n");
    let with = |names: &[&str], more: &[&str]| {
        let file = |name: &&str| format!("{name}={}", other.to_str().unwrap());
        let files: Vec<String> = names.iter().map(file).collect();
        let compare = files.iter().flat_map(|file| ["--compare", file]);
        profile(place, &circle(), &[&compare.collect::<Vec<_>>(), more].concat())
    };
    with(&["s3-fifo", "a<b"], &["--svg", picture]).ok();
    let drawn = std::fs::read_to_string(picture).unwrap();
    for says in [">trace<", ">s3-fifo<", ">a&lt;b<", ">Cache size (bytes, logarithmic scale)<"] {
        assert!(drawn.contains(says), "{says:?} is not in {drawn}");
    }
    with(&["x", "x"], &["--svg", picture]).fails(2, &["another curve of the name \"x\""]);
    with(&["trace"], &["--svg", picture]).fails(2, &["another curve of the name \"trace\""]);
    with(&[""], &["--svg", picture]).fails(2, &["is not NAME=FILE"]);
    with(&["x"], &["--svg", picture, "--objects"]).fails(1, &["other.curve: sizes are in bytes"]);
    assert_eq!(with(&["x"], &[]).code, 2);
    let missing = ["--svg", picture, "--compare", "x=/nowhere/x.curve"];
    profile(place, &circle(), &missing).fails(1, &["/nowhere/x.curve"]);
}

/// A cache of no size hits nothing, and objects take what the cache charges, also if the trace has no
/// sizes.
#[test]
fn objects_take_what_the_cache_charges() {
    let place = TestDirectory::new();
    let charge = |value_len| tidekv_tiered::Cache::object_dram_bytes(1, value_len);
    for (trace, more, size) in [
        ("key\na\nb\na\nb\n", &[][..], 2 * charge(0)),
        ("key\na\nb\na\nb\n", &["--overhead", "10"], 22),
        ("key,value_size\na,100\nb,200\na,100\nb,200\n", &[], charge(100) + charge(200)),
        // A later request has the size.
        (
            "key,value_size,op\na,,get\na,500,set\na,,get\nb,,get\na,,get\n",
            &[],
            charge(500) + charge(0),
        ),
    ] {
        let done = profile(&place, trace, &[&["--exact"][..], more].concat());
        // Without sizes there is a warning.
        assert_eq!((done.code, done.err.is_empty()), (0, trace.contains("value_size")), "{done:?}");
        let text = String::from_utf8(done.out).unwrap();
        assert!(text.starts_with("size,miss_ratio\n0,1.000000\n"), "{text}");
        let last = text.trim_end().lines().last().unwrap();
        // Distances are recorded within one part in 512.
        let found: f64 = last.split(',').next().unwrap().parse().unwrap();
        assert!(found >= size as f64 && found < size as f64 * 1.002, "{text}, not {size}");
    }
    let bytes =
        profile(&place, "key,value_size\na,10\nb,30\na,10\n", &["--exact", "--byte-misses"]);
    let text = String::from_utf8(bytes.ok().to_vec()).unwrap();
    // Of 11 + 31 + 11 bytes, 11 are a hit.
    assert!(text.trim_end().ends_with(&format!(",{:.6}", 42.0 / 53.0)), "{text}");
}

#[test]
fn byte_misses_adds_the_byte_miss_ratio() {
    let place = TestDirectory::new();
    // Nine of ten gets are for one object of 10 bytes, the others cycle over ten of 1000.
    let line = |at: u64| match at % 10 {
        0 => format!("{at},many{},5,995,1,get,0\n", at / 10 % 10),
        _ => format!("{at},one,3,7,1,get,0\n"),
    };
    let trace: String = (0..1_000).map(line).collect();
    // Of 109 kB requested, 9 are for the one object, whose reuse distance is 10 bytes, or 1010 if one
    // of the others is in between; those have a distance of 10 010.
    for how in [&["--exact"][..], &[], &["--rate", "1"]] {
        let done = profile(&place, &trace, &[how, &["--byte-misses", "--overhead", "0"]].concat());
        let lines = "size,miss_ratio,byte_miss_ratio\n0,1.000000,1.000000\n10,0.200000,0.926606\n\
                     1010,0.101000,0.917523\n";
        let text = std::str::from_utf8(done.ok()).unwrap();
        assert!(text.starts_with(lines), "{text}");
        assert!(text.trim_end().ends_with(",0.011000,0.091835"), "{text}");
        // Plans use the miss ratio of requests.
        let curve = place.write("both.curve", text);
        let one = format!("one={}", curve.to_str().unwrap());
        run(&["plan", "--curve", &one, "--sla", "one=150us"]).ok();
    }
    let picture = place.file("both.svg");
    let arguments = ["--byte-misses", "--json", "--svg", picture.to_str().unwrap()];
    let done = profile(&place, &trace, &arguments);
    let file: Value = serde_json::from_slice(done.ok()).unwrap();
    let (points, bytes) = (file["points"].as_array(), file["byte_miss_ratios"].as_array());
    assert_eq!(points.map(Vec::len), bytes.map(Vec::len));
    assert!(std::fs::read_to_string(picture).unwrap().contains("of bytes"));
    // A get without an object size.
    let done = profile(&place, "op,key\nget,a\nget,a\n", &["--byte-misses"]);
    done.fails(1, &["--byte-misses"]);
    assert_eq!(profile(&place, &trace, &["--byte-misses", "--slabs"]).code, 2);
}

#[test]
fn other_eviction_policies_are_simulated_at_a_smaller_scale() {
    let place = TestDirectory::new();
    // A cycle of 8 MB over objects of 40 KB; every other request is for one of five more objects.
    let line = |at: u64| match at % 2 {
        0 => format!("{at},round{},7,40000,1,get,0\n", at / 2 % 200),
        _ => format!("{at},often{},7,40000,1,get,0\n", at / 2 % 5),
    };
    let trace: String = (0..20_000).map(line).collect();
    let small = |policy: &str, more: &[&str]| {
        let how = ["--policy", policy, "--sizes", "4MiB,16MiB", "--rate", "1"];
        profile(&place, &trace, &[&how[..], more].concat())
    };
    for policy in ["s3-fifo", "greedy-dual", "clock", "lru"] {
        let done = small(policy, &["--json"]);
        let file: Value = serde_json::from_slice(done.ok()).unwrap();
        let ratio = |at: usize| file["points"][at][1].as_f64().unwrap();
        assert_eq!(
            (&file["points"][1][0], &file["requests"]),
            (&(4 << 20).into(), &20_000.0.into())
        );
        // The small cache holds only the frequent objects; the others have too long a reuse distance for
        // any policy.
        assert!((0.3..0.55).contains(&ratio(1)), "{policy}: {file}");
        assert!(ratio(2) < 0.02, "{policy}: {file}");
    }
    let done = profile(&place, &trace, &["--policy", "s3-fifo", "--sizes", "64MiB"]);
    done.fails(2, &["--rate", "100 MiB"]);
    assert_eq!(profile(&place, &trace, &["--policy", "s3-fifo"]).code, 2);
    assert_eq!(small("lru", &["--exact"]).code, 2);
}

#[test]
fn caches_with_flash_are_simulated() {
    let place = TestDirectory::new();
    // A cycle of 20 MB: too large for DRAM; flash holds it from the second pass on.
    let line = |n: u64| format!("k{:05},4000\n", n % 5_000);
    let trace: String =
        std::iter::once("key,value_size\n".to_owned()).chain((0..20_000).map(line)).collect();
    let tried = |sizes: &str, more: &[&str]| {
        let how = ["--policy", "s3-fifo", "--rate", "1", "--sizes", sizes];
        profile(&place, &trace, &[&how[..], more].concat())
    };
    let done = tried("12MiB,12MiB+64MiB,64MiB", &[]);
    let text = String::from_utf8(done.ok().to_vec()).unwrap();
    let lines: Vec<Vec<f64>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|field| field.parse().unwrap()).collect())
        .collect();
    assert!(text.starts_with("dram,flash,dram_miss_ratio,miss_ratio\n"), "{text}");
    let [small, both, large] = &lines[..] else { panic!("{text}") };
    assert_eq!((small[1], both[1], large[0]), (0.0, f64::from(64 << 20), f64::from(64 << 20)));
    // Without flash both ratios are equal; the first access to an object is always a miss.
    assert!(small[2] > 0.7 && small[2] == small[3], "{text}");
    assert!(both[2] > small[2] && (0.25..0.27).contains(&both[3]), "{text}");
    assert!(large[2] == 0.25 && large[3] == 0.25, "{text}");
    let done = tried("12MiB+64MiB", &["--json"]);
    let report: Value = serde_json::from_slice(done.ok()).unwrap();
    assert_eq!(
        (&report["requests"], &report["sizes"][0]["flash_bytes"]),
        (&20_000.into(), &(64 << 20).into())
    );
    assert!((report["sizes"][0]["miss_ratio"].as_f64().unwrap() - both[3]).abs() < 1e-6);
    // Sizes that the server rejects, and a picture, which needs a curve.
    tried("2MiB+64MiB", &[]).fails(2, &["2 MiB+64 MiB", "DRAM"]);
    tried("12MiB+1MiB", &[]).fails(2, &["12 MiB+1 MiB", "too small"]);
    assert_eq!(tried("12MiB+", &[]).code, 2);
    tried("12MiB+64MiB", &["--svg", "c.svg"]).fails(2, &["--svg"]);
    tried("12MiB+64MiB", &["--avg-object-size", "0"]).fails(2, &["at least one byte"]);
    let huge = tried("12MiB+64MiB", &["--avg-object-size", "8000000GiB"]);
    assert!(huge.code != 101, "{huge:?}");
}

#[test]
fn compressed_traces_are_read() {
    let place = TestDirectory::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(circle().as_bytes()).unwrap();
    let zstd = zstd::encode_all(circle().as_bytes(), 1).unwrap();
    let expected = profile(&place, &circle(), &[]).out;
    for bytes in [gzip.finish().unwrap(), zstd] {
        let file = place.write("compressed", &bytes);
        let done = run(&["profile", file.to_str().unwrap()]);
        assert_eq!(done.ok(), expected);
        let file = place.write("cut", &bytes[..bytes.len() / 2]);
        run(&["profile", file.to_str().unwrap()]).fails(1, &[]);
    }
}

#[test]
fn malformed_lines_of_a_trace_are_skipped_with_a_warning() {
    let place = TestDirectory::new();
    let broken = circle().replace("500,key0,7,93,1,get,0\n", "500,key0\n");
    let done = profile(&place, &broken, &[]);
    assert_eq!(done.code, 0);
    assert!(done.err.contains("skipped 1 malformed line; the first: line 501: "), "{}", done.err);
    profile(&place, &broken, &["--strict"]).fails(1, &["line 501: "]);
    profile(&place, "", &[]).fails(2, &["--format"]);
    profile(&place, "time,op,key\n", &[]).fails(1, &["no gets"]);
    profile(&place, &circle(), &["--rate", "0"]).fails(2, &["--rate"]);
    profile(&place, &circle(), &["--samples", "0"]).fails(2, &["--samples"]);
    // --slabs processes all keys: it would ignore a rate.
    assert_eq!(profile(&place, &circle(), &["--slabs", "--rate", "0.5"]).code, 2);
    let done = profile(&place, "op,key\nget,a\nget,a\n", &[]);
    assert!(done.err.contains("no sizes"), "{}", done.err);
    run(&["profile", "/nowhere/at/all"]).fails(1, &["/nowhere/at/all"]);
    // Timestamps that go back, sizes of zero and of terabytes.
    let odd = "time,op,key,size,ttl\n9,put,a,0,5\n3,get,a,0,\n4,put,b,4398046511104,\n5,get,b,,\n";
    let done = profile(&place, odd, &["--exact"]);
    assert_eq!(done.text().lines().count(), 4, "{done:?}");
}
