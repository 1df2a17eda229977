//! How the budget of the caches is used: what an operator may choose.

use std::fmt;
use std::str::FromStr;

/// How KV entries, KP entries and blocks share the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CachePolicy {
    /// Boundaries move by marginal utility ([`crate::tide`]).
    #[default]
    Tide,
    /// KV and KP have so many hundredths of the budget, blocks the rest; entries come in
    /// and leave as under [`CachePolicy::Tide`].
    Fixed {
        /// Hundredths of KV.
        kv: u8,
        /// Hundredths of KP.
        kp: u8,
    },
    /// Blocks only; the least recently used one leaves.
    BlockOnly,
}

/// Text that names no policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchPolicy(String);

impl fmt::Display for NoSuchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no cache policy: tide, block-only, kv-only, kp-only, or fixed:KV,KP,BLOCK \
             in hundredths that make 100",
            self.0
        )
    }
}

impl std::error::Error for NoSuchPolicy {}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tide => f.write_str("tide"),
            Self::BlockOnly => f.write_str("block-only"),
            Self::Fixed { kv: 100, .. } => f.write_str("kv-only"),
            Self::Fixed { kp: 100, .. } => f.write_str("kp-only"),
            Self::Fixed { kv, kp } => {
                write!(f, "fixed:{kv},{kp},{}", 100u8.saturating_sub(*kv).saturating_sub(*kp))
            }
        }
    }
}

impl FromStr for CachePolicy {
    type Err = NoSuchPolicy;

    fn from_str(text: &str) -> Result<Self, NoSuchPolicy> {
        let fixed = || {
            let mut parts = text.strip_prefix("fixed:")?.split(',').map(|part| part.parse().ok());
            let (kv, kp, block): (u8, u8, u8) = (parts.next()??, parts.next()??, parts.next()??);
            let whole = u32::from(kv) + u32::from(kp) + u32::from(block);
            (parts.next().is_none() && whole == 100).then_some(Self::Fixed { kv, kp })
        };
        match text {
            "tide" => Ok(Self::Tide),
            "block-only" => Ok(Self::BlockOnly),
            "kv-only" => Ok(Self::Fixed { kv: 100, kp: 0 }),
            "kp-only" => Ok(Self::Fixed { kv: 0, kp: 100 }),
            _ => fixed().ok_or_else(|| NoSuchPolicy(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_written() {
        for text in ["tide", "block-only", "kv-only", "kp-only", "fixed:30,20,50", "fixed:0,0,100"]
        {
            assert_eq!(text.parse::<CachePolicy>().unwrap().to_string(), text);
        }
        for text in
            ["", "Tide", "fixed", "fixed:", "fixed:50,50", "fixed:50,60,0", "fixed:1,2,97,0"]
        {
            assert!(text.parse::<CachePolicy>().is_err(), "{text}");
        }
    }
}
