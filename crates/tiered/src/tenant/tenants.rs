//! Tenants share a cache, each with memory and flash of its own.
//!
//! A key belongs to the tenant with the longest matching prefix, or else to the default tenant,
//! which has the rest. Tenants have nothing in common but the time: no tenant evicts another's
//! objects. So their flash is split as well: next to a device's file `FILE` each tenant has
//! `FILE.NAME`, with its part of the bytes.
//!
//! Pure.

use std::path::PathBuf;

use crate::error::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::device::recovery::meta_path;
use crate::options::{FlashOptions, KEY_BYTES_MAX, Options, TenantOptions};

/// The name of the tenant of keys that match no prefix.
pub(crate) const DEFAULT_TENANT: &str = "default";
/// The longest name, in characters.
const NAME_LEN_MAX: usize = 32;
/// Parts of a device are multiples of this many bytes.
const PART_BYTES: u64 = 4096;

/// Maps keys to tenants.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    /// Prefixes and numbers, the longest first.
    prefixes: Box<[(Box<[u8]>, usize)]>,
}

impl Tenants {
    /// The tenants of these options; number 0 is the default tenant.
    pub(crate) fn new(tenants: &[TenantOptions]) -> Self {
        let numbered = tenants.iter().zip(1..);
        let mut prefixes: Vec<(Box<[u8]>, usize)> =
            numbered.map(|(tenant, number)| (tenant.prefix.as_slice().into(), number)).collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self { prefixes: prefixes.into() }
    }

    /// The number of the tenant that a key belongs to.
    pub(crate) fn of(&self, key: &[u8]) -> usize {
        let matches_prefix = |(prefix, _): &&(Box<[u8]>, usize)| key.starts_with(prefix);
        self.prefixes.iter().find(matches_prefix).map_or(0, |(_, number)| *number)
    }
}

