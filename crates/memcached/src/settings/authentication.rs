//! Users and passwords, from a file in the format of memcached's `-Y`: one `user:password` per
//! line.
//!
//! Guarantees: a guess is compared with every user, in the same time for any guess; passwords do
//! not appear in debug output.

use tidekv_net::error::{Error, Result};
use tidekv_net::password::{PASSWORD_BYTES_MAX, Password};

/// All users.
#[derive(Debug, Clone)]
pub struct Users {
    known: Vec<(Password, Password)>,
}

impl Users {
    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// If it has no user, or a line is not `user:password`.
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
            return Err(Error::invalid("the file contains no user:password line"));
        }
        Ok(Self { known })
    }

    /// Whether `password` is that of `user`.
    pub(crate) fn know(&self, user: &[u8], password: &[u8]) -> bool {
        // Compares with all users, so that the time reveals nothing.
        self.known.iter().fold(false, |is_known, (name, secret)| {
            is_known | (name.matches(user) & secret.matches(password))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_needs_its_own_password() {
        let users = Users::parse("foo:bar\n\nbaz:qu:ux\r\n").unwrap();
        assert!(users.know(b"foo", b"bar"));
        assert!(users.know(b"baz", b"qu:ux"));
        for (user, password) in [("foo", "qu:ux"), ("baz", "bar"), ("", ""), ("foo", "bar2")] {
            assert!(!users.know(user.as_bytes(), password.as_bytes()), "{user}");
        }
        assert!(!format!("{users:?}").contains("bar"));
    }

    #[test]
    fn an_invalid_file_is_rejected() {
        for text in ["", "\n", "foo", "foo:", ":bar", "foo:bar\nfoo bar:x", "a:b c"] {
            assert!(Users::parse(text).is_err(), "{text:?}");
        }
        assert!(Users::parse("a:b\nc").unwrap_err().to_string().contains("line 2"));
    }
}
