//! What pages consist of, as it lies in the binary, and the parts that all of them have.
//!
//! Guarantees: a page loads nothing from elsewhere, and has no style and no script in its text,
//! for browsers are told to refuse both; a test of each page says so (`check`).

use hyper::StatusCode;

use crate::site::{Answer, refuse, respond};

/// A part of a page.
pub(crate) struct Part {
    pub(crate) path: &'static str,
    content_type: &'static str,
    pub(crate) text: &'static str,
}

impl Part {
    pub(crate) const fn html(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/html; charset=utf-8", text }
    }

    pub(crate) const fn script(path: &'static str, text: &'static str) -> Self {
        Self { path, content_type: "text/javascript; charset=utf-8", text }
    }
}

/// What draws miss-ratio curves.
pub(crate) const CURVES: Part = Part::script("/curves.js", include_str!("../page/curves.js"));

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
pub(crate) fn answer(own: &[Part], path: &str) -> Answer {
    match own.iter().chain(&SHARED).find(|part| part.path == path) {
        Some(part) => respond(StatusCode::OK, part.content_type, part.text.into()),
        None => refuse(StatusCode::NOT_FOUND, "there are /, /api/stats and /metrics"),
    }
}

/// Panics where a page, the first of these parts, breaks what is guaranteed.
#[cfg(test)]
pub(crate) fn check(own: &[Part]) {
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

/// The names in the scripts of these parts that end as those of fields do.
#[cfg(test)]
pub(crate) fn names_of_fields(own: &[Part]) -> Vec<&'static str> {
    let endings = [
        "_bytes",
        "_bytes_max",
        "_hits",
        "_misses",
        "_p50",
        "_p99",
        "_reads",
        "_objects",
        "_written",
    ];
    let is_name = |word: &&str| {
        word.bytes().all(|byte| byte.is_ascii_lowercase() || b"_059".contains(&byte))
            && endings.iter().any(|ending| word.len() > ending.len() && word.ends_with(ending))
    };
    let scripts = own.iter().filter(|part| part.path.ends_with(".js"));
    scripts.flat_map(|part| part.text.split(['"', '`'])).filter(is_name).collect()
}
