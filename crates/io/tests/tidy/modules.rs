//! No import cycles: a module names only modules that its parent declares above it.
//!
//! Paths that begin with `crate::` or `super::` are resolved through the declarations of the crate.
//! Naming a child is allowed, naming an item that an ancestor re-exports counts as naming its
//! module of origin, and naming an item that an ancestor defines is a cycle: the ancestor names the
//! child too.

use std::collections::BTreeMap;

use crate::source::Source;

/// A module's path inside its crate; the root is empty.
pub type ModulePath = Vec<String>;

/// The declarations of a module.
#[derive(Debug, Default)]
struct Declarations {
    /// Its children, in order.
    modules: Vec<String>,
    /// The child that a re-exported name comes from.
    exports: BTreeMap<String, String>,
}

/// Complaints about all crates of `sources`.
pub fn check(sources: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        crates.entry(source.krate()).or_default().push(source);
    }
    crates.values().flat_map(|files| check_crate(files)).collect()
}

fn check_crate(files: &[&Source]) -> Vec<String> {
    // The binary of a library package is its own crate, and must have no modules.
    let is_library = files.iter().any(|file| file.path.ends_with("/src/lib.rs"));
    let is_binary = |file: &&Source| is_library && file.path.ends_with("/src/main.rs");
    let mut complaints: Vec<String> = files
        .iter()
        .copied()
        .filter(is_binary)
        .filter(|file| !declarations(&file.code).modules.is_empty())
        .map(|file| format!("{}: modules belong in the library beside it", file.path))
        .collect();
    let files: Vec<&Source> = files.iter().copied().filter(|file| !is_binary(file)).collect();
    let declared = Declared::of(&files);
    for file in &files {
        let own = module_of(&file.path);
        for path in paths(&file.code) {
            let named = declared.resolve(&own, &path);
            if let Some(complaint) = declared.judge(&own, &named, &path) {
                complaints.push(format!("{}: {complaint}", file.path));
            }
        }
    }
    complaints
}

/// `crates/x/src/a/b.rs` is the module `a::b`.
pub fn module_of(path: &str) -> ModulePath {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside);
    let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    match inside {
        "lib" | "main" => Vec::new(),
        _ => inside.split('/').map(str::to_owned).collect(),
    }
}

