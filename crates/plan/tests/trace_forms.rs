//! The same requests in the forms in which traces are published: all give the same sizes, times and
//! times to live. Requests are made up, in the forms of the real files: their licences do not let
//! parts of them be copied here. What Redis writes is real (`redis/README.md`).

use std::io::Cursor;

use tidekv_plan::trace::{Format, Kind, Reader, Request};

/// Reads a trace whose format is detected.
fn read(bytes: &[u8]) -> (Format, Vec<Request>, Vec<String>) {
    let format = Format::of(bytes).expect("the format is known");
    let (requests, notes) = read_as(format, bytes);
    (format, requests, notes)
}

fn read_as(format: Format, bytes: &[u8]) -> (Vec<Request>, Vec<String>) {
    let mut reader = Reader::new(format, Cursor::new(bytes.to_vec())).expect("it has a header");
    let requests = reader.by_ref().collect::<Result<_, _>>().expect("no line is broken");
    if format == Format::Msr {
        assert_eq!(reader.skipped(), 0, "a header is no line without a key");
    }
    (requests, reader.notes())
}

/// A get, or a set with a time to live.
struct Made {
    seconds: u32,
    object: u32,
    key_bytes: u32,
    value_bytes: u32,
    ttl_s: u32,
}

impl Made {
    fn is_set(&self) -> bool {
        self.object.is_multiple_of(5)
    }

    fn bytes(&self) -> u32 {
        self.key_bytes + self.value_bytes
    }
}

/// Forty requests for a dozen objects of different sizes.
fn made() -> Vec<Made> {
    let of = |number: u32| {
        let object = number * 7 % 12;
        Made {
            seconds: number / 3,
            object,
            key_bytes: 20 + object,
            value_bytes: 100 + 37 * object,
            ttl_s: if object.is_multiple_of(5) { 600 + object } else { 0 },
        }
    };
    (0..40).map(of).collect()
}

fn text(header: &str, line: impl Fn(&Made) -> String) -> Vec<u8> {
    let lines: String = made().iter().map(|it| line(it) + "\n").collect();
    format!("{header}{lines}").into_bytes()
}

fn records(more: impl Fn(&Made) -> Vec<u8>) -> Vec<u8> {
    let record = |it: &Made| {
        [it.seconds.to_le_bytes().to_vec(), u64::from(it.object).to_le_bytes().to_vec(), more(it)]
            .concat()
    };
    made().iter().flat_map(record).collect()
}

/// libCacheSim's `oracleGeneral`: time, object, size, next access.
fn oracle() -> Vec<u8> {
    records(|it| [&it.bytes().to_le_bytes()[..], &(-1_i64).to_le_bytes()].concat())
}

/// libCacheSim's `twr`: time, object, sizes of key and value, operation and time to live.
fn twr() -> Vec<u8> {
    records(|it| {
        let sizes = it.key_bytes << 22 | it.value_bytes;
        let operation: u32 = if it.is_set() { 3 } else { 1 };
        [sizes.to_le_bytes(), (operation << 24 | it.ttl_s).to_le_bytes()].concat()
    })
}

fn sizes_and_times(requests: &[Request]) -> Vec<(Option<f64>, u64)> {
    let one = |it: &Request| {
        (it.seconds, it.cached_key_bytes() + it.value_bytes.expect("each request has a size"))
    };
    requests.iter().map(one).collect()
}

/// Sizes were 9.5 % larger than in binary where a name of a key stood for the key, and the times of
/// libCacheSim's text were lost.
#[test]
fn text_has_the_sizes_and_times_of_binary() {
    let (format, binary, _) = read(&oracle());
    assert_eq!(format, Format::Oracle);
    let expected = sizes_and_times(&binary);
    let mean = expected.iter().map(|it| it.1).sum::<u64>() as f64 / 40.0;
    assert!((expected.len(), expected[39].0) == (40, Some(13.0)) && mean > 300.0, "{mean}");

    let operation = |it: &Made| if it.is_set() { "SET" } else { "GET" };
    let kvcache = text("key,op,size,op_count,key_size,op_time\n", |it| {
        format!(
            "{},{},{},1,{},{}",
            it.object,
            operation(it),
            it.value_bytes,
            it.key_bytes,
            it.seconds
        )
    });
    // That of 2023 and later.
    let later = text("op_time,key,key_size,op,op_count,size,cache_hits,ttl\n", |it| {
        let (op, ttl) = (operation(it), it.ttl_s);
        format!("{},{},{},{op},1,{},1,{ttl}", it.seconds, it.object, it.key_bytes, it.value_bytes)
    });
    let twitter = text("", |it| {
        let op = operation(it).to_lowercase();
        let (key, value) = (it.key_bytes, it.value_bytes);
        format!("{},anonymous{},{key},{value},1,{op},{}", it.seconds, it.object, it.ttl_s)
    });
    let simulator = text("# time, object, size, next_access_vtime\n", |it| {
        format!("{}, {}, {}, -1", it.seconds, it.object, it.bytes())
    });
    for (name, bytes, format) in [
        ("kvcache", &kvcache, Format::Csv),
        ("kvcache, later", &later, Format::Csv),
        ("twitter", &twitter, Format::Twitter),
        ("libCacheSim", &simulator, Format::Csv),
    ] {
        let (found, requests, notes) = read(bytes);
        assert_eq!((found, &notes[..]), (format, &[][..]), "{name}");
        assert_eq!(sizes_and_times(&requests), expected, "{name}");
    }
    assert_eq!(sizes_and_times(&read_as(Format::Twr, &twr()).0), expected);
}

