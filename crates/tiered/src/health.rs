//! How a device does: when it is not to be relied on any more, and when it is to be tried again
//! (BigKV, "reactive fault tolerance").
//!
//! ```text
//!        failed(), slow                      failed() thrice, slow for long
//!  ok ──────────────────► suspect ─────────────────────────────────────────► out
//!   ▲  ◄──────────────────   │ worked() sixteen times in a row              │  │ ▲
//!   │                                                       returned()      │  └─┘ try again,
//!   └──────────────────────── warming ◄─────────────────────────────────────┘    rarer and rarer
//!          settled()             │ as from suspect: out
//! ```
//!
//! Pure: the caller says what happened and what time it is.

use std::time::Duration;

/// Failures in a row after which a device is out.
const FAILURES_MAX: u32 = 3;
/// Operations in a row after which a suspect is trusted again.
const TRUST: u32 = 16;
/// An operation that takes so long is out of line with any flash.
const SLOW: Duration = Duration::from_millis(500);
/// Slow operations in a row after which a device is out.
const SLOW_MAX: u32 = 8;
/// How long a device is out before it is tried again for the first time.
const PAUSE: Duration = Duration::from_secs(5);
/// Pauses double, up to this one.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What state a device is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceState {
    /// It works.
    Ok,
    /// It has failed lately, or been slow.
    Suspect,
    /// It is not used.
    Out,
    /// It works again, and what its keys have elsewhere is moved back as it is asked for.
    Warming,
}

impl DeviceState {
    /// The state in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Suspect => "suspect",
            Self::Out => "out",
            Self::Warming => "warming",
        }
    }
}

/// The health of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    is_out: bool,
    is_warming: bool,
    /// In a row.
    failures: u32,
    slow: u32,
    /// Operations that must work until it is trusted; 0: it is.
    doubts: u32,
    pause: Duration,
    try_again_ns: u64,
}

impl Health {
    /// A device that works.
    pub(crate) fn new() -> Self {
        Self {
            is_out: false,
            is_warming: false,
            failures: 0,
            slow: 0,
            doubts: 0,
            pause: PAUSE,
            try_again_ns: 0,
        }
    }

    pub(crate) fn state(&self) -> DeviceState {
        match self {
            Self { is_out: true, .. } => DeviceState::Out,
            Self { doubts: 1.., .. } => DeviceState::Suspect,
            Self { is_warming: true, .. } => DeviceState::Warming,
            _ => DeviceState::Ok,
        }
    }

    /// Whether some of what its keys have is elsewhere.
    pub(crate) fn is_warming(&self) -> bool {
        self.is_warming
    }

    /// An operation has worked; whether the device is to go for having been slow too often.
    pub(crate) fn worked(&mut self, took: Duration) -> bool {
        self.failures = 0;
        if took >= SLOW {
            self.slow += 1;
            self.doubts = TRUST;
            return self.slow >= SLOW_MAX;
        }
        self.slow = 0;
        self.doubts = self.doubts.saturating_sub(1);
        false
    }

    /// An operation has failed; whether the device is to go.
    pub(crate) fn failed(&mut self) -> bool {
        self.failures += 1;
        self.doubts = TRUST;
        self.failures >= FAILURES_MAX
    }

    /// The device is out.
    pub(crate) fn left(&mut self, now_ns: u64) {
        self.is_out = true;
        self.is_warming = false;
        self.try_later(now_ns);
    }

    /// Whether it is time to try a device that is out.
    pub(crate) fn is_to_be_tried(&self, now_ns: u64) -> bool {
        self.is_out && now_ns >= self.try_again_ns
    }

    /// A try has failed, or is under way.
    pub(crate) fn try_later(&mut self, now_ns: u64) {
        let pause_ns = u64::try_from(self.pause.as_nanos()).unwrap_or(u64::MAX);
        self.try_again_ns = now_ns.saturating_add(pause_ns);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// The device is back, empty.
    pub(crate) fn returned(&mut self) {
        *self = Self { is_warming: true, doubts: TRUST, pause: self.pause, ..Self::new() };
    }

    /// Nothing of its keys is elsewhere any more.
    pub(crate) fn settled(&mut self) {
        self.is_warming = false;
        self.pause = PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(1);

    #[test]
    fn it_goes_after_failures_in_a_row_only() {
        let mut health = Health::new();
        for _ in 0..10 {
            assert!(!health.failed() && !health.failed());
            assert_eq!(health.state(), DeviceState::Suspect);
            health.worked(QUICK);
        }
        (0..TRUST).for_each(|_| _ = health.worked(QUICK));
        assert_eq!(health.state(), DeviceState::Ok);
        assert!(!health.failed() && !health.failed() && health.failed());
    }

    #[test]
    fn it_goes_when_it_is_slow_again_and_again() {
        let mut health = Health::new();
        assert!((1..SLOW_MAX).all(|_| !health.worked(SLOW)));
        assert_eq!(health.state(), DeviceState::Suspect);
        assert!(health.worked(SLOW));
        let mut health = Health::new();
        for _ in 0..100 {
            assert!(!health.worked(SLOW) && !health.worked(QUICK));
        }
    }

    #[test]
    fn it_is_tried_again_rarer_and_rarer_and_warms_when_it_is_back() {
        let mut health = Health::new();
        health.left(0);
        assert_eq!(health.state(), DeviceState::Out);
        let second_ns = 1_000_000_000;
        assert!(!health.is_to_be_tried(4 * second_ns) && health.is_to_be_tried(5 * second_ns));
        health.try_later(5 * second_ns);
        assert!(!health.is_to_be_tried(14 * second_ns) && health.is_to_be_tried(15 * second_ns));
        health.returned();
        assert_eq!((health.state(), health.is_warming()), (DeviceState::Suspect, true));
        (0..TRUST).for_each(|_| _ = health.worked(QUICK));
        assert_eq!(health.state(), DeviceState::Warming);
        health.settled();
        assert_eq!(health.state(), DeviceState::Ok);
        health.left(0);
        assert!(health.is_to_be_tried(5 * second_ns));
    }
}
