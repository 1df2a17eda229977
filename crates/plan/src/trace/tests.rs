//! Every format, whole and broken.

use std::io;

use super::*;

fn read(format: Format, text: &[u8]) -> (Vec<Request>, Vec<String>, u64) {
    let input = io::Cursor::new(text.to_owned());
    let mut reader = match Reader::new(format, input) {
        Ok(reader) => reader,
        Err(fault) => return (Vec::new(), vec![fault.to_string()], 0),
    };
    let (mut requests, mut faults) = (Vec::new(), Vec::new());
    for item in reader.by_ref() {
        match item {
            Ok(request) => requests.push(request),
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    (requests, faults, reader.skipped())
}

fn brief(requests: &[Request]) -> Vec<(Kind, &str, Option<u64>)> {
    let text = |request: &'_ Request| std::str::from_utf8(&request.key).unwrap().to_owned();
    requests
        .iter()
        .map(|it| (it.kind, &*Box::leak(text(it).into_boxed_str()), it.value_bytes))
        .collect()
}

#[test]
fn columns_are_found_by_name_and_broken_lines_reported() {
    let text = b"time,op,KEY,value_size,ttl,entries\n\
                 1.5,get,a,,,\n2,put,\"b,c\",100,60,\n3,scan,d,,,50\n4,touch,a,,,\n5,fly,a,,,\n\
                 6,put,a,many,,\n7,delete,a,,0,\nx\n";
    let (requests, faults, skipped) = read(Format::Csv, text);
    assert_eq!(
        brief(&requests),
        [
            (Kind::Get, "a", None),
            (Kind::Put, "b,c", Some(100)),
            (Kind::Scan, "d", None),
            (Kind::Delete, "a", None),
        ]
    );
    assert_eq!((requests[0].seconds, requests[1].ttl_seconds), (Some(1.5), Some(60)));
    assert_eq!((requests[2].entries, requests[3].ttl_seconds), (Some(50), None));
    assert_eq!(
        faults,
        [
            "line 6: \"fly\" is not an operation",
            "line 7: \"many\" is not a value size",
            "line 9: no column 2",
        ]
    );
    assert_eq!(skipped, 1);
    let (requests, ..) = read(Format::Csv, b"id,size,op,key,value_size\n1,9,get,a,20\n");
    assert_eq!(brief(&requests), [(Kind::Get, "a", Some(20))]);
    let (_, faults, _) = read(Format::Csv, b"time,op\n1,get\n");
    assert_eq!(faults, ["line 1: there is no column key"]);
}

#[test]
fn twitter_columns_have_fixed_positions() {
    let text = b"0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n0,yDqF,12,1024,2,set,3600\n0,short\n";
    let (requests, faults, _) = read(Format::Twitter, text);
    assert_eq!(
        brief(&requests),
        [(Kind::Get, "q:q:1:8WTfjZU14ee", Some(213)), (Kind::Put, "yDqF", Some(1024))]
    );
    assert_eq!((requests[0].ttl_seconds, requests[1].ttl_seconds), (None, Some(3600)));
    assert_eq!(faults.len(), 1, "{faults:?}");
}

fn resp(commands: &[&[&[u8]]]) -> Vec<u8> {
    let mut out = Vec::new();
    for command in commands {
        out.extend(format!("*{}\r\n", command.len()).into_bytes());
        for word in *command {
            out.extend(format!("${}\r\n", word.len()).into_bytes());
            out.extend(*word);
            out.extend(b"\r\n");
        }
    }
    out
}

#[test]
fn commands_of_redis_become_requests() {
    let value = vec![b'v'; 100_000];
    let text = resp(&[
        &[b"SELECT", b"0"],
        &[b"set", b"a", &value, b"PX", b"1500"],
        &[b"MSET", b"b", b"12", b"c", b"345"],
        &[b"MGET", b"a", b"b"],
        &[b"INCR", b"n"],
        &[b"HSET", b"h", b"f", b"value"],
        &[b"DEL", b"a", b"b"],
        &[b"SETEX", b"e", b"10", b"xy"],
        &[b"GET"],
    ]);
    let (requests, faults, skipped) = read(Format::Resp, &text);
    assert_eq!(
        brief(&requests),
        [
            (Kind::Put, "a", Some(100_000)),
            (Kind::Put, "b", Some(2)),
            (Kind::Put, "c", Some(3)),
            (Kind::Get, "a", None),
            (Kind::Get, "b", None),
            (Kind::Get, "n", None),
            (Kind::Put, "n", Some(8)),
            (Kind::Put, "h\0f", Some(5)),
            (Kind::Delete, "a", None),
            (Kind::Delete, "b", None),
            (Kind::Put, "e", Some(2)),
        ]
    );
    assert_eq!((requests[0].ttl_seconds, requests[10].ttl_seconds), (Some(2), Some(10)));
    assert_eq!((faults.len(), skipped), (0, 2));
}

#[test]
fn truncated_command_trace_ends_with_a_fault() {
    let whole = resp(&[&[b"GET", b"a"], &[b"SET", b"b", b"value"]]);
    let first = resp(&[&[b"GET", b"a"]]).len();
    for end in 1..whole.len() {
        let (requests, faults, _) = read(Format::Resp, &whole[..end]);
        assert_eq!(requests.len(), usize::from(end >= first), "{end}");
        assert_eq!(faults.len(), usize::from(end != first), "{end}: {faults:?}");
    }
    for (bytes, says) in [
        (&b"*99999999999\r\n"[..], "too many"),
        (b"*1\r\n$99999999999\r\n", "too long"),
        (b"*1\r\n$3\r\nGETT\r\n", "declared length"),
        (b"GET a\r\n", "after *"),
        (b"*-1\r\n", "after *"),
    ] {
        let (requests, faults, _) = read(Format::Resp, bytes);
        assert!(requests.is_empty() && faults.len() == 1, "{faults:?}");
        assert!(faults[0].contains(says), "{faults:?}");
    }
}

#[test]
fn timestamps_between_commands_are_skipped_and_a_broken_command_ends_the_trace() {
    let one = resp(&[&[b"GET", b"a"]]);
    let text = [b"#TS:1700000000\r\n", &one[..], b"#TS:1700000001\r\n", &one[..]].concat();
    let (requests, faults, _) = read(Format::Resp, &text);
    assert_eq!((requests.len(), faults.len()), (2, 0), "{faults:?}");
    let (_, faults, _) = read(Format::Resp, &[&one[..], b"?", &one[..]].concat());
    assert!(faults[0].starts_with("line 2: ") && faults[0].contains("is not read"), "{faults:?}");
}

#[test]
fn oversized_command_is_skipped() {
    let (hash, field) = (vec![b'h'; 60_000], &b"f"[..]);
    let command = |fields: usize| {
        let head = [&b"HMGET"[..], &hash].into_iter();
        let words: Vec<&[u8]> = head.chain(vec![field; fields]).collect();
        let (requests, _, skipped) = read(Format::Resp, &resp(&[&words]));
        (requests.len(), skipped)
    };
    assert_eq!((command(10), command(5000)), ((10, 0), (0, 1)));
}

#[test]
fn unbalanced_quotes_swallow_no_lines() {
    let line = |at: usize| format!("{at},\"key{at},4,10,1,get,0\n");
    let text: String = (0..3).map(line).collect();
    let (requests, faults, _) = read(Format::Twitter, text.as_bytes());
    assert_eq!((requests.len(), faults.len()), (3, 0), "{faults:?}");
    assert_eq!(requests[2].key, b"\"key2");
    let endless = format!("key\n\"{}", "a,b\n".repeat(5 << 20));
    let (requests, faults, _) = read(Format::Csv, endless.as_bytes());
    assert!(requests.is_empty() && faults[0].contains("is longer"), "{} faults", faults.len());
}

#[test]
fn monitor_output_is_read_with_its_escapes() {
    let text = br#"OK
1339518083.107412 [0 127.0.0.1:60866] "keys" "*"
1339518087.877697 [0 127.0.0.1:60866] "set" "a\x41\"" "va\nlue"
1339518088.877697 [0 lua] "get" "b"
1339518089 [0 127.0.0.1:1] "get" "no end
nonsense
"#;
    let (requests, faults, skipped) = read(Format::Monitor, text);
    assert_eq!(brief(&requests), [(Kind::Put, "aA\"", Some(6)), (Kind::Get, "b", None)]);
    assert_eq!(requests[1].seconds, Some(1_339_518_088.877_697));
    assert!(faults.len() == 2 && faults[0].starts_with("line 5: "), "{faults:?}");
    assert_eq!(skipped, 2);
}

/// Records of seconds, object and size.
fn oracle(records: &[(u32, u64, u32)]) -> Vec<u8> {
    let record = |(seconds, object, size): &(u32, u64, u32)| {
        let next = (-1_i64).to_le_bytes();
        [&seconds.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next].concat()
    };
    records.iter().flat_map(record).collect()
}

#[test]
fn binary_records_are_read_until_one_is_truncated() {
    let bytes = oracle(&[(1, 7, 100), (3, 8, 4)]);
    let (requests, faults, _) = read(Format::Oracle, &bytes[..47]);
    assert_eq!(faults, ["line 2: the record is truncated"]);
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(
        (request.kind, request.seconds, request.value_bytes),
        (Kind::Get, Some(1.0), Some(92))
    );
    assert_eq!(request.key, 7_u64.to_le_bytes());
    let (requests, faults, _) = read(Format::Oracle, &bytes);
    assert_eq!((requests.len(), faults.len(), requests[1].value_bytes), (2, 0, Some(0)));
    // It has four bytes in all.
    assert_eq!((requests[0].cached_key_bytes(), requests[1].cached_key_bytes()), (8, 4));

    // A set of 20 + 300 bytes that lives for an hour, a get, a delete, and an invalid operation.
    let sizes = 20_u32 << 22 | 300;
    let twr = |operation: u32, ttl: u32| {
        let last = (operation << 24 | ttl).to_le_bytes();
        [&5_u32.to_le_bytes()[..], &9_u64.to_le_bytes(), &sizes.to_le_bytes(), &last].concat()
    };
    let bytes = [twr(3, 3_600), twr(1, 0), twr(9, 0), twr(12, 0), twr(2, 0)].concat();
    let (requests, faults, _) = read(Format::Twr, &bytes);
    assert_eq!(faults, ["line 4: 12 is not an operation"]);
    let kinds: Vec<Kind> = requests.iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [Kind::Put, Kind::Get, Kind::Delete, Kind::Get]);
    assert_eq!((requests[0].ttl_seconds, requests[0].value_bytes), (Some(3_600), Some(300)));
    assert_eq!(requests[0].cached_key_bytes(), 20);
    assert_eq!(requests[1].ttl_seconds, None);
}

/// An lcs of that version with these records.
fn lcs(version: u64, records: &[Vec<u8>]) -> Vec<u8> {
    let mark = 0x1234_5678_9abc_def0_u64.to_le_bytes();
    // The statistics are ignored.
    let statistics = vec![0xff; (8 << 10) - 3 * 8];
    [&mark[..], &version.to_le_bytes(), &statistics, &mark, &records.concat()].concat()
}

#[test]
fn each_lcs_version_is_read_by_its_header() {
    let next = 9_i64.to_le_bytes();
    let first = oracle(&[(4, 7, 100)]);
    // An operation, and tenant 258.
    let operation = |number: u8| [number, 2, 1, 0];
    let second = |number| {
        let size = 100_u32.to_le_bytes();
        let (seconds, object) = (4_u32.to_le_bytes(), 7_u64.to_le_bytes());
        [&seconds[..], &object, &size, &operation(number), &next].concat()
    };
    let later = |size: i64, number, ttl: u32, features: usize| {
        let (seconds, object) = (4_u32.to_le_bytes(), 7_u64.to_le_bytes());
        let (size, ttl, features) =
            (size.to_le_bytes(), ttl.to_le_bytes(), vec![0xee_u8; 4 * features]);
        [&seconds[..], &object, &size, &operation(number), &ttl, &next, &features].concat()
    };
    let large = 5_u32 << 30;
    for (version, records) in [
        (1, vec![first.clone(), first]),
        (2, vec![second(0), second(12)]),
        (3, vec![later(100, 1, 0, 0), later(100, 2, 0, 0)]),
        (4, vec![later(100, 0, 0, 1), later(100, 1, 0, 1)]),
        (5, vec![later(100, 0, 0, 2), later(100, 1, 0, 2)]),
        (6, vec![later(100, 0, 0, 4), later(100, 1, 0, 4)]),
        (7, vec![later(100, 0, 0, 8), later(100, 1, 0, 8)]),
        (8, vec![later(100, 0, 0, 16), later(100, 1, 0, 16)]),
    ] {
        let bytes = lcs(version, &records);
        assert_eq!(Format::of(&bytes), Some(Format::Lcs), "{version}");
        let (requests, faults, _) = read(Format::Lcs, &bytes);
        assert!(faults.is_empty(), "{version}: {faults:?}");
        assert_eq!(requests.len(), 2, "{version}");
        for request in requests {
            let found = (request.kind, request.seconds, request.value_bytes, request.ttl_seconds);
            assert_eq!(found, (Kind::Get, Some(4.0), Some(92), None), "{version}");
            assert_eq!(request.key, 7_u64.to_le_bytes());
        }
        let (requests, faults, _) = read(Format::Lcs, &bytes[..bytes.len() - 1]);
        assert_eq!(
            (requests.len(), &faults[..]),
            (1, &["line 2: the record is truncated".into()][..])
        );
    }
    let records = [
        later(i64::from(large) * 4, 3, 600, 0),
        later(-1, 3, 0, 0),
        later(8, 99, 0, 0),
        later(8, 13, 0, 0),
    ];
    let (requests, faults, _) = read(Format::Lcs, &lcs(3, &records));
    assert_eq!(faults, ["line 2: -1 bytes are not a size", "line 3: 99 is not an operation"]);
    let found = |at: usize| (requests[at].kind, requests[at].value_bytes, requests[at].ttl_seconds);
    assert_eq!(found(0), (Kind::Put, Some(u64::from(large) * 4 - 8), Some(600)));
    assert_eq!(found(1), (Kind::Put, Some(0), None));
}

#[test]
fn invalid_lcs_header_is_refused() {
    let fault = |bytes: &[u8]| match Reader::new(Format::Lcs, std::io::Cursor::new(bytes.to_vec()))
    {
        Err(fault) => fault.to_string(),
        Ok(_) => "none".to_owned(),
    };
    let whole = lcs(3, &[]);
    assert_eq!(fault(&whole), "none");
    assert_eq!(fault(&whole[..8_191]), "line 1: the lcs header is truncated");
    let mut torn = whole.clone();
    torn[8_190] ^= 1;
    assert_eq!(fault(&torn), "line 1: these are not an lcs header of 8192 bytes");
    assert_eq!(fault(&lcs(9, &[])), "line 1: lcs version 9 is unknown, 1 to 8 are supported");
    assert_eq!(fault(&lcs(0, &[])), "line 1: lcs version 0 is unknown, 1 to 8 are supported");
}

#[test]
fn disk_request_becomes_one_for_each_block() {
    let text = "128166372003061629,hm,1,Read,8192,4096,1\n\
        128166372013061629,hm,1,Write,4095,4098,1\n128166372013061629,hm,1,Trim,0,1,1\n\
        128166372013061629,hm,1,Read,18446744073709551615,4096,1\nshort\n";
    let (requests, faults, _) = read(Format::Msr, text.as_bytes());
    let blocks = [(Kind::Get, 2), (Kind::Put, 0), (Kind::Put, 1), (Kind::Put, 2)];
    let keys = blocks.map(|(kind, block)| (kind, format!("hm.1:{block}")));
    let keys: Vec<_> = keys.iter().map(|(kind, key)| (*kind, &**key, Some(4_096))).collect();
    assert_eq!(brief(&requests), keys);
    assert_eq!((requests[0].seconds, requests[1].seconds), (Some(0.0), Some(1.0)));
    assert_eq!(faults.len(), 3, "{faults:?}");
}

#[test]
fn meta_traces_are_read_by_their_headers() {
    let kv = "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n\
        10,a,1,GET,3,120,3,0\n11,b,1,SET,1,80,0,600\n12,a,1,GET_LEASE,1,120,0,0\n";
    let (requests, faults, _) = read(Format::Csv, kv.as_bytes());
    assert!(faults.is_empty(), "{faults:?}");
    let kinds: Vec<Kind> = requests.iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [Kind::Get, Kind::Get, Kind::Get, Kind::Put, Kind::Get]);
    assert_eq!((requests[3].ttl_seconds, requests[3].seconds), (Some(600), Some(11.0)));
    let cdn = "timestamp,cacheKey,OpType,objectSize,responseSize,TTL\n5,x,1,1000000,500,3600\n";
    let (requests, faults, _) = read(Format::Csv, cdn.as_bytes());
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(brief(&requests), [(Kind::Get, "x", Some(1_000_000))]);
    assert_eq!(Format::of(cdn.as_bytes()), Some(Format::Csv));
}