/// A cache charges a key and its value apart, so it matters how many bytes are of the key.
#[test]
fn text_divides_an_object_as_binary_does() {
    let of = |requests: &[Request]| -> Vec<(u64, Option<u64>)> {
        requests.iter().map(|it| (it.cached_key_bytes(), it.value_bytes)).collect()
    };
    let twitter = text("", |it| {
        let (key, value) = (it.key_bytes, it.value_bytes);
        format!("{},anonymous{},{key},{value},1,get,0", it.seconds, it.object)
    });
    let expected = of(&read_as(Format::Twr, &twr()).0);
    assert_eq!(expected[0], (20, Some(100)));
    assert_eq!(of(&read(&twitter).1), expected);
    // Where the key is not known, a number of eight bytes is the key, whatever its digits.
    let simulator = text("# time, object, size, next_access_vtime\n", |it| {
        format!("{}, {}, {}, -1", it.seconds, it.object, it.bytes())
    });
    let expected = of(&read(&oracle()).1);
    assert_eq!(expected[0], (8, Some(112)));
    assert_eq!(of(&read(&simulator).1), expected);
}

#[test]
fn text_has_the_operations_and_times_to_live_of_binary() {
    let of = |requests: &[Request]| -> Vec<(Kind, Option<u64>)> {
        requests.iter().map(|it| (it.kind, it.ttl_seconds)).collect()
    };
    let expected = of(&read_as(Format::Twr, &twr()).0);
    assert_eq!(expected[0], (Kind::Put, Some(600)));
    let operation = |it: &Made| if it.is_set() { "set" } else { "get" };
    let twitter = text("", |it| {
        let (key, value, op) = (it.key_bytes, it.value_bytes, operation(it));
        format!("{},anonymous{},{key},{value},1,{op},{}", it.seconds, it.object, it.ttl_s)
    });
    assert_eq!(of(&read(&twitter).1), expected);
    let meta = text("key,op,size,op_count,key_size,ttl\n", |it| {
        let (key, value, op) = (it.key_bytes, it.value_bytes, operation(it).to_uppercase());
        format!("{},{op},{value},1,{key},{}", it.object, it.ttl_s)
    });
    assert_eq!(of(&read(&meta).1), expected);
}

/// Changes of keys, each with its time to live.
fn changes(requests: &[Request]) -> Vec<(Kind, String, Option<u64>)> {
    let is_change = |it: &&Request| matches!(it.kind, Kind::Put | Kind::Expire);
    let of = |it: &Request| (it.kind, String::from_utf8(it.key.clone()).unwrap(), it.ttl_seconds);
    requests.iter().filter(is_change).map(of).collect()
}

#[test]
fn times_to_live_that_monitor_shows_are_honoured() {
    let (format, requests, _) = read(include_bytes!("redis/monitor.txt"));
    assert_eq!(format, Format::Monitor);
    let expected = [
        (Kind::Put, "plain", None),
        (Kind::Put, "a", Some(60)),
        (Kind::Put, "b", Some(2)),
        (Kind::Put, "c", None),
        (Kind::Expire, "c", Some(100)),
        (Kind::Expire, "c", Some(251)),
        // PXAT and EXAT 1795980000, at 1795972607.9.
        (Kind::Put, "d", Some(7_393)),
        (Kind::Put, "e", Some(7_393)),
        (Kind::Put, "f", Some(10)),
        (Kind::Put, "g", Some(3)),
        (Kind::Expire, "plain", Some(7_393)),
        (Kind::Expire, "c", Some(7_393)),
        (Kind::Expire, "a", Some(120)),
        (Kind::Expire, "b", None),
        (Kind::Expire, "c", None),
        (Kind::Put, "h\0field", None),
        (Kind::Put, "m", None),
        (Kind::Put, "n", None),
    ];
    let expected = expected.map(|(kind, key, ttl)| (kind, key.to_owned(), ttl));
    assert_eq!(changes(&requests), expected);
    let gets = requests.iter().filter(|it| it.kind == Kind::Get).count();
    assert_eq!(gets, 4, "two of GET, two of GETEX");
}

