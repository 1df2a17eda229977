//! Complete, divided, invalid and arbitrary streams.

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { request_bytes_max: 1 << 20, authenticated: true };

/// All requests of `pieces`, none of which is too large, and the final error.
fn read_all(pieces: &[&[u8]], limits: Limits) -> (Vec<Arguments>, Option<String>) {
    let (requests, error) = read_with_too_large(pieces, limits);
    (requests.into_iter().map(|request| request.expect("it is too large")).collect(), error)
}

/// All requests of `pieces`, `None` for those that are too large, and the final error.
fn read_with_too_large(
    pieces: &[&[u8]],
    limits: Limits,
) -> (Vec<Option<Arguments>>, Option<String>) {
    crate::fuzzing::read_all(pieces.iter().copied(), limits)
}

fn words(words: &[&str]) -> Arguments {
    words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

fn encode(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[test]
fn requests_are_parsed_in_order() {
    let stream = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*0\r\n*-1\r\nPING\r\n\r\n  \n*1\r\n$0\r\n\r\n";
    let (requests, error) = read_all(&[stream], LIMITS);
    assert_eq!(error, None);
    assert_eq!(requests, [words(&["GET", "a"]), words(&["PING"]), words(&[""])]);
}

/// State from the first piece of a request that is then parsed in one pass must not affect the next
/// request.
#[test]
fn a_request_in_pieces_leaves_no_state_to_the_next() {
    let first = [&b"*1"[..], b"\r\n$4\r\nPING\r\n"];
    for (rest, expected) in [
        (&[&b"a\nb\n"[..]][..], vec![words(&["PING"]), words(&["a"]), words(&["b"])]),
        (&[b"*", b"1\r\n$1\r\nx\r\n"], vec![words(&["PING"]), words(&["x"])]),
        (&[b"\n", b"*1\r", b"\n$0\r\n\r\n"], vec![words(&["PING"]), words(&[""])]),
    ] {
        let pieces: Vec<&[u8]> = first.iter().chain(rest).copied().collect();
        assert_eq!(read_all(&pieces, LIMITS), (expected, None), "{rest:?}");
    }
}

#[test]
fn inline_commands_support_quotes() {
    for (line, expected) in [
        ("SET a b\n", vec!["SET", "a", "b"]),
        ("SET  a\t'b c'\r\n", vec!["SET", "a", "b c"]),
        ("SET a \"b\\n\\x41\\q\"\r\n", vec!["SET", "a", "b\nAq"]),
        ("SET a 'it\\'s'\r\n", vec!["SET", "a", "it's"]),
        ("SET a\"b\" ''\r\n", vec!["SET", "ab", ""]),
    ] {
        assert_eq!(read_all(&[line.as_bytes()], LIMITS), (vec![words(&expected)], None));
    }
    for line in ["SET a \"b\n", "SET a 'b\n", "SET a \"b\"c\n"] {
        let (requests, error) = read_all(&[line.as_bytes()], LIMITS);
        assert!(requests.is_empty());
        assert_eq!(error.unwrap(), "Protocol error: unbalanced quotes in request");
    }
}

#[test]
fn invalid_streams_get_the_errors_of_redis() {
    let long_line = vec![b'1'; LINE_BYTES_MAX + 2];
    let long_count = [b"*", &long_line[..]].concat();
    let long_bulk = [b"*1\r\n$", &long_line[..]].concat();
    let cases: [(&[u8], &str); 13] = [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n:3\r\n", "expected '$', got ':'"),
        (b"*1\r\n\x01", "expected '$', got '?'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$1\r\nabc", "expected '\\r\\n' after a bulk string"),
        (b"*1\rx", "expected '\\n' after '\\r'"),
        (&long_line, "too big inline request"),
        (&long_count, "too big mbulk count string"),
        (&long_bulk, "too big bulk count string"),
    ];
    for (stream, expected) in cases {
        let (requests, error) = read_all(&[stream], LIMITS);
        assert!(requests.is_empty());
        assert_eq!(error.unwrap(), format!("Protocol error: {expected}"));
    }
}

#[test]
fn unauthenticated_clients_have_lower_limits() {
    let limits = Limits { authenticated: false, ..LIMITS };
    for (stream, expected) in [
        ("*11\r\n", "Protocol error: unauthenticated multibulk length"),
        ("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "Protocol error: unauthenticated bulk length"),
    ] {
        assert_eq!(read_all(&[stream.as_bytes()], limits).1.unwrap(), expected);
        assert_eq!(read_all(&[stream.as_bytes()], LIMITS).1, None);
    }
}

/// The stream continues behind a request that is too large, which takes no memory.
#[test]
fn a_request_that_is_too_large_is_discarded() {
    let limits = Limits { request_bytes_max: 1000, authenticated: true };
    let value = vec![b'$'; 5000];
    let many: Vec<Vec<u8>> = vec![Vec::new(); 40];
    for large in [
        encode(&[b"SET".to_vec(), value.clone(), b"x".to_vec()]),
        encode(&[b"SET".to_vec(), b"k".to_vec(), value.clone(), value.clone(), b"*1".to_vec()]),
        encode(&[value[..600].to_vec(), value[..600].to_vec()]),
        encode(&[b"SET".to_vec(), b"k".to_vec(), value[..1000].to_vec()]),
        // Arguments without bytes take memory as well.
        encode(&many),
    ] {
        let stream = [&large[..], b"*1\r\n$4\r\nPING\r\n", &large[..], b"PING\r\n"].concat();
        let expected = [None, Some(words(&["PING"])), None, Some(words(&["PING"]))];
        for piece in [1, 7, 100, stream.len()] {
            let pieces: Vec<&[u8]> = stream.chunks(piece).collect();
            let (requests, error) = read_with_too_large(&pieces, limits);
            assert_eq!(error, None);
            assert_eq!(requests, expected);
        }
    }
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
    buffer.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000000\r\n");
    assert_eq!(parser.next(&mut buffer, limits), Ok(None));
    for _ in 0..1000 {
        buffer.extend_from_slice(&value);
        assert_eq!(parser.next(&mut buffer, limits), Ok(None));
        assert_eq!((buffer.len(), parser.wanted_bytes(0)), (0, 0));
    }
    let broken = [&b"*2\r\n$5000\r\n"[..], &value, b"x\r\n"].concat();
    let (requests, error) = read_with_too_large(&[&broken], limits);
    assert!(requests.is_empty());
    assert_eq!(error.unwrap(), "Protocol error: expected '\\r\\n' after a bulk string");
}

#[test]
fn a_request_without_room_is_discarded_wherever_it_is_cut() {
    let stream = encode(&[b"SET".to_vec(), b"key".to_vec(), vec![b'x'; 300], b"NX".to_vec()]);
    let next = b"*1\r\n$4\r\nPING\r\n";
    for cut in 0..stream.len() {
        let (mut parser, mut buffer) = (Parser::default(), BytesMut::from(&stream[..cut]));
        assert_eq!(parser.next(&mut buffer, LIMITS), Ok(None));
        let is_discarded = parser.discard(&mut buffer);
        assert_eq!(is_discarded, cut >= 4, "the header of the array is known: {cut}");
        assert!(!is_discarded || buffer.len() < 310);
        buffer.extend_from_slice(&stream[cut..]);
        buffer.extend_from_slice(next);
        let first = if is_discarded {
            Parsed::TooLarge
        } else {
            Parsed::Request(vec!["SET".into(), "key".into(), vec![b'x'; 300].into(), "NX".into()])
        };
        assert_eq!(parser.next(&mut buffer, LIMITS), Ok(Some(first)));
        assert_eq!(parser.next(&mut buffer, LIMITS), Ok(Some(Parsed::Request(words(&["PING"])))));
    }
}

#[test]
fn the_parser_returns_the_missing_bytes_of_a_value() {
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::from(&b"*1\r\n$10\r\nabc"[..]));
    assert_eq!(parser.next(&mut buffer, LIMITS), Ok(None));
    assert_eq!(parser.wanted_bytes(buffer.len()), 9);
    buffer.extend_from_slice(b"defghij\r\n");
    assert!(parser.next(&mut buffer, LIMITS).unwrap().is_some());
    assert_eq!(parser.wanted_bytes(buffer.len()), 0);
}

fn requests() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let argument = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec(prop::collection::vec(argument, 1..5), 0..6)
}

/// The parts of streams: complete requests and single bytes.
const PARTS: [&[u8]; 22] = [
    b"*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$1\r\na\r\n$2\r\nbb\r\n",
    b"PING\r\n",
    b"a b\n",
    b"*1\r\n",
    b"$1\r\n",
    b"*",
    b"$",
    b"1",
    b"2",
    b"3",
    b"-",
    b"\r",
    b"\n",
    b"\r\n",
    b"\"",
    b"'",
    b"\\x",
    b" ",
    b"a",
    b"b",
    b"\0",
];

proptest! {
    #[test]
    fn any_cut_gives_the_same_requests(sent in requests(), cuts in prop::collection::vec(0_usize..800, 0..10)) {
        let stream: Vec<u8> = sent.iter().flat_map(|request| encode(request)).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        let (got, error) = read_all(&pieces, LIMITS);
        prop_assert_eq!(error, None);
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn any_cut_of_any_bytes_gives_the_same_end(
        parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 0..20),
        cuts in prop::collection::vec(0_usize..100, 0..6),
    ) {
        let stream = parts.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        prop_assert_eq!(read_all(&[&stream], LIMITS), read_all(&pieces, LIMITS));
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected(stream: Vec<u8>) {
        read_all(&[&stream], LIMITS);
    }
}