#[test]
fn formats_are_detected_by_their_beginning() {
    for (head, format) in [
        (&b"key\na\n"[..], Some(Format::Csv)),
        (b"timestamp, operation, Key, size\n", Some(Format::Csv)),
        (b"0,q:1:8W,17,213,4,get,0\n", Some(Format::Twitter)),
        (b"128166372003061629,hm,1,Read,383496192,32768,1331\n", Some(Format::Msr)),
        (&oracle(&[(1, 7, 100), (1, 8, 50), (2, 7, 100)]), Some(Format::Oracle)),
        (&oracle(&[(2, 7, 100), (1, 8, 50)]), None),
        (b"*2\r\n$3\r\nGET\r\n", Some(Format::Resp)),
        (b"1339518083.107412 [0 127.0.0.1:60866] \"get\" \"a\"\n", Some(Format::Monitor)),
        (b"OK\n", Some(Format::Monitor)),
        (b"what is this\n", None),
        (b"", None),
    ] {
        assert_eq!(Format::of(head), format, "{}", String::from_utf8_lossy(head));
    }
}

#[test]
fn random_bytes_end_in_faults_and_never_in_a_panic() {
    let mut state = 1u64;
    for round in 0..2000 {
        let mut bytes: Vec<u8> = (0..round % 97)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b"*$123\r\n\",[]. \\xget key\xff"[(state >> 33) as usize % 23]
            })
            .collect();
        for FormatRecord { format, .. } in FORMATS {
            read(*format, &bytes);
        }
        bytes.extend(b"*1\r\n");
        let _ = Format::of(&bytes);
    }
}
