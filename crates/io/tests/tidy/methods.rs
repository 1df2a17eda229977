//! No knots through methods: calling an inherent method names the file that defines it.
//!
//! `modules.rs` reads paths; a type whose methods are spread over files (`impl Engine` in each
//! job) has arrows that no path shows. Which file a call names:
//!
//! - `self.name(`, `Self::name(` and `Type::name(` name the one file of the crate in which that
//!   type defines `name`. So do no calls if two files do.
//! - Any other `.name(` names the one file of the crate that defines an inherent method of that
//!   name: of whatever type, for types are not known here. So it counts only if nothing else can
//!   be meant: no trait and no other crate of the workspace has a method of that name, and it is
//!   none of [`STANDARD`].
//!
//! A file must not name one that is declared below it, nor a module around it.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Declared, module_of};
use crate::source::{Source, block_end};

/// Methods of the standard library, and of crates that are used everywhere, whose names ours
/// have as well.
const STANDARD: &str = "all any as_ref as_slice chain clear contains count drain end entry extend \
    find first flush get get_mut insert is_empty is_none is_some iter join keys last len load lock \
    max min name next pop position push read remove replace shrink_to split start store sum swap \
    sync_all take truncate values windows write";

/// The block of an `impl` or a `trait`.
struct Block {
    /// The type that an `impl` is for.
    of: String,
    /// A method of it may be another one than that of its name in the type.
    is_of_trait: bool,
    open: usize,
    end: usize,
}

/// Who defines the methods of all crates.
#[derive(Default)]
struct Definitions {
    /// Methods of traits.
    of_traits: BTreeSet<String>,
    /// The crates that define an inherent method of a name.
    crates: BTreeMap<String, BTreeSet<String>>,
    /// The files of a crate that do.
    files: BTreeMap<(String, String), BTreeSet<String>>,
    /// The files of a crate that do for a type.
    of_types: BTreeMap<(String, String, String), BTreeSet<String>>,
}

impl Definitions {
    fn of(sources: &[&Source]) -> Self {
        let mut found = Self::default();
        for source in sources {
            for block in blocks(&source.code) {
                for name in functions(&source.code, &block) {
                    found.add(source, &block, name);
                }
            }
        }
        found
    }

    fn add(&mut self, source: &Source, block: &Block, name: String) {
        if block.is_of_trait {
            self.of_traits.insert(name);
            return;
        }
        let (krate, path) = (source.krate().to_owned(), source.path.clone());
        let of_type = (krate.clone(), block.of.clone(), name.clone());
        self.crates.entry(name.clone()).or_default().insert(krate.clone());
        self.of_types.entry(of_type).or_default().insert(path.clone());
        self.files.entry((krate, name)).or_default().insert(path);
    }

    /// The file that a call in `krate` names, if it is sure which one.
    fn named_by(&self, krate: &str, call: &Call) -> Option<&String> {
        let (krate, name) = (krate.to_owned(), call.name.clone());
        let files = match &call.of {
            Some(of) => self.of_types.get(&(krate, of.clone(), name))?,
            None => {
                let is_ambiguous = self.of_traits.contains(&name)
                    || STANDARD.split(' ').any(|known| known == name)
                    || self.crates.get(&name)?.len() > 1;
                self.files.get(&(krate, name)).filter(|_| !is_ambiguous)?
            }
        };
        files.first().filter(|_| files.len() == 1)
    }
}

/// A call of a method.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    name: String,
    /// Its type, where that is known.
    of: Option<String>,
    at: usize,
}

/// Complaints about all crates of `sources`.
pub fn check(sources: &[Source]) -> Vec<String> {
    let sources: Vec<&Source> = sources.iter().filter(|source| !source.is_test()).collect();
    let definitions = Definitions::of(&sources);
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in &sources {
        crates.entry(source.krate()).or_default().push(source);
    }
    let mut complaints = Vec::new();
    for (krate, mut files) in crates {
        // The binary beside a library has no modules, and may name all of them.
        let has_library = files.iter().any(|file| file.path.ends_with("/src/lib.rs"));
        files.retain(|file| !has_library || !file.path.ends_with("/src/main.rs"));
        let declared = Declared::of(&files);
        for file in files {
            let own = module_of(&file.path);
            for call in calls(&file.code) {
                let Some(named) = definitions.named_by(krate, &call) else { continue };
                let path = format!("the call of {}()", call.name);
                if let Some(complaint) = declared.judge(&own, &module_of(named), &path) {
                    let line = file.code[..call.at].matches('\n').count() + 1;
                    complaints.push(format!("{}:{line}: {complaint}", file.path));
                }
            }
        }
    }
    complaints
}

