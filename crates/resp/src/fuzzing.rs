//! The request parser, for fuzzers. Not part of the public API; may change at any time.

use bytes::BytesMut;

use crate::protocol::request::{Arguments, Limits, Parsed, Parser};

/// The complete requests of a stream that arrives in `pieces`, without those that are too large, and
/// the protocol error of the stream, if there is one.
pub fn parse<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    request_bytes_max: usize,
    authenticated: bool,
) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (requests, error) = read_all(pieces, Limits { request_bytes_max, authenticated });
    let copied = |request: Arguments| request.iter().map(|argument| argument.to_vec()).collect();
    let requests = requests.into_iter().flatten();
    (requests.map(copied).collect(), error)
}

/// Like [`parse`], for the parser's own tests; `None` for a request that is too large.
pub(crate) fn read_all<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: Limits,
) -> (Vec<Option<Arguments>>, Option<String>) {
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
    let mut requests = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&mut buffer, limits) {
                Ok(Some(Parsed::Request(request))) => requests.push(Some(request)),
                Ok(Some(Parsed::TooLarge)) => requests.push(None),
                Ok(None) => break,
                Err(error) => return (requests, Some(error.to_string())),
            }
        }
        assert!(parser.wanted_bytes(buffer.len()) <= limits.request_bytes_max + 2);
    }
    (requests, None)
}
