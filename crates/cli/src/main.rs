//! The command line of TideKV.
fn main() {}
