//! How values, pointers and blocks share the memory of the caches: the policies that a user may
//! choose. Policies of experiments are behind the feature `research`.

use std::fmt;
use std::str::FromStr;

use tidekv_cache::CachePolicy as Internal;

/// How the caches divide their memory between values, pointers and blocks. As text (`Display`,
/// `FromStr`): `adaptive`, `block-only`, `block-clock`, `block-s3-fifo`, `kv-only`, `kp-only`,
/// `fixed:KV,KP,BLOCK` in percent that add up to 100, or `ac-key`.
///
/// ```
/// use tidekv::CachePolicy;
///
/// assert_eq!("adaptive".parse::<CachePolicy>()?, CachePolicy::Adaptive);
/// assert_eq!(CachePolicy::Fixed { kv: 20, kp: 10 }.to_string(), "fixed:20,10,70");
/// assert!("fixed:50,60,0".parse::<CachePolicy>().is_err());
/// # Ok::<(), tidekv::InvalidCachePolicy>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CachePolicy {
    /// Memory moves to where it saves the most storage reads.
    #[default]
    Adaptive,
    /// Blocks only, evicted by LRU.
    BlockOnly,
    /// Blocks only, evicted by CLOCK.
    BlockClock,
    /// Blocks only, evicted by S3-FIFO.
    BlockS3Fifo,
    /// Fixed shares in percent; blocks get the rest. At most 100 together.
    Fixed {
        /// Percent for values.
        kv: u8,
        /// Percent for pointers.
        kp: u8,
    },
    /// The algorithm of AC-Key as its paper describes it, for comparison.
    AcKey,
    /// A policy of an experiment.
    #[cfg(feature = "research")]
    Research(Internal),
}

/// A text that does not name a cache policy; the message lists the policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCachePolicy(String);

impl fmt::Display for InvalidCachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidCachePolicy {}

impl CachePolicy {
    /// The policy as the caches take it.
    pub(crate) fn internal(self) -> Internal {
        match self {
            Self::Adaptive => Internal::Adaptive,
            Self::BlockOnly => Internal::BlockOnly,
            Self::BlockClock => Internal::BlockClock,
            Self::BlockS3Fifo => Internal::BlockS3Fifo,
            Self::Fixed { kv, kp } => Internal::Fixed { kv, kp },
            Self::AcKey => Internal::AC_KEY,
            #[cfg(feature = "research")]
            Self::Research(policy) => policy,
        }
    }

    /// The public policy that is `policy`, if one is.
    pub(crate) fn public(policy: Internal) -> Option<Self> {
        match policy {
            Internal::Adaptive => Some(Self::Adaptive),
            Internal::BlockOnly => Some(Self::BlockOnly),
            Internal::BlockClock => Some(Self::BlockClock),
            Internal::BlockS3Fifo => Some(Self::BlockS3Fifo),
            Internal::Fixed { kv, kp } => Some(Self::Fixed { kv, kp }),
            Internal::AC_KEY => Some(Self::AcKey),
            #[cfg(feature = "research")]
            other => Some(Self::Research(other)),
            #[cfg(not(feature = "research"))]
            _ => None,
        }
    }
}

#[cfg(feature = "research")]
impl From<Internal> for CachePolicy {
    fn from(policy: Internal) -> Self {
        Self::public(policy).unwrap_or(Self::Research(policy))
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.internal().fmt(f)
    }
}

impl FromStr for CachePolicy {
    type Err = InvalidCachePolicy;

    fn from_str(text: &str) -> Result<Self, InvalidCachePolicy> {
        let parsed = text.parse::<Internal>().ok().and_then(Self::public);
        parsed.ok_or_else(|| {
            InvalidCachePolicy(format!(
                "{text:?} is no cache policy: adaptive, block-only, block-clock, block-s3-fifo, \
                 kv-only, kp-only, ac-key, or fixed:KV,KP,BLOCK in percent that add up to 100"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_parse_as_they_print_and_research_policies_need_the_feature() {
        for text in "adaptive block-only block-clock block-s3-fifo kv-only kp-only ac-key \
                     fixed:30,20,50"
            .split_whitespace()
        {
            assert_eq!(text.parse::<CachePolicy>().unwrap().to_string(), text);
        }
        for text in ["", "tide", "hac", "fixed:50,60,0", "lru"] {
            let error = text.parse::<CachePolicy>().unwrap_err().to_string();
            assert!(error.contains("adaptive, block-only"), "{error}");
        }
        for text in ["ac-key:5,5", "ac-key-fixed:30,20,50", "adaptive-without:sync"] {
            assert_eq!(text.parse::<CachePolicy>().is_ok(), cfg!(feature = "research"), "{text}");
        }
    }
}
