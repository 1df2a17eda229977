//! The standard library's atomics, as far as the product uses them.
//!
//! In shuttle's models they are the real ones with a scheduling step before each operation, which
//! suffices for sequential consistency because one system thread runs everything. In loom's models
//! loom holds the values, old ones included, and chooses the value of each load.

pub use std::sync::atomic::Ordering;

use crate::models::mode::{Mode, mode, step};

macro_rules! atomics {
    ($($(#[$note:meta])* $name:ident $(<$of:ident>)?, $value:ty, $zero:expr;)*) => {$(
        $(#[$note])*
        pub struct $name $(<$of>)? {
            real: std::sync::atomic::$name $(<$of>)?,
            loom: Option<loom::sync::atomic::$name $(<$of>)?>,
        }

        impl $(<$of>)? $name $(<$of>)? {
            /// As the standard library's.
            pub fn new(value: $value) -> Self {
                let loom = (mode() == Mode::Loom)
                    .then(|| loom::sync::atomic::$name::new(value));
                Self { real: std::sync::atomic::$name::new(value), loom }
            }

            atomics! { @operations
                load(order: Ordering) -> $value;
                store(value: $value, order: Ordering) -> ();
                swap(value: $value, order: Ordering) -> $value;
                compare_exchange(
                    current: $value, new: $value, success: Ordering, failure: Ordering
                ) -> Result<$value, $value>;
            }
        }

        impl $(<$of>)? Default for $name $(<$of>)? {
            fn default() -> Self {
                Self::new($zero)
            }
        }

        impl $(<$of>)? std::fmt::Debug for $name $(<$of>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.real.fmt(f)
            }
        }
    )*};
    (@operations $($operation:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// As the standard library's.
        #[track_caller]
        pub fn $operation(&self, $($argument: $type),*) -> $result {
            match &self.loom {
                Some(loom) => loom.$operation($($argument),*),
                None => {
                    step();
                    self.real.$operation($($argument),*)
                }
            }
        }
    )*};
}

atomics! {
    /// A pointer.
    AtomicPtr<T>, *mut T, std::ptr::null_mut();
    /// A boolean.
    AtomicBool, bool, false;
    /// A number of 32 bits.
    AtomicU32, u32, 0;
    /// A number of 64 bits.
    AtomicU64, u64, 0;
    /// A pointer-sized number.
    AtomicUsize, usize, 0;
}

macro_rules! integers {
    ($($name:ident, $value:ty;)*) => {$(
        impl $name {
            atomics! { @operations
                fetch_add(value: $value, order: Ordering) -> $value;
                fetch_sub(value: $value, order: Ordering) -> $value;
                fetch_max(value: $value, order: Ordering) -> $value;
                fetch_or(value: $value, order: Ordering) -> $value;
            }
        }
    )*};
}

integers! {
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
}
