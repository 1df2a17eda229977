//! What the HTTP address of a cache answers: its page, the page's parts, `/api/stats` and
//! `/metrics`.
//!
//! Guarantees: those of a [`site`]; where clients must be one of the known users,
//! so must whoever asks here. Answers are made one at a time.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::http::request::Parts;
use tidekv_net::http::{Answer, Site};
use tidekv_observe::parts::{self, CACHE_PAGE};
use tidekv_observe::prometheus::CONTENT_TYPE;
use tidekv_observe::site::{self, Desk};

use crate::observe::api;
use crate::observe::metrics;
use crate::observe::sampler::Sampler;

/// Answers requests.
#[derive(Debug)]
pub(crate) struct Exhibit {
    sampler: Arc<Sampler>,
    /// The host of the address, as the operator has written it.
    host: String,
    desk: Desk,
}

impl Exhibit {
    pub(crate) fn new(sampler: Arc<Sampler>, host: String) -> Self {
        Self { sampler, host, desk: Desk::default() }
    }
}

impl Site for Exhibit {
    async fn answer(&self, head: Parts, local: IpAddr) -> Answer {
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
