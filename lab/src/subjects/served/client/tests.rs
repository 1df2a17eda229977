//! The client with correct, truncated, and wrong replies.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::load::keys::key_of;

/// Returns its input in pieces of this number of bytes, and then ends.
struct Script {
    replies: Vec<u8>,
    piece: usize,
    asked: Vec<u8>,
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.piece.min(buffer.len()).min(self.replies.len());
        buffer[..bytes].copy_from_slice(&self.replies[..bytes]);
        self.replies.drain(..bytes);
        Ok(bytes)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(self.piece)];
        self.asked.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn scripted(replies: &[u8], piece: usize) -> Connection<Script> {
    Connection::new(Script { replies: replies.into(), piece, asked: Vec::new() })
}

fn printed(key: &[u8]) -> String {
    let mut out = Vec::new();
    print_key(key, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn keys_are_printable_and_stay_distinct() {
    assert_eq!(printed(&key_of(0x1f0a)), "0000000000001f0a");
    assert_eq!(printed(&7u64.to_be_bytes()), "x0000000000000007");
    assert_eq!(printed(b"k \n"), "x6b200a");
    assert_eq!(printed(b""), "x");
    // A key of the length of the lab's keys, different from all of them.
    assert_eq!(printed(&[0xff; 16]), format!("x{}", "ff".repeat(16)));
    assert_eq!(printed(&[1; 124]).len(), 249);
    assert!(print_key(&[1; 125], &mut Vec::new()).unwrap_err().is_usage);
}

#[test]
fn requests_follow_the_protocol_and_replies_may_arrive_in_pieces() {
    let key = key_of(1);
    for piece in [1, 2, 7] {
        let mut connection = scripted(b"", piece);
        // A reply must not arrive before its request.
        let reply = |connection: &mut Connection<Script>, text: &[u8]| {
            connection.stream.replies = text.into();
        };
        reply(&mut connection, b"STORED\r\n");
        assert!(connection.set(&key, b"a\r\nbc").unwrap());
        reply(&mut connection, b"VALUE 0000000000000001 0 5\r\na\r\nbc\r\nEND\r\n");
        let mut seen: Vec<u8> = Vec::new();
        assert!(connection.get(&key, &mut |value| seen.extend(value)).unwrap());
        assert_eq!(seen, b"a\r\nbc");
        reply(&mut connection, b"END\r\n");
        assert!(!connection.get(&key, &mut |_| panic!("there is none")).unwrap());
        reply(&mut connection, b"DELETED\r\n");
        connection.delete(&key).unwrap();
        reply(&mut connection, b"NOT_FOUND\r\n");
        connection.delete(&key).unwrap();
        let stats = b"STAT a 1\r\nSTAT b text\r\nSTAT c 18446744073709551615\r\nEND\r\n";
        reply(&mut connection, stats);
        let stats = connection.stats().unwrap();
        assert_eq!(stats, [("a".to_owned(), 1), ("c".to_owned(), u64::MAX)].into());
        let asked = String::from_utf8(connection.stream.asked).unwrap();
        let key = "0000000000000001";
        let gets = format!("get {key}\r\n").repeat(2);
        let deletes = format!("delete {key}\r\n").repeat(2);
        let expected = format!("set {key} 0 0 5\r\na\r\nbc\r\n{gets}{deletes}stats\r\n");
        assert_eq!(asked, expected);
    }
}

#[test]
fn lack_of_memory_is_not_an_error() {
    let mut connection = scripted(b"SERVER_ERROR out of memory storing object\r\n", 99);
    assert!(!connection.set(b"k", b"v").unwrap());
    let mut connection = scripted(b"SERVER_ERROR out of memory writing get response\r\n", 99);
    assert!(!connection.get(b"k", &mut |_| panic!("there is none")).unwrap());
    let mut connection = scripted(b"SERVER_ERROR object too large for cache\r\n", 99);
    assert!(connection.set(b"k", b"v").is_err());
}

#[test]
fn unexpected_replies_are_errors() {
    let see = &mut |_: &[u8]| panic!("nothing is to be seen");
    let replies: [&[u8]; 11] = [
        b"",
        b"\r\n",
        b"garbage\r\n",
        b"\0\xff\xfe",
        b"VALUE x6b 0 3\r\nab",
        b"VALUE x6b 0 3\r\nabcdefghijklm\r\n",
        b"VALUE x6b 0 99999999999999999999999\r\n",
        b"VALUE x6b 0 999999999999\r\n",
        b"VALUE x6b 0 -1\r\nEND\r\n",
        b"VALUE x6c 0 1\r\na\r\nEND\r\n",
        b"VALUE x6b 0\r\na\r\nEND\r\n",
    ];
    for reply in replies {
        for piece in [1, 1000] {
            let of = String::from_utf8_lossy(reply);
            assert!(scripted(reply, piece).get(b"k", see).is_err(), "get: {of:?}");
            assert!(scripted(reply, piece).set(b"k", b"v").is_err(), "set: {of:?}");
            assert!(scripted(reply, piece).delete(b"k").is_err(), "delete: {of:?}");
            assert!(scripted(reply, piece).stats().is_err(), "stats: {of:?}");
        }
    }
}

#[test]
fn endless_replies_are_errors() {
    let line = vec![b'a'; 1 << 20];
    let error = scripted(&line, 1000).get(b"k", &mut |_| ()).unwrap_err();
    assert!(error.message.len() < 300 && error.message.contains("strange"), "{error}");
    let stats = b"STAT a 1\r\n".repeat(STATS_MAX + 1);
    assert!(scripted(&stats, 1000).stats().is_err());
}

#[test]
fn surplus_bytes_are_not_the_next_reply() {
    let mut connection = scripted(b"STORED\r\nSTORED\r\n", 1000);
    assert!(connection.set(b"k", b"v").unwrap());
    assert!(connection.set(b"k", b"v").is_err());
}

#[test]
fn a_server_that_ends_within_a_value_is_an_error() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"VALUE x6b 0 100000\r\nbeginning").unwrap();
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    let error = Connection::new(ours).get(b"k", &mut |_| panic!("it is not whole")).unwrap_err();
    assert!(error.message.contains("lost the server"), "{error}");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let replies = b"STORED\r\nSERVER_ERROR out of memory storing object\r\nEND\r\n\
        VALUE b 0 3\r\n\r\nE\r\nEND\r\nEND\r\n";
    let sets = [(&b"a"[..], &b"12"[..]), (b"c", b"")];
    let gets = [&b"x"[..], b"b", b"y"];
    for piece in [1, 5, 1_000] {
        let mut connection = scripted(replies, piece);
        let mut found = Vec::new();
        let see = &mut |is_found| found.push(is_found);
        let has_memory = connection.exchange(sets.into_iter(), gets.into_iter(), see).unwrap();
        assert_eq!((found, has_memory), (vec![false, true, false], false));
        let asked = "set a 0 0 2\r\n12\r\nset c 0 0 0\r\n\r\nget x\r\nget b\r\nget y\r\n";
        assert_eq!(String::from_utf8_lossy(&connection.stream.asked), asked);
    }
    for wrong in ["VALUE b 0 x\r\n", "VALUE b 0 1\r\nabcdefgh", "NO\r\n"] {
        let asked = [&b"b"[..]].into_iter();
        let mut connection = scripted(wrong.as_bytes(), 1_000);
        assert!(connection.exchange([].into_iter(), asked, &mut |_| ()).is_err(), "{wrong}");
    }
    let mut connection = scripted(b"STAT 1:total_pages 3\r\nSTAT total_malloced 9\r\nEND\r\n", 7);
    assert_eq!(connection.stats_of("slabs").unwrap()["total_malloced"], 9);
    assert_eq!(connection.stream.asked, b"stats slabs\r\n");
}
