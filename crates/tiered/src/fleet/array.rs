//! Opens all flash devices: decides which of them to trust, and which device takes which slot.
//!
//! A device is trusted if
//!
//! 1. the newest membership among devices and the state file has it attached,
//! 2. it was closed cleanly, or written in this boot of the machine: unsynced writes do not survive
//!    a reboot, and
//! 3. enough of the others are present to confirm that it has not been detached since, or the state
//!    file is; or it was closed cleanly and all devices can be read.
//!
//! All others begin empty, and so do all if two lineages are found. If the number of devices has
//! changed, or the slot of a trusted device, keys belong elsewhere than before, and all begin
//! empty. A device that was closed cleanly, and that cannot be recorded as detached, neither on
//! itself nor on another one nor in the state file, would be trusted at the next start: so it is an
//! error if all of them fail and there is no state file. A state file of an earlier boot confirms no
//! device, but what it says of detached devices and of another lineage counts. (A state file that a
//! reboot removes leaves one gap: a cache that ran without any of its devices until the reboot, and has
//! them all back after it, finds what they held before.)
//!
//! Relies on [`crate::membership`].

use std::path::PathBuf;
use std::sync::Arc;

use crate::device::flash_device::Device;
use crate::device::recovery::{self, Files};
use crate::device::stats::DeviceCounters;
use crate::environment::Environment;
use crate::error::Result;
use crate::index::flash_dram::Limits;
use crate::membership::Membership;
use crate::options::{FlashOptions, Options};
use crate::segment::layout::Layout;
use crate::segment::state_file::{Recorded, StateFile};
use crate::segment::superblock::{NO_TIME, Opening, Superblock};

/// A device in its slot.
#[derive(Debug)]
pub(crate) struct OpenedSlot {
    /// `None` if the device could not be opened.
    pub(crate) device: Option<Device>,
    pub(crate) options: FlashOptions,
    pub(crate) layout: Layout,
    pub(crate) counters: Arc<DeviceCounters>,
}

/// All devices.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) device_slots: Vec<OpenedSlot>,
    pub(crate) membership: Membership,
    pub(crate) state: Option<StateFile>,
    /// How many were recovered.
    pub(crate) warm: usize,
    /// No object has a version above this one.
    pub(crate) version_max: u64,
    /// When the whole cache is cleared.
    pub(crate) clear_at_s: u32,
    /// Why a device could not be opened.
    pub(crate) failure: Option<tidekv_io::Error>,
}

/// A device that is being examined.
struct Candidate {
    options: FlashOptions,
    layout: Layout,
    files: tidekv_io::Result<Files>,
}

impl Candidate {
    /// The device's superblock, if it has this layout.
    fn superblock(&self) -> Option<&Superblock> {
        let superblock = self.files.as_ref().ok()?.superblock.as_ref()?;
        (superblock.layout == self.layout).then_some(superblock)
    }
}

/// The devices of the options, opened as far as they can be.
///
/// # Errors
///
/// When one is too small or locked.
fn candidates(options: &Options, environment: &Environment) -> Result<Vec<Candidate>> {
    let mut candidates = Vec::new();
    for flash in &options.flash {
        let average = options.avg_object_bytes;
        let (segment, bits) = (options.segment_bytes, options.fingerprint_bits);
        let layout = Layout::of(flash.bytes, average, segment, bits)?;
        let files = Files::open(&environment.storage, &flash.path, flash.bytes);
        match &files {
            Err(error) if error.kind() == tidekv_io::ErrorKind::Locked => {
                return Err(error.clone().into());
            }
            Err(error) => tracing::warn!("a flash device cannot be used: {error}"),
            Ok(_) => {}
        }
        candidates.push(Candidate { options: flash.clone(), layout, files });
    }
    Ok(candidates)
}

