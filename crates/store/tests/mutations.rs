//! Compares the list of mutations with the sources: every text that a mutation replaces occurs
//! exactly once, and every test that must notice exists.
//! `cargo run -p tidekv-testkit --example mutations` tries the mutations themselves.
#![allow(clippy::disallowed_methods, reason = "reads the workspace's own sources")]

#[path = "mutations/list.rs"]
mod list;

use std::collections::BTreeSet;
use std::path::Path;

use list::MUTATIONS;

fn read(path: &str) -> String {
    let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&full).unwrap_or_else(|error| panic!("{}: {error}", full.display()))
}

#[test]
fn every_mutation_matches_its_source_and_its_test() {
    let names: BTreeSet<_> = MUTATIONS.iter().map(|mutation| mutation.name).collect();
    assert_eq!(names.len(), MUTATIONS.len(), "two mutations bear one name");
    for mutation in MUTATIONS {
        let name = mutation.name;
        let places = read(mutation.file).matches(mutation.find).count();
        assert_eq!(places, 1, "{name}: number of occurrences of its text in {}", mutation.file);
        assert_ne!(mutation.find, mutation.replace, "{name}: it changes nothing");
        let folder = mutation.package.strip_prefix("tidekv-").unwrap_or("store");
        let (file, test) = match mutation.test.rsplit_once("::") {
            Some((modules, test)) if mutation.target == "lib" => {
                (format!("src/{}", modules.replace("::", "/")), test)
            }
            _ => (format!("tests/{}", mutation.target), mutation.test),
        };
        let tests = read(&format!("crates/{folder}/{file}.rs"));
        let head = format!("#[test]\nfn {test}() {{");
        assert!(tests.contains(&head), "{name}: there is no test {}", mutation.test);
    }
}
