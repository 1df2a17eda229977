//! The compressors that this build has: LZ4 and Zstandard, each behind a feature of its name. A
//! function returns `None` when its codec is not built in, or when it fails.

/// The largest output of LZ4 for `len` bytes.
#[cfg(feature = "lz4")]
pub(crate) fn lz4_bound(len: usize) -> Option<usize> {
    lz4::block::compress_bound(len).ok()
}

/// Compresses `content` into the first bytes of `out`; returns their number.
#[cfg(feature = "lz4")]
pub(crate) fn lz4_compress(content: &[u8], out: &mut [u8]) -> Option<usize> {
    lz4::block::compress_to_buffer(content, None, false, out).ok()
}

/// Decompresses `packed` into the first bytes of `out`; returns their number.
#[cfg(feature = "lz4")]
pub(crate) fn lz4_decompress(packed: &[u8], out: &mut [u8]) -> Option<usize> {
    let len = i32::try_from(out.len()).ok()?;
    lz4::block::decompress_to_buffer(packed, Some(len), out).ok()
}

#[cfg(feature = "zstd")]
mod with_zstd {
    use std::cell::RefCell;

    /// Level of Zstandard: its own default, the knee of its curve.
    const LEVEL: i32 = 3;

    thread_local! {
        /// A context of Zstandard is expensive to create (hundreds of KiB) and has no state
        /// between two blocks: one per thread and direction.
        static IN: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
        static OUT: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }

    /// The largest output of Zstandard for `len` bytes.
    #[allow(clippy::unnecessary_wraps, reason = "LZ4's has a bound on its input")]
    pub(crate) fn zstd_bound(len: usize) -> Option<usize> {
        Some(zstd::zstd_safe::compress_bound(len))
    }

    /// Compresses `content` into the first bytes of `out`; returns their number.
    pub(crate) fn zstd_compress(content: &[u8], out: &mut [u8]) -> Option<usize> {
        IN.with_borrow_mut(|context| {
            if context.is_none() {
                *context = zstd::bulk::Compressor::new(LEVEL).ok();
            }
            context.as_mut()?.compress_to_buffer(content, out).ok()
        })
    }

    /// Decompresses `packed` into the first bytes of `out`; returns their number.
    pub(crate) fn zstd_decompress(packed: &[u8], out: &mut [u8]) -> Option<usize> {
        OUT.with_borrow_mut(|context| {
            if context.is_none() {
                *context = zstd::bulk::Decompressor::new().ok();
            }
            context.as_mut()?.decompress_to_buffer(packed, out).ok()
        })
    }
}

#[cfg(feature = "zstd")]
pub(crate) use with_zstd::{zstd_bound, zstd_compress, zstd_decompress};

#[cfg(not(feature = "lz4"))]
mod without_lz4 {
    pub(crate) fn lz4_bound(_: usize) -> Option<usize> {
        None
    }

    pub(crate) fn lz4_compress(_: &[u8], _: &mut [u8]) -> Option<usize> {
        None
    }

    pub(crate) fn lz4_decompress(_: &[u8], _: &mut [u8]) -> Option<usize> {
        None
    }
}

#[cfg(not(feature = "lz4"))]
pub(crate) use without_lz4::{lz4_bound, lz4_compress, lz4_decompress};

#[cfg(not(feature = "zstd"))]
mod without_zstd {
    pub(crate) fn zstd_bound(_: usize) -> Option<usize> {
        None
    }

    pub(crate) fn zstd_compress(_: &[u8], _: &mut [u8]) -> Option<usize> {
        None
    }

    pub(crate) fn zstd_decompress(_: &[u8], _: &mut [u8]) -> Option<usize> {
        None
    }
}

#[cfg(not(feature = "zstd"))]
pub(crate) use without_zstd::{zstd_bound, zstd_compress, zstd_decompress};
