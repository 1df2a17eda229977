//! The HTTP address of a store: the page, its parts, `/api/stats`, `/metrics` and `/healthz`.
//!
//! Guarantees: those of a [`site`]; statistics and metrics are rendered one at a time, the health
//! check does not wait for them.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::http::request::Parts;
use tidekv_net::http::{Answer, Site};
use tidekv_observe::parts::{self, STORE_PAGE};
use tidekv_observe::prometheus::{CONTENT_TYPE, write_curves};
use tidekv_observe::site::{self, Desk};
use tokio::sync::watch;

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
    /// True once the server is closing.
    stopped: watch::Receiver<bool>,
}

impl Page {
    pub(crate) fn new(sampler: Arc<Sampler>, host: &str, stopped: watch::Receiver<bool>) -> Self {
        Self { sampler, host: host.to_owned(), desk: Desk::default(), stopped }
    }

    /// Why the server cannot serve, if it cannot.
    async fn ailment(&self) -> Option<&'static str> {
        if *self.stopped.borrow() {
            return Some("the server is closing");
        }
        // It may wait for a commit.
        let db = self.sampler.state().db.clone();
        let health = tokio::task::spawn_blocking(move || db.health()).await;
        match health {
            Ok(Ok(())) => None,
            Ok(Err(_)) => Some("writes are stopped, see the log"),
            Err(_) => Some("the health check failed"),
        }
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
        if head.uri.path() == site::HEALTH_PATH {
            return site::health(&head.method, self.ailment().await);
        }
        let password = self.sampler.state().settings.password();
        // Any user name is accepted.
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
