//! The HTTP address of a cache: its page, the page's parts, `/api/stats`, `/metrics` and
//! `/healthz`.
//!
//! Guarantees: those of a [`site`]; where clients must authenticate as one of the users, so must
//! readers of all paths but `/healthz`. Statistics and metrics are rendered one at a time, the
//! health check does not wait for them.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::http::request::Parts;
use tidekv_net::http::{Answer, Site};
use tidekv_observe::parts::{self, CACHE_PAGE};
use tidekv_observe::prometheus::CONTENT_TYPE;
use tidekv_observe::site::{self, Desk};
use tokio::sync::watch;

use crate::observe::api;
use crate::observe::metrics;
use crate::observe::sampler::Sampler;

/// Answers requests.
#[derive(Debug)]
pub(crate) struct HttpHandler {
    sampler: Arc<Sampler>,
    /// The host of the address, as the operator has written it.
    host: String,
    desk: Desk,
    /// True once the server is closing.
    stopped: watch::Receiver<bool>,
}

impl HttpHandler {
    pub(crate) fn new(sampler: Arc<Sampler>, host: String, stopped: watch::Receiver<bool>) -> Self {
        Self { sampler, host, desk: Desk::default(), stopped }
    }
}

impl Site for HttpHandler {
    async fn answer(&self, head: Parts, local: IpAddr) -> Answer {
        if head.uri.path() == site::HEALTH_PATH {
            let reason = (*self.stopped.borrow()).then_some("the server is closing");
            return site::health(&head.method, reason);
        }
        let users = self.sampler.state().options.users.as_ref();
        let knows = users.map(|users| |user: &[u8], password: &[u8]| users.know(user, password));
        if let Err(refusal) = site::admit(&head, local, &self.host, knows) {
            return *refusal;
        }
        let (path, sampler) = (head.uri.path(), Arc::clone(&self.sampler));
        match path {
            "/api/stats" => match site::since(head.uri.query()) {
                Ok(since) => {
                    let render = move || api::stats(&sampler, since).to_string();
                    self.desk.answer("application/json", render).await
                }
                Err(refusal) => *refusal,
            },
            "/metrics" => {
                let render = move || metrics::text(sampler.state());
                self.desk.answer(CONTENT_TYPE, render).await
            }
            _ => parts::answer(&CACHE_PAGE, path),
        }
    }
}

#[cfg(test)]
mod tests;
