//! The request parser, for fuzzers. Not part of the public API; may change at any time.

use bytes::BytesMut;

use crate::clients::parser::{Next, Parser};
use crate::commands::binary::Access;

/// Parses a stream of memcached's protocol that arrives in `pieces`, and returns its complete
/// elements as text. A client that is not `is_known` must authenticate.
pub fn parse<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    object_bytes_max: usize,
    is_known: bool,
) -> Vec<String> {
    let access = if is_known { Access::Known } else { Access::Stranger };
    let fits = |_: usize, value_len: usize| value_len <= object_bytes_max;
    let (mut parser, mut buffer) = (Parser::default(), BytesMut::new());
    let mut found = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.next(&mut buffer, access, &fits) {
                Next::Nothing => break,
                next => found.push(format!("{next:?}")),
            }
            if found.last().is_some_and(|last| last.starts_with("End")) {
                return found;
            }
        }
        assert!(parser.value_bytes() <= object_bytes_max);
    }
    found
}
