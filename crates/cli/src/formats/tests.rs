//! Every format preserves every byte, and arbitrary bytes never panic.

use proptest::prelude::*;

use super::*;
use tidekv_testkit::golden::Dump;

type Owned = (Vec<u8>, Vec<u8>, Option<u64>);

fn write(format: Format, records: &[Owned]) -> Vec<u8> {
    let (mut out, mut writer) = (Vec::new(), format.writer());
    writer.begin(&mut out).unwrap();
    for (key, value, expires_at_ms) in records {
        let record = Record { key, value, expires_at_ms: *expires_at_ms };
        writer.write(&mut out, record).unwrap();
    }
    writer.end(&mut out).unwrap();
    out
}

fn read(format: Format, bytes: &[u8]) -> Result<Vec<Owned>, ReadError> {
    let mut reader = format.reader(Box::new(bytes), RecordLimits::of_budget(1 << 30));
    let mut records = Vec::new();
    while reader.advance()? {
        let record = reader.record();
        records.push((record.key.to_vec(), record.value.to_vec(), record.expires_at_ms));
    }
    Ok(records)
}

fn message(format: Format, bytes: &[u8]) -> String {
    match read(format, bytes).unwrap_err() {
        ReadError::Bad(message) | ReadError::Broken(message) => message,
    }
}

proptest! {
    #[test]
    fn every_format_preserves_every_byte(
        records in prop::collection::vec(
            (
                prop::collection::vec(any::<u8>(), 1..12),
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..40),
                    "[a-z\\\\\t\n\r\"]{0,20}".prop_map(String::into_bytes),
                ],
                prop::option::of(any::<u64>()),
            ),
            0..8,
        )
    ) {
        for format in [Format::Jsonl, Format::Binary] {
            prop_assert_eq!(read(format, &write(format, &records)).unwrap(), records.clone());
        }
        let mut plain = records;
        plain.iter_mut().for_each(|record| record.2 = None);
        prop_assert_eq!(read(Format::Tsv, &write(Format::Tsv, &plain)).unwrap(), plain);
    }

    #[test]
    fn arbitrary_bytes_are_rejected_or_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        for format in [Format::Tsv, Format::Jsonl, Format::Binary] {
            let _ = read(format, &bytes);
        }
        let _ = read(Format::Binary, &[b"TideRec1", &bytes[..]].concat());
    }
}

#[test]
fn a_truncated_or_changed_binary_file_is_rejected() {
    let records: Vec<Owned> =
        vec![(b"a".to_vec(), vec![1; 30], None), (b"b".to_vec(), vec![], Some(7))];
    let whole = write(Format::Binary, &records);
    for cut in 0..whole.len() {
        assert!(read(Format::Binary, &whole[..cut]).is_err(), "cut at {cut}");
    }
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(read(Format::Binary, &changed).is_err(), "bit {bit}");
    }
    assert!(read(Format::Binary, &[&whole[..], b"x"].concat()).is_err());
    assert!(message(Format::Binary, b"TideRec2....").contains("newer version"));
    assert!(message(Format::Binary, b"a\tb\nc\td\n").contains("--format"));
}

#[test]
fn errors_name_the_malformed_line() {
    for (format, text, says) in [
        (Format::Tsv, "a\tb\nc\n", "line 2 has no tab"),
        (Format::Tsv, "a\tb\n\n", "line 2 has no tab"),
        (Format::Tsv, "a\tb\tc\n", "line 1 has a second tab"),
        (Format::Tsv, "a\\x\tb\n", "line 1 has the unknown escape \\x"),
        (Format::Tsv, "a\tb\\", "line 1 ends with a lone backslash"),
        (Format::Jsonl, "{}", "line 1 has neither key nor key_base64"),
        (Format::Jsonl, "{\"key\":\"a\",\"key_base64\":\"YQ==\"}", "line 1 has both key and"),
        (Format::Jsonl, "{\"key_base64\":\"%\"}", "line 1 has a key_base64 that is not base64"),
        (Format::Jsonl, "{\"key\":\"a\"", "line 1 is not a record in JSON (column 10)"),
        (Format::Jsonl, "{\"kei\":\"a\"}", "unknown field `kei`"),
    ] {
        let message = message(format, text.as_bytes());
        assert!(message.contains(says), "{text:?}: {message}");
    }
}

