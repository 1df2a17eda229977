//! What a server shows over HTTP: the page, `/api/stats` and `/metrics`.

pub(crate) mod fields;
pub(crate) mod metrics;
pub(crate) mod prometheus;
pub(crate) mod api;
pub(crate) mod sampler;
pub(crate) mod page;
