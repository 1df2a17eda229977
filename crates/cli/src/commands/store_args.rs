//! Where the data is: arguments that most commands share.

use std::path::PathBuf;

/// A keyspace of a data directory.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// The keyspace.
    #[arg(long, value_name = "NAME", default_value = crate::store::DEFAULT_KEYSPACE)]
    pub keyspace: String,
}