#[test]
fn a_record_that_takes_too_much_memory_is_named_and_the_next_one_is_read() {
    let limits = RecordLimits { record_bytes: 50, line_bytes: 100 };
    for (format, before, long, after) in [
        (Format::Tsv, "a\t1\n", format!("b\t{}\n", "x".repeat(100_000)), "c\t2\n"),
        (Format::Tsv, "a\t1\n", format!("b\t{}\n", "x".repeat(99)), "c\t2"),
        (
            Format::Jsonl,
            "{\"key\":\"a\",\"value\":\"1\"}\n",
            format!("{{\"key\":\"b\",\"value\":\"{}\"}}\r\n", "x".repeat(100_000)),
            "{\"key\":\"c\",\"value\":\"2\"}",
        ),
    ] {
        let text = [before, &long, after].concat();
        let mut reader = format.reader(Box::new(text.as_bytes()), limits);
        assert_eq!(reader.advance(), Ok(true));
        let says = "line 2 is longer than 100 bytes";
        assert!(matches!(reader.advance(), Err(ReadError::Bad(what)) if what.starts_with(says)));
        assert_eq!(reader.advance(), Ok(true));
        assert_eq!((reader.record().key, reader.place()), (&b"c"[..], "line 3".into()));
        assert_eq!(reader.bytes_read(), text.len() as u64);
        assert_eq!(reader.advance(), Ok(false));
    }
    // A line of exactly the limit, and one that never ends.
    let whole = format!("b\t{}\r\n", "x".repeat(98));
    assert_eq!(Format::Tsv.reader(Box::new(whole.as_bytes()), limits).advance(), Ok(true));
    let endless = "x".repeat(100_000);
    let mut reader = Format::Tsv.reader(Box::new(endless.as_bytes()), limits);
    assert!(matches!(reader.advance(), Err(ReadError::Bad(_))));
    assert_eq!(reader.advance(), Ok(false));
    let binary = write(Format::Binary, &[(b"a".to_vec(), vec![0; 50], None)]);
    let refused = Format::Binary.reader(Box::new(&binary[..]), limits).advance();
    assert!(matches!(refused, Err(ReadError::Broken(what)) if what.contains("raise --memory")));
}

#[test]
fn crlf_line_ends_and_a_missing_last_line_end_are_accepted() {
    let expected: Vec<Owned> =
        vec![(b"a".to_vec(), b"1".to_vec(), None), (b"b".to_vec(), b"2\r".to_vec(), None)];
    assert_eq!(read(Format::Tsv, b"a\t1\r\nb\t2\\r\r\n").unwrap(), expected);
    assert_eq!(read(Format::Tsv, b"a\t1\nb\t2\\r").unwrap(), expected);
}

#[test]
fn written_files_have_the_released_bytes_and_released_files_are_readable() {
    let records: Vec<Owned> = vec![
        (b"tide/high".to_vec(), b"spring\ttide\n".to_vec(), None),
        (b"tide/low".to_vec(), b"\xff\x00\\".to_vec(), None),
        (b"tide/slack".to_vec(), Vec::new(), Some(1_800_000_000_000)),
    ];
    let names = ["tsv", "jsonl", "binary"];
    let formats = [Format::Tsv, Format::Jsonl, Format::Binary];
    let mut dump = Dump::new(
        "Three records in each format of export and import. See crates/cli/src/formats/.",
    );
    for (format, name) in formats.into_iter().zip(names) {
        dump.file(name);
        let bytes = write(format, &records);
        let ends = [&bytes[..], &bytes[..bytes.len() - 17], &bytes[..8]].map(<[u8]>::len);
        match format {
            Format::Binary => {
                dump.parts(&bytes, &[(ends[2], "Magic"), (ends[1], "Records"), (ends[0], "End")])
            }
            _ => dump.part("Lines", &bytes),
        }
    }
    let released = dump.hold_against("export");
    for ((name, bytes), (format, expected_name)) in released.iter().zip(formats.iter().zip(names)) {
        let mut expected = records.clone();
        if *format == Format::Tsv {
            expected[2].2 = None;
        }
        assert_eq!((read(*format, bytes).unwrap(), &**name), (expected, expected_name));
    }
    assert_eq!(released.len(), 3);
}
