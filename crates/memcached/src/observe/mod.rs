//! HTTP: the page, `/api/stats`, `/metrics` and `/healthz`.

pub(crate) mod times;
pub(crate) mod fields;
pub(crate) mod metrics;
pub(crate) mod sampler;
pub(crate) mod api;
pub(crate) mod http_handler;
