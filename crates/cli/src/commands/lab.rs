//! `lab`: experiments, with TideKV as the only engine. The same commands with other
//! engines beside it are those of the binary `tidekv-lab` (`crates/peers`).

use tidekv_lab::command::Lab;
use tidekv_lab::own::SUBJECTS;

use crate::failure::{Failure, Result};

/// Runs a command of the lab.
pub fn run(lab: &Lab) -> Result<()> {
    lab.run(SUBJECTS, &["lab"]).map_err(|failure| match failure.is_usage {
        true => Failure::usage(failure.message),
        false => Failure::new(failure.message),
    })
}
