//! `import` and `export` preserve every byte in every format.

use std::io::Read;
use std::process::Stdio;

use crate::run::{TestDirectory, run, tidekv};

/// Keys and values with every byte, in order of the keys.
fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = (0..=255u8)
        .map(|byte| (vec![byte, b'k', byte], (0..byte).chain([b'\t', b'\n', byte]).collect()))
        .collect();
    entries.push((b"empty".to_vec(), Vec::new()));
    entries.push((b"large".to_vec(), b"\\\t\r\n\0x".repeat(100_000)));
    entries.sort();
    entries
}

fn escape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for &byte in bytes {
        match byte {
            b'\t' => out.extend(b"\\t"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\\' => out.extend(b"\\\\"),
            _ => out.push(byte),
        }
    }
    out
}

fn tsv(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let line = |(key, value): &(Vec<u8>, Vec<u8>)| {
        [&escape(key)[..], b"\t", &escape(value), b"\n"].concat()
    };
    entries.iter().flat_map(line).collect()
}

#[test]
fn every_format_restores_every_byte() {
    let sorted = tsv(&entries());
    let mut shuffled = entries();
    shuffled
        .sort_by_key(|(key, _)| key.iter().fold(7u32, |h, &b| h.wrapping_mul(31) ^ u32::from(b)));
    for input in [sorted.clone(), tsv(&shuffled)] {
        let first = TestDirectory::new();
        let said = first.run_with("import", &["-"], &input);
        said.ok();
        assert!(said.text().starts_with("imported 258 entries, "), "{said:?}");
        assert_eq!(first.run("export", &[]).ok(), sorted);
        for format in ["tsv", "jsonl", "binary"] {
            let exported = first.run("export", &["--format", format]);
            let again = TestDirectory::new();
            again.run_with("import", &["--format", format, "-"], exported.ok()).ok();
            assert_eq!(again.run("export", &[]).ok(), sorted, "{format}");
            let there = again.run("export", &["--format", format]);
            assert_eq!(there.ok(), exported.ok(), "{format}");
        }
        assert_eq!(first.run("check", &[]).code, 0);
    }
}

#[test]
fn expiry_times_survive_in_formats_that_have_them() {
    let place = TestDirectory::new();
    place.run("put", &["--ttl", "1d", "a", "1"]).ok();
    place.run("put", &["b", "2"]).ok();
    for format in ["jsonl", "binary"] {
        let exported = place.run("export", &["--format", format]);
        let again = TestDirectory::new();
        again.run_with("import", &["--format", format, "-"], exported.ok()).ok();
        assert_eq!(again.run("export", &["--format", format]).ok(), exported.ok());
        assert!(again.run("get", &["--json", "a"]).text().contains("expires_at_ms"));
        let refused = TestDirectory::new();
        let refused =
            refused.run_with("import", &["--sorted", "--format", format, "-"], &exported.out);
        refused.fails(1, &["standard input", "expiry time"]);
    }
}

#[test]
fn the_later_of_two_records_wins_in_tables_and_in_batches() {
    // In order beyond the sample, then out of order, then in order again.
    let line = |i: u32, value: &str| format!("{i:08}\t{value}\n");
    let mut input: String = (0..6000).map(|i| line(i, "first")).collect();
    input.extend((5000..5500).map(|i| line(i, "second")));
    input.push_str(&line(5500, "second"));
    input.push_str(&line(5500, "third"));
    let place = TestDirectory::new();
    place.run_with("import", &["-"], input.as_bytes()).ok();
    for (key, value) in [
        ("00000000", "first"),
        ("00005000", "second"),
        ("00005499", "second"),
        ("00005500", "third"),
    ] {
        assert_eq!(place.run("get", &[key]).ok(), value.as_bytes());
    }
    assert_eq!(place.run("scan", &[]).text().lines().count(), 6000);
    // The keyspace has data already: the import is newer.
    place.run_with("import", &["-"], b"00000000\tfourth\n99\tnew\n").ok();
    assert_eq!(place.run("get", &["00000000"]).ok(), b"fourth");
    assert_eq!(place.run("scan", &[]).text().lines().count(), 6001);
    assert_eq!(place.run("check", &[]).code, 0);
}

