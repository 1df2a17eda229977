//! Operations take as long as the devices of the model need.

use super::*;
use crate::clock::ManualClock;
use crate::memory::MemoryStorage;

const KIB: u64 = 1 << 10;

const SERVICE: ServiceTime =
    ServiceTime { fixed: Duration::from_micros(100), bytes_per_s: 1_024_000_000, channels: 1 };

/// Microseconds from the beginning to the end of `operation` on a file of 1 MiB.
fn time_of(
    service: ServiceTime,
    array: Option<Array>,
    access: Access,
    operation: impl FnOnce(&PacedStorage, &dyn File),
) -> u64 {
    let clock = Arc::new(ManualClock::new(0));
    let inner = Arc::new(MemoryStorage::new());
    let storage = PacedStorage::new(inner, clock.clone(), service, array);
    let file = storage.create(Path::new("file"), access).expect("memory has room");
    file.allocate(1 << 20).expect("memory has room");
    let before = clock.monotonic_ns();
    operation(&storage, &*file);
    (clock.monotonic_ns() - before) / 1_000
}

fn read(offset: u64, len: u64) -> impl FnOnce(&PacedStorage, &dyn File) {
    move |_, file| _ = file.read_at(offset, len as usize).expect("it is there")
}

fn write(offset: u64, len: u64) -> impl FnOnce(&PacedStorage, &dyn File) {
    move |_, file| file.write_at(offset, &vec![0; len as usize]).expect("there is room")
}

#[test]
fn direct_operations_take_the_time_of_a_device() {
    assert_eq!(time_of(SERVICE, None, Access::Direct, read(0, 4 * KIB)), 104);
    assert_eq!(time_of(SERVICE, None, Access::Direct, write(0, 64 * KIB)), 164);
    assert_eq!(time_of(SERVICE, None, Access::Buffered, read(0, 4 * KIB)), 0);
    let off = |storage: &PacedStorage, file: &dyn File| {
        storage.set_on(false);
        file.read_at(0, 4096).expect("it is there");
    };
    assert_eq!(time_of(SERVICE, None, Access::Direct, off), 0);
}

#[test]
fn a_device_serves_one_operation_a_channel() {
    for (channels, us) in [(1, 416), (2, 208), (4, 104)] {
        let service = ServiceTime { channels, ..SERVICE };
        let clock = Arc::new(ManualClock::new(0));
        let model = Model { clock, service, array: None, is_on: AtomicBool::new(true) };
        let devices = Devices(vec![Mutex::new(vec![0; channels])]);
        let pieces = [Piece { device: 0, bytes: 4 * KIB }; 4];
        assert_eq!(model.reserve(&devices, &pieces, 0) / 1_000, us, "{channels}");
    }
}

const ARRAY: Array = Array { devices: 4, chunk_bytes: 16 * KIB };

#[test]
fn an_array_reads_its_chunks_at_once() {
    let time = |offset, len| time_of(SERVICE, Some(ARRAY), Access::Direct, read(offset, len));
    assert_eq!(time(0, 16 * KIB), 116);
    assert_eq!(time(0, 48 * KIB), 116);
    let devices: Vec<usize> =
        ARRAY.read(0, 64 * KIB).first.iter().map(|piece| piece.device).collect();
    assert_eq!(devices, [0, 1, 2, 3]);
    let parities: Vec<usize> = (0..5).map(|stripe| ARRAY.parity_of(stripe)).collect();
    assert_eq!(parities, [3, 2, 1, 0, 3]);
}

#[test]
fn a_whole_stripe_is_written_at_once_and_a_part_is_read_before() {
    let time = |offset, len| time_of(SERVICE, Some(ARRAY), Access::Direct, write(offset, len));
    assert_eq!(time(0, 48 * KIB), 116);
    // The old chunk and the old parity, then both rewritten.
    assert_eq!(time(16 * KIB, 16 * KIB), 232);
    let part = ARRAY.write(16 * KIB, 16 * KIB);
    let of = |device| Piece { device, bytes: 16 * KIB };
    assert_eq!((&part.first, &part.then), (&vec![of(1), of(3)], &vec![of(1), of(3)]));
    // For two of three chunks the third is read, which is less than both and the parity.
    let part = ARRAY.write(0, 32 * KIB);
    assert_eq!((&part.first, &part.then), (&vec![of(2)], &vec![of(0), of(1), of(3)]));
}
