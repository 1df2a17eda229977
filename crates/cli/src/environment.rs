//! The environment variables that the commands know.

/// The password of `serve`, out of sight of other users' `ps`. Stands behind
/// the flags and before the config file.
pub const PASSWORD: &str = "TIDEKV_PASSWORD";

/// What `serve` logs on standard error, such as `info` or `tidekv=debug`.
pub const LOG: &str = "TIDEKV_LOG";