#[test]
fn deadlines_of_an_append_only_file_are_honoured() {
    let file = include_bytes!("redis/timestamps.aof");
    // It begins with a time.
    let (format, requests, notes) = read(file);
    assert_eq!((format, notes), (Format::Resp, vec![]));
    // The file has whole seconds, so a time to live is up to one second longer than it was.
    let shown = changes(&read(include_bytes!("redis/monitor.txt")).1);
    let kept = changes(&requests);
    assert_eq!(kept.len(), shown.len());
    for (kept, shown) in kept.iter().zip(&shown) {
        assert_eq!((kept.0, &kept.1), (shown.0, &shown.1));
        let apart = kept.2.zip(shown.2).map(|(kept, shown)| kept.checked_sub(shown));
        assert!(kept.2.is_some() == shown.2.is_some(), "{kept:?}, {shown:?}");
        assert!(matches!(apart, None | Some(Some(0 | 1))), "{kept:?}, {shown:?}");
    }
    assert!(requests.iter().all(|it| it.kind != Kind::Get));

    // Without its times, the deadlines cannot be counted, and the reader says so.
    let text = String::from_utf8(file.to_vec()).unwrap();
    let without: String = text.split_inclusive('\n').filter(|it| !it.starts_with("#TS:")).collect();
    let (_, requests, notes) = read(without.as_bytes());
    assert!(changes(&requests).iter().all(|change| change.2.is_none()), "{requests:?}");
    assert!(matches!(&notes[..], [note] if note.contains("aof-timestamp-enabled")), "{notes:?}");
}

/// A disk's trace, with steps of 100 ns.
const DISK: &str = "128166372003061629,hm,1,Read,8192,4096,1331\n\
    128166372013061629,hm,1,Write,0,4096,1331\n128166372023061629,hm,1,Read,8192,8192,1331\n";
const DISK_HEADER: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
const BYTE_ORDER_MARK: &str = "\u{feff}";

#[test]
fn a_header_and_a_byte_order_mark_change_no_disk_trace() {
    let (format, expected, _) = read(DISK.as_bytes());
    assert_eq!((format, expected.len()), (Format::Msr, 4));
    assert_eq!(expected[3].seconds, Some(2.0));
    for before in [DISK_HEADER, BYTE_ORDER_MARK, &format!("{BYTE_ORDER_MARK}{DISK_HEADER}")] {
        let (format, requests, _) = read(format!("{before}{DISK}").as_bytes());
        assert_eq!((format, &requests), (Format::Msr, &expected), "{before:?}");
    }
    // With the ends of lines of the same system.
    let windows = format!("{BYTE_ORDER_MARK}{DISK_HEADER}{DISK}").replace('\n', "\r\n");
    assert_eq!(read(windows.as_bytes()).1, expected);
}

#[test]
fn a_byte_order_mark_changes_no_trace_with_columns() {
    let columns = "time,key,value_size\n1,a,10\n2,b,20\n";
    let (format, expected, _) = read(columns.as_bytes());
    assert_eq!((format, expected.len()), (Format::Csv, 2));
    let (format, marked, _) = read(format!("{BYTE_ORDER_MARK}{columns}").as_bytes());
    assert_eq!((format, marked), (Format::Csv, expected));
}

#[test]
fn times_in_other_units_become_seconds() {
    let times = |header: &str, unit: u64| {
        let line = |second: u64| format!("{},key{second},10\n", (1_700_000_000 + second) * unit);
        let lines: String = (0..5).map(line).collect();
        let (_, requests, notes) = read(format!("{header},key,value_size\n{lines}").as_bytes());
        let first = requests[0].seconds.unwrap();
        let after: Vec<f64> =
            requests.iter().map(|it| (it.seconds.unwrap() - first).round()).collect();
        assert_eq!((first.round(), after), (1.7e9, vec![0.0, 1.0, 2.0, 3.0, 4.0]), "{header}");
        notes.concat()
    };
    assert_eq!(times("time", 1), "");
    // Their size tells, and it is said.
    assert!(times("timestamp", 1_000).contains("read as milliseconds"));
    assert!(times("timestamp", 1_000_000).contains("read as microseconds"));
    assert!(times("timestamp", 1_000_000_000).contains("read as nanoseconds"));
    // Their name tells.
    assert_eq!(times("time_ms", 1_000), "");
    assert_eq!(times("timestamp_us", 1_000_000), "");
}
