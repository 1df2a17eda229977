//! What the server records and shows of each executed call: the statistics of its command, the slow
//! log, the latency monitor and `MONITOR`.
//!
//! Guarantee: passwords are neither recorded nor shown. A call that is executed again after a
//! conflict with another writer is recorded again.

use bytes::Bytes;

use crate::commands::catalogue::COMMANDS;
use crate::commands::command::{Call, Flag, position};
use crate::commands::errors::is_word;
use crate::state::latency_monitor::Sample;
use crate::state::server_state::State;
use crate::state::session::Session;
use crate::state::slow_log::{SlowCommand, shortened};

/// Records a call whose execution took `took_ns`.
pub(crate) fn note(state: &State, session: &Session, call: &Call, took_ns: u64, has_failed: bool) {
    if let Some(number) = position(COMMANDS, call.command) {
        state.command_statistics.of(number).count(took_ns, has_failed);
    }
    let took_us = took_ns / 1000;
    let is_slow = |threshold: i64| u64::try_from(threshold).is_ok_and(|us| took_us >= us);
    if is_slow(state.settings.slow_log_us()) && call.command.name != "auth" {
        let client = &session.client;
        let slow = SlowCommand {
            id: 0,
            unix_s: state.now_ms() / 1000,
            took_us,
            arguments: shortened(&without_secrets(call)),
            address: client.address.clone(),
            name: client.said().name,
        };
        state.slow_log.add(slow, state.settings.slow_log_len());
    }
    let (threshold_ms, ms) = (state.settings.latency_threshold_ms(), took_us / 1000);
    if threshold_ms > 0 && ms >= threshold_ms {
        let event = if call.command.has(Flag::Fast) { "fast-command" } else { "command" };
        state.latency_monitor.record(event, Sample { unix_s: state.now_ms() / 1000, ms });
    }
}

/// Shows executed calls of a connection to the monitors, except for those of administrators.
/// Without a session the connection has ended.
pub(crate) fn show(state: &State, session: Option<&Session>, calls: &[Call]) {
    let Some(session) = session.filter(|_| state.monitors.are_any()) else { return };
    for call in calls.iter().filter(|call| !call.command.has(Flag::Admin)) {
        let address = &session.client.address;
        let words = without_secrets(call);
        state.monitors.tell(state.now_us(), session.database(), address, &words);
    }
}

/// Parameters of `CONFIG SET` whose values are secrets.
const SECRETS: [&str; 4] =
    ["requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"];

/// The words of a call, with passwords replaced as in Redis.
fn without_secrets(call: &Call) -> Vec<Bytes> {
    let mut words = call.words.clone();
    let is_secret = |at: usize| match call.command.name {
        "auth" => at > 0,
        // `HELLO 3 AUTH user password …`
        "hello" => {
            (1..=2).any(|before| at > before + 1 && is_word(&call.words[at - before], "AUTH"))
        }
        "config|set" => {
            at > 2 && at % 2 == 1 && SECRETS.iter().any(|name| is_word(&call.words[at - 1], name))
        }
        _ => false,
    };
    for (at, word) in words.iter_mut().enumerate() {
        if is_secret(at) {
            *word = Bytes::from_static(b"(redacted)");
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::catalogue;

    #[test]
    fn passwords_are_not_shown() {
        let shown = |text: &str| {
            let words = text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes()));
            let call = catalogue::resolve(words.collect(), None).unwrap();
            let words = without_secrets(&call);
            words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
        };
        for (text, expected) in [
            ("AUTH me secret", "AUTH (redacted) (redacted)"),
            ("HELLO 3 AUTH me secret SETNAME n", "HELLO 3 AUTH (redacted) (redacted) SETNAME n"),
            ("CONFIG SET timeout 1 requirepass x", "CONFIG SET timeout 1 requirepass (redacted)"),
            ("SET requirepass x", "SET requirepass x"),
            ("HELLO 3", "HELLO 3"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
