//! memcached as configured for a comparison: its arguments, and its counters by our names.
//!
//! From the sources of 1.6.18: `-m` limits the memory of objects and their headers. In addition it
//! has the hash table (8 bytes for each of up to two thirds of an object, half a MiB at first),
//! with extstore a write buffer for each of four kinds of pages and one for rewriting pages, and
//! the buffers of connections.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};
use crate::machine::kernel;
use crate::subject::{Counts, ObjectCounts, Settings};
use crate::subjects::served::process::SOCKET;
use crate::subjects::tiered::flash_of;

/// The program, found in the path.
const PROGRAM: &str = "memcached";

/// Threads that serve connections: memcached's default.
pub(super) const THREADS: usize = 4;
/// Threads that read flash: the number of concurrent reads. The default is one, which reads one
/// object at a time.
pub(super) const IO_THREADS: usize = 16;

const MIB: u64 = 1 << 20;

/// The size from which on memcached writes values to flash: its default, and the one for small
/// values.
const ITEM_BYTES_DEFAULT: u64 = 512;
const ITEM_BYTES_SMALL: u64 = 64;

/// The smallest page that holds two write buffers of the default size: flash is freed by pages.
const PAGE_MIB: u64 = 8;
/// For each of the four kinds, one page is being filled and one is kept free.
const PAGES_MIN: u64 = 8;

/// The destination of objects evicted from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// None.
    Nothing,
    /// To flash, by extstore.
    Extstore,
    /// Swap: without a setting of the kernel.
    Swap,
}

/// How memcached is started in the directory of its files.
pub(super) fn command(behind: Behind, settings: &Settings) -> Result<Command> {
    let arguments = arguments(behind, settings)?;
    if behind == Behind::Swap {
        check_swap(flash_of(settings)?.bytes, kernel::free_swap_bytes())?;
    }
    let version = Command::new(PROGRAM).arg("-V").stdin(Stdio::null()).output();
    version.map_err(|error| {
        Failure::system(format!("could not start {PROGRAM} (is it installed?)"), error)
    })?;
    // It ends with this process.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", PROGRAM]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

fn arguments(behind: Behind, settings: &Settings) -> Result<Vec<String>> {
    let flash = flash_of(settings)?;
    let memory_bytes = match behind {
        Behind::Swap => flash.bytes,
        Behind::Nothing | Behind::Extstore => settings.memory_bytes,
    };
    let memory_mib = (memory_bytes / MIB).max(1).to_string();
    let threads = THREADS.to_string();
    let usual =
        ["-u", "root", "-s", SOCKET, "-m", &memory_mib, "-I", "1m", "-t", &threads, "-c", "1024"];
    let mut arguments: Vec<String> = usual.map(str::to_owned).into();
    if behind == Behind::Extstore {
        let pages = flash.bytes / MIB / PAGE_MIB;
        if pages < PAGES_MIN {
            let least = PAGES_MIN * PAGE_MIB;
            return Err(Failure::new(format!("extstore needs {least} MiB of flash at least")));
        }
        let flash_mib = pages * PAGE_MIB;
        arguments.push("-o".to_owned());
        // The size of pages comes first: their number depends on it.
        // Smaller values than its default stay in memory, and are evicted from there.
        let item = match flash.object_bytes < ITEM_BYTES_DEFAULT * 2 {
            true => format!(",ext_item_size={ITEM_BYTES_SMALL}"),
            false => String::new(),
        };
        arguments.push(format!(
            "ext_page_size={PAGE_MIB},ext_path=flash:{flash_mib}m,ext_threads={IO_THREADS}{item}"
        ));
    }
    Ok(arguments)
}

/// It does not start if it would run out of memory and be killed.
fn check_swap(bytes: u64, free_bytes: u64) -> Result<()> {
    if free_bytes >= bytes {
        return Ok(());
    }
    Err(Failure::new(format!(
        "memcached:swap needs {} MiB of swap, and {} MiB are free",
        bytes / MIB,
        free_bytes / MIB
    )))
}

/// The statistics of `stats`, by our names.
///
/// A get that finds a header counts in `get_hits`, and in `get_extstore` when its object is
/// requested; if the object was missing or damaged, `miss_from_extstore` counts it.
pub(super) fn counts(stats: &BTreeMap<String, u64>) -> Counts {
    let number = |name: &str| stats.get(name).copied().unwrap_or(0);
    let known = |name: &str| stats.get(name).copied();
    let (asked, in_vain) = (number("get_extstore"), number("miss_from_extstore"));
    let objects = ObjectCounts {
        memory_hits: number("get_hits").saturating_sub(asked),
        flash_hits: asked.saturating_sub(in_vain),
        misses: number("get_misses") + in_vain,
        object_reads_of_hits: asked.saturating_sub(in_vain),
        object_reads_of_misses: in_vain,
        flash_bytes_written: number("extstore_bytes_written"),
        flash_objects: number("extstore_objects_used"),
        ..ObjectCounts::default()
    };
    Counts {
        reads: known("extstore_objects_read"),
        read_bytes: known("extstore_bytes_read"),
        objects: Some(objects),
        ..Counts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::FlashSettings;

    fn settings(flash_bytes: u64) -> Settings {
        let flash =
            FlashSettings { bytes: flash_bytes, devices: 1, object_bytes: 4096, index_bytes: None };
        Settings { flash: Some(flash), ..Settings::usual(100 * MIB + 1) }
    }

    #[test]
    fn memory_and_whole_pages_follow_the_settings() {
        let text = |behind, flash| arguments(behind, &settings(flash)).map(|it| it.join(" "));
        let usual = "-u root -s socket -m 100 -I 1m -t 4 -c 1024";
        assert_eq!(text(Behind::Nothing, 0).unwrap(), usual);
        assert_eq!(
            text(Behind::Extstore, 1023 * MIB).unwrap(),
            format!("{usual} -o ext_page_size=8,ext_path=flash:1016m,ext_threads=16")
        );
        let mut small = settings(64 * MIB);
        small.flash = small.flash.map(|flash| FlashSettings { object_bytes: 528, ..flash });
        let small = arguments(Behind::Extstore, &small).unwrap().join(" ");
        assert!(small.ends_with(",ext_threads=16,ext_item_size=64"), "{small}");
        assert!(text(Behind::Swap, 900 * MIB).unwrap().contains("-m 900 "));
        assert!(text(Behind::Extstore, 63 * MIB).unwrap_err().message.contains("64 MiB"));
        assert!(arguments(Behind::Nothing, &Settings::usual(MIB)).unwrap_err().is_usage);
    }

    #[test]
    fn it_does_not_start_without_swap() {
        assert!(check_swap(2 * MIB, 2 * MIB).is_ok());
        let error = check_swap(2 * MIB, MIB).unwrap_err();
        assert!(error.message.contains("needs 2 MiB of swap, and 1 MiB are free"), "{error}");
    }

    #[test]
    fn gets_are_counted_by_where_they_end() {
        let stats = [
            ("get_hits", 100),
            ("get_misses", 7),
            ("get_extstore", 60),
            ("miss_from_extstore", 2),
            ("extstore_objects_read", 65),
            ("extstore_bytes_written", 4096),
        ];
        let stats = stats.map(|(name, value)| (name.to_owned(), value)).into();
        let found = counts(&stats);
        let objects = found.objects.unwrap();
        assert_eq!((objects.memory_hits, objects.flash_hits, objects.misses), (40, 58, 9));
        assert_eq!((found.reads, found.read_bytes), (Some(65), None));
        assert_eq!(objects.flash_bytes_written, 4096);
    }
}
