//! The target of the formats of import.

use crate::formats::{Format, ReadError, Record, RecordLimits};
use tidekv_testkit::allocation::bounded;

/// Name and function of each target.
pub const TARGETS: &[crate::corpus::Target] = &[("import", import)];

const FORMATS: [Format; 3] = [Format::Tsv, Format::Jsonl, Format::Binary];

type Owned = (Vec<u8>, Vec<u8>, Option<u64>);

/// The valid records, and whether the file ended without an error.
fn read(format: Format, bytes: &[u8]) -> (Vec<Owned>, bool) {
    let mut reader = format.reader(Box::new(bytes), RecordLimits::of_budget(1 << 30));
    let mut records = Vec::new();
    loop {
        match reader.advance() {
            Ok(true) => {
                let record = reader.record();
                records.push((record.key.to_vec(), record.value.to_vec(), record.expires_at_ms));
            }
            Ok(false) => break,
            Err(ReadError::Bad(_)) => {}
            Err(ReadError::Broken(_)) => return (records, false),
        }
        assert!(reader.bytes_read() <= bytes.len() as u64);
    }
    (records, true)
}

fn write(format: Format, records: &[Owned]) -> Vec<u8> {
    let (mut out, mut writer) = (Vec::new(), format.writer());
    writer.begin(&mut out).unwrap();
    for (key, value, expires_at_ms) in records {
        writer.write(&mut out, Record { key, value, expires_at_ms: *expires_at_ms }).unwrap();
    }
    writer.end(&mut out).unwrap();
    out
}

/// A byte that selects the format, then the file. All records that were read round-trip through
/// every format.
pub fn import(data: &[u8]) {
    let Some((&kind, file)) = data.split_first() else { return };
    let format = FORMATS[usize::from(kind) % FORMATS.len()];
    let (records, _) = bounded((64 << 10) + 200 * file.len(), || read(format, file));
    for format in FORMATS {
        let mut expected = records.clone();
        if matches!(format, Format::Tsv) {
            expected.iter_mut().for_each(|record| record.2 = None);
        }
        assert_eq!(read(format, &write(format, &expected)), (expected, true));
    }
}

/// Files as `export` writes them, and some as people do.
pub fn seeds() -> Vec<(crate::corpus::Target, Vec<u8>)> {
    let records = [
        (b"tide/high".to_vec(), b"spring\ttide\n".to_vec(), None),
        (b"\xfflow".to_vec(), b"\x00\\".to_vec(), Some(1_800_000_000_000)),
    ];
    let mut seeds: Vec<_> = (0..3)
        .map(|kind| (TARGETS[0], [&[kind as u8], &write(FORMATS[kind], &records)[..]].concat()))
        .collect();
    seeds.push((
        TARGETS[0],
        b"\x01{\"key\":\"a\\u00e9\",\"value_base64\":\"YQ==\"}\r\n{}\n".to_vec(),
    ));
    seeds
}
