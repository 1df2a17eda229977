//! See `src/memcached.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidekv_fuzz::memcached::memcached(data));
