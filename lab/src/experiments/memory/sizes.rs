//! The numbers of the loads of `memory-promise`, by scale.

use crate::scale::Scale;

pub(super) const MIB: u64 = 1 << 20;

/// The numbers of a load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sizes {
    /// The length of the largest value, and of the values sent by halves.
    pub(super) value_bytes: u64,
    pub(super) halves_bytes: u64,
    /// Clients that send halves.
    pub(super) halves: u64,
    /// The offset of the byte written far behind the end.
    pub(super) offset: u64,
    pub(super) keys: u64,
    pub(super) fields: u64,
    pub(super) appends: u64,
    /// Bytes of long keys together.
    pub(super) key_bytes: u64,
    /// Clients of the mix, and how long they work.
    pub(super) clients: u64,
    pub(super) mix_s: f64,
    /// How long replies are not read.
    pub(super) unread_s: f64,
}

impl Sizes {
    pub(super) fn new(scale: &Scale) -> Self {
        let is_quick = scale.is_quick;
        let pick = |usual: u64, quick: u64| if is_quick { quick } else { usual };
        Self {
            value_bytes: 255 * MIB,
            halves_bytes: 100_000_000,
            halves: pick(2000, 200),
            offset: pick(267_386_880, 64 * MIB),
            keys: (scale.entries / 2).max(1000),
            fields: (scale.entries / 10).max(1000),
            appends: pick(200, 40),
            key_bytes: pick(300_000_000, 20_000_000),
            clients: pick(200, 40),
            mix_s: scale.seconds * 6.0,
            unread_s: scale.seconds,
        }
    }
}

/// What the clients of a step know.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) port: u16,
    pub(super) sizes: &'a Sizes,
    pub(super) seed: u64,
}
