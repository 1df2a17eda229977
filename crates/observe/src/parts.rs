//! The files of the pages, embedded in the binary, and those that all pages share.
//!
//! Guarantees: a page loads nothing from other origins and has no inline style or script, because
//! its content security policy forbids both; tests check each page.

use hyper::StatusCode;

use tidekv_net::http::Answer;

use crate::site::{refuse, respond};

/// A file of a page.
#[derive(Debug)]
pub struct Part {
    /// Its path.
    pub path: &'static str,
    content_type: &'static str,
    /// Its content.
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

/// The script that draws miss-ratio curves.
const CURVES: Part = Part::script("/curves.js", include_str!("../page/curves.js"));

/// The page of a store, with the files that only this page uses.
pub static STORE_PAGE: [Part; 3] = [
    Part::html("/", include_str!("../page/index.html")),
    Part::script("/page.js", include_str!("../page/page.js")),
    CURVES,
];

/// The page of a cache, with the files that only this page uses.
pub static CACHE_PAGE: [Part; 3] = [
    Part::html("/", include_str!("../page/cache.html")),
    Part::script("/cache.js", include_str!("../page/cache.js")),
    CURVES,
];

/// The files that all pages share.
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

/// The response for `path` of a page with the files `own`.
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

    /// Panics if a page, the first of these files, breaks a guarantee.
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
        fn the_page_loads_nothing_from_other_origins() {
            check(&STORE_PAGE);
        }
    }

    mod cache {
        use super::*;

        #[test]
        fn the_page_loads_nothing_from_other_origins() {
            check(&CACHE_PAGE);
        }
    }
}
