//! What the HTTP address answers: the page, its parts, `/api/stats` and `/metrics`.
//!
//! Guarantees:
//! 1. Nothing is changed by a request; methods other than GET and HEAD are refused.
//! 2. Where the server has a password, nothing is answered without it.
//! 3. The page loads nothing from elsewhere, and the browser is told to hold it to that.
//! 4. Where there is no password, whoever asks over the loopback must do so by an IP
//!    address, by `localhost` or by the host that the operator has named: a page from
//!    elsewhere that has a name of its own resolved to 127.0.0.1 learns nothing.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use tokio::sync::Semaphore;

use crate::api;
use crate::prometheus;
use crate::sampler::Sampler;

/// What a browser lets the page do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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

/// An answer that is whole.
pub(crate) type Answer = Response<Full<Bytes>>;

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

    /// The answer to a request that came in at `local`. What it says in its body does
    /// not matter.
    pub(crate) async fn answer<B>(&self, request: Request<B>, local: IpAddr) -> Answer {
        if let Err(refusal) = self.admit(request.headers(), request.uri(), local) {
            return *refusal;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are known");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let path = request.uri().path();
        match path {
            "/api/stats" => match since(request.uri().query()) {
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

    /// Whether whoever asks may have an answer.
    fn admit(&self, headers: &HeaderMap, uri: &Uri, local: IpAddr) -> Result<(), Box<Answer>> {
        let Some(password) = self.sampler.state().settings.password() else {
            let named = uri.host().or_else(|| headers.get(header::HOST)?.to_str().ok());
            let is_harmless = named.is_none_or(|named| self.is_harmless(named));
            return if is_harmless || !local.to_canonical().is_loopback() {
                Ok(())
            } else {
                let what = "ask by an IP address, as localhost or by the host that --http \
                     names; a proxy must pass one of these on as Host";
                Err(Box::new(refuse(StatusCode::MISDIRECTED_REQUEST, what)))
            };
        };
        if credentials(headers).is_some_and(|guess| password.matches(&guess)) {
            return Ok(());
        }
        let mut answer = refuse(StatusCode::UNAUTHORIZED, "the password of the server is needed");
        let challenge = HeaderValue::from_static("Basic realm=\"TideKV\", charset=\"UTF-8\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        Err(Box::new(answer))
    }

    /// Whether `authority`, a host with or without a port, is nothing that somebody else
    /// could have resolved to this machine: any IP address, `localhost`, or the host that
    /// the operator has named.
    fn is_harmless(&self, authority: &str) -> bool {
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || host.eq_ignore_ascii_case(&self.host)
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

/// The password that a request brings along; any user will do.
fn credentials(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = value.split_once(' ')?;
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| BASE64_STANDARD.decode(text.trim()));
    let pair = pair?.ok()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// The number behind `since` in a query; 0 when there is none.
fn since(query: Option<&str>) -> Result<u64, ()> {
    let mut pairs = query.unwrap_or_default().split('&');
    let number = pairs.find_map(|pair| pair.strip_prefix("since="));
    number.map_or(Ok(0), |number| number.parse().map_err(|_| ()))
}

/// A refusal in one sentence.
pub(crate) fn refuse(status: StatusCode, what: &'static str) -> Answer {
    respond(status, "text/plain; charset=utf-8", format!("{what}\n").into())
}

fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        // What is shown changes with every version of the server, and every second.
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests;
