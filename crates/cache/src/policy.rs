//! Cache policies: how the operator lets the caches share the budget.

use std::fmt;
use std::str::FromStr;

use crate::ablation::{Ablation, Ablations};
use crate::eviction::order::Eviction;

/// How KV entries, KP entries and blocks share the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CachePolicy {
    /// Boundaries move by marginal utility (`crate::partition::controller`).
    #[default]
    Adaptive,
    /// The same without some of its mechanisms, for the lab. The set is never empty.
    AdaptiveWithout(Ablations),
    /// KV and KP have a fixed percentage of the budget, blocks the rest; admission and eviction
    /// work as under [`CachePolicy::Adaptive`].
    Fixed {
        /// Percentage of KV.
        kv: u8,
        /// Percentage of KP.
        kp: u8,
    },
    /// AC-Key as published (`crate::ac_key::shard`): the baseline of `adaptive`.
    AcKey {
        /// Its learning rate `k`: bytes by which the boundary moves for a ghost hit that would have
        /// saved one I/O per byte.
        k: u32,
        /// Its ghost turn-off threshold `θ`, in percent.
        theta: u8,
    },
    /// AC-Key's caches with fixed boundaries and without ghosts: at the best split this is the
    /// paper's `offline`. KV and KP lend each other the bytes that they do not fill.
    AcKeyFixed {
        /// Percentage of KV.
        kv: u8,
        /// Percentage of KP.
        kp: u8,
    },
    /// Blocks only; LRU eviction.
    BlockOnly,
    /// Blocks only; CLOCK eviction.
    BlockClock,
    /// Blocks only; S3-FIFO eviction.
    BlockS3Fifo,
}

impl CachePolicy {
    /// AC-Key with the paper's parameters.
    pub const AC_KEY: Self = Self::AcKey { k: 100_000, theta: 5 };

    /// The eviction order of blocks.
    pub(crate) fn eviction(self) -> Eviction {
        match self {
            Self::BlockClock => Eviction::Clock,
            Self::BlockS3Fifo => Eviction::S3Fifo,
            _ => Eviction::Lru,
        }
    }

    /// The mechanisms of `adaptive` that are switched off.
    pub fn ablations(self) -> Ablations {
        if let Self::AdaptiveWithout(ablations) = self { ablations } else { Ablations::NONE }
    }

    /// Whether `ablation` is switched off.
    pub fn disables(self, ablation: Ablation) -> bool {
        self.ablations().has(ablation)
    }

    /// Whether boundaries move by marginal utility.
    pub(crate) fn moves_by_utility(self) -> bool {
        matches!(self, Self::Adaptive | Self::AdaptiveWithout(_))
            && !self.disables(Ablation::Controller)
    }

    /// The shares of KV, KP and blocks, if the policy fixes them.
    pub(crate) fn shares(self) -> Option<[f64; 3]> {
        match self {
            Self::Fixed { kv, kp } | Self::AcKeyFixed { kv, kp } => {
                let (kv, kp) = (f64::from(kv) / 100.0, f64::from(kp) / 100.0);
                Some([kv, kp, (1.0 - kv - kp).max(0.0)])
            }
            _ if self.is_of_blocks() => Some([0.0, 0.0, 1.0]),
            _ => self.disables(Ablation::Controller).then_some(Ablations::SPLIT),
        }
    }

    /// Whether there are entries in this crate's own form.
    pub(crate) fn is_compact(self) -> bool {
        !self.is_of_blocks() && !self.is_of_ac_key()
    }

    /// Whether there are entries in AC-Key's form.
    pub fn is_of_ac_key(self) -> bool {
        matches!(self, Self::AcKey { .. } | Self::AcKeyFixed { .. })
    }

    /// Whether sketches and ghosts measure accesses.
    pub fn is_measured(self) -> bool {
        !self.is_of_blocks() && !matches!(self, Self::AcKeyFixed { .. })
    }

    /// Whether blocks have the whole budget.
    pub fn is_of_blocks(self) -> bool {
        matches!(self, Self::BlockOnly | Self::BlockClock | Self::BlockS3Fifo)
    }
}

/// The text names no known policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchPolicy {
    text: String,
    /// The unknown mechanism after `adaptive-without:`.
    unknown: Option<String>,
}

impl fmt::Display for NoSuchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.unknown {
            let names: Vec<&str> = Ablations::all().map(|(_, name)| name).collect();
            return write!(
                f,
                "the adaptive policy cannot switch off {name:?}: only {}",
                names.join(", ")
            );
        }
        write!(
            f,
            "{:?} is no cache policy: adaptive, ac-key or ac-key:K,THETA (bytes, hundredths), block-only, \
             block-clock, block-s3-fifo, kv-only, kp-only, fixed:KV,KP,BLOCK or \
             ac-key-fixed:KV,KP,BLOCK in hundredths that make 100; for the lab, \
             adaptive-without:MECHANISM[,MECHANISM...]",
            self.text
        )
    }
}