/// A hash of what decides where keys are: the tenants, and the sizes of several devices; 0 without
/// any.
pub(crate) fn hash(tenants: &[TenantOptions], flash: &[FlashOptions]) -> u64 {
    let mut named: Vec<(&str, &[u8])> =
        tenants.iter().map(|tenant| (&*tenant.name, &*tenant.prefix)).collect();
    named.sort_unstable();
    let mut bytes = Vec::new();
    for (name, prefix) in named {
        for part in [name.as_bytes(), prefix] {
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    if flash.len() > 1 {
        bytes.extend(flash.iter().flat_map(|device| device.bytes.to_le_bytes()));
    }
    if bytes.is_empty() { 0 } else { xxh3_64(&bytes) }
}

/// The options of the default tenant and of each other one.
///
/// # Errors
///
/// When a name or prefix is invalid, or the tenants' parts exceed the whole.
pub(crate) fn split(options: &Options) -> Result<Vec<Options>> {
    let tenants = &options.tenants;
    for (number, tenant) in tenants.iter().enumerate() {
        check(tenant, &tenants[..number])?;
    }
    let dram_bytes: u64 = tenants.iter().map(|tenant| tenant.dram_bytes).sum();
    let flash_bytes: u64 = tenants.iter().map(|tenant| tenant.flash_bytes).sum();
    let all_flash_bytes = options.flash.iter().map(|flash| flash.bytes).sum::<u64>();
    if dram_bytes > options.dram_bytes || flash_bytes > all_flash_bytes {
        return Err(Error::invalid(format!(
            "the tenants' parts are {dram_bytes} bytes of DRAM and {flash_bytes} bytes of flash, more \
             than the {} and {all_flash_bytes} of the cache",
            options.dram_bytes
        )));
    }
    let part = |flash: &FlashOptions, bytes: u64| {
        let share =
            u128::from(flash.bytes) * u128::from(bytes) / u128::from(all_flash_bytes.max(1));
        share as u64 / PART_BYTES * PART_BYTES
    };
    let mut others = options.clone();
    others.tenants.clear();
    others.dram_bytes -= dram_bytes;
    let of_index = |dram_bytes: u64| {
        let share = |bytes: u64| u128::from(bytes) * u128::from(dram_bytes);
        options.index_bytes.map(|bytes| (share(bytes) / u128::from(options.dram_bytes)) as u64)
    };
    others.index_bytes = of_index(others.dram_bytes);
    for flash in &mut others.flash {
        let given: u64 = tenants.iter().map(|tenant| part(flash, tenant.flash_bytes)).sum();
        flash.bytes -= given;
    }
    if flash_bytes == all_flash_bytes {
        others.flash.clear();
    }
    let of_tenant = |tenant: &TenantOptions| {
        let beside = |path: &PathBuf| {
            let mut path = path.clone().into_os_string();
            path.push(".");
            path.push(&tenant.name);
            PathBuf::from(path)
        };
        let flash = options.flash.iter().map(|flash| FlashOptions {
            path: beside(&flash.path),
            bytes: part(flash, tenant.flash_bytes),
        });
        Options {
            dram_bytes: tenant.dram_bytes,
            flash: flash.filter(|flash| flash.bytes > 0).collect(),
            index_bytes: of_index(tenant.dram_bytes),
            state: options.state.as_ref().map(beside),
            tenants: Vec::new(),
            ..options.clone()
        }
    };
    let split = std::iter::once(others).chain(tenants.iter().map(of_tenant)).collect::<Vec<_>>();
    refuse_same_files(&split)?;
    Ok(split)
}

/// No two files may be the same.
fn refuse_same_files(split: &[Options]) -> Result<()> {
    let of = |options: &Options| {
        let flash = options.flash.iter();
        let flash = flash.flat_map(|flash| [flash.path.clone(), meta_path(&flash.path)]);
        flash.chain(options.state.clone().filter(|_| !options.flash.is_empty())).collect::<Vec<_>>()
    };
    let mut files: Vec<PathBuf> = split.iter().flat_map(of).collect();
    files.sort();
    match files.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Error::invalid(format!("{} would be used for two flash files", pair[0].display())))
        }
        None => Ok(()),
    }
}

