//! What the server records of each executed call: the statistics of its command, the slow log and
//! the latency monitor.
//!
//! A call that is executed again after a conflict with another writer is recorded again.

use crate::commands::catalogue::COMMANDS;
use crate::commands::command::{Call, Flag, position};
use crate::state::latency_monitor::Sample;
use crate::state::server_state::State;
use crate::state::session::Session;
use crate::state::slow_log::{SlowCommand, shortened};

/// Records a call that began at `began_ns`, by the monotonic clock.
pub(crate) fn note(state: &State, session: &Session, call: &Call, began_ns: u64, has_failed: bool) {
    let took_ns = state.monotonic_ns().saturating_sub(began_ns);
    if let Some(number) = position(COMMANDS, call.command) {
        state.command_statistics.of(number).count(took_ns, has_failed);
    }
    let took_us = took_ns / 1000;
    let is_slow = |threshold: i64| u64::try_from(threshold).is_ok_and(|us| took_us >= us);
    if is_slow(state.settings.slow_log_us()) {
        let client = &session.client;
        let slow = SlowCommand {
            id: 0,
            unix_s: state.now_ms() / 1000,
            took_us,
            arguments: shortened(&call.words),
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
