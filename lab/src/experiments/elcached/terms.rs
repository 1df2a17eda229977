//! Latencies and prices for plans: the paper (ElCached §5) states none of them.
//!
//! | terms | a read of flash adds | the back end adds | source |
//! |---|---|---|---|
//! | [`USUAL`] | 100 µs | 1 ms | the design's; [`VARIED`] has each of them halved and doubled |
//! | [`SOONER`] | 50 µs | 2 ms | our own, chosen after the results of the others |
//! | [`SOLVED`] | 295 µs | 10.8 ms | the two sizings whose latency the paper states ([`crate::experiments::elcached::sizing`]) |
//!
//! DRAM answers in 10 µs, and a GiB of it costs as much as 13 of flash.

use tidekv_plan::{Latencies, Prices};

/// The purpose of terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The paper's savings are checked.
    Usual,
    Sooner,
    Solved,
    /// No check: they show the effect of terms.
    Nothing,
}

/// Latencies and prices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) name: &'static str,
    pub(super) asked: Asked,
    pub(super) latencies: Latencies,
    pub(super) prices: Prices,
}

/// Those of the design.
pub(super) const USUAL: Terms = Terms {
    name: "usual",
    asked: Asked::Usual,
    latencies: Latencies::DEFAULT,
    prices: Prices::DEFAULT,
};

/// Faster flash, and a slower back end.
pub(super) const SOONER: Terms = Terms {
    name: "flash-50us-backend-2ms",
    asked: Asked::Sooner,
    latencies: Latencies { flash_us: 50.0, backend_us: 2_000.0, ..Latencies::DEFAULT },
    ..USUAL
};

/// The terms that give the paper's sizings their stated latency, rounded.
pub(super) const SOLVED: Terms = Terms {
    name: "example",
    asked: Asked::Solved,
    latencies: Latencies { flash_us: 295.0, backend_us: 10_780.0, ..Latencies::DEFAULT },
    ..USUAL
};

/// The common part of the terms without a check.
const OTHER: Terms = Terms { asked: Asked::Nothing, ..USUAL };

/// [`USUAL`], each of it halved and doubled, and [`SOONER`].
pub(super) const VARIED: [Terms; 8] = [
    USUAL,
    Terms { name: "dram-6.5", prices: Prices { dram_per_gib: 6.5, ..Prices::DEFAULT }, ..OTHER },
    Terms { name: "dram-26", prices: Prices { dram_per_gib: 26.0, ..Prices::DEFAULT }, ..OTHER },
    Terms {
        name: "flash-50us",
        latencies: Latencies { flash_us: 50.0, ..Latencies::DEFAULT },
        ..OTHER
    },
    Terms {
        name: "flash-200us",
        latencies: Latencies { flash_us: 200.0, ..Latencies::DEFAULT },
        ..OTHER
    },
    Terms {
        name: "backend-500us",
        latencies: Latencies { backend_us: 500.0, ..Latencies::DEFAULT },
        ..OTHER
    },
    Terms {
        name: "backend-2ms",
        latencies: Latencies { backend_us: 2_000.0, ..Latencies::DEFAULT },
        ..OTHER
    },
    SOONER,
];
