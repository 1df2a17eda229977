//! Miss-ratio curves as output: as names with numbers, and as JSON.

use serde_json::{Map, Value, json};

use crate::curves::WindowReport;

/// Maximum points of a curve in the output by name.
const POINTS_MAX: usize = 400;
/// Maximum points of a curve on a page.
const POINTS_DRAWN: usize = 100;

/// A figure: its name, decimal places, and value.
pub type Fact = (&'static str, usize, f64);

/// The curve of a tenant or a keyspace, with further figures.
#[derive(Debug)]
pub struct Shown {
    /// The name of the tenant or keyspace.
    pub name: String,
    /// The curve.
    pub told: WindowReport,
    /// Figures that only some servers have.
    pub more: Vec<Fact>,
}

impl Shown {
    fn facts(&self) -> Vec<Fact> {
        let told = &self.told;
        let mut facts = vec![
            ("window", 0, told.window as f64),
            ("seconds", 3, told.seconds),
            ("requests", 0, told.curve.requests()),
            ("sampled", 6, told.sampled),
            ("unseen", 0, told.unseen as f64),
        ];
        facts.extend(told.object_bytes.map(|bytes| ("object_bytes", 1, bytes)));
        facts.extend(told.backend_us.map(|us| ("backend_us", 1, us)));
        facts.extend(&self.more);
        facts
    }

    /// Calls `tell` for every figure, by its name, and for each point, as `mr` with the size.
    pub fn each(&self, mut tell: impl FnMut(&[&str], String)) {
        for (fact, places, number) in self.facts() {
            tell(&[&self.name, fact], format!("{number:.places$}"));
        }
        for point in self.told.curve.thinned(POINTS_MAX).points() {
            let ratio = format!("{:.6}", point.miss_ratio);
            tell(&[&self.name, "mr", &point.size.to_string()], ratio);
        }
    }

    /// As JSON for the page.
    pub fn to_json(&self) -> Value {
        let facts = self.facts().into_iter();
        let mut shown: Map<String, Value> =
            facts.map(|(name, _, number)| (name.to_owned(), json!(number))).collect();
        let curve = self.told.curve.thinned(POINTS_DRAWN);
        let points = curve.points().iter().map(|point| json!([point.size, point.miss_ratio]));
        shown.insert("points".into(), points.collect());
        shown.insert("name".into(), json!(self.name));
        Value::Object(shown)
    }
}
