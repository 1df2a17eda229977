//! See `src/requests.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidekv_fuzz::requests::requests(data));
