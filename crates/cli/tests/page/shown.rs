//! The status page of a store as rendered by a browser.

use serde_json::Value;

use crate::browser::{Document, attribute};

/// The fields of the columns of the first table, that of the caches' memory.
const COLUMNS: [&str; 4] = ["block_bytes_max", "kv_bytes_max", "kp_bytes_max", "ghost_bytes"];

/// The rendered page.
#[derive(Debug)]
pub struct Shown {
    document: Document,
    /// Times and numbers of the rows of that table.
    moments: Vec<(u64, [f64; 4])>,
}

impl Shown {
    pub fn new(document: Document) -> Self {
        let moments = moments_of(&document.0);
        Self { document, moments }
    }

    /// The text of the page.
    pub fn text(&self) -> String {
        self.document.text()
    }

    pub fn moments(&self) -> &[(u64, [f64; 4])] {
        &self.moments
    }

    /// The budget of values, in the row of the table nearest to a time.
    pub fn values_at(&self, moment: u64) -> f64 {
        let near = self.moments.iter().min_by_key(|(ms, _)| ms.abs_diff(moment));
        near.expect("the table has rows").1[1]
    }

    /// Asserts that the three components are drawn, all texts are present, and no script has failed.
    #[track_caller]
    pub fn is_drawn(&self) {
        self.document.is_alive();
        let document = &self.document.0;
        for component in ["kv", "kp", "block"] {
            let layer = format!("data-layer=\"{component}\"");
            let path = document.split("<path").find(|path| path.contains(&layer));
            let path = path.unwrap_or_else(|| panic!("{component} is not drawn"));
            assert!(path.contains(" d=\"M"), "{component} has no area: {path:.200}");
            assert!(document.contains(&format!("data-component=\"{component}\"")), "{component}");
        }
        let text = self.text();
        for words in
            ["Values (KV)", "Pointers (KP)", "Blocks", "storage reads each", "Half", "Twice"]
        {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
        for size in ["half", "now", "twice"] {
            assert!(document.contains(&format!("data-estimate=\"{size}\"")), "{size}");
        }
    }

    /// Asserts that each row of the table is a sample of the server.
    #[track_caller]
    pub fn agrees_with(&self, stats: &Value) {
        let fine = &stats["history"]["fine"];
        let times = fine["unix_ms"].as_array().unwrap();
        assert!(!self.moments.is_empty(), "the table is empty");
        for (moment, numbers) in &self.moments {
            let at = times.iter().position(|ms| ms.as_u64() == Some(*moment));
            let at = at.unwrap_or_else(|| panic!("the server has no sample at {moment}"));
            let told = COLUMNS.map(|field| fine["values"][field][at].as_f64().unwrap());
            assert_eq!(*numbers, told, "at {moment}");
        }
        // The components are those of the newest row.
        let newest = self.moments.iter().max_by_key(|(ms, _)| *ms).unwrap().1;
        for (component, column) in [("block", 0), ("kv", 1), ("kp", 2)] {
            let item = self.document.0.split(&format!("data-component=\"{component}\"")).nth(1);
            let most: f64 = attribute(item.unwrap(), "data-bytes-max").unwrap().parse().unwrap();
            // The table is filled when the page opens; a second may have passed since.
            let budget: f64 = newest.iter().sum();
            assert!(
                (most - newest[column]).abs() < 0.2 * budget,
                "{component}: {most}, {newest:?}"
            );
        }
    }
}

/// The rows of the first table, that of the caches' memory.
fn moments_of(document: &str) -> Vec<(u64, [f64; 4])> {
    let table = document.split("<tbody>").nth(1).unwrap_or_default();
    let table = table.split("</tbody>").next().unwrap_or_default();
    let row = |row: &str| {
        let moment = attribute(row, "data-ms").unwrap().parse().unwrap();
        let mut cells = row.split("<td").skip(1).map(|cell| attribute(cell, "data-value"));
        let numbers = std::array::from_fn(|_| cells.next().unwrap().unwrap().parse().unwrap());
        (moment, numbers)
    };
    table.split("<tr").skip(1).map(row).collect()
}
