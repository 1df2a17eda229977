//! The location of the data: arguments that most commands share.

use std::path::PathBuf;

/// A keyspace of a data directory.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// Keyspace (a named, separate set of keys in the store).
    #[arg(long, value_name = "NAME", default_value = crate::store::DEFAULT_KEYSPACE)]
    pub keyspace: String,
}
