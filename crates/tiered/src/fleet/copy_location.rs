//! Where the copy of an object in DRAM is on flash.

use crate::device::flash_device::Device;
use crate::entry::RecordLocation;

/// The location of an object's copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyLocation {
    pub(crate) device_slot: u32,
    /// The lower half of the device's id: the slot may have another device since.
    pub(crate) device: u32,
    pub(crate) location: RecordLocation,
}

impl CopyLocation {
    pub(crate) fn new(device_slot: usize, device: &Device, location: RecordLocation) -> Self {
        Self { device_slot: device_slot as u32, device: device.id as u32, location }
    }

    /// Whether the copy is on that device.
    pub(crate) fn is_on(&self, device_slot: usize, device: &Device) -> bool {
        self.device_slot as usize == device_slot && self.device == device.id as u32
    }
}
