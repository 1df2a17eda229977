//! The results of streams divided in any way, and their memory.

use proptest::prelude::*;

use super::*;
use crate::protocol::request::NO_COMMAND;

const OBJECT_BYTES_MAX: usize = 100_000;

fn access_of(is_known: bool) -> Access {
    if is_known { Access::Known } else { Access::Stranger }
}

fn fits(_: usize, value_len: usize) -> bool {
    value_len <= OBJECT_BYTES_MAX
}

/// All elements of a stream that arrives in `pieces`.
fn read_all<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, is_known: bool) -> Vec<Next> {
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
    let mut found = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&mut buffer, access_of(is_known), &fits) {
                Next::Nothing => break,
                Next::End(message) => {
                    found.push(Next::End(message));
                    return found;
                }
                next => found.push(next),
            }
        }
        assert!(parser.value_bytes() <= OBJECT_BYTES_MAX);
    }
    found
}

fn read(stream: &[u8]) -> Vec<Next> {
    read_all([stream], true)
}

/// The messages of requests that are only a message.
fn lines(stream: &[u8]) -> Vec<String> {
    let shown = |next: &Next| match next {
        Next::Request(Request::Service(Service::Say(line), is_quiet)) => {
            format!("{line}{}", if *is_quiet { " (quiet)" } else { "" })
        }
        Next::Request(Request::Refused(refused)) => format!("refused: {}", refused.message),
        Next::Request(_) => "request".into(),
        Next::End(message) => format!("end: {}", message.unwrap_or_default()),
        Next::Credentials(them) => format!("{:?} {:?}", them.user, them.password),
        Next::Nothing => unreachable!(),
    };
    read(stream).iter().map(shown).collect()
}

use crate::commands::service::Service;

fn value_of(next: &Next) -> Bytes {
    match next {
        Next::Request(Request::Set(set)) => set.store.value.clone(),
        Next::Request(Request::MetaSet(set)) => set.store.value.clone(),
        other => panic!("{other:?} has no value"),
    }
}

#[test]
fn values_have_their_own_allocation() {
    for len in [0, 1, 5000, 65_536, 65_537, 100_000] {
        let value = vec![b'x'; len];
        let stream = [format!("set a 0 0 {len}\r\n").as_bytes(), &value, b"\r\nget a\r\n"].concat();
        for step in [1000, 4096, stream.len()] {
            let found = read_all(stream.chunks(step), true);
            assert_eq!(found.len(), 2);
            let stored = value_of(&found[0]);
            assert_eq!(stored, value);
            // It is the only owner of its allocation.
            drop(found);
            assert!(stored.is_empty() || stored.try_into_mut().is_ok());
        }
    }
}

#[test]
fn a_value_allocates_memory_as_it_arrives() {
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
    let mut fed = 0;
    buffer.extend_from_slice(b"set a 0 0 1000000000\r\n");
    while fed < 10_000_000 {
        assert_eq!(parser.next(&mut buffer, Access::Known, &|_, _| true), Next::Nothing);
        assert!(parser.value_bytes() <= 2 * fed + VALUE_STEP_BYTES, "{fed}");
        assert_eq!(parser.missing_bytes(), 1_000_000_000 - fed);
        let (value, limit) = parser.room().unwrap();
        let count = limit.min(30_000);
        value.resize(value.len() + count, b'x');
        fed += count;
    }
}

#[test]
fn values_that_are_too_large_are_skipped() {
    let long = "x".repeat(200_000);
    let stream = format!("set a 0 0 200000\r\n{long}\r\nms a 200000 q\r\n{long}\r\nversion\r\n");
    let too_large = "refused: SERVER_ERROR object too large for cache";
    assert_eq!(lines(stream.as_bytes()), [too_large, too_large, "VERSION 1.6.45"]);
    // It is rejected before it has arrived.
    assert_eq!(lines(b"set a 0 0 200000\r\n"), [too_large]);
    // The value of an invalid request is skipped as well.
    assert_eq!(
        lines(b"ms a 3 5\r\nget\r\nset a x 0 3\r\nget\r\nmn\r\n"),
        ["CLIENT_ERROR invalid flag", BAD_FORMAT, "MN"]
    );
}

