//! See `src/import.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidekv_fuzz::import::import(data));
