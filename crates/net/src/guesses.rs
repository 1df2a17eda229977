//! Slows down clients that guess passwords.
//!
//! A guess is compared after a delay: on a connection it doubles with each failure in a row; from an
//! address it grows with the failures of the last minute, so that new connections do not help. The
//! connection waits, and no other one; other addresses are not affected, and a client with the right
//! password at the address of a guesser waits at most [`ADDRESS_DELAY_MAX`].
//!
//! Guarantees: a failure is counted and logged; the memory is bounded (`ADDRESSES_MAX`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The delay after the first failure of a connection; it doubles with each further one.
const DELAY: Duration = Duration::from_millis(100);
/// The longest delay of a connection.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Failures of an address without a delay for its other connections: mistyped passwords.
const FREE_FAILURES: u32 = 5;
/// The delay for each further failure.
const ADDRESS_DELAY: Duration = Duration::from_millis(50);
/// The longest delay because of an address.
pub const ADDRESS_DELAY_MAX: Duration = Duration::from_secs(1);
/// An address has one failure less after this time.
const FORGIVEN_AFTER: Duration = Duration::from_secs(1);
/// Failures of an address that count.
const FAILURES_MAX: u32 = 60;
/// Addresses with failures that are known at once.
const ADDRESSES_MAX: usize = 4096;

/// The failures of all addresses.
#[derive(Debug, Default)]
pub struct Guesses {
    /// When the last failure of an address will be forgiven.
    forgiven_at: Mutex<HashMap<IpAddr, Instant>>,
    failures: AtomicU64,
}

impl Guesses {
    /// How long a guess must wait: of a client at `address` (`ip:port`; anything else is the address
    /// of all clients of this machine's sockets), on a connection with `failures` in a row.
    pub fn delay(&self, address: &str, failures: u32) -> Duration {
        let of_connection = match failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                DELAY.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX))
            }
        };
        let forgiven_at = self.forgiven_at.lock().get(&network(address)).copied();
        let left = forgiven_at.map(|then| then.saturating_duration_since(Instant::now()));
        let of_address = left.unwrap_or_default().as_millis() / FORGIVEN_AFTER.as_millis();
        let counted = u32::try_from(of_address).unwrap_or(u32::MAX).saturating_sub(FREE_FAILURES);
        let of_address = ADDRESS_DELAY.saturating_mul(counted).min(ADDRESS_DELAY_MAX);
        of_connection.min(DELAY_MAX).max(of_address)
    }

    /// Records a wrong guess of a client at `address`.
    pub fn fail(&self, address: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("a client at {address} failed to authenticate");
        let now = Instant::now();
        let mut forgiven_at = self.forgiven_at.lock();
        let address = network(address);
        if forgiven_at.len() >= ADDRESSES_MAX && !forgiven_at.contains_key(&address) {
            forgiven_at.retain(|_, then| *then > now);
            // With more guessers than that, the one with the fewest failures is forgotten.
            if forgiven_at.len() >= ADDRESSES_MAX
                && let Some(first) = forgiven_at.iter().min_by_key(|(_, then)| **then)
            {
                let first = *first.0;
                forgiven_at.remove(&first);
            }
        }
        let then = forgiven_at.entry(address).or_insert(now);
        *then = ((*then).max(now) + FORGIVEN_AFTER).min(now + FORGIVEN_AFTER * FAILURES_MAX);
    }

    /// Number of wrong guesses.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// The network that one guesser controls: an IPv4 address, the first half of an IPv6 address.
fn network(address: &str) -> IpAddr {
    match address.parse::<SocketAddr>().map(|address| address.ip().to_canonical()) {
        Ok(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        Ok(address) => address,
        Err(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUESSER: &str = "192.0.2.1:40000";

    #[tokio::test(start_paused = true)]
    async fn the_delay_of_a_connection_doubles() {
        let guesses = Guesses::default();
        let delays: Vec<_> =
            (0..9).map(|failures| guesses.delay(GUESSER, failures).as_millis()).collect();
        assert_eq!(delays, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(guesses.delay(GUESSER, u32::MAX), DELAY_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn new_connections_do_not_help_a_guesser_and_others_do_not_wait() {
        let guesses = Guesses::default();
        for _ in 0..FREE_FAILURES {
            guesses.fail(GUESSER);
        }
        assert_eq!(guesses.delay("192.0.2.1:40001", 0), Duration::ZERO);
        for _ in 0..1000 {
            guesses.fail("192.0.2.1:40001");
        }
        assert_eq!(guesses.delay("192.0.2.1:40002", 0), ADDRESS_DELAY_MAX);
        assert_eq!(guesses.delay("[::ffff:192.0.2.1]:40002", 0), ADDRESS_DELAY_MAX);
        assert_eq!(guesses.delay("192.0.2.2:40000", 0), Duration::ZERO);
        assert_eq!(guesses.delay("/run/tidekv:0", 0), Duration::ZERO);
        assert_eq!(guesses.failures(), u64::from(FREE_FAILURES) + 1000);
        tokio::time::advance(FORGIVEN_AFTER * FAILURES_MAX).await;
        assert_eq!(guesses.delay(GUESSER, 0), Duration::ZERO, "a minute later it is forgiven");
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_guessers_takes_bounded_memory_and_the_worst_stay_known() {
        let guesses = Guesses::default();
        for _ in 0..100 {
            guesses.fail(GUESSER);
            guesses.fail("[2001:db8::1]:1");
            guesses.fail("[2001:db8::2]:1");
        }
        for n in 0..3 * ADDRESSES_MAX as u32 {
            guesses.fail(&format!("{}:1", std::net::Ipv4Addr::from(0x0a00_0000 + n)));
        }
        assert_eq!(guesses.forgiven_at.lock().len(), ADDRESSES_MAX);
        assert_eq!(guesses.delay(GUESSER, 0), ADDRESS_DELAY_MAX);
        assert_eq!(guesses.delay("[2001:db8::ffff]:9", 0), ADDRESS_DELAY_MAX);
    }
}
