//! How the budget of the caches is used: what an operator may choose.

use std::fmt;
use std::str::FromStr;

use crate::eviction::order::Eviction;
use crate::ideas::{Idea, Ideas};

/// How KV entries, KP entries and blocks share the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CachePolicy {
    /// Boundaries move by marginal utility ([`crate::partition::controller`]).
    #[default]
    Tide,
    /// The same without some of its ideas: for the lab. Never without none.
    TideWithout(Ideas),
    /// KV and KP have so many hundredths of the budget, blocks the rest; entries come in
    /// and leave as under [`CachePolicy::Tide`].
    Fixed {
        /// Hundredths of KV.
        kv: u8,
        /// Hundredths of KP.
        kp: u8,
    },
    /// AC-Key as it was published ([`crate::ac_key::shard`]): what `tide` is held against.
    Hac {
        /// Its learning rate `k`: bytes that the boundary moves by, for a hit in a ghost
        /// that would have saved an I/O per byte.
        k: u32,
        /// Its ghost turn-off threshold `θ`, in hundredths.
        theta: u8,
    },
    /// AC-Key's caches with boundaries that never move, and without ghosts: at the best
    /// split it is what the paper calls `offline`. KV and KP lend each other what they do not
    /// fill.
    Offline {
        /// Hundredths of KV.
        kv: u8,
        /// Hundredths of KP.
        kp: u8,
    },
    /// Blocks only; the least recently used one leaves.
    BlockOnly,
    /// Blocks only; they leave as CLOCK says.
    BlockClock,
    /// Blocks only; they leave as S3-FIFO says.
    BlockS3Fifo,
}

impl CachePolicy {
    /// AC-Key with the numbers of the paper.
    pub const HAC: Self = Self::Hac { k: 100_000, theta: 5 };

    /// In which order blocks leave.
    pub(crate) fn eviction(self) -> Eviction {
        match self {
            Self::BlockClock => Eviction::Clock,
            Self::BlockS3Fifo => Eviction::S3Fifo,
            _ => Eviction::Lru,
        }
    }

    /// Which ideas of `tide` are left out.
    pub fn left_out(self) -> Ideas {
        if let Self::TideWithout(ideas) = self { ideas } else { Ideas::NONE }
    }

    /// Whether this one is.
    pub fn lacks(self, idea: Idea) -> bool {
        self.left_out().has(idea)
    }

    /// Whether boundaries move by marginal utility.
    pub(crate) fn is_moved_by_worth(self) -> bool {
        matches!(self, Self::Tide | Self::TideWithout(_)) && !self.lacks(Idea::Controller)
    }

    /// What KV, KP and blocks have, if the policy says so.
    pub(crate) fn shares(self) -> Option<[f64; 3]> {
        match self {
            Self::Fixed { kv, kp } | Self::Offline { kv, kp } => {
                let (kv, kp) = (f64::from(kv) / 100.0, f64::from(kp) / 100.0);
                Some([kv, kp, (1.0 - kv - kp).max(0.0)])
            }
            _ if self.is_of_blocks() => Some([0.0, 0.0, 1.0]),
            _ => self.lacks(Idea::Controller).then_some(Ideas::SPLIT),
        }
    }

    /// Whether there are entries, as this product keeps them.
    pub(crate) fn is_compact(self) -> bool {
        !self.is_of_blocks() && !self.is_of_ac_key()
    }

    /// Whether there are entries, as AC-Key keeps them.
    pub fn is_of_ac_key(self) -> bool {
        matches!(self, Self::Hac { .. } | Self::Offline { .. })
    }

    /// Whether sketches and ghosts take notes to decide by.
    pub fn is_measured(self) -> bool {
        !self.is_of_blocks() && !matches!(self, Self::Offline { .. })
    }

    /// Whether blocks have all of the budget.
    pub fn is_of_blocks(self) -> bool {
        matches!(self, Self::BlockOnly | Self::BlockClock | Self::BlockS3Fifo)
    }
}

/// Text that names no policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchPolicy {
    text: String,
    /// What it leaves out that is no idea.
    no_idea: Option<String>,
}

impl fmt::Display for NoSuchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.no_idea {
            let names: Vec<&str> = Ideas::all().map(|(_, name)| name).collect();
            return write!(f, "tide cannot do without {name:?}: only {}", names.join(", "));
        }
        write!(
            f,
            "{:?} is no cache policy: tide, hac or hac:K,THETA (bytes, hundredths), block-only, \
             block-clock, block-s3-fifo, kv-only, kp-only, fixed:KV,KP,BLOCK or \
             offline:KV,KP,BLOCK in hundredths that make 100; for the lab, \
             tide-without:IDEA[,IDEA...]",
            self.text
        )
    }
}

