//! Rules shared by all HTTP responses: access control, headers, and rendering.
//!
//! Guarantees:
//! 1. A request changes nothing; methods other than GET and HEAD are rejected.
//! 2. If the server has passwords, a request needs one, except for the health check.
//! 3. A page loads nothing from other origins; its content security policy enforces this.
//! 4. Without a password, requests over the loopback interface must name an IP address, `localhost`
//!    or the host of `--http`: this blocks DNS rebinding, where another site resolves its own name
//!    to 127.0.0.1.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use tidekv_net::http::Answer;
use tokio::sync::Semaphore;

/// The content security policy of all responses.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The path of the health check.
pub const HEALTH_PATH: &str = "/healthz";

/// The answer of the health check, which needs no password and no particular `Host`: 200 and
/// `ok`, or 503 and the reason why the server cannot serve.
pub fn health(method: &Method, reason: Option<&'static str>) -> Answer {
    match reason {
        _ if !matches!(*method, Method::GET | Method::HEAD) => refuse_method(),
        None => respond(StatusCode::OK, "text/plain; charset=utf-8", "ok\n".into()),
        Some(reason) => refuse(StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

/// Checks the credentials, the host and the method of a request; an error is the response that
/// rejects it. `host` is the host of `--http`; `knows` checks a user and a password, and is set if
/// the server requires them.
pub fn admit(
    head: &Parts,
    local: IpAddr,
    host: &str,
    knows: Option<impl Fn(&[u8], &[u8]) -> bool>,
) -> Result<(), Box<Answer>> {
    match knows {
        Some(knows) => {
            let is_known =
                credentials(&head.headers).is_some_and(|(user, password)| knows(&user, &password));
            if !is_known {
                let what = "this server requires a password";
                let mut answer = refuse(StatusCode::UNAUTHORIZED, what);
                let challenge =
                    HeaderValue::from_static("Basic realm=\"TideKV\", charset=\"UTF-8\"");
                answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                return Err(Box::new(answer));
            }
        }
        None if local.to_canonical().is_loopback() && !names_own_host(head, host) => {
            let what = "use an IP address, localhost or the host of --http in the URL; \
                 a proxy must pass one of these on as Host";
            return Err(Box::new(refuse(StatusCode::MISDIRECTED_REQUEST, what)));
        }
        None => {}
    }
    if matches!(head.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    Err(Box::new(refuse_method()))
}

fn refuse_method() -> Answer {
    let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed");
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

fn names_own_host(head: &Parts, host: &str) -> bool {
    let header = || head.headers.get(header::HOST)?.to_str().ok();
    let named = head.uri.host().or_else(header);
    named.is_none_or(|named| is_own_host(named, host))
}

/// Whether `authority`, a host with or without a port, cannot be a foreign name that resolves to
/// this machine: an IP address, `localhost`, or the host of `--http`.
fn is_own_host(authority: &str, own: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || host.eq_ignore_ascii_case(own)
}

/// The user and the password of a request.
fn credentials(headers: &HeaderMap) -> Option<(Vec<u8>, Vec<u8>)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = value.split_once(' ')?;
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| BASE64_STANDARD.decode(text.trim()));
    let pair = pair?.ok()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    Some((pair[..colon].to_vec(), pair[colon + 1..].to_vec()))
}

/// The number of `since` in a query; 0 if there is none.
pub fn since(query: Option<&str>) -> Result<u64, Box<Answer>> {
    let mut pairs = query.unwrap_or_default().split('&');
    let number = pairs.find_map(|pair| pair.strip_prefix("since="));
    let refusal =
        |_| Box::new(refuse(StatusCode::BAD_REQUEST, "since must be the number of a sample"));
    number.map_or(Ok(0), |number| number.parse().map_err(refusal))
}

/// Renders responses that take locks or a millisecond on I/O threads, so that the event loop does
/// not wait for them. One at a time, because clients' reads of storage need the same threads.
#[derive(Debug)]
pub struct Desk {
    turn: Semaphore,
}

impl Default for Desk {
    fn default() -> Self {
        Self { turn: Semaphore::new(1) }
    }
}

impl Desk {
    /// Runs `render` on an I/O thread, after earlier responses.
    pub async fn answer(
        &self,
        content_type: &'static str,
        render: impl FnOnce() -> String + Send + 'static,
    ) -> Answer {
        let _turn = self.turn.acquire().await;
        match tokio::task::spawn_blocking(render).await {
            Ok(text) => respond(StatusCode::OK, content_type, text.into()),
            Err(_) => {
                refuse(StatusCode::INTERNAL_SERVER_ERROR, "the response could not be rendered")
            }
        }
    }
}

/// A response with an error message of one sentence.
pub fn refuse(status: StatusCode, what: &'static str) -> Answer {
    respond(status, "text/plain; charset=utf-8", format!("{what}\n").into())
}

/// A response.
pub(crate) fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        // Contents change with every version of the server, and every second.
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
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_number_of_a_sample_or_none() {
        let of = |query| since(query).ok();
        assert_eq!(of(None), Some(0));
        assert_eq!(of(Some("")), Some(0));
        assert_eq!(of(Some("other=1&since=17")), Some(17));
        for query in ["since=", "since=-1", "since=x", "since=99999999999999999999"] {
            assert_eq!(of(Some(query)), None, "{query}");
        }
    }

    #[test]
    fn credentials_are_those_of_basic_authentication() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            credentials(&headers)
        };
        let pair = BASE64_STANDARD.encode("me:a:b");
        assert_eq!(of(&format!("Basic {pair}")).unwrap(), (b"me".to_vec(), b"a:b".to_vec()));
        assert_eq!(of(&format!("basic {pair}")).unwrap(), (b"me".to_vec(), b"a:b".to_vec()));
        let without_colon = format!("Basic {}", BASE64_STANDARD.encode("x"));
        for value in ["Basic", "Basic !", "Bearer x", &without_colon] {
            assert_eq!(of(value), None, "{value}");
        }
        assert_eq!(credentials(&HeaderMap::new()), None);
    }
}
