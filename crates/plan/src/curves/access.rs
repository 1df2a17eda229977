//! A request, reduced to its effect on a cache.

/// The largest size of an object, 256 TiB: damaged traces contain larger ones, and sums must not
/// overflow.
pub(crate) const BYTES_MAX: u64 = 1 << 48;

/// The effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Looks the object up. A miss does not load it: the client sets it, as clients of memcached do
    /// (ElCached §3).
    Get,
    /// Looks up an object of this many bytes, which is loaded on a miss.
    Load(u64),
    /// The same with an unknown size: the previous size, or this many bytes for an absent object,
    /// such as those of its key.
    LoadUnsized(u64),
    /// Stores an object of this many bytes.
    Set(u64),
    /// Removes the object.
    Delete,
    /// Changes the time to live of the object, if there is one, to that of the access.
    Expire,
}

impl Action {
    /// Whether it can be a hit or a miss.
    pub const fn is_request(self) -> bool {
        matches!(self, Self::Get | Self::Load(_) | Self::LoadUnsized(_))
    }

    /// The size of an object that is looked up, if known: at most [`BYTES_MAX`].
    #[inline]
    pub(crate) fn loaded_bytes(self) -> Option<u64> {
        match self {
            Self::Load(bytes) => Some(bytes.min(BYTES_MAX)),
            Self::Get | Self::LoadUnsized(_) | Self::Set(_) | Self::Delete | Self::Expire => None,
        }
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// A hash of the key, all bits of it as good as random.
    pub key: u64,
    /// Its effect.
    pub action: Action,
    /// Its time, in milliseconds from an arbitrary start. A clock that goes back counts as
    /// unchanged.
    pub at_ms: u64,
    /// Time to live of an object that it stores or loads, in milliseconds; `None` for ever.
    pub ttl_ms: Option<u64>,
    /// The bytes that the client gets, if they are not those of [`Action::Load`]: a cache takes more
    /// for an object.
    pub requested_bytes: Option<u64>,
}

impl Access {
    /// A request without time and time to live.
    pub const fn new(key: u64, action: Action) -> Self {
        Self { key, action, at_ms: 0, ttl_ms: None, requested_bytes: None }
    }

    /// The bytes requested, if known: at most [`BYTES_MAX`].
    #[inline]
    pub(crate) fn requested_bytes(&self) -> Option<u64> {
        let loaded = self.action.loaded_bytes();
        loaded.map(|bytes| self.requested_bytes.map_or(bytes, |bytes| bytes.min(BYTES_MAX)))
    }
}
