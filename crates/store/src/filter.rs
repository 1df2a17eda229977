//! Skeleton; filled next.
