//! What the HTTP address answers: the page, its parts, `/api/stats` and `/metrics`.
//!
//! Guarantees: those of a [`site`]; answers are made one at a time.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::http::request::Parts;
use tidekv_net::http::{Answer, Site};
use tidekv_observe::parts::{self, STORE_PAGE};
use tidekv_observe::prometheus::{CONTENT_TYPE, write_curves};
use tidekv_observe::site::{self, Desk};

use crate::observe::api;
use crate::observe::prometheus;
use crate::observe::sampler::Sampler;
use crate::state::forecast;

/// Answers requests.
#[derive(Debug)]
pub(crate) struct Page {
    sampler: Arc<Sampler>,
    /// The host of the address, as the operator has written it.
    host: String,
    desk: Desk,
}

impl Page {
    pub(crate) fn new(sampler: Arc<Sampler>, host: &str) -> Self {
        Self { sampler, host: host.to_owned(), desk: Desk::default() }
    }

    async fn stats(&self, since: u64) -> Answer {
        let sampler = Arc::clone(&self.sampler);
        let render = move || {
            let mut stats = sampler.look(|history, policy| api::stats(history, policy, since));
            stats["curves"] = forecast::to_json(sampler.state());
            stats.to_string()
        };
        self.desk.answer("application/json", render).await
    }

    async fn metrics(&self) -> Answer {
        let sampler = Arc::clone(&self.sampler);
        let render = move || {
            let (reading, policy) = sampler.read();
            let mut text = prometheus::text(&reading, policy);
            let curves = forecast::forecasts(sampler.state());
            write_curves(&mut text, forecast::METRIC, "keyspace", &curves);
            text
        };
        self.desk.answer(CONTENT_TYPE, render).await
    }
}

impl Site for Page {
    async fn answer(&self, head: Parts, local: IpAddr) -> Answer {
        let password = self.sampler.state().settings.password();
        // Any user will do.
        let knows = password.map(|password| move |_: &[u8], guess: &[u8]| password.matches(guess));
        if let Err(refusal) = site::admit(&head, local, &self.host, knows) {
            return *refusal;
        }
        let path = head.uri.path();
        match path {
            "/api/stats" => match site::since(head.uri.query()) {
                Ok(since) => self.stats(since).await,
                Err(refusal) => *refusal,
            },
            "/metrics" => self.metrics().await,
            _ => parts::answer(&STORE_PAGE, path),
        }
    }
}

#[cfg(test)]
mod tests;
