//! The record of a command, which produces its lookup, its arity errors, `COMMAND`, `COMMAND DOCS`
//! and `docs/reference/commands.md`. The records are in [`catalogue`](crate::commands::catalogue).

use bytes::Bytes;

use crate::data::execution::Execution;
use crate::protocol::reply::CommandResult;
use crate::state::stripes::KeySet;

/// The execution class of a command: where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecutionClass {
    /// On the event loop: it never touches the store.
    Loop,
    /// Reads a few keys: on the event loop if they are in memory, otherwise on an I/O thread in a
    /// batch.
    Point,
    /// Writes, in a transaction with other calls: on the event loop if it need not wait, otherwise
    /// on an I/O thread.
    Write,
    /// Alone, on an I/O thread.
    Alone,
    /// Alone, on an I/O thread, but not on the last free one: it may visit every key.
    Walk,
}

/// The flags of a command in `COMMAND`, with the names of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    Write,
    ReadOnly,
    DenyOom,
    Admin,
    NoScript,
    Loading,
    Stale,
    Fast,
    NoAuth,
    AllowBusy,
}

impl Flag {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::ReadOnly => "readonly",
            Self::DenyOom => "denyoom",
            Self::Admin => "admin",
            Self::NoScript => "noscript",
            Self::Loading => "loading",
            Self::Stale => "stale",
            Self::Fast => "fast",
            Self::NoAuth => "no_auth",
            Self::AllowBusy => "allow_busy",
        }
    }
}

/// The group of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    String,
    Generic,
    Hash,
    Bitmap,
    Connection,
    Server,
    Transactions,
}

impl Group {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Generic => "generic",
            Self::Hash => "hash",
            Self::Bitmap => "bitmap",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Transactions => "transactions",
        }
    }
}

/// The positions of keys, as in Redis: the command's name is 0, a negative `last` counts from the
/// end, and a `first` of 0 means no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) step: i64,
}

impl Keys {
    pub(crate) const NONE: Self = Self { first: 0, last: 0, step: 0 };
    pub(crate) const ONE: Self = Self { first: 1, last: 1, step: 1 };
    pub(crate) const SECOND: Self = Self { first: 2, last: 2, step: 1 };
    /// From the second argument on.
    pub(crate) const FROM_SECOND: Self = Self { first: 2, last: -1, step: 1 };
    pub(crate) const TWO: Self = Self { first: 1, last: 2, step: 1 };
    pub(crate) const ALL: Self = Self { first: 1, last: -1, step: 1 };
    /// Keys and values alternate.
    pub(crate) const PAIRS: Self = Self { first: 1, last: -1, step: 2 };
}

/// A command that the connection executes, because it is about its queue, its watched keys or its
/// stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Monitor,
    Reset,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// The function of a command. Its arguments exclude the command's name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    /// Works on data or on the session.
    Data(fn(&mut Execution<'_>, &[Bytes]) -> CommandResult),
    /// Describes the catalogue.
    Catalogue(fn(&'static [Command], &[Bytes]) -> CommandResult),
    /// Works on data or the state, and needs the catalogue.
    Both(fn(&mut Execution<'_>, &'static [Command], &[Bytes]) -> CommandResult),
    /// Lists the subcommands of the container with this name.
    Help(&'static str),
    /// Controls the connection.
    Transaction(Verb),
    /// Has subcommands only.
    Container(()),
}

/// The record of a command.
#[derive(Debug)]
pub(crate) struct Command {
    /// In lower case; `container|name` for a subcommand.
    pub(crate) name: &'static str,
    /// Number of arguments, the name included; if negative, the minimum.
    pub(crate) arity: i64,
    pub(crate) place: ExecutionClass,
    pub(crate) flags: &'static [Flag],
    pub(crate) keys: Keys,
    pub(crate) group: Group,
    /// The first version of Redis that has it; of TideKV for its own commands.
    pub(crate) since: &'static str,
    /// Its arguments, as in Redis's documentation.
    pub(crate) syntax: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) run: Run,
}

impl Command {
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether it accepts `arguments` arguments, its name included (two words for a subcommand).
    pub(crate) fn takes(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    /// The keys among all of its words.
    pub(crate) fn keys<'a>(&self, words: &'a [Bytes]) -> impl Iterator<Item = &'a Bytes> {
        let Keys { first, last, step } = self.keys;
        let last = if last < 0 { words.len() as i64 + last } else { last };
        let wanted = if first == 0 { 0 } else { (last - first + step).max(0) / step };
        words.iter().skip(first as usize).step_by(step.max(1) as usize).take(wanted as usize)
    }
}

/// The number of a command of `catalogue`.
pub(crate) fn position(catalogue: &[Command], command: &Command) -> Option<usize> {
    let start = catalogue.as_ptr().addr();
    let offset = std::ptr::from_ref(command).addr().checked_sub(start)?;
    Some(offset / size_of::<Command>()).filter(|&number| number < catalogue.len())
}

/// A command with its arguments, as sent by a client.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) command: &'static Command,
    /// Its name and arguments.
    pub(crate) words: Vec<Bytes>,
}

impl Call {
    /// The arguments without the name, or both names of a subcommand.
    pub(crate) fn arguments(&self) -> &[Bytes] {
        let names = if self.command.name.contains('|') { 2 } else { 1 };
        &self.words[names..]
    }

    /// Whether it may write.
    pub(crate) fn writes(&self) -> bool {
        self.command.has(Flag::Write)
    }

    /// Whether no transaction may overlap it: it changes which data is which database, or removes
    /// hashes of one database by what it finds in others.
    pub(crate) fn excludes_others(&self) -> bool {
        matches!(self.command.name, "flushdb" | "swapdb")
    }

    /// Total bytes of its words.
    pub(crate) fn bytes_len(&self) -> usize {
        self.words.iter().map(|word| word.len() + size_of::<Bytes>()).sum()
    }

    /// Adds the keys that it touches to `keys`.
    pub(crate) fn collect_keys(&self, keys: &mut KeySet) {
        if self.command.keys == Keys::NONE && self.writes() {
            keys.insert_all();
        }
        for key in self.command.keys(&self.words) {
            keys.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_among_the_words() {
        let words: Vec<Bytes> = ["c", "a", "b", "c", "d"].map(Bytes::from).to_vec();
        for (keys, expected) in [
            (Keys::NONE, vec![]),
            (Keys::ONE, vec!["a"]),
            (Keys::TWO, vec!["a", "b"]),
            (Keys::ALL, vec!["a", "b", "c", "d"]),
            (Keys::PAIRS, vec!["a", "c"]),
        ] {
            let command = Command { keys, ..EXAMPLE };
            assert_eq!(command.keys(&words).collect::<Vec<_>>(), expected);
        }
        assert_eq!(Command { keys: Keys::ALL, ..EXAMPLE }.keys(&words[..1]).count(), 0);
    }

    #[test]
    fn arity_counts_the_name() {
        assert!(Command { arity: 2, ..EXAMPLE }.takes(2));
        assert!(!Command { arity: 2, ..EXAMPLE }.takes(3));
        assert!(Command { arity: -2, ..EXAMPLE }.takes(3));
        assert!(!Command { arity: -2, ..EXAMPLE }.takes(1));
    }

    const EXAMPLE: Command = Command {
        name: "example",
        arity: 1,
        place: ExecutionClass::Loop,
        flags: &[],
        keys: Keys::NONE,
        group: Group::Generic,
        since: "1.0.0",
        syntax: "",
        summary: "",
        run: Run::Container(()),
    };
}
