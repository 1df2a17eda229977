//! The parser of requests, for fuzzers. Not part of the public face, and may
//! change at any time.

use bytes::BytesMut;

use crate::request::{Limits, Parser};

/// The requests in a stream that arrives in `pieces`, as far as they are
/// complete, and what is wrong with the stream, if anything is.
pub fn parse<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    request_bytes_max: usize,
    authenticated: bool,
) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let limits = Limits { request_bytes_max, authenticated };
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
    let mut requests = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&mut buffer, limits) {
                Ok(Some(request)) => {
                    requests.push(request.iter().map(|argument| argument.to_vec()).collect());
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error.to_string())),
            }
        }
        assert!(parser.wanted_bytes(buffer.len()) <= request_bytes_max + 2);
    }
    (requests, None)
}