impl std::error::Error for NoSuchPolicy {}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Adaptive => f.write_str("adaptive"),
            Self::AdaptiveWithout(ablations) => write!(f, "adaptive-without:{ablations}"),
            Self::AC_KEY => f.write_str("ac-key"),
            Self::AcKey { k, theta } => write!(f, "ac-key:{k},{theta}"),
            Self::BlockOnly => f.write_str("block-only"),
            Self::BlockClock => f.write_str("block-clock"),
            Self::BlockS3Fifo => f.write_str("block-s3-fifo"),
            Self::Fixed { kv: 100, .. } => f.write_str("kv-only"),
            Self::Fixed { kp: 100, .. } => f.write_str("kp-only"),
            Self::Fixed { kv, kp } => write!(f, "fixed:{kv},{kp},{}", rest_of(kv, kp)),
            Self::AcKeyFixed { kv, kp } => write!(f, "ac-key-fixed:{kv},{kp},{}", rest_of(kv, kp)),
        }
    }
}

/// Percentage of blocks.
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
        let offline = || split_behind("ac-key-fixed:").map(|(kv, kp)| Self::AcKeyFixed { kv, kp });
        let ac_key = || {
            let (k, theta) = text.strip_prefix("ac-key:")?.split_once(',')?;
            let (k, theta) = (k.parse().ok()?, theta.parse().ok()?);
            (theta <= 100).then_some(Self::AcKey { k, theta })
        };
        if let Some(names) = text.strip_prefix("adaptive-without:") {
            let unknown =
                |name: &str| NoSuchPolicy { text: text.into(), unknown: Some(name.into()) };
            return Ablations::parse(names).map(Self::AdaptiveWithout).map_err(unknown);
        }
        match text {
            "adaptive" => Ok(Self::Adaptive),
            "ac-key" => Ok(Self::AC_KEY),
            "block-only" => Ok(Self::BlockOnly),
            "block-clock" => Ok(Self::BlockClock),
            "block-s3-fifo" => Ok(Self::BlockS3Fifo),
            "kv-only" => Ok(Self::Fixed { kv: 100, kp: 0 }),
            "kp-only" => Ok(Self::Fixed { kv: 0, kp: 100 }),
            _ => fixed()
                .or_else(offline)
                .or_else(ac_key)
                .ok_or_else(|| NoSuchPolicy { text: text.into(), unknown: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_text_round_trips() {
        let names = "adaptive ac-key ac-key:1000,30 block-only block-clock block-s3-fifo kv-only kp-only \
                     fixed:30,20,50 fixed:0,0,100 ac-key-fixed:100,0,0 ac-key-fixed:30,20,50 \
                     adaptive-without:sync adaptive-without:repair,sync";
        for text in names.split_whitespace() {
            assert_eq!(text.parse::<CachePolicy>().unwrap().to_string(), text);
        }
        assert_eq!("ac-key:100000,5".parse(), Ok(CachePolicy::AC_KEY));
        let others = "Adaptive fixed fixed: fixed:50,50 fixed:50,60,0 fixed:1,2,97,0 ac-key: ac-key:5 \
                      ac-key:5,101 ac-key:-1,5 ac-key:5,5,5 ac-key-fixed ac-key-fixed:30,20 ac-key-fixed:30,20,60 \
                      block-lru adaptive-without adaptive-without: adaptive-without:sync, adaptive-without:tide";
        for text in others.split_whitespace().chain([""]) {
            assert!(text.parse::<CachePolicy>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_mechanism_can_be_ablated_and_no_other() {
        for (ablation, name) in Ablations::all() {
            let text = format!("adaptive-without:{name}");
            let policy: CachePolicy = text.parse().unwrap();
            assert!(policy.disables(ablation) && policy.to_string() == text);
            assert_eq!(
                Ablations::all().filter(|(ablation, _)| policy.disables(*ablation)).count(),
                1
            );
            assert!(!CachePolicy::Adaptive.disables(ablation));
        }
        let all: Vec<&str> = Ablations::all().map(|(_, name)| name).collect();
        let text = format!("adaptive-without:{}", all.join(","));
        assert_eq!(text.parse::<CachePolicy>().unwrap().to_string(), text);
        let error = "adaptive-without:sync,tides".parse::<CachePolicy>().unwrap_err().to_string();
        assert!(
            error.starts_with("the adaptive policy cannot switch off \"tides\": only admission, "),
            "{error}"
        );
        assert!(all.iter().all(|name| error.contains(name)), "{error}");
    }
}