impl Array {
    /// Opens all devices of the options: recovered only if `may_be_warm`.
    ///
    /// # Errors
    ///
    /// When one is too small or locked, or cannot be opened and the options require it.
    pub(crate) fn open(
        options: &Options,
        limits: Limits,
        opening: Opening,
        may_be_warm: bool,
        environment: &Environment,
    ) -> Result<Self> {
        let candidates = candidates(options, environment)?;
        let (state, from_state_file) = open_state(options.state.as_ref(), environment)?;
        let recorded = from_state_file.as_ref().map(Recorded::membership);
        let found = newest(&candidates, recorded).filter(|_| may_be_warm);
        let has_state = matches!(from_state_file, Some(Recorded::InThisBoot(_)));
        let trusted = trusted(&candidates, found.as_ref(), has_state, environment.boot);
        let has_trusted = trusted.iter().any(|is_trusted| *is_trusted);
        let before =
            found.filter(|found| has_trusted && found.device_slots.len() == candidates.len());
        let lineage = environment.random.next_u64();
        let mut membership = before.unwrap_or_else(|| Membership::new(lineage, candidates.len()));
        let mut ids = Vec::new();
        for (device_slot, candidate) in candidates.iter().enumerate() {
            let is_trusted = has_trusted && trusted[device_slot];
            if membership.device_slots[device_slot].is_taken() && !is_trusted {
                membership.detach(device_slot);
            }
            if candidate.files.is_ok() && !is_trusted {
                membership.attach(device_slot, environment.device_id());
            }
            ids.push(membership.device_slots[device_slot].device);
        }
        if let Some(state) = &state {
            state.write(&membership, environment.boot)?;
        }
        let superblocks = || candidates.iter().filter_map(Candidate::superblock);
        let version_max = superblocks().map(|found| found.version_max).max().unwrap_or(0);
        let clear_at_s = superblocks().map(|found| found.clear_at_s).min().unwrap_or(NO_TIME);
        let mut array = Self {
            device_slots: Vec::new(),
            membership: membership.clone(),
            state,
            warm: 0,
            version_max,
            clear_at_s,
            failure: None,
        };
        let mut failures = Vec::new();
        for (device_slot, candidate) in candidates.into_iter().enumerate() {
            let membership = membership.clone();
            let fresh = Superblock {
                version_max,
                clear_at_s,
                opening,
                ..Superblock::fresh(
                    ids[device_slot],
                    candidate.layout,
                    environment.boot,
                    membership,
                )
            };
            failures.extend(array.fill_slot(candidate, trusted[device_slot], fresh, limits));
        }
        match failures.pop() {
            Some(error) if options.requires_flash => Err(error.into()),
            failure => Ok(Self { failure, ..array }),
        }
    }

    /// Puts the candidate into its slot, if it can be opened; the error, if not.
    fn fill_slot(
        &mut self,
        candidate: Candidate,
        is_trusted: bool,
        fresh: Superblock,
        limits: Limits,
    ) -> Option<tidekv_io::Error> {
        let recovered = candidate.superblock().filter(|_| is_trusted).map(|found| Superblock {
            generation: found.generation + 1,
            session: found.session + 1,
            boot: fresh.boot,
            is_closed: false,
            opening: fresh.opening,
            membership: fresh.membership.clone(),
            ..found.clone()
        });
        let session = recovered.as_ref().map_or(fresh.session, |recovered| recovered.session);
        // A device that begins empty after all has been marked already.
        let fresh = Superblock { session, ..fresh };
        let counters = Arc::new(DeviceCounters::default());
        let Candidate { options, layout, files } = candidate;
        let opened = files.and_then(|files| {
            recovery::open(files, recovered.as_ref(), &fresh, limits, Arc::clone(&counters))
        });
        let (device, failure) = match opened {
            Ok((device, is_warm)) => {
                self.warm += usize::from(is_warm);
                (Some(device), None)
            }
            Err(error) => {
                tracing::warn!("a flash device cannot be used: {error}");
                (None, Some(error))
            }
        };
        self.device_slots.push(OpenedSlot { device, options, layout, counters });
        failure
    }
}

fn open_state(
    path: Option<&PathBuf>,
    environment: &Environment,
) -> Result<(Option<StateFile>, Option<Recorded>)> {
    let Some(path) = path else { return Ok((None, None)) };
    let (state, recorded) = StateFile::open(&environment.storage, path, environment.boot)?;
    Ok((Some(state), recorded))
}

/// The newest membership; `None` if there are two lineages.
fn newest(candidates: &[Candidate], from_state_file: Option<&Membership>) -> Option<Membership> {
    let memberships =
        candidates.iter().filter_map(|candidate| Some(&candidate.superblock()?.membership));
    let memberships: Vec<&Membership> = memberships.chain(from_state_file).collect();
    let is_one = memberships.windows(2).all(|pair| pair[0].lineage == pair[1].lineage);
    let newest = memberships.into_iter().max_by_key(|membership| membership.epoch);
    newest.filter(|_| is_one).cloned()
}

/// The candidates that are trusted.
fn trusted(
    candidates: &[Candidate],
    found: Option<&Membership>,
    has_state: bool,
    boot: u128,
) -> Vec<bool> {
    let Some(found) = found else { return vec![false; candidates.len()] };
    let present = candidates.iter().filter_map(|candidate| Some(candidate.superblock()?.device));
    let is_confirmed = has_state || found.is_confirmed_by(present);
    let is_complete = candidates.iter().all(|candidate| candidate.superblock().is_some());
    let is_trusted = |(device_slot, candidate): (usize, &Candidate)| {
        let Some(superblock) = candidate.superblock() else { return false };
        found.device_slots.len() == candidates.len()
            && found.device_slot_of(superblock.device) == Some(device_slot)
            && (superblock.is_closed || superblock.boot == boot)
            && (is_confirmed || superblock.is_closed && is_complete)
    };
    candidates.iter().enumerate().map(is_trusted).collect()
}
