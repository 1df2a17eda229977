//! Latencies and prices of DRAM, flash and the backend: arguments that `plan` and `cache` share.

use std::path::PathBuf;

use serde::Deserialize;
use tidekv_plan::{LatencyOverrides, Prices};

use crate::failure::{Failure, Result};
use crate::files;
use crate::quantity::parse_micros;

/// Latencies and prices.
#[derive(Debug, clap::Args)]
pub struct Terms {
    /// Latency of DRAM, of flash, and of the backend (the database behind the cache), such as
    /// 10us,100us,1ms. For an omitted one, as in `50us,,`: the measurement of the running cache, or
    /// else 10us, 100us or 1ms.
    #[arg(long, value_name = "DRAM,FLASH,BACKEND")]
    latencies: Option<String>,

    /// TOML file with the prices of one GiB, `dram_per_gib` and `flash_per_gib`, in any currency
    /// [default: 13 and 1].
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// The price of a GiB, as in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    dram_per_gib: f64,
    flash_per_gib: f64,
}

impl Terms {
    /// The latencies on the command line.
    pub fn latencies(&self) -> Result<LatencyOverrides> {
        let Some(text) = &self.latencies else { return Ok(LatencyOverrides::default()) };
        let time = |text: &str| (!text.is_empty()).then(|| parse_micros(text)).transpose();
        let times: std::result::Result<Vec<Option<f64>>, String> =
            text.split(',').map(time).collect();
        match times.map_err(Failure::usage)?[..] {
            [memory_us, flash_us, backend_us] => {
                Ok(LatencyOverrides { memory_us, flash_us, backend_us })
            }
            _ => Err(Failure::usage(
                "--latencies needs three times, DRAM,FLASH,BACKEND, such as 10us,100us,1ms",
            )),
        }
    }

    /// The prices of the file, or the default ones.
    pub fn prices(&self) -> Result<Prices> {
        let Some(path) = &self.prices else { return Ok(Prices::DEFAULT) };
        let in_file = |what: &str| Failure::new(format!("{}: {what}", path.display()));
        let file: PriceFile = toml::from_str(&files::read_text(path)?)
            .map_err(|error| in_file(&error.to_string()))?;
        let is_price = |price: f64| price.is_finite() && price >= 0.0;
        if !(is_price(file.dram_per_gib) && is_price(file.flash_per_gib)) {
            return Err(in_file("a price must be a number of at least 0"));
        }
        let PriceFile { dram_per_gib, flash_per_gib } = file;
        Ok(Prices { dram_per_gib, flash_per_gib })
    }
}
