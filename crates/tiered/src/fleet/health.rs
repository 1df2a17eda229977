//! The health of a device: when it is taken out of use, and when it is tried again (BigKV,
//! "reactive fault tolerance").
//!
//! ```text
//!        failed(), slow                      failed() thrice, slow for long
//!  ok ──────────────────► suspect ─────────────────────────────────────────► out
//!   ▲  ◄──────────────────   │ worked() sixteen times in a row              │  │ ▲
//!   │                                                       returned()      │  └─┘ try again,
//!   └──────────────────────── warming ◄─────────────────────────────────────┘    less and less often
//!          settled()             │ as from suspect: out
//! ```
//!
//! Reads and writes are counted apart: a device that reads well and writes nothing is of no use
//! either. Lookups answered from memory are no evidence about a device, and are not reported.
//!
//! A failure that overlaps one already counted is not counted again: when a device stalls for a
//! moment all its readers are late.
//!
//! Pure: the caller passes events and times.

use std::time::Duration;

/// Failures in a row after which a device is out.
const FAILURES_MAX: u32 = 3;
/// Successes in a row after which a suspect is trusted again.
const TRUST: u32 = 16;
/// An operation that takes this long is out of line with any flash.
const SLOW: Duration = Duration::from_millis(500);
/// Slow operations in a row after which a device is out.
const SLOW_MAX: u32 = 8;
/// How long a device is out before the first retry.
const PAUSE: Duration = Duration::from_secs(5);
/// Pauses double, up to this limit.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// The state of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceState {
    /// It works.
    Ok,
    /// It has recently failed or been slow.
    Suspect,
    /// It is not in use.
    Out,
    /// It works again; objects of its keys on other devices are moved back as they are accessed.
    Warming,
}

impl DeviceState {
    /// The name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Suspect => "suspect",
            Self::Out => "out",
            Self::Warming => "warming",
        }
    }
}

/// The kind of an operation on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Write,
}

