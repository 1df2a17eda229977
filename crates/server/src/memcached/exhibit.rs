//! What the HTTP address of a cache answers: its page, the page's parts, `/api/stats` and
//! `/metrics`.
//!
//! Guarantees: those of a [`Site`](crate::site); where clients must be one of the known users,
//! so must whoever asks here. Answers are made one at a time.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::http::request::Parts;

use crate::memcached::api;
use crate::memcached::metrics;
use crate::memcached::sampler::Sampler;
use crate::parts::{self, Part};
use crate::prometheus;
use crate::site::{self, Answer, Desk, Site};

static PARTS: [Part; 3] = [
    Part::html("/", include_str!("../../page/cache.html")),
    Part::script("/cache.js", include_str!("../../page/cache.js")),
    parts::CURVES,
];

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
                self.desk.answer(prometheus::CONTENT_TYPE, render).await
            }
            _ => parts::answer(&PARTS, path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::fields::{CACHE_FIELDS, DEVICE_FIELDS, state_number};
    use tidekv_tiered::DeviceState;

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        parts::check(&PARTS);
    }

    #[test]
    fn the_page_asks_for_fields_that_there_are() {
        let names = parts::names_of_fields(&PARTS);
        let fields = || CACHE_FIELDS.iter().chain(&DEVICE_FIELDS);
        for name in &names {
            assert!(fields().any(|field| field.name == *name), "{name} is no field");
        }
        assert!(names.len() >= 12, "{names:?}");
    }

    #[test]
    fn the_page_knows_the_numbers_of_states() {
        let mut states =
            [DeviceState::Ok, DeviceState::Suspect, DeviceState::Warming, DeviceState::Out];
        states.sort_unstable_by_key(|state| state_number(*state));
        let script = PARTS[1].text;
        let places = states.map(|state| script.find(&format!("{{ name: \"{}\"", state.name())));
        assert!(places.is_sorted() && places[0].is_some(), "{places:?}");
    }
}
