//! The password of clients.
//!
//! Guarantees: a comparison takes the same time for every guess of any length; the
//! password never appears in debug output.

use subtle::ConstantTimeEq;

/// The maximum length of a password, as in Redis. Every guess is compared over this many bytes.
pub const PASSWORD_BYTES_MAX: usize = 512;

/// A password.
#[derive(Clone)]
pub struct Password {
    padded: [u8; PASSWORD_BYTES_MAX],
    len: usize,
}

impl Password {
    /// `None` if it is empty or too long.
    pub fn new(text: &str) -> Option<Self> {
        let mut padded = [0; PASSWORD_BYTES_MAX];
        padded.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.is_empty()).then_some(Self { padded, len: text.len() })
    }

    /// Whether `guess` is the password.
    pub fn matches(&self, guess: &[u8]) -> bool {
        let mut padded = [0; PASSWORD_BYTES_MAX];
        let len = guess.len().min(PASSWORD_BYTES_MAX);
        padded[..len].copy_from_slice(&guess[..len]);
        (self.padded.ct_eq(&padded) & self.len.ct_eq(&guess.len())).into()
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_matches() {
        let password = Password::new("secret").unwrap();
        assert!(password.matches(b"secret"));
        for guess in [&b""[..], b"secre", b"secret\0", b"Secret", &[b's'; 1000]] {
            assert!(!password.matches(guess));
        }
        assert!(Password::new("").is_none());
        assert!(Password::new(&"x".repeat(513)).is_none());
        assert!(Password::new(&"x".repeat(512)).unwrap().matches(&[b'x'; 512]));
    }
}
