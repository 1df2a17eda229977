//! The environment variables of the commands.

/// The password of `serve`, invisible in other users' `ps`. The flags override it;
/// it overrides the config file.
pub const PASSWORD: &str = "TIDEKV_PASSWORD";

/// The log filter of `serve` and `cache` on standard error, such as `info` or `tidekv=debug`.
pub const LOG: &str = "TIDEKV_LOG";
