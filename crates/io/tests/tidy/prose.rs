//! Plain English: names that the project has given up, and constructions that a native database
//! engineer would word otherwise. `docs/GLOSSARY.md` has the words to use.

use crate::source::Source;

/// Names that were replaced before 0.1 and are no ordinary words: nowhere, not in code, comments
/// or documents. In two pieces, so that this file does not contain them.
const OLD_NAMES: [(&str, &str); 30] = [
    ("is_memory_l", "esson"),
    ("tide-", "without"),
    ("pick_in_", "quiet"),
    ("Unlearn", "ing"),
    ("unl", "earn"),
    ("LEAR", "NED"),
    ("Surround", "ings"),
    ("Witn", "ess"),
    ("witn", "ess"),
    ("Sight", "ing"),
    ("sight", "ing"),
    ("De", "ed"),
    ("Exhi", "bit"),
    ("exhi", "bit"),
    ("Det", "our"),
    ("det", "our"),
    ("look_", "after"),
    ("over", "rule"),
    ("draw_", "ticket"),
    ("re", "deem"),
    ("hand_in_", "hits"),
    ("change_", "recalled"),
    ("Recep", "tion"),
    ("object-", "usual"),
    ("object_", "usual"),
    ("_US", "UAL"),
    ("Les", "son"),
    ("les", "son"),
    ("hei", "rs"),
    ("care", "taker"),
];

/// Ordinary words that were names of types: a type must not have them.
const OLD_TYPES: [&str; 14] = [
    "Question", "Recall", "Recalls", "Told", "Place", "Held", "Lent", "Notice", "Quiet", "Heat",
    "Verdict", "Sight", "Idea", "Seat",
];

/// Constructions of the old dialect, in lower case.
const CONSTRUCTIONS: [&str; 16] = [
    " is to be ",
    " are to be ",
    " was to be ",
    " one in so many",
    " one part in so many",
    " so many bytes",
    " so many times",
    " for so many",
    " at most so many",
    " an earlier life",
    " one life to the next",
    " for nothing",
    " is nobody's",
    " whoever ",
    " who asks",
    " who leaves",
];

/// Complaints about a source: old names anywhere, old words as types, and constructions in
/// documentation comments.
pub fn source(source: &Source) -> Vec<String> {
    let mut complaints = old_names(&source.path, &source.text);
    for (number, line) in source.bare.lines().enumerate() {
        complaints.extend(
            old_type(line)
                .map(|name| format!("{}:{}: a type is named `{name}`", source.path, number + 1)),
        );
    }
    let documentation: String = source
        .text
        .lines()
        .map(|line| {
            let line = line.trim_start();
            let is_doc = line.starts_with("///") || line.starts_with("//!");
            if is_doc { format!("{}\n", &line[3..]) } else { "\n".into() }
        })
        .collect();
    complaints.extend(constructions(&source.path, &documentation));
    complaints
}

/// Complaints about a document.
pub fn document(path: &str, text: &str) -> Vec<String> {
    let mut complaints = old_names(path, text);
    complaints.extend(constructions(path, text));
    complaints
}

fn old_names(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (first, second) in OLD_NAMES {
            let name = format!("{first}{second}");
            if contains_word(line, &name) {
                found.push(format!("{path}:{}: the old name `{name}`", number + 1));
            }
        }
    }
    found
}

/// Whether `line` has `name` as a word, or as a part of one that an underscore begins.
fn contains_word(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        (name.starts_with('_') || before != Some('_') && ends(before)) && ends(after)
    })
}

fn old_type(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    let is_type = |pair: &&[&str]| matches!(pair[0], "struct" | "enum" | "trait" | "type");
    let named = words.windows(2).find(is_type)?[1];
    OLD_TYPES.into_iter().find(|old| *old == named)
}

fn constructions(path: &str, text: &str) -> Vec<String> {
    // A construction may begin on one line and end on the next.
    let flat = format!(" {}", text.replace('\n', " ").to_lowercase());
    let mut found = Vec::new();
    for construction in CONSTRUCTIONS {
        for (at, _) in flat.match_indices(construction) {
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            found.push(format!("{path}:{line}: \"{}\"", construction.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<String> {
        source(&Source::new("crates/x/src/a.rs", text))
    }

    #[test]
    fn old_names_are_found_in_code_and_comments() {
        let name = concat!("Surround", "ings");
        assert_eq!(file(&format!("struct A;\n// the {name} of it\n")).len(), 1);
        assert_eq!(file(&format!("use b::{name};\n")).len(), 1);
        assert!(file(&format!("struct {name}Less;\n")).is_empty());
        assert_eq!(document("d.md", concat!("`POINTS_US", "UAL`")).len(), 1);
    }

    #[test]
    fn ordinary_words_are_no_names_of_types() {
        assert_eq!(file("pub struct Question<'a> {}\n").len(), 1);
        assert!(file("fn question() {} // Question\n").is_empty());
    }

    #[test]
    fn the_old_dialect_is_found_across_lines() {
        assert_eq!(document("d.md", "One part in\nso many of it. It is\nto be short.").len(), 2);
        assert_eq!(document("d.md", "x\nThe lock\nis to be held.\n"), ["d.md:3: \"is to be\""]);
        assert_eq!(file("/// Whoever asks, and one in so many.\nfn f() {}\n").len(), 2);
        assert!(
            file("// It is to be short: comments inside code are not documentation.\n").is_empty()
        );
        assert!(document("d.md", "The cache evicts the block.").is_empty());
    }
}
