//! Replies with any number of elements: in memory while they are short, and otherwise produced while
//! they are sent.
//!
//! RESP announces the number of elements first. Where it is not known, the source is read twice: a
//! source that is [rewound](Source::rewind) yields the same elements again.

use std::iter::from_fn;

use crate::data::execution::Execution;
use crate::protocol::reply::{
    CommandError, CommandResult, Reply, STREAMED_BYTES, SequenceKind, Streamed,
};

/// The elements of a reply, keys and values of a map in turn.
pub(crate) trait Source: Send + 'static {
    /// The next element.
    fn next(&mut self) -> Option<Result<Reply, CommandError>>;

    /// Starts again: the same elements follow.
    fn rewind(&mut self);
}

/// The reply with the elements of `source`, of which there are `count` if that is known.
///
/// In a transaction, whose commands are answered together, the reply is in memory as a whole, up to
/// a bound.
pub(crate) fn reply(
    execution: &Execution<'_>,
    kind: SequenceKind,
    count: Option<u64>,
    mut source: impl Source,
) -> CommandResult {
    let memory = &execution.state.memory;
    let mut elements = Vec::new();
    let mut bytes = 0;
    loop {
        match source.next() {
            None => return Ok(kind.reply(elements)),
            Some(element) => {
                let element = element?;
                bytes += element.bytes_len();
                // While the vector grows, the old one is in memory as well as the new one.
                let grows = elements.len() == elements.capacity();
                if grows && !execution.may_stream() {
                    memory.check_reply(3 * elements.len() * size_of::<Reply>())?;
                }
                elements.push(element);
            }
        }
        if bytes > STREAMED_BYTES && execution.may_stream() {
            break;
        }
        memory.check_reply(bytes)?;
    }
    if let Some(count) = count {
        let rest = from_fn(move || source.next());
        return Ok(Streamed::reply(kind, count, elements.into_iter().map(Ok).chain(rest)));
    }
    let mut count = elements.len() as u64;
    drop(elements);
    while let Some(element) = source.next() {
        element?;
        count += 1;
    }
    source.rewind();
    Ok(Streamed::reply(kind, count, from_fn(move || source.next())))
}
