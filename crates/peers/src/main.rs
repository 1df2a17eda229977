//! The lab with its peers.
fn main() {}
