//! What DRAM, flash and what is behind them cost and take: arguments that `plan` and `cache` share.

use std::path::PathBuf;

use serde::Deserialize;
use tidekv_plan::{LatencyOverrides, Prices};

use crate::failure::{Failure, Result};
use crate::files;
use crate::quantity::parse_micros;

/// Times and prices.
#[derive(Debug, clap::Args)]
pub struct Terms {
    /// Time of DRAM, of flash, and of what is behind both; one that is left out, such as in `50us,,`, is as
    /// a running cache has measured it, or as in 10us,100us,1ms where it has not.
    #[arg(long, value_name = "M,S,DB")]
    latencies: Option<String>,

    /// A TOML file with `dram_per_gib` and `flash_per_gib`; else 13 and 1.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// What a GiB costs, as a file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    dram_per_gib: f64,
    flash_per_gib: f64,
}

impl Terms {
    /// The times that are given.
    pub fn latencies(&self) -> Result<LatencyOverrides> {
        let Some(text) = &self.latencies else { return Ok(LatencyOverrides::default()) };
        let time = |text: &str| (!text.is_empty()).then(|| parse_micros(text)).transpose();
        let times: std::result::Result<Vec<Option<f64>>, String> =
            text.split(',').map(time).collect();
        match times.map_err(Failure::usage)?[..] {
            [memory_us, flash_us, backend_us] => {
                Ok(LatencyOverrides { memory_us, flash_us, backend_us })
            }
            _ => Err(Failure::usage("--latencies are three: of DRAM, flash, and what is behind")),
        }
    }

    /// The prices, or usual ones.
    pub fn prices(&self) -> Result<Prices> {
        let Some(path) = &self.prices else { return Ok(Prices::DEFAULT) };
        let in_file = |what: &str| Failure::new(format!("{}: {what}", path.display()));
        let file: PriceFile = toml::from_str(&files::read_text(path)?)
            .map_err(|error| in_file(&error.to_string()))?;
        let is_price = |price: f64| price.is_finite() && price >= 0.0;
        if !(is_price(file.dram_per_gib) && is_price(file.flash_per_gib)) {
            return Err(in_file("a price is a number from 0 on"));
        }
        let PriceFile { dram_per_gib, flash_per_gib } = file;
        Ok(Prices { dram_per_gib, flash_per_gib })
    }
}
