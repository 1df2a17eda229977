//! The requests of a connection, parsed from its input.

use std::collections::VecDeque;

use crate::commands::catalogue;
use crate::commands::command::{Call, Command};
use crate::dispatch::pipeline;
use crate::protocol::input::Input;
use crate::protocol::reply::CommandError;
use crate::protocol::request::{Arguments, Limits, Parsed};
use crate::state::server_state::State;
use crate::state::session::Session;

/// Maximum requests parsed from the input before they are executed.
const REQUESTS_MAX: usize = pipeline::WRITE_CALLS_MAX;
/// Maximum bytes of these requests.
const REQUEST_BYTES: usize = 1 << 20;
/// Initial capacity for them.
const DEFAULT_REQUESTS: usize = 16;

/// A parsed request.
pub(crate) enum Request {
    Call(Call),
    /// A request that cannot be executed.
    Refused(CommandError),
    /// A request that was discarded.
    Discarded,
    /// A protocol error: the stream ends here; earlier requests are still executed.
    End,
}

/// Parses complete requests from the input, up to the limits.
pub(crate) fn parse(input: &mut Input, state: &State, session: &mut Session) -> VecDeque<Request> {
    let mut requests = VecDeque::with_capacity(DEFAULT_REQUESTS);
    let mut bytes = 0;
    let limits = Limits {
        request_bytes_max: state.memory.request_bytes_max(),
        authenticated: session.is_authenticated(),
    };
    // An unauthenticated client's requests are parsed one by one: AUTH changes the limits of the
    // next.
    let requests_max = if limits.authenticated { REQUESTS_MAX } else { 1 };
    let mut last_command: Option<&'static Command> = None;
    while requests.len() < requests_max && bytes < REQUEST_BYTES {
        match input.next(limits) {
            Ok(None) => break,
            Ok(Some(Parsed::TooLarge)) => requests.push_back(Request::Discarded),
            Ok(Some(Parsed::Request(words))) if is_http(&words) => {
                session.is_closing = true;
                break;
            }
            Ok(Some(Parsed::Request(words))) => {
                requests.push_back(match catalogue::resolve(words, last_command) {
                    Ok(call) => {
                        bytes += call.bytes_len();
                        last_command = Some(call.command);
                        Request::Call(call)
                    }
                    Err(error) => Request::Refused(error),
                })
            }
            Err(error) => {
                let error = CommandError::from(format!("ERR {error}"));
                requests.extend([Request::Refused(error), Request::End]);
                break;
            }
        }
    }
    state.counters.commands.add(requests.len());
    if let Some(command) = last_command {
        session.client.touch(state.now_ms(), command.name);
    }
    requests
}

/// Whether it is an HTTP request: a web page may make a browser send commands in its body. Redis
/// closes such a connection without a reply, and so does TideKV.
fn is_http(words: &Arguments) -> bool {
    words[0].eq_ignore_ascii_case(b"post") || words[0].eq_ignore_ascii_case(b"host:")
}