/// Checks a tenant against those before it.
fn check(tenant: &TenantOptions, others: &[TenantOptions]) -> Result<()> {
    let TenantOptions { name, prefix, .. } = tenant;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if !(1..=NAME_LEN_MAX).contains(&name.len()) || !name.chars().all(is_plain) {
        return Err(Error::invalid(format!(
            "the name of a tenant has 1 to {NAME_LEN_MAX} of a-z, 0-9, - and _, not `{name}`"
        )));
    }
    if prefix.is_empty() || prefix.len() > KEY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the prefix of tenant {name} must have 1 to {KEY_BYTES_MAX} bytes"
        )));
    }
    if name == DEFAULT_TENANT || others.iter().any(|other| other.name == *name) {
        return Err(Error::invalid(format!("there is a tenant {name} already")));
    }
    if let Some(other) = others.iter().find(|other| other.prefix == *prefix) {
        return Err(Error::invalid(format!(
            "tenant {name} has the same prefix as tenant {}",
            other.name
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str, prefix: &str, dram_bytes: u64, flash_bytes: u64) -> TenantOptions {
        TenantOptions { name: name.into(), prefix: prefix.into(), dram_bytes, flash_bytes }
    }

    fn options(tenants: Vec<TenantOptions>) -> Options {
        let flash = |path: &str, bytes| FlashOptions { path: path.into(), bytes };
        Options {
            dram_bytes: 100 << 20,
            flash: vec![flash("/a", 3 << 30), flash("/b", 1 << 30)],
            state: Some("/state".into()),
            index_bytes: Some(10 << 20),
            tenants,
            ..Options::default()
        }
    }

    #[test]
    fn key_belongs_to_tenant_with_longest_prefix() {
        let tenants = Tenants::new(&[
            tenant("a", "a:", 1, 0),
            tenant("ab", "a:b:", 1, 0),
            tenant("x", "x", 1, 0),
        ]);
        let of = ["a:1", "a:b:1", "a:b", "x", "b", ""].map(|key| tenants.of(key.as_bytes()));
        assert_eq!(of, [1, 2, 1, 3, 0, 0]);
        assert_eq!(Tenants::default().of(b"a:1"), 0);
    }

    #[test]
    fn each_tenant_has_its_part_and_default_the_rest() {
        let tenants =
            vec![tenant("shop", "s:", 20 << 20, 1 << 30), tenant("ads", "a:", 30 << 20, 0)];
        let split = split(&options(tenants)).expect("there is enough");
        let flash = |options: &Options| -> Vec<(String, u64)> {
            let of = |flash: &FlashOptions| (flash.path.display().to_string(), flash.bytes >> 20);
            options.flash.iter().map(of).collect()
        };
        assert_eq!(flash(&split[0]), [("/a".into(), 2304), ("/b".into(), 768)]);
        assert_eq!(flash(&split[1]), [("/a.shop".into(), 768), ("/b.shop".into(), 256)]);
        assert_eq!(flash(&split[2]), []);
        let dram: Vec<u64> = split.iter().map(|options| options.dram_bytes >> 20).collect();
        assert_eq!(dram, [50, 20, 30]);
        let index: Vec<u64> = split.iter().filter_map(|it| Some(it.index_bytes? >> 20)).collect();
        assert_eq!(index, [5, 2, 3]);
        assert_eq!(split[1].state, Some("/state.shop".into()));
        assert!(split.iter().all(|options| options.tenants.is_empty()));
    }

    #[test]
    fn tenants_may_have_all_of_flash() {
        let split = split(&options(vec![tenant("t", "t", 20 << 20, 4 << 30)])).expect("enough");
        assert!(split[0].flash.is_empty());
        let bytes: u64 = split[1].flash.iter().map(|flash| flash.bytes).sum();
        assert_eq!(bytes, 4 << 30);
    }

    #[test]
    fn hash_of_tenants_does_not_depend_on_their_order() {
        let (a, b) = (tenant("a", "x:", 1, 0), tenant("b", "y:", 2, 0));
        let of = |tenants: &[&TenantOptions]| {
            hash(&tenants.iter().map(|tenant| (*tenant).clone()).collect::<Vec<_>>(), &[])
        };
        assert_eq!((of(&[&a, &b]), of(&[])), (of(&[&b, &a]), 0));
        let others = [tenant("a", "y:", 1, 0), tenant("b", "x:", 1, 0), tenant("ax", ":", 1, 0)];
        assert!(others.iter().all(|other| ![of(&[&a]), 0].contains(&of(&[other]))));
    }

    #[test]
    fn invalid_tenants_are_refused_with_a_reason() {
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        for (tenants, expected) in [
            (vec![tenant("A", "a", 1, 0)], "not `A`"),
            (vec![tenant("../a", "a", 1, 0)], "not `../a`"),
            (vec![tenant("", "a", 1, 0)], "not ``"),
            (vec![tenant("a", "", 1, 0)], "1 to 250 bytes"),
            (vec![tenant("a", &long, 1, 0)], "1 to 250 bytes"),
            (vec![tenant("default", "a", 1, 0)], "a tenant default already"),
            (vec![tenant("a", "a", 1, 0), tenant("a", "b", 1, 0)], "a tenant a already"),
            (vec![tenant("a", "x", 1, 0), tenant("b", "x", 1, 0)], "the same prefix as tenant a"),
            (vec![tenant("meta", "a", 1, 1 << 30)], "/a.meta would be used for two"),
            (vec![tenant("a", "a", 101 << 20, 0)], "bytes of DRAM"),
            (vec![tenant("a", "a", 1, 5 << 30)], "bytes of flash"),
        ] {
            let error = split(&options(tenants)).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