#[test]
fn sorted_imports_everything_or_nothing() {
    let place = TestDirectory::new();
    let file = place.write("in.tsv", "a\t1\nc\t2\nb\t3\n");
    let file = file.to_str().unwrap();
    place.run("import", &["--sorted", file]).fails(1, &["in.tsv", "line 3", "not in order"]);
    assert_eq!(place.run("scan", &[]).ok(), b"");
    place.run("import", &[file]).ok();
    let sorted = place.write("sorted.tsv", "b\t4\nd\t5\n");
    place.run("import", &["--sorted", sorted.to_str().unwrap()]).ok();
    assert_eq!(place.run("scan", &[]).ok(), b"a\t1\nb\t4\nc\t2\nd\t5\n");
}

#[test]
fn a_malformed_record_is_named_or_skipped() {
    let place = TestDirectory::new();
    let input = format!("a\t1\nnothing\nb\t2\n\tno key\n{}\tlong\nc\t3\n", "k".repeat(65537));
    let file = place.write("in.tsv", input);
    let file = file.to_str().unwrap();
    place
        .run("import", &[file])
        .fails(1, &["in.tsv", "line 2", "no tab", "--skip-bad", "imported before it: 1 entry"]);
    let said = place.run("import", &["--skip-bad", "--json", file]);
    let said: serde_json::Value = serde_json::from_slice(said.ok()).unwrap();
    assert_eq!((said["entries"].as_u64(), said["skipped"].as_u64()), (Some(3), Some(3)));
    assert_eq!(place.run("scan", &[]).ok(), b"a\t1\nb\t2\nc\t3\n");
    let missing = place.file("missing.tsv");
    place.run("import", &[missing.to_str().unwrap()]).fails(1, &["missing.tsv", "open"]);
    let cut = place.write("cut.bin", b"TideRec1\x01\x01\0\0\0\x09\0\0\0k");
    let cut = cut.to_str().unwrap();
    let says = ["cut.bin", "record 1", "truncated"];
    place.run("import", &["--format", "binary", cut]).fails(1, &says);
}

#[test]
fn an_exported_file_appears_only_when_complete() {
    let place = TestDirectory::new();
    place.run_with("import", &["-"], b"a1\tx\na2\ty\nb\tz\n").ok();
    let out = place.file("out.tsv");
    let said = place.run("export", &["--prefix", "a", "--out", out.to_str().unwrap()]);
    assert!(said.text().starts_with("exported 2 entries, 6 B, "), "{said:?}");
    assert_eq!(std::fs::read(&out).unwrap(), b"a1\tx\na2\ty\n");
    let nowhere = place.file("no/such/out.tsv");
    place.run("export", &["--out", nowhere.to_str().unwrap()]).fails(1, &["out.tsv", "create"]);
    let names: Vec<_> = std::fs::read_dir(place.file("")).unwrap().collect();
    assert_eq!(names.len(), 2, "no temporary file remains: {names:?}");
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let place = TestDirectory::new();
    let lines: String = (0..50_000).map(|i| format!("{i:08}\tvalue\n")).collect();
    place.run_with("import", &["-"], lines.as_bytes()).ok();
    for name in ["export", "scan"] {
        let mut command = tidekv();
        command.arg(name).arg("--data").arg(place.data());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 4];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert_eq!(output.stderr, b"", "{name}");
    }
}

#[test]
fn an_empty_input_is_valid() {
    let place = TestDirectory::new();
    place.run("import", &["-"]).ok();
    assert_eq!(place.run("export", &[]).ok(), b"");
    let empty = place.run("export", &["--format", "binary"]);
    place.run_with("import", &["--format", "binary", "-"], empty.ok()).ok();
    assert_eq!(run(&["check", "--data", place.data().to_str().unwrap()]).code, 0);
}

