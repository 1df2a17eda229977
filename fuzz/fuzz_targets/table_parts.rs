//! See `table_parts` in `src/store.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidekv_fuzz::store::table_parts(data));
