//! Glob patterns with exactly the semantics of Redis.
//!
//! `*` any bytes, `?` one byte, `[abc]` one of these, `[a-z]` one of the range (in either order),
//! `[^a]` any other, `\x` the byte `x` itself. An unclosed class ends with the pattern; a `\` at
//! the end is itself.
//!
//! Guarantees: [`matches`] takes time at most `pattern × text`, because a mismatch backtracks to
//! the last `*` only (Redis before 7.0.9 backtracked to all of them, in exponential time); every
//! text that matches begins with [`literal_prefix`].

/// Whether `text` as a whole matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to resume after a mismatch: after the last star, one byte of text later than the last
    // time.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if t == text.len() {
            return p >= pattern.len();
        }
        if p < pattern.len() {
            let (hit, next) = match_one(pattern, p, text[t]);
            if hit {
                p = next;
                t += 1;
                continue;
            }
        }
        match &mut retry {
            Some((after_star, from)) if *from < text.len() => {
                *from += 1;
                (p, t) = (*after_star, *from);
            }
            _ => return false,
        }
    }
}

/// Whether `byte` matches the element at `at`, which is not a star; and the start of the next
/// element.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> (bool, usize) {
    match pattern[at] {
        b'?' => (true, at + 1),
        b'[' => match_class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte, at + 2),
        literal => (literal == byte, at + 1),
    }
}

fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut hit = false;
    while let Some(&element) = pattern.get(at) {
        if element == b'\\' && at + 1 < pattern.len() {
            at += 1;
            hit |= pattern[at] == byte;
        } else if element == b']' {
            at += 1;
            break;
        } else if at + 2 < pattern.len() && pattern[at + 1] == b'-' {
            let (low, high) = (element.min(pattern[at + 2]), element.max(pattern[at + 2]));
            at += 2;
            hit |= (low..=high).contains(&byte);
        } else {
            hit |= element == byte;
        }
        at += 1;
    }
    (hit != negated, at)
}

/// The common prefix of all matching texts, so that only a range of keys needs to be scanned.
pub(crate) fn literal_prefix(pattern: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::new();
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        match byte {
            b'*' | b'?' | b'[' => break,
            b'\\' if at + 1 < pattern.len() => at += 1,
            _ => {}
        }
        prefix.push(pattern[at]);
        at += 1;
    }
    prefix
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hxllo", false),
            ("a\\", "a\\", true),
            ("[a", "a", true),
            ("[a", "b", false),
            ("[\\]]", "]", true),
            ("[]a", "a", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxxcd", false),
            ("**a", "a", true),
            ("a**", "a", true),
            ("[a-]", "^", true),
            ("[a-]", "-", false),
            ("user:*:name", "user:1:name", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_polynomial_time() {
        let pattern = "*a".repeat(60) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }

    proptest! {
        #[test]
        fn agrees_with_the_recursive_definition(
            pattern in "[ab*?\\[\\]^\\\\-]{0,8}",
            text in "[ab\\]^\\\\-]{0,8}",
        ) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches(pattern, text), by_definition(pattern, text));
            if matches(pattern, text) {
                prop_assert!(text.starts_with(&literal_prefix(pattern)));
            }
        }

        #[test]
        fn any_bytes_are_a_pattern(pattern: Vec<u8>, text: Vec<u8>) {
            matches(&pattern, &text);
            literal_prefix(&pattern);
        }
    }

    fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.first() {
            None => text.is_empty(),
            Some(b'*') => (0..=text.len()).any(|skip| by_definition(&pattern[1..], &text[skip..])),
            Some(_) => text.first().is_some_and(|&byte| {
                let (hit, next) = match_one(pattern, 0, byte);
                hit && by_definition(&pattern[next..], &text[1..])
            }),
        }
    }
}