#[test]
fn a_discarded_value_is_skipped() {
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
    assert!(parser.give_up().is_none());
    buffer.extend_from_slice(b"set a 0 0 10\r\n1234");
    assert_eq!(parser.next(&mut buffer, Access::Known, &fits), Next::Nothing);
    let Some(Request::Refused(refused)) = parser.give_up() else { panic!("it is refused") };
    assert_eq!(refused.message, "SERVER_ERROR out of memory storing object");
    assert!(refused.removes);
    buffer.extend_from_slice(b"567890\r\nmn\r\n");
    let next = parser.next(&mut buffer, Access::Known, &fits);
    assert_eq!(next, Next::Request(Request::say("MN")));
    assert_eq!(parser.next(&mut buffer, Access::Known, &fits), Next::Nothing);
}

#[test]
fn a_value_ends_with_a_line_end() {
    assert_eq!(lines(b"set a 0 0 1\r\nabcd\r\n"), ["CLIENT_ERROR bad data chunk", BAD_FORMAT]);
    assert_eq!(
        lines(b"set a 0 0 1 noreply\r\nabcms a 1 q\r\nabc"),
        ["CLIENT_ERROR bad data chunk (quiet)", "CLIENT_ERROR bad data chunk"]
    );
}

#[test]
fn lines_are_bounded() {
    let long = |name: &str, len: usize| lines(&[name.as_bytes(), &vec![b'x'; len]].concat());
    assert_eq!(long("set ", 2044), [""; 0]);
    assert_eq!(long("set ", 2045), ["end: CLIENT_ERROR line too long"]);
    assert_eq!(long("get ", 500_000), [""; 0]);
    assert_eq!(long("get ", 1 << 20), ["end: CLIENT_ERROR line too long"]);
    // The limit of a line received at once is the same.
    let whole = format!("set {}\r\nmn\r\n", "x".repeat(2100));
    assert_eq!(lines(whole.as_bytes()), ["end: CLIENT_ERROR line too long"]);
    let keys = format!("gets {}\r\nmn\r\n", "x ".repeat(2100));
    assert_eq!(lines(keys.as_bytes()), ["request", "MN"]);
}

#[test]
fn other_protocols_end_the_stream() {
    assert_eq!(lines(b"POST / HTTP/1.1\r\nset a 0 0 1\r\n1\r\n"), ["end: "]);
}

/// A request of the binary protocol.
fn frame(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let body_len = (extras.len() + key.len() + value.len()) as u32;
    bytes[..5].copy_from_slice(&[REQUEST_MAGIC, opcode, 0, key.len() as u8, extras.len() as u8]);
    bytes[8..12].copy_from_slice(&body_len.to_be_bytes());
    [&bytes, extras, key, value].concat()
}

#[test]
fn the_first_byte_chooses_the_protocol() {
    let noop = frame(0x0a, &[], &[], &[]);
    let two = [&noop[..], &noop].concat();
    assert_eq!(read(&two).len(), 2);
    // Later in a connection of the text protocol it is an ordinary byte.
    assert_eq!(read(b"set a 0 0 1\r\n\x80\r\n").len(), 1);
    let late = [b"mn\r\n", &noop[..], b"\r\n"].concat();
    assert_eq!(lines(&late), ["MN", BAD_FORMAT, NO_COMMAND]);
    // A line is no frame.
    assert_eq!(read(&[&noop[..], &b"version\r\n".repeat(9)].concat())[1..], [Next::End(None)]);
}

#[test]
fn a_value_of_the_binary_protocol_has_no_line_end() {
    let set = frame(0x01, &[0; 8], b"a", b"hello");
    let refused = frame(0x01, &[0; 8], b"a", &vec![b'x'; OBJECT_BYTES_MAX + 1]);
    let stream = [&set[..], &refused, &frame(0xff, &[], &[], b"unknown"), &set].concat();
    let found = read(&stream);
    assert_eq!((found.len(), &found[0]), (4, &found[3]));
    let shown = format!("{found:?}");
    assert!(shown.contains("b\"hello\"") && shown.contains("TooLarge"), "{shown}");
}

#[test]
fn a_request_that_is_none_is_answered_when_its_key_has_arrived() {
    // The body has no room for the key.
    let mut get = frame(0x00, &[], &[b'k'; 251], &[]);
    get[8..12].copy_from_slice(&[0; 4]);
    assert_eq!(read(&get[..get.len() - 1]), []);
    assert_eq!(read(&get).len(), 1);
}

