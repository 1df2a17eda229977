//! Users and passwords, from a file as memcached's `-Y` has it: a line for each, with a colon
//! between the two.
//!
//! Guarantees: every user is compared, and comparing takes the same time whatever the guess
//! is; nothing of it shows in debug output.

use tidekv_net::error::{Error, Result};
use tidekv_net::password::{PASSWORD_BYTES_MAX, Password};

/// Everybody who is known.
#[derive(Debug, Clone)]
pub struct Users {
    known: Vec<(Password, Password)>,
}

impl Users {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// When it names nobody, or a line is not `user:password`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut known = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let pair = line.split_once(':').and_then(|(user, password)| {
                let is_word = |text: &str| !text.contains(' ');
                let pair = (Password::new(user)?, Password::new(password)?);
                (is_word(user) && is_word(password)).then_some(pair)
            });
            known.push(pair.ok_or_else(|| {
                Error::invalid(format!(
                    "line {} is not user:password, both without spaces and of at most \
                     {PASSWORD_BYTES_MAX} bytes",
                    index + 1
                ))
            })?);
        }
        if known.is_empty() {
            return Err(Error::invalid("there is no user:password"));
        }
        Ok(Self { known })
    }

    /// Whether `password` is that of `user`.
    pub(crate) fn know(&self, user: &[u8], password: &[u8]) -> bool {
        // All are looked at, so that the time tells nothing.
        self.known.iter().fold(false, |is_known, (name, secret)| {
            is_known | (name.matches(user) & secret.matches(password))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_user_with_its_own_password_is_known() {
        let users = Users::parse("foo:bar\n\nbaz:qu:ux\r\n").unwrap();
        assert!(users.know(b"foo", b"bar"));
        assert!(users.know(b"baz", b"qu:ux"));
        for (user, password) in [("foo", "qu:ux"), ("baz", "bar"), ("", ""), ("foo", "bar2")] {
            assert!(!users.know(user.as_bytes(), password.as_bytes()), "{user}");
        }
        assert!(!format!("{users:?}").contains("bar"));
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused() {
        for text in ["", "\n", "foo", "foo:", ":bar", "foo:bar\nfoo bar:x", "a:b c"] {
            assert!(Users::parse(text).is_err(), "{text:?}");
        }
        assert!(Users::parse("a:b\nc").unwrap_err().to_string().contains("line 2"));
    }
}
