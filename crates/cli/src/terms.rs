//! Latencies and prices of DRAM, flash and the backend: arguments that `plan` and `cache` share.

use std::path::PathBuf;

use serde::Deserialize;
use tidekv_plan::{Endurance, LatencyOverrides, Prices};

use crate::failure::{Failure, Result};
use crate::files;
use crate::quantity::parse_micros;

/// Parses the latencies of DRAM, flash and the backend, in this order; some may be omitted.
pub fn parse_latencies(text: &str) -> Result<LatencyOverrides> {
    let time = |text: &str| (!text.is_empty()).then(|| parse_micros(text)).transpose();
    let times: std::result::Result<Vec<Option<f64>>, String> = text.split(',').map(time).collect();
    match times.map_err(|error| Failure::usage(format!("--latencies: {error}")))?[..] {
        [memory_us, flash_us, backend_us] => {
            Ok(LatencyOverrides { memory_us, flash_us, backend_us })
        }
        _ => Err(Failure::usage(
            "--latencies needs three times, DRAM,FLASH,BACKEND, such as 10us,100us,1ms",
        )),
    }
}

/// The price file.
#[derive(Debug, clap::Args)]
pub struct Terms {
    /// TOML file with the prices of one GiB, `dram_per_gib` and `flash_per_gib`, in any currency
    /// [default: 13 and 1]. It may also have the endurance of flash, for `tidekv plan`: `flash_dwpd`,
    /// drive writes per day, and `flash_warranty_years`.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// The keys of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    dram_per_gib: f64,
    flash_per_gib: f64,
    flash_dwpd: Option<f64>,
    flash_warranty_years: Option<f64>,
}

impl PriceFile {
    /// Parses the file.
    ///
    /// # Errors
    /// What is wrong with it.
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            format!("line {line}: {}", error.message())
        })?;
        let prices = [("dram_per_gib", file.dram_per_gib), ("flash_per_gib", file.flash_per_gib)];
        for (name, price) in prices {
            if !(price.is_finite() && price >= 0.0) {
                return Err(format!("{name} is {price}, but a price is a number of at least 0"));
            }
        }
        let endurance =
            [("flash_dwpd", file.flash_dwpd), ("flash_warranty_years", file.flash_warranty_years)];
        for (name, number) in endurance {
            if let Some(number) = number.filter(|number| !(number.is_finite() && *number > 0.0)) {
                return Err(format!("{name} is {number}, but must be a number above 0"));
            }
        }
        match endurance {
            [(_, Some(_)), (missing, None)] | [(missing, None), (_, Some(_))] => Err(format!(
                "{missing} is missing: endurance is both of `flash_dwpd` and `flash_warranty_years`"
            )),
            _ => Ok(file),
        }
    }

    fn prices(&self) -> Prices {
        Prices { dram_per_gib: self.dram_per_gib, flash_per_gib: self.flash_per_gib }
    }

    fn endurance(&self) -> Option<Endurance> {
        let (drive_writes_per_day, warranty_years) = (self.flash_dwpd?, self.flash_warranty_years?);
        Some(Endurance { drive_writes_per_day, warranty_years })
    }
}

impl Terms {
    /// The prices of the file, or the default ones.
    pub fn prices(&self) -> Result<Prices> {
        self.prices_and_endurance().map(|(prices, _)| prices)
    }

    /// The prices of the file, or the default ones, and the endurance of flash, if the file has it.
    pub fn prices_and_endurance(&self) -> Result<(Prices, Option<Endurance>)> {
        let Some(path) = &self.prices else { return Ok((Prices::DEFAULT, None)) };
        let file = PriceFile::parse(&files::read_text(path)?)
            .map_err(|what| Failure::new(format!("{}: {what}", path.display())))?;
        Ok((file.prices(), file.endurance()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn price_files_are_read() {
        let file = PriceFile::parse("dram_per_gib = 4.5\nflash_per_gib = 1").unwrap();
        assert_eq!(file.prices(), Prices { dram_per_gib: 4.5, flash_per_gib: 1.0 });
        assert_eq!(file.endurance(), None);
        let text =
            "dram_per_gib = 4\nflash_per_gib = 0\nflash_dwpd = 0.3\nflash_warranty_years = 5";
        let endurance = Endurance { drive_writes_per_day: 0.3, warranty_years: 5.0 };
        assert_eq!(PriceFile::parse(text).unwrap().endurance(), Some(endurance));
    }

    #[test]
    fn faults_of_a_price_file_are_named() {
        for (text, what) in [
            ("dram_per_gib = 1", "missing field `flash_per_gib`"),
            ("dram_per_gib = 1\nflash_per_gib = 1\nssd = 1", "line 3: unknown field `ssd`"),
            ("dram_per_gib = -1\nflash_per_gib = 1", "dram_per_gib is -1, but a price"),
            ("dram_per_gib = 1\nflash_per_gib = nan", "flash_per_gib is NaN, but a price"),
            ("dram_per_gib = 1\nflash_per_gib = inf", "flash_per_gib is inf, but a price"),
            ("dram_per_gib = \"1\"\nflash_per_gib = 1", "line 1: invalid type: string"),
            ("dram_per_gib: 1", "line 1: "),
            (
                "dram_per_gib = 1\nflash_per_gib = 1\nflash_dwpd = 1",
                "flash_warranty_years is missing",
            ),
            (
                "dram_per_gib = 1\nflash_per_gib = 1\nflash_warranty_years = 5",
                "flash_dwpd is missing",
            ),
            (
                "dram_per_gib = 1\nflash_per_gib = 1\nflash_dwpd = 0\nflash_warranty_years = 5",
                "flash_dwpd is 0, but must be",
            ),
        ] {
            let fault = PriceFile::parse(text).unwrap_err();
            assert!(fault.contains(what), "{text}: {fault}");
        }
    }
}
