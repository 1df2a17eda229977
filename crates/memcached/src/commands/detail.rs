//! `stats detail`: turns the counters by prefix on and off, and shows them.

use crate::commands::execution::{Execution, Progress};
use crate::protocol::words::Line;
use crate::state::server_state::State;

const USAGE: &str = "CLIENT_ERROR usage: stats detail on|off|dump";
const NOT_ALLOWED: &str = "CLIENT_ERROR stats detail not allowed";

/// What `stats detail` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    On,
    Off,
    Dump,
    /// An argument is missing or wrong.
    Unknown,
}

/// Reads `stats detail`.
pub(crate) fn read(line: &Line) -> Detail {
    Detail::named(line.word(2)).unwrap_or(Detail::Unknown)
}

impl Detail {
    /// What this argument means.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"on" => Self::On,
            b"off" => Self::Off,
            b"dump" => Self::Dump,
            _ => return None,
        })
    }

    /// Reserves memory for the reply of a dump, whose size clients choose by their keys.
    pub(crate) fn reserve(self, execution: &mut Execution<'_>) -> Result<(), Progress> {
        match self {
            Self::Dump => execution.reserve(execution.state.prefixes.dump_bytes_max()),
            _ => Ok(()),
        }
    }

    /// Answers it in the text protocol.
    pub(crate) fn run(self, execution: &mut Execution<'_>) -> Progress {
        if !execution.state.options.allows_dumps {
            return execution.say(NOT_ALLOWED);
        }
        if self == Self::Unknown {
            return execution.say(USAGE);
        }
        if let Err(missing) = self.reserve(execution) {
            return missing;
        }
        let lines = self.apply(execution.state);
        execution.out.put(lines.as_bytes());
        execution.say(if self == Self::Dump { "END" } else { "OK" })
    }

    /// The lines of a dump; the others have none, and take effect.
    pub(crate) fn apply(self, state: &State) -> String {
        match self {
            Self::On => state.prefixes.turn(true),
            Self::Off => state.prefixes.turn(false),
            Self::Dump => return state.prefixes.dump(),
            Self::Unknown => {}
        }
        String::new()
    }
}
