//! The workspace checked against its own rules (`docs/internals/style.md`): layers, module order,
//! sizes, names, leftovers, and names in documents.
//!
//! The test is in this crate because it depends on no other, so it is the first test to run. Every
//! rule is a function from texts to complaints, and each has a test in which it complains: a check
//! that cannot fail proves nothing.

#![allow(clippy::disallowed_methods, reason = "reads the workspace's own sources")]

#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/methods.rs"]
mod methods;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/words.rs"]
mod words;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/prose.rs"]
mod prose;

use std::path::{Path, PathBuf};

use source::Source;

/// Most entries of the root directory.
const ROOT_ENTRIES_MAX: usize = 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let full = root().join(path);
    std::fs::read_to_string(&full).unwrap_or_else(|error| panic!("{}: {error}", full.display()))
}

/// All files below `directory` whose names end in `.extension`, by path from the root, without
/// build outputs.
fn files(directory: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(root().join(&directory)) else { continue };
        for entry in entries {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = format!("{directory}/{name}");
            if entry.file_type().unwrap().is_dir() {
                if name != "target" && name != "node_modules" {
                    waiting.push(path);
                }
            } else if name.ends_with(&format!(".{extension}")) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The folders of the workspace's packages.
const FOLDERS: [&str; 3] = ["crates", "lab", "testkit"];

/// All files of the workspace with this extension.
fn all_files(extension: &str) -> Vec<String> {
    FOLDERS.iter().flat_map(|folder| files(folder, extension)).collect()
}

fn sources() -> Vec<Source> {
    all_files("rs").into_iter().map(|path| Source::new(&path, &read(&path))).collect()
}

#[track_caller]
fn accept(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn crates_depend_as_the_architecture_says() {
    let table = layers::Table::parse(&read("docs/internals/architecture.md")).unwrap();
    let manifests: Vec<(String, String)> = all_files("toml")
        .into_iter()
        .filter_map(|path| Some((path.strip_suffix("/Cargo.toml")?.to_owned(), read(&path))))
        .collect();
    assert!(manifests.len() >= 5, "the workspace has crates");
    let members = read("Cargo.toml");
    for (folder, _) in &manifests {
        assert!(members.contains(&format!("\"{folder}\"")), "{folder} is no member");
    }
    accept(layers::check(&table, &manifests));
}

#[test]
fn modules_name_only_modules_above_them() {
    let sources = sources();
    accept(modules::check(&sources));
}

#[test]
fn modules_call_only_methods_of_modules_above_them() {
    let sources = sources();
    accept(methods::check(&sources));
}

#[test]
fn files_and_functions_are_short() {
    accept(sources().iter().flat_map(sizes::check).collect());
}

#[test]
fn files_open_with_a_description() {
    accept(sources().iter().filter_map(words::opening).collect());
}

#[test]
fn names_are_informative() {
    accept(sources().iter().flat_map(words::names).collect());
}

#[test]
fn no_unfinished_work() {
    accept(sources().iter().flat_map(words::leftovers).collect());
}

#[test]
fn no_async_below_the_server() {
    accept(sources().iter().flat_map(words::asynchrony).collect());
}

#[test]
fn unsafe_is_only_in_listed_files() {
    accept(words::unsafety(&sources()));
}

#[test]
fn sources_and_documents_use_plain_words() {
    let mut complaints: Vec<String> = sources().iter().flat_map(prose::source).collect();
    // The changelog lists the renames.
    let mut paths = files("docs", "md");
    paths.extend(files("packaging", "md"));
    paths.push("README.md".into());
    complaints.extend(paths.iter().flat_map(|path| prose::document(path, &read(path))));
    accept(complaints);
}

#[test]
fn documents_name_only_existing_things() {
    let sources = sources();
    let mut paths = files("docs", "md");
    let others = ["README.md", "CHANGELOG.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md"];
    paths.extend(others.map(str::to_owned));
    assert!(paths.len() > 8, "there are documents");
    let is_there = |target: &str| root().join(target).exists();
    let mut complaints: Vec<String> =
        paths.iter().flat_map(|path| documents::links(path, &read(path), &is_there)).collect();
    complaints.extend(paths.iter().flat_map(|path| documents::merges(path, &read(path))));
    complaints.extend(paths.iter().flat_map(|path| documents::rows(path, &read(path), &is_there)));
    for path in [
        "docs/internals/architecture.md",
        "docs/internals/concurrency.md",
        "docs/reference/format.md",
    ] {
        complaints.extend(documents::names(path, &read(path), &sources));
    }
    accept(complaints);
}

#[test]
fn readme_and_ci_run_the_same_tests() {
    accept(documents::commands(&read("README.md"), &read(".ci/run")));
}

#[test]
fn the_root_fits_on_one_screen() {
    let ignored = read(".gitignore");
    let is_ours = |name: &String| {
        name != ".git" && !ignored.lines().any(|line| line.trim_matches('/') == name)
    };
    let entries: Vec<String> = std::fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(is_ours)
        .collect();
    assert!(entries.len() <= ROOT_ENTRIES_MAX, "{} entries: {entries:?}", entries.len());
}