#[test]
fn strangers_authenticate_with_sasl() {
    let introduce = |opcode, key: &[u8], value: &[u8]| {
        let mut found = read_all([&frame(opcode, &[], key, value)[..]], false);
        found.pop().unwrap()
    };
    let Next::Credentials(them) = introduce(0x21, b"PLAIN", b"\0user\0pass word") else {
        panic!("these are credentials")
    };
    assert_eq!((&them.user[..], &them.password[..]), (&b"user"[..], &b"pass word"[..]));
    for (key, value) in [(&b"PLAIN"[..], &b"user"[..]), (b"PLAIN", b""), (b"CRAM-MD5", b"x")] {
        let failed = format!("{:?}", introduce(0x21, key, value));
        assert!(failed.contains("FailAuthentication"), "{failed}");
    }
    assert!(format!("{:?}", introduce(0x00, b"a", b"")).contains("Reject(AuthError)"));
}

#[test]
fn a_setting_can_choose_the_protocol() {
    let first = |protocol, stream: &[u8]| {
        let (mut parser, mut buffer) = (Parser::of(protocol), BytesMut::from(stream));
        let next = parser.next(&mut buffer, Access::Open, &fits);
        (next, parser.is_binary())
    };
    let noop = frame(0x0a, &[], b"", b"");
    let line = b"get a with more bytes than a header has\r\n";
    for protocol in [ProtocolChoice::Auto, ProtocolChoice::Binary] {
        assert!(first(protocol, &noop).1, "{protocol:?}");
    }
    for protocol in [ProtocolChoice::Auto, ProtocolChoice::Text] {
        assert!(!first(protocol, line).1, "{protocol:?}");
    }
    assert_eq!(first(ProtocolChoice::Binary, line), (Next::End(None), true));
    let refused = Next::Request(Request::say(NO_COMMAND));
    assert_eq!(first(ProtocolChoice::Text, b"\x80 a\r\n"), (refused, false));
}

#[test]
fn unknown_clients_must_authenticate() {
    let introduce = |stream: &[u8]| read_all([stream], false);
    let unauthenticated = || Next::Request(Request::say(UNAUTHENTICATED));
    assert_eq!(introduce(b"get a\r\nversion\r\n"), [unauthenticated(), unauthenticated()]);
    assert_eq!(
        introduce(b"set any 0 0 8\r\nuser pas\r\n"),
        [Next::Credentials(Credentials {
            user: "user".into(),
            password: "pas".into(),
            echo: None
        })]
    );
    for (stream, message) in [
        (&b"set a 0 0 4\r\nuser\r\n"[..], "CLIENT_ERROR bad authentication token format"),
        (b"set a 0 0 4\r\nuser p\r\n", "CLIENT_ERROR bad command line termination"),
    ] {
        assert_eq!(introduce(stream)[0], Next::Request(Request::say(message)));
    }
    // What was announced does not follow: the connection had ended, where memcached reads on.
    assert_eq!(
        introduce(b"set a 0 0 2147483646\r\nget a\r\n"),
        [Next::Request(Request::say(TOKEN_TOO_LONG)), unauthenticated()]
    );
    assert_eq!(introduce(&[b'x'; 3000]), [Next::End(Some(LINE_TOO_LONG))]);
}

/// Words and values of which mostly valid streams are composed.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        Just(b"set a 0 0 5\r\nhello\r\n".to_vec()),
        Just(b"set a 0 0 5 noreply\r\nhello\r\n".to_vec()),
        Just(b"cas a 1 2 3 4\r\nabc\r\n".to_vec()),
        Just(b"ms a 3 T0 c k\r\nabc\r\n".to_vec()),
        Just(b"ms a 200000\r\n".to_vec()),
        Just(b"get a b c\r\n".to_vec()),
        Just(b"gat 5 a b\n".to_vec()),
        Just(b"mg a s v t\r\n".to_vec()),
        Just(b"delete a 0 noreply\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"incr a 1\r\n".to_vec()),
        Just(b"set a 0 0 ".to_vec()),
        Just(b"\x80".to_vec()),
        Just(frame(0x01, &[0; 8], b"a", b"hello")),
        Just(frame(0x0e, &[], b"a", b"")),
        Just(frame(0x09, &[], b"abc", b"")),
        Just(frame(0x21, &[], b"PLAIN", b"\0user\0password")),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    proptest::collection::vec(fragment, 0..12).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn the_division_of_a_stream_changes_nothing(
        stream in fragments(),
        step in 1_usize..50,
        is_known: bool,
    ) {
        let whole = read_all([&stream[..]], is_known);
        prop_assert_eq!(&read_all(stream.chunks(step), is_known), &whole);
        for at in 0..stream.len().min(200) {
            let (front, back) = stream.split_at(at);
            prop_assert_eq!(&read_all([front, back], is_known), &whole);
        }
    }
}
