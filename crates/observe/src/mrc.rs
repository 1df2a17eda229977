//! What is told of a miss-ratio curve: as names and numbers, and as JSON.

use serde_json::{Map, Value, json};

use crate::curves::Told;

/// Points of a curve that are told by name.
const POINTS_MAX: usize = 400;
/// Points that a page draws.
const POINTS_DRAWN: usize = 100;

/// Something that is known: its name, decimal places, and the number.
pub type Fact = (&'static str, usize, f64);

/// The curve of a tenant or a keyspace, and what is known beside it.
#[derive(Debug)]
pub struct Shown {
    /// What it is called.
    pub name: String,
    /// The curve.
    pub told: Told,
    /// What only some servers know.
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

    /// All that is known, by name: `fact`, and `mr` with a size for each point.
    pub fn each(&self, mut tell: impl FnMut(&[&str], String)) {
        for (fact, places, number) in self.facts() {
            tell(&[&self.name, fact], format!("{number:.places$}"));
        }
        for point in self.told.curve.thinned(POINTS_MAX).points() {
            let ratio = format!("{:.6}", point.miss_ratio);
            tell(&[&self.name, "mr", &point.size.to_string()], ratio);
        }
    }

    /// As pages take it.
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
