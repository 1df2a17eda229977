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

/// The arguments, which may be abbreviated in the text protocol; the first one that fits counts.
const NAMED: [(&[u8], Detail); 3] =
    [(b"on", Detail::On), (b"off", Detail::Off), (b"dump", Detail::Dump)];

/// Reads `stats detail`.
pub(crate) fn read(line: &Line) -> Detail {
    let name = line.word(2);
    let found = NAMED.iter().find(|(full, _)| !name.is_empty() && full.starts_with(name));
    found.map_or(Detail::Unknown, |&(_, detail)| detail)
}

impl Detail {
    /// What this end of a key of the binary protocol means; anything may follow it.
    pub(crate) fn of_key(end: &[u8]) -> Option<Self> {
        let argument = end.strip_prefix(b" ")?;
        let found = NAMED.iter().find(|(full, _)| argument.starts_with(full));
        found.map(|&(_, detail)| detail)
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
