//! Allowed dependencies between crates: the table in `docs/internals/architecture.md` compared with
//! the manifests.

use std::collections::BTreeMap;

/// The table, from the lowest crate to the highest.
#[derive(Debug)]
pub struct Table {
    rows: Vec<(String, Vec<String>)>,
}

const HEAD: &str = "| crate | may depend on |";

impl Table {
    /// Reads the table with the columns `crate` and `may depend on`, whose names are in backticks.
    pub fn parse(document: &str) -> Result<Self, String> {
        let mut lines = document.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2);
        let names = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        for line in lines.by_ref().take_while(|line| line.starts_with('|')) {
            let mut cells = line.split('|').skip(1);
            let (Some(first), Some(second)) = (cells.next(), cells.next()) else {
                return Err(format!("not a row: {line}"));
            };
            let [name] = &names(first)[..] else { return Err(format!("no single crate: {line}")) };
            for below in names(second) {
                if !rows.iter().any(|(row, _)| *row == below) {
                    return Err(format!("{name} may depend on {below}, which is not above it"));
                }
            }
            rows.push((name.clone(), names(second)));
        }
        if rows.is_empty() { Err("there is no table".into()) } else { Ok(Self { rows }) }
    }
}

/// Compares the table with `manifests`: folders, as in `crates/io`, and texts of `Cargo.toml`s.
pub fn check(table: &Table, manifests: &[(String, String)]) -> Vec<String> {
    let folders: BTreeMap<&str, &str> = manifests
        .iter()
        .filter_map(|(folder, text)| Some((package(text)?, folder.as_str())))
        .collect();
    let mut complaints = Vec::new();
    for (folder, text) in manifests {
        let Some((_, allowed)) = table.rows.iter().find(|(name, _)| name == name_of(folder)) else {
            complaints
                .push(format!("{folder} is not in the table of docs/internals/architecture.md"));
            continue;
        };
        for dependency in dependencies(text) {
            if let Some(&below) = folders.get(dependency)
                && !allowed.iter().any(|name| name == name_of(below))
            {
                complaints.push(format!("{folder} must not depend on {below}"));
            }
        }
    }
    complaints
}

/// The name of a folder in the table.
fn name_of(folder: &str) -> &str {
    folder.strip_prefix("crates/").unwrap_or(folder)
}

fn package(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find(|line| line.starts_with("name = "))?;
    line.split('"').nth(1)
}

/// The names in all dependency tables except dev-dependencies.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            // [dependencies.name] declares a single one.
            if let Some((table, name)) = section.rsplit_once("dependencies.") {
                if !table.ends_with("dev-") {
                    names.push(name);
                }
                inside = false;
            } else {
                inside =
                    section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
            }
        } else if inside && let Some((name, _)) = line.split_once('=') {
            names.push(name.trim().trim_end_matches(".workspace"));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "text\n\n| crate | may depend on | for |\n|---|---|---|\n\
        | `io` | | files |\n| `store` | `io` | the tree |\n\nmore";

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"tidekv-{name}\"\n{rest}")
    }

    #[test]
    fn an_arrow_upwards_is_found() {
        let table = Table::parse(TABLE).unwrap();
        let store =
            manifest("store", "[dependencies]\ntidekv-io.workspace = true\nserde = \"1\"\n");
        for (io, complains) in [
            ("[dependencies]\nlibc = \"1\"\n", false),
            ("[dependencies]\ntidekv-store.workspace = true\n", true),
            ("[dependencies]\ntidekv-store = { path = \"../store\" }\n", true),
            ("[dependencies.tidekv-store]\nworkspace = true\n", true),
            ("[target.'cfg(unix)'.dependencies]\ntidekv-store = \"1\"\n", true),
            ("[build-dependencies]\ntidekv-store = \"1\"\n", true),
            ("[dev-dependencies]\ntidekv-store = \"1\"\n", false),
        ] {
            let manifests = [
                ("crates/io".to_owned(), manifest("io", io)),
                ("crates/store".to_owned(), store.clone()),
            ];
            assert_eq!(!check(&table, &manifests).is_empty(), complains, "{io}");
        }
    }

    #[test]
    fn a_crate_outside_the_table_and_a_table_that_points_down_are_found() {
        let table = Table::parse(TABLE).unwrap();
        assert!(!check(&table, &[("crates/new".into(), manifest("new", ""))]).is_empty());
        assert!(!check(&table, &[("lab".into(), manifest("lab", ""))]).is_empty());
        let upwards = "| crate | may depend on |\n|---|---|\n| `io` | `store` |\n| `store` | |\n";
        assert!(Table::parse(upwards).is_err());
        assert!(Table::parse("no table").is_err());
    }
}
