//! What a request means to a cache, with no more of it than that.

/// No object counts as larger, 256 TiB: a trace that is damaged says such things, and sums are to fit.
pub(crate) const BYTES_MAX: u64 = 1 << 48;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Asks for the object. What is not there is not loaded by that: whoever asked sets it, as
    /// clients of memcached do (ElCached §3).
    Get,
    /// Asks for an object of so many bytes, which is loaded where it was not there.
    Load(u64),
    /// The same, and how large it is nobody says: as large as it was, and nothing where it was not there.
    LoadUnsized,
    /// Stores an object that takes so many bytes.
    Set(u64),
    /// Removes the object.
    Delete,
}

impl Action {
    /// Whether it can be a hit or a miss.
    pub const fn is_request(self) -> bool {
        matches!(self, Self::Get | Self::Load(_) | Self::LoadUnsized)
    }

    /// How many bytes a request asks for, where it says so: no more than [`BYTES_MAX`].
    #[inline]
    pub(crate) fn asked_bytes(self) -> Option<u64> {
        match self {
            Self::Load(bytes) => Some(bytes.min(BYTES_MAX)),
            Self::Get | Self::LoadUnsized | Self::Set(_) | Self::Delete => None,
        }
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// A hash of the key, all bits of it as good as random.
    pub key: u64,
    /// What it does.
    pub action: Action,
    /// When, in milliseconds from a beginning of its own. A clock that goes back stands still.
    pub at_ms: u64,
    /// How long an object that it stores or loads lives, in milliseconds; for ever where `None`.
    pub ttl_ms: Option<u64>,
}

impl Access {
    /// A request of which nothing else is known.
    pub const fn new(key: u64, action: Action) -> Self {
        Self { key, action, at_ms: 0, ttl_ms: None }
    }
}