/// A line of 300 MB took 573 MB.
#[test]
fn a_line_that_is_too_long_is_named_or_skipped() {
    for (format, begin, record) in [
        ("tsv", "long\t", "key\tvalue\n"),
        ("jsonl", "{\"key\":\"", "{\"key\":\"key\",\"value\":\"value\"}\n"),
    ] {
        let place = TestDirectory::new();
        let mut text = begin.as_bytes().to_vec();
        text.resize(100 << 20, b'x');
        text.push(b'\n');
        text.extend_from_slice(record.as_bytes());
        let file = place.write("long", text);
        let file = file.to_str().unwrap();
        let arguments = ["--format", format, "--memory", "16MiB", file];
        place.run("import", &arguments).fails(1, &["long", "line 1 is longer than"]);
        let skipped = place.run("import", &[&arguments[..], &["--skip-bad"]].concat());
        assert!(skipped.text().contains("skipped 1 malformed"), "{skipped:?}");
        assert_eq!(place.run("scan", &[]).text(), "key\tvalue\n");
    }
}

/// Devices, FIFOs and links were replaced by a file: `/dev/null` for the whole machine.
#[test]
fn outputs_write_through_devices_fifos_and_links() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
    let place = TestDirectory::new();
    place.run_with("import", &["-"], b"a\tx\n").ok();
    let path = |name: &str| place.file(name).to_str().unwrap().to_owned();
    let kind = |name: &str| std::fs::symlink_metadata(path(name)).unwrap().file_type();
    let inode = |name: &str| std::fs::metadata(path(name)).unwrap().ino();

    // Links: to a file, to a name that does not exist, over two steps, to a device.
    place.write("target", "old");
    let before = inode("target");
    for (link, target) in
        [("link", "target"), ("dangling", "new"), ("second", "link"), ("device", "/dev/null")]
    {
        symlink(target, path(link)).unwrap();
        let said = place.run("export", &["--out", &path(link)]);
        assert!(said.text().starts_with("exported 1 entry"), "{link}: {said:?}");
        assert!(kind(link).is_symlink(), "{link}");
    }
    for name in ["target", "new"] {
        assert_eq!(std::fs::read(path(name)).unwrap(), b"a\tx\n", "{name}");
    }
    assert_ne!(inode("target"), before, "it is replaced at once");
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());

    // A FIFO, read by another thread.
    let fifo = place.file("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let read = std::thread::spawn(move || std::fs::read(fifo).unwrap());
    place.run("export", &["--out", &path("fifo")]).ok();
    assert_eq!(read.join().unwrap(), b"a\tx\n");
    assert!(kind("fifo").is_fifo());

    // Standard output by name: a pipe, and the end of a file.
    assert_eq!(place.run("export", &["--out", "/dev/stdout"]).ok(), b"a\tx\n");
    let file = std::fs::OpenOptions::new();
    let file = { file }.append(true).open(place.write("log", "before\n")).unwrap();
    let mut command = crate::run::tidekv();
    command.args(["export", "--out", "/dev/stdout", "--data"]).arg(place.data());
    assert!(command.stdout(file).status().unwrap().success());
    assert_eq!(std::fs::read(path("log")).unwrap(), b"before\na\tx\n");

    // A full device is an error.
    place.run("export", &["--out", "/dev/full"]).fails(1, &["/dev/full", "No space"]);

    // A plot as well.
    let trace = place.write("trace", "key\na\nb\na\n");
    symlink("plot.svg", path("plot")).unwrap();
    let profiled = crate::run::run(&["profile", trace.to_str().unwrap(), "--svg", &path("plot")]);
    assert_eq!(profiled.code, 0, "{profiled:?}");
    assert!(kind("plot").is_symlink());
    assert!(std::fs::read_to_string(path("plot.svg")).unwrap().contains("<svg"));
}