impl std::error::Error for NoSuchPolicy {}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tide => f.write_str("tide"),
            Self::TideWithout(ideas) => write!(f, "tide-without:{ideas}"),
            Self::HAC => f.write_str("hac"),
            Self::Hac { k, theta } => write!(f, "hac:{k},{theta}"),
            Self::BlockOnly => f.write_str("block-only"),
            Self::BlockClock => f.write_str("block-clock"),
            Self::BlockS3Fifo => f.write_str("block-s3-fifo"),
            Self::Fixed { kv: 100, .. } => f.write_str("kv-only"),
            Self::Fixed { kp: 100, .. } => f.write_str("kp-only"),
            Self::Fixed { kv, kp } => write!(f, "fixed:{kv},{kp},{}", rest_of(kv, kp)),
            Self::Offline { kv, kp } => write!(f, "offline:{kv},{kp},{}", rest_of(kv, kp)),
        }
    }
}

/// Hundredths of blocks.
fn rest_of(kv: u8, kp: u8) -> u8 {
    100u8.saturating_sub(kv).saturating_sub(kp)
}

impl FromStr for CachePolicy {
    type Err = NoSuchPolicy;

    fn from_str(text: &str) -> Result<Self, NoSuchPolicy> {
        let split_behind = |name: &str| {
            let mut parts = text.strip_prefix(name)?.split(',').map(|part| part.parse().ok());
            let (kv, kp, block): (u8, u8, u8) = (parts.next()??, parts.next()??, parts.next()??);
            let whole = u32::from(kv) + u32::from(kp) + u32::from(block);
            (parts.next().is_none() && whole == 100).then_some((kv, kp))
        };
        let fixed = || split_behind("fixed:").map(|(kv, kp)| Self::Fixed { kv, kp });
        let offline = || split_behind("offline:").map(|(kv, kp)| Self::Offline { kv, kp });
        let hac = || {
            let (k, theta) = text.strip_prefix("hac:")?.split_once(',')?;
            let (k, theta) = (k.parse().ok()?, theta.parse().ok()?);
            (theta <= 100).then_some(Self::Hac { k, theta })
        };
        if let Some(names) = text.strip_prefix("tide-without:") {
            let no_idea =
                |name: &str| NoSuchPolicy { text: text.into(), no_idea: Some(name.into()) };
            return Ideas::parse(names).map(Self::TideWithout).map_err(no_idea);
        }
        match text {
            "tide" => Ok(Self::Tide),
            "hac" => Ok(Self::HAC),
            "block-only" => Ok(Self::BlockOnly),
            "block-clock" => Ok(Self::BlockClock),
            "block-s3-fifo" => Ok(Self::BlockS3Fifo),
            "kv-only" => Ok(Self::Fixed { kv: 100, kp: 0 }),
            "kp-only" => Ok(Self::Fixed { kv: 0, kp: 100 }),
            _ => fixed()
                .or_else(offline)
                .or_else(hac)
                .ok_or_else(|| NoSuchPolicy { text: text.into(), no_idea: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_written() {
        let names = "tide hac hac:1000,30 block-only block-clock block-s3-fifo kv-only kp-only \
                     fixed:30,20,50 fixed:0,0,100 offline:100,0,0 offline:30,20,50 \
                     tide-without:sync tide-without:repair,sync";
        for text in names.split_whitespace() {
            assert_eq!(text.parse::<CachePolicy>().unwrap().to_string(), text);
        }
        assert_eq!("hac:100000,5".parse(), Ok(CachePolicy::HAC));
        let others = "Tide fixed fixed: fixed:50,50 fixed:50,60,0 fixed:1,2,97,0 hac: hac:5 \
                      hac:5,101 hac:-1,5 hac:5,5,5 offline offline:30,20 offline:30,20,60 \
                      block-lru tide-without tide-without: tide-without:sync, tide-without:tide";
        for text in others.split_whitespace().chain([""]) {
            assert!(text.parse::<CachePolicy>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_idea_can_be_left_out_and_no_other() {
        for (idea, name) in Ideas::all() {
            let text = format!("tide-without:{name}");
            let policy: CachePolicy = text.parse().unwrap();
            assert!(policy.lacks(idea) && policy.to_string() == text);
            assert_eq!(Ideas::all().filter(|(idea, _)| policy.lacks(*idea)).count(), 1);
            assert!(!CachePolicy::Tide.lacks(idea));
        }
        let all: Vec<&str> = Ideas::all().map(|(_, name)| name).collect();
        let text = format!("tide-without:{}", all.join(","));
        assert_eq!(text.parse::<CachePolicy>().unwrap().to_string(), text);
        let error = "tide-without:sync,tides".parse::<CachePolicy>().unwrap_err().to_string();
        assert!(error.starts_with("tide cannot do without \"tides\": only admission, "), "{error}");
        assert!(all.iter().all(|name| error.contains(name)), "{error}");
    }
}