/// All blocks of `impl` and `trait`, in order.
fn blocks(code: &str) -> Vec<Block> {
    let mut found = Vec::new();
    for keyword in ["impl", "trait"] {
        for (at, _) in code.match_indices(keyword) {
            let rest = &code[at + keyword.len()..];
            let is_word = rest.starts_with(|c: char| c == '<' || c.is_whitespace());
            if !is_word || !begins_item(&code[..at]) {
                continue;
            }
            let Some(len) = rest.find(['{', ';']).filter(|&len| rest[len..].starts_with('{'))
            else {
                continue;
            };
            let header = without_generics(rest[..len].split(" where ").next().unwrap_or_default());
            let open = at + keyword.len() + len;
            found.push(Block {
                of: last_name(header.rsplit(" for ").next().unwrap_or_default()),
                is_of_trait: keyword == "trait" || header.contains(" for "),
                open,
                end: block_end(code, open),
            });
        }
    }
    found.sort_by_key(|block| block.open);
    found
}

/// Whether an item may follow: not where `impl` is a type.
fn begins_item(before: &str) -> bool {
    let before = before.trim_end();
    let last_word = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
    let is_public = before.ends_with(')') && before.rsplit('(').nth(1).is_some_and(ends_in_pub);
    before.is_empty()
        || before.ends_with(['{', '}', ';', ']'])
        || is_public
        || matches!(last_word, Some("pub" | "unsafe"))
}

fn ends_in_pub(text: &str) -> bool {
    text.ends_with("pub")
}

