//! See `repair_list` in `src/store.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidekv_fuzz::store::repair_list(data));
