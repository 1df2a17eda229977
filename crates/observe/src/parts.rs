//! What pages consist of, as it lies in the binary, and the parts that all of them have.
//!
//! Guarantees: a page loads nothing from elsewhere, and has no style and no script in its text,
//! for browsers are told to refuse both; a test of each page says so.

use hyper::StatusCode;

use tidekv_net::http::Answer;

use crate::site::{refuse, respond};

/// A part of a page.
#[derive(Debug)]
pub struct Part {
    /// Where it is asked for.
    pub path: &'static str,
    content_type: &'static str,
    /// What it is.
    pub text: &'static str,
}

impl Part {
    const fn html(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/html; charset=utf-8", text }
    }

    const fn script(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/javascript; charset=utf-8", text }
    }
}

/// What draws miss-ratio curves.
const CURVES: Part = Part::script("/curves.js", include_str!("../page/curves.js"));

/// The page of a store, and what only this one has.
pub static STORE_PAGE: [Part; 3] = [
    Part::html("/", include_str!("../page/index.html")),
    Part::script("/page.js", include_str!("../page/page.js")),
    CURVES,
];

/// The page of a cache, and what only this one has.
pub static CACHE_PAGE: [Part; 3] = [
    Part::html("/", include_str!("../page/cache.html")),
    Part::script("/cache.js", include_str!("../page/cache.js")),
    CURVES,
];

/// What all pages have.
static SHARED: [Part; 5] = [
    Part {
        path: "/style.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("../page/style.css"),
    },
    Part::script("/figures.js", include_str!("../page/figures.js")),
    Part::script("/words.js", include_str!("../page/words.js")),
    Part::script("/live.js", include_str!("../page/live.js")),
    Part {
        path: "/icon.svg",
        content_type: "image/svg+xml",
        text: include_str!("../page/icon.svg"),
    },
];

/// The part at `path`, of a page that has these parts of its own.
pub fn answer(own: &[Part], path: &str) -> Answer {
    match own.iter().chain(&SHARED).find(|part| part.path == path) {
        Some(part) => respond(StatusCode::OK, part.content_type, part.text.into()),
        None => refuse(
            StatusCode::NOT_FOUND,
            "not found: the paths are /, /api/stats, /metrics and /healthz",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics where a page, the first of these parts, breaks what is guaranteed.
    fn check(own: &[Part]) {
        let html = own[0].text;
        for forbidden in ["<style", "style=", "onclick", "onload", "<script>"] {
            assert!(!html.contains(forbidden), "{forbidden} would be refused by the browser");
        }
        for part in own.iter().chain(&SHARED) {
            let text = part.text.replace("http://www.w3.org/", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{}", part.path);
            let is_used = part.path == "/" || html.contains(&format!("\"{}\"", part.path));
            assert!(is_used, "{} is not used", part.path);
        }
    }

    mod store {
        use super::*;

        #[test]
        fn the_page_loads_nothing_from_elsewhere() {
            check(&STORE_PAGE);
        }
    }

    mod cache {
        use super::*;

        #[test]
        fn the_page_loads_nothing_from_elsewhere() {
            check(&CACHE_PAGE);
        }
    }
}