/// The header of an `impl` without its generics in front.
fn without_generics(header: &str) -> &str {
    let header = header.trim();
    if !header.starts_with('<') {
        return header;
    }
    let mut depth = 0;
    let end = header.char_indices().find(|&(at, c)| {
        match c {
            '<' => depth += 1,
            '>' if !header[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map_or("", |(at, _)| header[at + 1..].trim())
}

/// `a::B<C>` is called `B`.
fn last_name(path: &str) -> String {
    let path = path.trim().trim_start_matches('&');
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    path[..end.unwrap_or(path.len())].rsplit("::").next().unwrap_or_default().to_owned()
}

/// The names of the functions that stand in the block itself.
fn functions(code: &str, block: &Block) -> Vec<String> {
    let body = &code[block.open..block.end];
    let (mut depth, mut found) = (0, Vec::new());
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            'f' if depth == 1 && body[at..].starts_with("fn ") && !ends_in_name(&body[..at]) => {
                found.push(name_at(&body[at + 3..]).to_owned());
            }
            _ => {}
        }
    }
    found
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_in_name(text: &str) -> bool {
    text.ends_with(is_name)
}

fn name_at(text: &str) -> &str {
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

/// The name at the end of `text`, and the text before it.
fn name_before(text: &str) -> (&str, &str) {
    let text = text.trim_end();
    let start = text.len()
        - text.chars().rev().take_while(|c| is_name(*c)).map(char::len_utf8).sum::<usize>();
    (&text[start..], text[..start].trim_end())
}

/// All calls of methods.
fn calls(code: &str) -> Vec<Call> {
    let blocks = blocks(code);
    let mut found = Vec::new();
    for (at, _) in code.match_indices('(') {
        let (name, before) = name_before(without_turbofish(&code[..at]));
        if name.is_empty() {
            continue;
        }
        let of_block = || {
            let inside = blocks.iter().rfind(|block| block.open < at && at < block.end);
            inside.map(|block| block.of.clone())
        };
        let of = if let Some(receiver) = before.strip_suffix('.') {
            let (receiver, in_front) = name_before(receiver);
            let is_self = receiver == "self" && !in_front.ends_with('.');
            is_self.then(of_block).flatten()
        } else if let Some(owner) = before.strip_suffix("::") {
            match name_before(owner).0 {
                "Self" => of_block(),
                owner if owner.starts_with(char::is_uppercase) => Some(owner.to_owned()),
                _ => continue,
            }
        } else {
            continue;
        };
        found.push(Call { name: name.to_owned(), of, at });
    }
    found
}

/// `name::<T>` without what follows the name.
fn without_turbofish(text: &str) -> &str {
    match text.ends_with('>') {
        true => text.rfind("::<").map_or(text, |at| &text[..at]),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(&format!("crates/{path}"), text)).collect();
        check(&sources)
    }

    fn of_x(low: &str, high: &str) -> Vec<String> {
        let lib = "mod base;\nmod low;\nmod high;\n";
        let base = "pub struct Engine;\nimpl Engine { pub fn ask_base(&self) {} }\n";
        complaints(&[
            ("x/src/lib.rs", lib),
            ("x/src/base.rs", base),
            ("x/src/low.rs", low),
            ("x/src/high.rs", high),
        ])
    }

    const HIGH: &str = "impl<'a, T: Fn() -> u8> Engine<'a, T> where T: Copy {\n    \
                        pub(crate) fn all_trees(&self) { self.ask_base(); fn inner() {} }\n}\n";

    #[test]
    fn a_method_of_a_module_below_is_not_called() {
        for low in [
            "impl Engine { fn f(&self) { self.all_trees(); } }",
            "impl Engine { fn f(&self) { self\n            .all_trees(); } }",
            "impl Engine { fn f(&self) { Self::all_trees(self) } }",
            "fn f(engine: &Engine) { engine.all_trees(); }",
            "fn f(x: &X) { x.engine().all_trees::<u8>(); }",
            "fn f(engine: &Engine) { Engine::all_trees(engine); }",
        ] {
            let found = of_x(low, HIGH);
            assert_eq!(found.len(), 1, "{low}: {found:?}");
            assert!(found[0].contains("low.rs:") && found[0].contains("`high`"), "{found:?}");
        }
    }

    #[test]
    fn a_method_of_a_module_above_may_be_called() {
        assert_eq!(of_x("impl Engine { fn g(&self) { self.ask_base(); } }", HIGH).len(), 0);
        assert_eq!(of_x("", "fn f(e: &Engine) { e.ask_base(); Engine::ask_base(e); }").len(), 0);
    }

    #[test]
    fn calls_that_may_be_of_something_else_do_not_count() {
        for low in [
            // Tests may name whatever they like.
            "#[cfg(test)]\nmod tests { fn f(engine: &Engine) { engine.all_trees(); } }",
            // Another type, a function, a definition.
            "impl Other { fn f(&self) { self.all_trees(); } }",
            "fn f() { all_trees(); low::all_trees(); Other::all_trees(); }",
            // A trait has it as well, or another file.
            "trait T { fn all_trees(&self); }\nfn f(t: &impl T) { t.all_trees(); }",
            "impl T for Other { fn all_trees(&self) {} }\nfn f(t: &Other) { t.all_trees(); }",
            "impl Other { fn all_trees(&self) {} }\nfn f(o: &Other) { o.all_trees(); }",
        ] {
            assert_eq!(of_x(low, HIGH), Vec::<String>::new(), "{low}");
        }
        let high = "impl Engine { fn len(&self) {} }";
        assert!(of_x("fn f(x: &[u8]) { x.len(); }", high).is_empty());
        assert_eq!(of_x("impl Engine { fn f(&self) { self.len(); } }", high).len(), 1);
    }

    #[test]
    fn methods_of_other_crates_are_not_taken_for_ours() {
        let files = |other: &'static str| {
            [
                ("x/src/lib.rs", "mod low;\nmod high;\n"),
                ("x/src/low.rs", "fn f(cache: &Cache) { cache.all_trees(); }"),
                ("x/src/high.rs", HIGH),
                ("y/src/lib.rs", other),
            ]
        };
        assert!(complaints(&files("impl Cache { pub fn all_trees(&self) {} }")).is_empty());
        assert_eq!(complaints(&files("")).len(), 1);
    }

    #[test]
    fn a_method_of_the_module_around_is_not_called() {
        let found = complaints(&[
            ("x/src/lib.rs", "mod high;\n"),
            ("x/src/high.rs", "mod leaf;\nimpl Engine { fn all_trees(&self) {} }"),
            ("x/src/high/leaf.rs", "fn f(e: &Engine) { e.all_trees(); }"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
