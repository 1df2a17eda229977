//! Documents name only existing things.

use crate::source::Source;

/// Dead links of a Markdown text. `exists` is called with paths from the root.
pub fn links(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut complaints = Vec::new();
    for (at, _) in text.match_indices("](") {
        let target = text[at + 2..].split([')', '#', '\n']).next().unwrap_or_default();
        if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let target = format!("{folder}/{target}");
        if !exists(target.trim_start_matches('/')) {
            complaints.push(format!("{path}: a link to {target}, which does not exist"));
        }
    }
    complaints
}

/// Folders of rows, named in backticks by their path or by their name alone, that are missing: a
/// claim of the document cannot be checked.
pub fn rows(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, content) in text.lines().enumerate() {
        for name in content.split('`').skip(1).step_by(2) {
            let below = match name.strip_prefix("docs/benchmarks/rows/") {
                Some(below) => below,
                None if is_dated(name) => name,
                None => continue,
            };
            if below.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c))
                && !exists(&format!("docs/benchmarks/rows/{below}"))
            {
                complaints.push(format!("{path}:{}: there are no rows of {below}", line + 1));
            }
        }
    }
    complaints
}

/// Whether a name is that of a run: `2026-11-21-host-commit`.
fn is_dated(name: &str) -> bool {
    let is_number =
        |part: &str, digits| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = name.splitn(4, '-').collect();
    matches!(parts[..], [year, month, day, rest]
        if is_number(year, 4) && is_number(month, 2) && is_number(day, 2) && !rest.is_empty())
}

/// Conflict markers of an unfinished merge.
pub fn merges(path: &str, text: &str) -> Vec<String> {
    let is_mark = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
    let marks = text.lines().enumerate().filter(|(_, line)| is_mark(line));
    marks.map(|(line, _)| format!("{path}:{}: a conflict marker", line + 1)).collect()
}

/// Names in backticks that are in no source: files (`write.rs`), functions (`commit()`,
/// `Tree::rotate`) and fields (`Engine::visible`).
pub fn names(path: &str, text: &str, sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, content) in text.lines().enumerate() {
        for name in content.split('`').skip(1).step_by(2) {
            if !is_known(name, sources) {
                complaints.push(format!("{path}:{}: `{name}` is not in the code", line + 1));
            }
        }
    }
    complaints
}

fn is_known(name: &str, sources: &[Source]) -> bool {
    if name.ends_with(".rs") && !name.contains(['*', ' ']) {
        let suffix = format!("/{name}");
        return sources.iter().any(|s| s.path == name || s.path.ends_with(&suffix));
    }
    let function = name.strip_suffix("()").or_else(|| {
        let (owner, method) = name.rsplit_once("::")?;
        let is_method = method.starts_with(|c: char| c.is_ascii_lowercase());
        (is_method && !owner.contains(' ')).then_some(name)
    });
    match function {
        None => true,
        Some(function) => {
            let mut parts = function.rsplit("::");
            let method = parts.next().unwrap_or_default();
            let owner = parts.next();
            sources.iter().any(|source| {
                owner.is_none_or(|owner| source.bare.contains(owner))
                    && (declares(&source.bare, "fn ", method, &['(', '<'])
                        || owner.is_some() && declares(&source.bare, "", method, &[':']))
            })
        }
    }
}

/// Whether `bare` contains `before`, `name` and one of `after` in sequence.
fn declares(bare: &str, before: &str, name: &str, after: &[char]) -> bool {
    let head = format!("{before}{name}");
    bare.match_indices(&head).any(|(at, _)| {
        !bare[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && bare[at + head.len()..].starts_with(after)
            && !bare[at + head.len()..].starts_with("::")
    })
}

/// The README's test command must be the one that `.ci/run` runs.
pub fn commands(readme: &str, ci: &str) -> Vec<String> {
    let mut commands = readme.lines().filter(|line| line.starts_with("cargo test"));
    let Some(command) = commands.next() else {
        return vec!["README.md: no line begins with `cargo test`".into()];
    };
    let command = command.split('#').next().unwrap_or_default().trim();
    let runs = ci.lines().any(|line| line.trim().trim_start_matches("run ") == command);
    if runs { Vec::new() } else { vec![format!(".ci/run does not run `{command}`")] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_merges_are_found() {
        let mark = "<".repeat(7);
        assert_eq!(merges("a.md", &format!("x\n{mark} HEAD\n")).len(), 1);
        assert!(merges("a.md", "x <<<<<<< y\n=======\n").is_empty());
    }

    #[test]
    fn dead_links_are_found() {
        let exists = |path: &str| path == "docs/a.md";
        assert!(links("docs/b.md", "[a](a.md#x) [w](https://x.y/z) [h](#h)", &exists).is_empty());
        assert_eq!(links("docs/b.md", "[a](c.md)", &exists).len(), 1);
        assert!(links("README.md", "[a](docs/a.md)", &exists).is_empty());
    }

    #[test]
    fn rows_that_are_not_kept_are_found() {
        let exists = |path: &str| path == "docs/benchmarks/rows/2026-01-02-h-abc";
        let there =
            "`docs/benchmarks/rows/2026-01-02-h-abc` `2026-01-02-h-abc` `2026-01-02` `…-abc`";
        assert!(rows("docs/b.md", there, &exists).is_empty());
        for gone in ["`docs/benchmarks/rows/2026-01-02-h-abd`", "`2026-01-02-h-abc-tail`"] {
            assert_eq!(rows("docs/b.md", gone, &exists).len(), 1, "{gone}");
        }
    }

    #[test]
    fn names_without_code_are_found() {
        let sources =
            [Source::new("crates/x/src/a.rs", "struct Tree { age: u8 } fn rotate(x: u8) {}")];
        let text = "`a.rs` `crates/x/src/a.rs` `rotate()` `Tree::rotate` `Tree::age` `cargo test` `--flag` `View`";
        assert_eq!(names("d.md", text, &sources), Vec::<String>::new());
        for name in ["`b.rs`", "`turn()`", "`Tree::turn`", "`Bush::rotate`", "`ge()`"] {
            assert_eq!(names("d.md", name, &sources).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_readme_that_differs_from_ci_is_found() {
        let readme = "```\ncargo test --workspace   # all of it\n```\n";
        assert!(commands(readme, "run cargo test --workspace\n").is_empty());
        assert_eq!(commands(readme, "run cargo test\n").len(), 1);
        assert_eq!(commands("nothing", "cargo test\n").len(), 1);
    }
}
