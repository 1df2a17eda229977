//! Shortens a failing list: removes ever smaller parts of it as long as it still fails.
//!
//! Delta debugging, after Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing
//! Input*, IEEE TSE 28 (2002); simplified: parts are only removed, one after another, from the end.

/// The shortest failing list found in at most `tries` attempts.
pub fn shrink<T: Clone>(
    list: &[T],
    mut tries: usize,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut list = list.to_vec();
    let mut part = list.len() / 2;
    while part > 0 && tries > 0 {
        let mut end = list.len();
        while end > 0 && tries > 0 {
            let start = end.saturating_sub(part);
            let rest = [&list[..start], &list[end..]].concat();
            tries -= 1;
            if fails(&rest) {
                list = rest;
            }
            end = start;
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
    list
}

#[test]
fn shrinking_keeps_the_failing_elements() {
    let list: Vec<u32> = (0..1000).collect();
    let fails = |list: &[u32]| list.contains(&17) && list.contains(&901);
    assert_eq!(shrink(&list, 10_000, fails), [17, 901]);
    assert!(shrink(&list, 20, fails).len() < 1000);
}
