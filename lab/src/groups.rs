//! Groups of rows that differ in one parameter.

use std::cmp::Ordering;

use tidekv_testkit::evidence::{Row, Value};

use crate::experiment::Params;

/// Rows of one subject that differ in one parameter.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// The common parameters.
    pub(crate) params: Params,
    /// By the differing parameter: numbers first, in ascending order.
    pub(crate) rows: Vec<&'a Row>,
}

impl Group<'_> {
    /// Whether all of them have this value of a parameter.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.params.get(name).is_some_and(|it| is_value(it, value))
    }

    /// The metric of each row together with the differing number.
    pub(crate) fn dots(&self, axis: &str, metric: &str) -> Vec<(f64, f64)> {
        let dot = |row: &&Row| Some((row.params.get(axis)?.as_f64()?, row.number(metric)?));
        self.rows.iter().filter_map(dot).collect()
    }

    /// The metric where the parameter is `value`.
    pub(crate) fn at(&self, axis: &str, value: &str, metric: &str) -> Option<f64> {
        let is_it = |row: &&&Row| row.params.get(axis).is_some_and(|it| is_value(it, value));
        self.rows.iter().find(is_it)?.number(metric)
    }
}

/// Groups of the rows of `subject` with the parameter `axis`, in their order. Rows of failed turns
/// have no metrics and are omitted.
pub(crate) fn along<'a>(rows: &[&'a Row], subject: &str, axis: &str) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let is_wanted = |row: &&&Row| {
        row.subject == subject
            && row.params.contains_key(axis)
            && !row.metrics.contains_key("error")
    };
    for row in rows.iter().copied().filter(|row| is_wanted(&row)) {
        let mut params = row.params.clone();
        params.remove(axis);
        match groups.iter_mut().find(|group| group.params == params) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { params, rows: vec![row] }),
        }
    }
    for group in &mut groups {
        group.rows.sort_by(|one, other| order(&one.params[axis], &other.params[axis]));
    }
    groups
}

/// Numbers by size, before texts by their letters.
pub(crate) fn order(one: &Value, other: &Value) -> Ordering {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => text_of(one).cmp(&text_of(other)),
    }
}

/// Whether a parameter equals a written value; 5.0 is 5.
pub(crate) fn is_value(value: &Value, written: &str) -> bool {
    match value.as_f64() {
        Some(number) => written.parse() == Ok(number),
        None => text_of(value) == written,
    }
}

/// A parameter as text for reports and the command line: 5.0 is 5.
pub(crate) fn text_of(value: &Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_owned(),
        (_, Some(number)) => number.to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_in_one_parameter_are_grouped_in_order() {
        let row = |subject: &str, size: f64, io: &str| {
            Row::new("e", subject).param("size", size).param("io", io).metric("hits", size * 10.0)
        };
        let rows = [
            row("a", 20.0, "direct"),
            row("b", 1.0, "direct"),
            row("a", 5.0, "direct"),
            row("a", 5.0, "buffered"),
            Row::new("e", "a").param("size", 1).param("io", "direct").metric("error", "no"),
            Row::new("e", "a").param("io", "direct"),
        ];
        let groups = along(&rows.iter().collect::<Vec<_>>(), "a", "size");
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].dots("size", "hits"), [(5.0, 50.0), (20.0, 200.0)]);
        assert_eq!(groups[0].params.get("io"), Some(&Value::from("direct")));
        assert_eq!(groups[1].dots("size", "hits"), [(5.0, 50.0)]);
        assert_eq!(groups[0].at("size", "20", "hits"), Some(200.0));
        assert_eq!(groups[0].at("size", "7", "hits"), None);
    }

    #[test]
    fn numbers_match_in_any_notation_and_texts_literally() {
        for wanted in ["5", "5.0", "5e0"] {
            assert!(is_value(&Value::from(5), wanted) && is_value(&Value::from(5.0), wanted));
        }
        assert!(is_value(&Value::from(0.1), "0.1") && is_value(&Value::from("5.0"), "5.0"));
        for wanted in ["6", "five", ""] {
            assert!(!is_value(&Value::from(5), wanted), "{wanted}");
        }
        assert!(!is_value(&Value::from("5.0"), "5") && !is_value(&Value::from(0.1), "0.11"));
    }

    #[test]
    fn numbers_sort_before_texts() {
        let mut values = [Value::from("auto"), Value::from(10), Value::from(9.5)];
        values.sort_by(order);
        assert_eq!(values, [Value::from(9.5), Value::from(10), Value::from("auto")]);
    }
}
