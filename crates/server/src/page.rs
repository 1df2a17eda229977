//! What the HTTP address answers: the page, its parts, `/api/stats` and `/metrics`.
//!
//! Guarantees: those of a [`Site`](crate::site); answers are made one at a time.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::http::request::Parts;
use tokio::sync::Semaphore;

use crate::api;
use crate::prometheus;
use crate::sampler::Sampler;
use crate::site::{self, Answer, Site, refuse, respond};

/// A part of the page, as it lies in the binary.
struct Part {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

static PARTS: [Part; 5] = [
    Part {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("../page/index.html"),
    },
    Part {
        path: "/style.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("../page/style.css"),
    },
    Part {
        path: "/page.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../page/page.js"),
    },
    Part {
        path: "/figures.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../page/figures.js"),
    },
    Part {
        path: "/icon.svg",
        content_type: "image/svg+xml",
        text: include_str!("../page/icon.svg"),
    },
];

/// Answers requests.
#[derive(Debug)]
pub(crate) struct Page {
    sampler: Arc<Sampler>,
    /// The host of the address, as the operator has written it.
    host: String,
    /// Answers are made one at a time: the threads that make them are those that clients'
    /// reads wait for storage on.
    turn: Semaphore,
}

impl Page {
    pub(crate) fn new(sampler: Arc<Sampler>, host: &str) -> Self {
        Self { sampler, host: host.to_owned(), turn: Semaphore::new(1) }
    }

    async fn stats(&self, since: u64) -> Answer {
        let render =
            move |sampler: &Sampler| sampler.look(|history| api::stats(history, since)).to_string();
        self.on_io_thread("application/json", render).await
    }

    async fn metrics(&self) -> Answer {
        let render = |sampler: &Sampler| prometheus::text(&sampler.read());
        self.on_io_thread(prometheus::CONTENT_TYPE, render).await
    }

    /// Both take locks of the store or a millisecond, for which connections of the event
    /// loop need not wait.
    async fn on_io_thread(
        &self,
        content_type: &'static str,
        render: impl FnOnce(&Sampler) -> String + Send + 'static,
    ) -> Answer {
        let _turn = self.turn.acquire().await;
        let sampler = Arc::clone(&self.sampler);
        match tokio::task::spawn_blocking(move || render(&sampler)).await {
            Ok(text) => respond(StatusCode::OK, content_type, text.into()),
            Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "this could not be answered"),
        }
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
            "/api/stats" => match since(head.uri.query()) {
                Ok(since) => self.stats(since).await,
                Err(()) => refuse(StatusCode::BAD_REQUEST, "since is the number of a sample"),
            },
            "/metrics" => self.metrics().await,
            _ => match PARTS.iter().find(|part| part.path == path) {
                Some(part) => respond(StatusCode::OK, part.content_type, part.text.into()),
                None => refuse(StatusCode::NOT_FOUND, "there are /, /api/stats and /metrics"),
            },
        }
    }
}

/// The number behind `since` in a query; 0 when there is none.
fn since(query: Option<&str>) -> Result<u64, ()> {
    let mut pairs = query.unwrap_or_default().split('&');
    let number = pairs.find_map(|pair| pair.strip_prefix("since="));
    number.map_or(Ok(0), |number| number.parse().map_err(|_| ()))
}

#[cfg(test)]
mod tests;
