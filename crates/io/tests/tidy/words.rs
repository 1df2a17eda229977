//! Uninformative names, leftovers, and words restricted to some files.

use crate::source::Source;

/// Names of files, folders and modules that do not describe their content.
const EMPTY_NAMES: [&str; 9] =
    ["common", "helper", "helpers", "misc", "shared", "type", "types", "util", "utils"];

/// Leftovers that must not stay in code.
const LEFTOVERS: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// The crates that may be asynchronous.
const ASYNCHRONOUS: [&str; 5] = ["net", "observe", "resp", "memcached", "cli"];

/// The files that may contain `unsafe`, each covered by Miri or a stress test.
const UNSAFE_FILES: [&str; 10] = [
    "crates/cli/src/main.rs",
    "crates/io/src/buffer.rs",
    "crates/io/src/uring.rs",
    "crates/io/src/writeback.rs",
    "crates/store/src/memtable/arena.rs",
    "crates/store/src/memtable/mod.rs",
    "crates/store/src/memtable/sorted_list.rs",
    "lab/src/main.rs",
    "lab/src/peers/leveldbs.rs",
    "testkit/src/allocation.rs",
];

/// Every file opens with a paragraph about itself.
pub fn opening(source: &Source) -> Option<String> {
    let ok = source.text.starts_with("//! ");
    (!ok).then(|| format!("{}: does not open with a `//!` description", source.path))
}

/// Names of the file, its folders and the modules it declares.
pub fn names(source: &Source) -> Vec<String> {
    let inline = source.bare.match_indices("mod ").filter_map(|(at, word)| {
        let is_word = !source.bare[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = &source.bare[at + word.len()..];
        is_word.then(|| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next())?
    });
    let path = source.path.trim_end_matches(".rs").split('/');
    path.chain(inline)
        .filter(|name| says_nothing(name))
        .map(|name| format!("{}: `{name}` is no name", source.path))
        .collect()
}

fn says_nothing(name: &str) -> bool {
    let versioned = name.rsplit_once("_v").is_some_and(|(_, number)| {
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    EMPTY_NAMES.contains(&name) || versioned || name.starts_with("new_") || name.ends_with("_new")
}

/// Unfinished work.
pub fn leftovers(source: &Source) -> Vec<String> {
    // In two pieces, so that this file does not hold the word itself.
    let reminder = concat!("FIX", "ME");
    let in_code = LEFTOVERS.iter().filter(|word| source.bare.contains(**word));
    let in_text = Some(&reminder).filter(|word| source.text.contains(**word));
    in_code.chain(in_text).map(|word| format!("{}: {word}", source.path)).collect()
}

/// One synchronous core: no asynchronous code below the server, except in examples, which show how
/// asynchronous programs use it.
pub fn asynchrony(source: &Source) -> Vec<String> {
    let is_example = source.path.starts_with("crates/store/examples/");
    if is_example || ASYNCHRONOUS.contains(&source.krate()) {
        return Vec::new();
    }
    let words = ["async fn", "async move", "async {", "async |", ".await"];
    let found = words.iter().filter(|word| source.bare.contains(**word));
    found.map(|word| format!("{}: `{word}` below the server", source.path)).collect()
}

/// `unsafe` is in all of the listed files, and nowhere else.
pub fn unsafety(sources: &[Source]) -> Vec<String> {
    let holds = |source: &&Source| {
        let words = source.code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        !source.is_test() && words.into_iter().any(|word| word == "unsafe")
    };
    let found: Vec<&str> = sources.iter().filter(holds).map(|s| s.path.as_str()).collect();
    let outside = found.iter().filter(|path| !UNSAFE_FILES.contains(path));
    let empty = UNSAFE_FILES.iter().filter(|path| !found.contains(path));
    outside
        .map(|path| format!("{path}: `unsafe` is not expected here"))
        .chain(
            empty.map(|path| {
                format!("{path}: contains no `unsafe` any more: remove it from the list")
            }),
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Source {
        Source::new(path, text)
    }

    #[test]
    fn files_without_an_opening_are_found() {
        assert!(opening(&file("crates/x/src/a.rs", "//! What it is.\n")).is_none());
        assert!(opening(&file("crates/x/src/a.rs", "use b;\n//! x\n")).is_some());
        assert!(opening(&file("crates/x/src/a.rs", "")).is_some());
    }

    #[test]
    fn empty_names_are_found() {
        for path in ["utils.rs", "common/a.rs", "table_v2.rs", "new_table.rs", "types.rs"] {
            assert_eq!(names(&file(&format!("crates/x/src/{path}"), "")).len(), 1, "{path}");
        }
        assert_eq!(names(&file("crates/x/src/a.rs", "mod helpers {}")).len(), 1);
        assert!(names(&file("crates/x/src/level_view.rs", "mod a_view; // utils")).is_empty());
    }

    #[test]
    fn leftovers_are_found() {
        for text in ["todo!()", "unimplemented!()", "dbg!(x)", "#[ignore]", concat!("// FIX", "ME")]
        {
            assert_eq!(leftovers(&file("crates/x/src/a.rs", text)).len(), 1, "{text}");
        }
        assert!(leftovers(&file("crates/x/src/a.rs", "// todo! is banned")).is_empty());
    }

    #[test]
    fn asynchronous_code_is_found() {
        assert_eq!(asynchrony(&file("crates/store/src/a.rs", "async fn f() {}")).len(), 1);
        assert_eq!(asynchrony(&file("crates/io/src/a.rs", "x.await")).len(), 1);
        assert!(asynchrony(&file("crates/net/src/a.rs", "async fn f() {}")).is_empty());
        assert!(asynchrony(&file("crates/store/examples/a.rs", "async fn f() {}")).is_empty());
        assert_eq!(asynchrony(&file("crates/store/tests/a.rs", "async fn f() {}")).len(), 1);
    }

    #[test]
    fn unexpected_unsafe_and_a_stale_list_are_found() {
        let mut all: Vec<Source> =
            UNSAFE_FILES.iter().map(|path| file(path, "unsafe { x() }")).collect();
        assert!(unsafety(&all).is_empty());
        all.push(file("crates/x/src/a.rs", "// unsafe\n#![deny(unsafe_op_in_unsafe_fn)]"));
        assert!(unsafety(&all).is_empty());
        all.push(file("crates/x/src/b.rs", "unsafe fn f() {}"));
        assert_eq!(unsafety(&all).len(), 1);
        all[0] = file(UNSAFE_FILES[0], "");
        assert_eq!(unsafety(&all).len(), 2);
    }
}
