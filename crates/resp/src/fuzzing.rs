//! The parser of requests, for fuzzers. Not part of the public face, and may
//! change at any time.

use bytes::BytesMut;

use crate::protocol::request::{Arguments, Limits, Parser};

/// The requests in a stream that arrives in `pieces`, as far as they are
/// complete, and what is wrong with the stream, if anything is.
pub fn parse<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    request_bytes_max: usize,
    authenticated: bool,
) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (requests, error) = read_all(pieces, Limits { request_bytes_max, authenticated });
    let copied = |request: Arguments| request.iter().map(|argument| argument.to_vec()).collect();
    (requests.into_iter().map(copied).collect(), error)
}

/// As [`parse`], for the parser's own tests.
pub(crate) fn read_all<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: Limits,
) -> (Vec<Arguments>, Option<String>) {
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
    let mut requests = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&mut buffer, limits) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => break,
                Err(error) => return (requests, Some(error.to_string())),
            }
        }
        assert!(parser.wanted_bytes(buffer.len()) <= limits.request_bytes_max + 2);
    }
    (requests, None)
}
