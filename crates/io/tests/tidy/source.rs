//! A source file for the rules: its text, and its code alone, with comments, string literals and
//! test modules blanked out. Line numbers stay the same.

/// A Rust file.
#[derive(Debug)]
pub struct Source {
    /// Relative to the root of the workspace.
    pub path: String,
    pub text: String,
    /// The text with comments and the content of literals blanked.
    pub bare: String,
    /// `bare` without items under `#[cfg(test)]`.
    pub code: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let bare = blank_literals(text);
        let code = blank_tests(&bare);
        Self { path: path.to_owned(), text: text.to_owned(), bare, code }
    }

    /// The name of the crate's folder: `store` of `crates/store`, `lab` of `lab`.
    pub fn krate(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            folder => folder.unwrap_or_default(),
        }
    }

    /// Whether the whole file is for tests or benchmarks.
    pub fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        let below = &parts[if parts[0] == "crates" { 2 } else { 1 }..];
        below[0] != "src" || below.iter().any(|part| *part == "tests" || *part == "tests.rs")
    }
}

/// Blanks comments and the insides of string and character literals.
pub fn blank_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match literal_end(bytes, at) {
            Some(end) => end,
            None => {
                at += 1;
                continue;
            }
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(out).expect("whole literals were blanked")
}

/// The end of the comment or literal that begins at `at`, if one does.
fn literal_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => Some(at + position(rest, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(at + block_comment(rest)),
        [b'"', ..] => Some(at + quoted(rest)),
        [b'r' | b'b' | b'c', ..] if !word_before => {
            let raw = rest.iter().take(2).position(|&b| b == b'r');
            let hashes_from = raw? + 1;
            let hashes = rest[hashes_from..].iter().take_while(|&&b| b == b'#').count();
            if rest.get(hashes_from + hashes) != Some(&b'"') {
                return None;
            }
            let close = [&b"\""[..], &b"#".repeat(hashes)].concat();
            let body = hashes_from + hashes + 1;
            let len =
                position(&rest[body..], &close).map_or(rest.len(), |p| body + p + close.len());
            Some(at + len)
        }
        [b'\'', b'\\', ..] => Some(at + 2 + position(&rest[3..], b"'")? + 2),
        [b'\'', ..] => {
            // A lifetime has no closing quote after one character.
            let character = std::str::from_utf8(rest.get(1..rest.len().min(5))?);
            let len = match character {
                Ok(text) => text.chars().next()?.len_utf8(),
                Err(error) => std::str::from_utf8(&rest[1..=error.valid_up_to()])
                    .ok()?
                    .chars()
                    .next()?
                    .len_utf8(),
            };
            (rest.get(1 + len) == Some(&b'\'')).then_some(at + len + 2)
        }
        _ => None,
    }
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The end of the block that opens at `open` (a brace of bare code).
pub fn block_end(bare: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (i, byte) in bare.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
    }
    bare.len()
}

/// Blanks every item under `#[cfg(test)]`.
fn blank_tests(bare: &str) -> String {
    let mut out = bare.as_bytes().to_vec();
    for (start, _) in bare.match_indices("#[cfg(test)]") {
        let end = match bare[start..].find(['{', ';']).map(|at| start + at) {
            Some(at) if bare.as_bytes()[at] == b'{' => block_end(bare, at),
            Some(at) => at + 1,
            None => bare.len(),
        };
        for byte in &mut out[start..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(out).expect("whole items were blanked")
}

#[test]
fn literals_and_comments_are_blanked_and_nothing_else() {
    let text = r####"let a = "x{\"}"; // {
let b: &'static str = r#"{"#; /* { /* } */ */ let c = '{'; let d = '\''; let e = b"{";
let f = 'é'; fn g<'a>(x: &'a str) {}"####;
    let bare = blank_literals(text);
    assert_eq!(bare.matches('{').count(), 1, "{bare}");
    assert_eq!(bare.lines().count(), 3);
    assert!(bare.contains("&'static str") && bare.contains("fn g<'a>(x: &'a str) {}"), "{bare}");
}

#[test]
fn test_modules_are_blanked() {
    let source = Source::new(
        "crates/x/src/a.rs",
        "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n",
    );
    assert!(!source.code.contains("fn b") && source.code.contains("fn c"), "{}", source.code);
    let source = Source::new("crates/x/src/a.rs", "#[cfg(test)]\nmod tests;\nfn c() {}\n");
    assert!(!source.code.contains("mod tests") && source.code.contains("fn c"));
    assert!(Source::new("crates/x/src/a/tests.rs", "").is_test());
    assert!(Source::new("crates/x/benches/a.rs", "").is_test());
    assert!(!source.is_test());
    assert!(Source::new("lab/tests/a.rs", "").is_test());
    assert!(!Source::new("lab/src/a/b.rs", "").is_test());
}

#[test]
fn source_paths_map_to_crates() {
    for (path, krate) in
        [("crates/x/src/a/b.rs", "x"), ("lab/src/a.rs", "lab"), ("testkit/src/lib.rs", "testkit")]
    {
        assert_eq!(Source::new(path, "").krate(), krate, "{path}");
    }
}