fn declarations(code: &str) -> Declarations {
    let mut found = Declarations::default();
    for statement in statements(code) {
        let words: Vec<&str> = statement.split_whitespace().collect();
        let words = skip_visibility(&words);
        match words {
            ["mod", name] => found.modules.push((*name).to_owned()),
            ["use", ..] if words.len() > 1 => {
                for path in expand(&words[1..].concat()) {
                    let segments: Vec<&str> = path.split("::").collect();
                    let from = segments.iter().find(|s| !matches!(**s, "crate" | "self"));
                    if let (Some(from), Some(name)) = (from, segments.last()) {
                        found.exports.insert((*name).to_owned(), (*from).to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// Everything that ends in a semicolon outside of braces, except those of `use`.
fn statements(code: &str) -> Vec<String> {
    code.split(';')
        .map(|piece| {
            let start = ["use ", "mod "].iter().filter_map(|word| find_word(piece, word)).min();
            let line =
                start.map_or(0, |at| piece[..at].rfind('\n').map_or(0, |newline| newline + 1));
            piece[line..].replace('\n', " ").trim().to_owned()
        })
        .collect()
}

fn find_word(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word)
        .map(|(at, _)| at)
        .find(|&at| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
}

fn skip_visibility<'a>(words: &'a [&'a str]) -> &'a [&'a str] {
    match words {
        [first, "super)" | "crate)" | "self)", rest @ ..] if first.starts_with("pub(") => rest,
        [first, rest @ ..] if first.starts_with("pub") => rest,
        _ => words,
    }
}

/// All paths of the code that begin with `crate` or `super`, braces expanded.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || before == ':' || before == '$' {
                continue;
            }
            let mut depth = 0usize;
            let len = code[at..]
                .find(|c: char| match c {
                    '{' => {
                        depth += 1;
                        false
                    }
                    '}' if depth > 0 => {
                        depth -= 1;
                        false
                    }
                    _ if depth > 0 => false,
                    _ => !(c.is_alphanumeric() || c == '_' || c == ':' || c == '*'),
                })
                .unwrap_or(code.len() - at);
            let text: String = code[at..at + len].split_whitespace().collect::<Vec<_>>().join(" ");
            found.extend(expand(&text));
        }
    }
    found
}

/// `a::{b, c::{d, e}}` names `a::b`, `a::c::d` and `a::c::e`.
fn expand(path: &str) -> Vec<String> {
    let path = path.trim().split(" as ").next().unwrap_or_default().trim();
    let Some((head, inner)) = path.split_once('{') else {
        return vec![path.trim_end_matches("::self").to_owned()];
    };
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| expand(&format!("{head}{part}"))).collect()
}

/// What the modules of a crate declare.
pub struct Declared(BTreeMap<ModulePath, Declarations>);

impl Declared {
    pub fn of(files: &[&Source]) -> Self {
        let of_file = |file: &&Source| (module_of(&file.path), declarations(&file.code));
        Self(files.iter().map(of_file).collect())
    }

    /// The module that `path` leads to from the module `own`.
    fn resolve(&self, own: &ModulePath, path: &str) -> ModulePath {
        let mut place = if path.starts_with("crate::") { Vec::new() } else { own.clone() };
        let mut segments = path.split("::").peekable();
        while let Some(&segment) = segments.peek() {
            match segment {
                "super" => drop(place.pop()),
                "crate" | "self" => {}
                _ => break,
            }
            segments.next();
        }
        // Down through modules and re-exports, as far as they go.
        for segment in segments {
            let Some(here) = self.0.get(&place) else { break };
            if here.modules.iter().any(|module| module == segment) {
                place.push(segment.to_owned());
            } else if let Some(from) = here.exports.get(segment)
                && here.modules.contains(from)
            {
                place.push(from.clone());
                break;
            } else {
                break;
            }
        }
        place
    }

    /// What is wrong with the module `own` naming the module `place` by `path`.
    pub fn judge(&self, own: &ModulePath, place: &ModulePath, path: &str) -> Option<String> {
        let shared = own.iter().zip(place).take_while(|(a, b)| a == b).count();
        if own.len() == shared {
            return None;
        }
        let parent = own[..shared].to_vec();
        let Some(named) = place.get(shared) else {
            return Some(format!("{path} is an item of the module around it"));
        };
        let order = &self.0.get(&parent)?.modules;
        let index = |name: &String| order.iter().position(|module| module == name);
        let (below, above) = (index(&own[shared])?, index(named)?);
        (above > below)
            .then(|| format!("{path} names `{named}`, which is declared below `{}`", own[shared]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::new(&format!("crates/x/src/{path}"), text))
            .collect();
        check(&sources)
    }

    const LIB: &str = "//! x\npub mod low;\nmod high;\npub(crate) use high::{Tall, Top as Peak};\n";

    #[test]
    fn a_module_may_name_those_above_it() {
        let high =
            "use crate::low::{A, B};\nmod leaf;\nuse crate::{low::C, low};\nfn f() { leaf::g() }";
        let leaf = "use crate::low::A;";
        assert_eq!(
            complaints(&[
                ("lib.rs", LIB),
                ("low.rs", ""),
                ("high.rs", high),
                ("high/leaf.rs", leaf)
            ]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_module_may_not_name_those_below_it() {
        for low in [
            "use crate::high::X;",
            "use super::high;",
            "use crate::{\n    low::Y,\n    high::X,\n};",
            "fn f() -> crate::high::X {}",
            "use crate::Tall;",
        ] {
            let found = complaints(&[("lib.rs", LIB), ("low.rs", low), ("high.rs", "")]);
            assert_eq!(found.len(), 1, "{low}: {found:?}");
        }
        let test = "#[cfg(test)]\nmod tests { use crate::high::X; }\n// crate::high\n";
        assert!(complaints(&[("lib.rs", LIB), ("low.rs", test), ("high.rs", "")]).is_empty());
    }

    #[test]
    fn a_binary_beside_a_library_has_no_modules() {
        let low = "use crate::high::X;";
        let files = |main: &'static str| [("lib.rs", LIB), ("low.rs", low), ("main.rs", main)];
        assert_eq!(complaints(&files("use x::low;")).len(), 1);
        assert_eq!(complaints(&files("mod low;\nuse x::low;")).len(), 2);
    }

    #[test]
    fn siblings_and_parents_count_too() {
        let high = "mod one;\nmod two;\npub(crate) use one::First;\nstruct Own;\n";
        let run = |one: &str, two: &str| {
            complaints(&[
                ("lib.rs", LIB),
                ("low.rs", ""),
                ("high.rs", high),
                ("high/one.rs", one),
                ("high/two.rs", two),
            ])
            .len()
        };
        assert_eq!(run("", "use super::one::A; use super::First; use crate::high::First;"), 0);
        assert_eq!(run("use super::two::A;", ""), 1);
        assert_eq!(run("use crate::high::two::A;", ""), 1);
        assert_eq!(run("", "use super::Own;"), 1);
        assert_eq!(run("", "use super::super::low::A; use super::super::Tall;"), 1);
    }
}