/// The health of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    is_out: bool,
    is_warming: bool,
    /// In a row, of reads and of writes.
    failures: [u32; 2],
    slow: u32,
    /// When the last counted operation of either kind ended.
    counted_until_ns: Option<u64>,
    /// Successes still needed until it is trusted; 0: it is.
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
            failures: [0; 2],
            slow: 0,
            counted_until_ns: None,
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

    /// Whether some objects of its keys are on other devices.
    pub(crate) fn is_warming(&self) -> bool {
        self.is_warming
    }

    /// Records a success; returns whether the device must be detached for having been slow too
    /// often.
    pub(crate) fn worked(&mut self, work: Work, began_ns: u64, ended_ns: u64) -> bool {
        self.failures[work as usize] = 0;
        if work == Work::Write {
            // Writes of segments and pages may take long: their time depends on their number.
            return false;
        }
        if Duration::from_nanos(ended_ns.saturating_sub(began_ns)) >= SLOW {
            self.slow += u32::from(self.is_another(began_ns, ended_ns));
            self.doubts = TRUST;
            return self.slow >= SLOW_MAX;
        }
        self.slow = 0;
        self.doubts = self.doubts.saturating_sub(1);
        false
    }

    /// Records a failure; returns whether the device must be detached.
    pub(crate) fn failed(&mut self, work: Work, began_ns: u64, ended_ns: u64) -> bool {
        self.failures[work as usize] += u32::from(self.is_another(began_ns, ended_ns));
        self.doubts = TRUST;
        self.failures[work as usize] >= FAILURES_MAX
    }

    /// Whether a failed or slow operation began after the last one that was counted; then it is the
    /// last.
    fn is_another(&mut self, began_ns: u64, ended_ns: u64) -> bool {
        let is_another = self.counted_until_ns.is_none_or(|until_ns| began_ns >= until_ns);
        if is_another {
            self.counted_until_ns = Some(ended_ns);
        }
        is_another
    }

    /// The device is out.
    pub(crate) fn detached(&mut self, now_ns: u64) {
        self.is_out = true;
        self.is_warming = false;
        self.try_later(now_ns);
    }

    /// Whether it is time to retry a device that is out.
    pub(crate) fn is_to_be_tried(&self, now_ns: u64) -> bool {
        self.is_out && now_ns >= self.try_again_ns
    }

    /// A retry has failed, or is under way.
    pub(crate) fn try_later(&mut self, now_ns: u64) {
        let pause_ns = u64::try_from(self.pause.as_nanos()).unwrap_or(u64::MAX);
        self.try_again_ns = now_ns.saturating_add(pause_ns);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// The device has returned, empty.
    pub(crate) fn returned(&mut self) {
        *self = Self { is_warming: true, doubts: TRUST, pause: self.pause, ..Self::new() };
    }

    /// No object of its keys is on another device any more.
    pub(crate) fn settled(&mut self) {
        self.is_warming = false;
        self.pause = PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that runs one operation after another.
    struct One(Health, u64);

    impl One {
        fn new() -> Self {
            Self(Health::new(), 0)
        }

        fn quick(&mut self) -> bool {
            self.1 += 1_000_000;
            self.0.worked(Work::Read, self.1 - 1_000_000, self.1)
        }

        fn slow(&mut self) -> bool {
            self.1 += SLOW.as_nanos() as u64;
            self.0.worked(Work::Read, self.1 - SLOW.as_nanos() as u64, self.1)
        }

        fn failed(&mut self) -> bool {
            self.1 += 1_000_000;
            self.0.failed(Work::Read, self.1 - 1_000_000, self.1)
        }
    }

    #[test]
    fn only_consecutive_failures_detach_a_device() {
        let mut one = One::new();
        for _ in 0..10 {
            assert!(!one.failed() && !one.failed());
            assert_eq!(one.0.state(), DeviceState::Suspect);
            one.quick();
        }
        (0..TRUST).for_each(|_| _ = one.quick());
        assert_eq!(one.0.state(), DeviceState::Ok);
        assert!(!one.failed() && !one.failed() && one.failed());
    }

    #[test]
    fn repeated_slowness_detaches_a_device() {
        let mut one = One::new();
        assert!((1..SLOW_MAX).all(|_| !one.slow()));
        assert_eq!(one.0.state(), DeviceState::Suspect);
        assert!(one.slow());
        let mut one = One::new();
        for _ in 0..100 {
            assert!(!one.slow() && !one.quick());
        }
    }

    #[test]
    fn successful_reads_do_not_offset_failed_writes() {
        let mut one = One::new();
        let write = |one: &mut One| {
            one.1 += 1;
            one.0.failed(Work::Write, one.1 - 1, one.1)
        };
        assert!((1..FAILURES_MAX).all(|_| !write(&mut one) && !one.quick()));
        assert!(write(&mut one));
        let mut one = One::new();
        for _ in 0..10 {
            assert!((1..FAILURES_MAX).all(|_| !write(&mut one)));
            one.0.worked(Work::Write, one.1, one.1);
        }
    }

    #[test]
    fn overlapping_failures_count_once() {
        let mut health = Health::new();
        let second_ns = 1_000_000_000;
        assert!((0..100).all(|n| !health.worked(Work::Read, n, second_ns + n)));
        assert!((0..100).all(|n| !health.failed(Work::Read, n, second_ns + n)));
        assert_eq!(health.state(), DeviceState::Suspect);
    }

    #[test]
    fn retries_back_off_and_a_returned_device_warms() {
        let mut health = Health::new();
        health.detached(0);
        assert_eq!(health.state(), DeviceState::Out);
        let second_ns = 1_000_000_000;
        assert!(!health.is_to_be_tried(4 * second_ns) && health.is_to_be_tried(5 * second_ns));
        health.try_later(5 * second_ns);
        assert!(!health.is_to_be_tried(14 * second_ns) && health.is_to_be_tried(15 * second_ns));
        health.returned();
        assert_eq!((health.state(), health.is_warming()), (DeviceState::Suspect, true));
        (0..u64::from(TRUST)).for_each(|n| _ = health.worked(Work::Read, n, n + 1));
        assert_eq!(health.state(), DeviceState::Warming);
        health.settled();
        assert_eq!(health.state(), DeviceState::Ok);
        health.detached(0);
        assert!(health.is_to_be_tried(5 * second_ns));
    }
}
