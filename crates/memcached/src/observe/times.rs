//! Latencies of which a cache samples quantiles.

use tidekv_io::LatencyCounts;
use tidekv_observe::history::Times;
use tidekv_tiered::ReadTimes;

/// Latencies since the start.
#[derive(Debug, Clone)]
pub(crate) enum CacheTimes {
    /// Requests.
    Requests(LatencyCounts),
    /// Lookups that read a flash device.
    Reads(Box<ReadTimes>),
}

impl Times for CacheTimes {
    fn since(&self, earlier: Option<&Self>) -> (u64, u64, u64) {
        match (self, earlier) {
            (Self::Requests(later), earlier) => {
                let earlier = match earlier {
                    Some(Self::Requests(earlier)) => Some(earlier),
                    _ => None,
                };
                Times::since(later, earlier)
            }
            (Self::Reads(later), earlier) => {
                let times = match earlier {
                    Some(Self::Reads(earlier)) => later.since(earlier),
                    _ => ReadTimes::clone(later),
                };
                (times.count(), times.quantile_ns(0.5), times.quantile_ns(0.99))
            }
        }
    }
}
