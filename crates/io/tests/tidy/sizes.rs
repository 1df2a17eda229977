//! Limits on the size of files and functions.

use crate::source::{Source, block_end};

/// Lines of code in a file; comments, blank lines and tests do not count.
const FILE_LINES_MAX: usize = 600;

/// Lines of a function, from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Most lines of tests in the same file as their code.
const TEST_LINES_MAX: usize = 100;

/// Lines of a file of any kind, comments, blank lines and tests included.
const ALL_LINES_MAX: usize = 700;

/// Files that may be longer. The list of mutations is one record after another: nobody reads it
/// from its beginning to its end, and a record is found by the file that it changes.
const LONG: [&str; 1] = ["crates/store/tests/mutations/list.rs"];

pub fn check(source: &Source) -> Vec<String> {
    let all = source.text.lines().count();
    let is_long = all > ALL_LINES_MAX && !LONG.contains(&&*source.path);
    let complaint = || format!("{}: {all} lines, {ALL_LINES_MAX} fit", source.path);
    let mut complaints: Vec<String> = is_long.then(complaint).into_iter().collect();
    if source.is_test() {
        return complaints;
    }
    let lines = code_lines(&source.code);
    if lines > FILE_LINES_MAX {
        complaints.push(format!("{}: {lines} lines of code, {FILE_LINES_MAX} fit", source.path));
    }
    let tests = code_lines(&source.bare) - lines;
    if tests > TEST_LINES_MAX {
        let path = &source.path;
        complaints.push(format!("{path}: {tests} lines of tests belong in a file of their own"));
    }
    for (name, line, lines) in functions(&source.code) {
        if lines > FUNCTION_LINES_MAX {
            complaints.push(format!(
                "{}:{line}: `{name}` has {lines} lines, {FUNCTION_LINES_MAX} fit",
                source.path
            ));
        }
    }
    complaints
}

fn code_lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

/// Name, first line and number of lines of every function with a body.
pub fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name: String =
            code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // The body opens with the first brace outside of parentheses; a semicolon there ends a
        // declaration without one.
        let mut depth = 0i32;
        let open = code[at..].char_indices().find(|&(_, c)| {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth -= 1,
                _ => {}
            }
            depth == 0 && (c == '{' || c == ';')
        });
        if let Some((offset, '{')) = open
            && !name.is_empty()
        {
            let end = block_end(code, at + offset);
            let first = code[..at].matches('\n').count() + 1;
            found.push((name, first, code[at..end].matches('\n').count() + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<String> {
        check(&Source::new("crates/x/src/a.rs", text))
    }

    #[test]
    fn long_files_functions_and_tests_are_found() {
        assert!(file(&"const A: u8 = 1;\n".repeat(FILE_LINES_MAX)).is_empty());
        assert_eq!(file(&"const A: u8 = 1;\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
        assert!(file(&"// a comment\n".repeat(ALL_LINES_MAX)).is_empty());
        assert_eq!(file(&"// a comment\n".repeat(ALL_LINES_MAX + 1)).len(), 1);
        let test = |lines| Source::new("crates/x/tests/a.rs", &"let a = 1;\n".repeat(lines));
        assert!(check(&test(ALL_LINES_MAX)).is_empty());
        assert_eq!(check(&test(ALL_LINES_MAX + 1)).len(), 1);
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines));
        assert!(file(&function(FUNCTION_LINES_MAX - 2)).is_empty());
        assert_eq!(file(&function(FUNCTION_LINES_MAX - 1)).len(), 1);
        let tests = |lines| {
            format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "const B: u8 = 1;\n".repeat(lines))
        };
        assert!(file(&tests(TEST_LINES_MAX - 3)).is_empty());
        assert_eq!(file(&tests(TEST_LINES_MAX)).len(), 1);
    }

    #[test]
    fn bodies_are_told_from_declarations() {
        let code = "trait T { fn a(&self); fn b(x: [u8; 2]) -> u8 where Self: Sized {\n1\n} }\n";
        assert_eq!(functions(code), [("b".to_owned(), 1, 3)]);
    }
}
