//! What the HTTP address answers: the page, its parts, `/api/stats` and `/metrics`.
//!
//! Guarantees: those of a [`Site`](crate::site); answers are made one at a time.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::http::request::Parts;

use crate::api;
use crate::forecast;
use crate::parts::{self, Part};
use crate::prometheus;
use crate::sampler::Sampler;
use crate::site::{self, Answer, Desk, Site};

static PARTS: [Part; 3] = [
    Part::html("/", include_str!("../page/index.html")),
    Part::script("/page.js", include_str!("../page/page.js")),
    parts::CURVES,
];

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
            let mut stats = sampler.look(|history| api::stats(history, since));
            stats["curves"] = forecast::to_json(sampler.state());
            stats.to_string()
        };
        self.desk.answer("application/json", render).await
    }

    async fn metrics(&self) -> Answer {
        let sampler = Arc::clone(&self.sampler);
        let render = move || {
            let mut text = prometheus::text(&sampler.read());
            let curves = forecast::forecasts(sampler.state());
            prometheus::write_curves(&mut text, forecast::METRIC, "keyspace", &curves);
            text
        };
        self.desk.answer(prometheus::CONTENT_TYPE, render).await
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
            _ => parts::answer(&PARTS, path),
        }
    }
}

#[cfg(test)]
mod tests;
