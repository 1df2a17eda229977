//! Coordinates, axes, legends and marks of pictures.

use super::*;

const MIB: u64 = 1 << 20;

fn file(points: &[(u64, f64)]) -> CurveFile {
    CurveFile {
        unit: BYTES.to_owned(),
        requests: 1e6,
        seconds: None,
        object_bytes: None,
        sampled: None,
        points: points.to_vec(),
        standard_errors: None,
        size_errors: None,
        byte_miss_ratios: None,
    }
}

fn panel(points: &[(u64, f64)], marks: Vec<Mark>) -> Panel {
    let name = "one".to_owned();
    Panel {
        title: "a<b & c\u{1b}".to_owned(),
        size_title: "Size",
        curves: vec![DrawnCurve { name, points: points.to_vec(), is_of_bytes: false }],
        is_in_bytes: true,
        marks,
    }
}

fn mark(size: u64, text: &str, is_compared: bool) -> Mark {
    let colour = if is_compared { "#1b7a3d" } else { "#b3261e" };
    Mark { size, text: text.to_owned(), colour, is_compared }
}

#[test]
fn points_have_the_coordinates_of_their_sizes_and_ratios() {
    let points = [(0, 1.0), (MIB, 0.5), (16 * MIB, 0.25)];
    let picture = of_file("t", &file(&points), &[]);
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    // From 512 KiB at the left, of five doublings to the right; ratios fall downwards.
    assert!(picture.contains("d=\"M76 36.0H200.8V196.0H700.0V276.0H700\""), "{picture}");
    for text in [
        "1000000 requests",
        ">512 KiB<",
        ">1 MiB<",
        ">16 MiB<",
        ">0.75<",
        ">Cache size (bytes, logarithmic scale)<",
        ">Miss ratio (misses per get)<",
    ] {
        assert!(picture.contains(text), "{text} is not in {picture}");
    }
    assert!(!picture.contains("of bytes"));
    // Few points are marked.
    for dot in ["cx=\"200.8\" cy=\"196.0\"", "cx=\"700.0\" cy=\"276.0\""] {
        assert!(picture.contains(dot), "{dot} is not in {picture}");
    }
    let many = (1..100).map(|mib| (mib * MIB, 1.0 / mib as f64)).collect::<Vec<_>>();
    assert!(!of_file("t", &file(&many), &[]).contains("<circle"));
    let objects = CurveFile { unit: "objects".into(), ..file(&points) };
    let picture = of_file("t", &objects, &[]);
    assert!(picture.contains(">Cache size (objects, ") && picture.contains(">1048576<"));
    // Half the ratio for bytes.
    let byte_miss_ratios = Some(vec![1.0, 0.25, 0.125]);
    let both = of_file("t", &CurveFile { byte_miss_ratios, ..file(&points) }, &[]);
    for text in [
        "d=\"M76 36.0H200.8V196.0H700.0V276.0H700\"",
        "d=\"M76 36.0H200.8V276.0H700.0V316.0H700\"",
        ">t, of bytes<",
        ">t<",
        "missed bytes per byte",
    ] {
        assert!(both.contains(text), "{text} is not in {both}");
    }
    for points in [&[][..], &[(0, 1.0)], &[(0, 1.0), (u64::MAX, 0.0)], &[(1, 0.5)]] {
        let picture = of_file("t", &file(points), &[]);
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
    }
}

/// The first percent of the fall is not worth half of the picture, unless it is planned.
#[test]
fn sizes_begin_where_the_curve_falls_or_at_a_planned_size() {
    let points = [(0, 1.0), (1_024, 0.999), (8 * MIB, 0.6), (16 * MIB, 0.5)];
    let first = |marks| Frame::of(&panel(&points, marks)).first as u64;
    assert_eq!(first(vec![]), 4 * MIB);
    assert_eq!(first(vec![mark(3 * MIB, "x", false)]), 2 * MIB);
    assert_eq!(first(vec![mark(100, "x", true)]), 64);
    let last = |marks| Frame::of(&panel(&points, marks)).last as u64;
    assert_eq!(last(vec![]), 16 * MIB);
    assert_eq!(last(vec![mark(64 * MIB, "x", false)]), 64 * MIB);
    // Points at smaller sizes are drawn at the left edge.
    let picture = draw(&[panel(&points, vec![])]);
    assert!(picture.contains("d=\"M76 36.3H388.0V164.0H"), "{picture}");
    // The earliest curve counts, and the longest; one that never falls does not.
    let mut panel = panel(&points, vec![]);
    for points in [vec![(0, 1.0), (MIB, 0.4)], vec![(0, 1.0)], vec![(2, 1.0), (32 * MIB, 0.9)]] {
        panel.curves.push(DrawnCurve { points, ..panel.curves[0].clone() });
    }
    let Frame { first, last } = Frame::of(&panel);
    assert_eq!((first as u64, last as u64), (MIB / 2, 32 * MIB));
}

#[test]
fn several_curves_have_a_legend_and_differ_in_style() {
    let points = [(0, 1.0), (MIB, 0.5)];
    let one = panel(&points, vec![]);
    assert!(!draw(std::slice::from_ref(&one)).contains(">one<"));
    let named =
        |number: usize| DrawnCurve { name: format!("policy <{number}>"), ..one.curves[0].clone() };
    let curves: Vec<DrawnCurve> = (0..8).map(named).collect();
    let bytes = curves.iter().map(|it| DrawnCurve { is_of_bytes: true, ..it.clone() });
    let pairs = curves.iter().cloned().zip(bytes).flat_map(|(one, bytes)| [one, bytes]);
    let pairs = styles(&pairs.collect::<Vec<_>>());
    for (number, pair) in pairs.chunks(2).enumerate() {
        assert_eq!(pair[0].colour, pair[1].colour);
        let is_same = |it: &Style| it.stroke() == pair[1].stroke();
        assert_eq!(pairs.iter().filter(|it| is_same(it)).count(), 1, "{number}: {pairs:?}");
    }
    let all: Vec<String> = styles(&curves).iter().map(Style::stroke).collect();
    let picture = draw(&[Panel { curves, ..one.clone() }, one]);
    for (number, stroke) in all.iter().enumerate() {
        assert!(!all[..number].contains(stroke), "{all:?}");
        assert!(picture.contains(&format!(">policy &lt;{number}&gt;<")), "{picture}");
        // The curve, and its sample in the legend.
        assert!(picture.matches(&format!("{stroke}/>")).count() >= 2, "{stroke}: {picture}");
    }
    // Five names fit into a line: the next panel begins below two of them.
    assert!(picture.contains("<g transform=\"translate(0 456)\">"), "{picture}");
    assert!(picture.contains("viewBox=\"0 0 720 876\""), "{picture}");
    let picture = of_file("lru", &file(&points), &[("s3-fifo".into(), file(&[(MIB, 0.25)]))]);
    for text in [">lru<", ">s3-fifo<", ">Miss ratio by cache size<", "V276.0H700"] {
        assert!(picture.contains(text), "{text} is not in {picture}");
    }
}

#[test]
fn marks_have_the_coordinates_of_their_sizes_and_labels_are_escaped() {
    let points = [(0, 1.0), (MIB, 0.5), (16 * MIB, 0.25)];
    let marks = vec![mark(MIB, "DRAM", false), mark(4 * MIB, "1 > 4", true)];
    let picture =
        draw(&[panel(&points, marks), panel(&points, vec![mark(256 * MIB, "far", false)])]);
    for text in [
        "viewBox=\"0 0 720 840\"",
        "<g transform=\"translate(0 420)\">",
        "a&lt;b &amp; c\u{fffd}",
        "M200.8 36V356\" stroke=\"#b3261e\"/>",
        "M450.4 36V356\" stroke=\"#1b7a3d\" stroke-dasharray",
        ">1 &gt; 4</text>",
        // A mark beyond the last point extends the axis.
        "M700.0 36V356\" stroke=\"#b3261e\"/><text x=\"694.0\" y=\"50.0\" text-anchor=\"end\"",
    ] {
        assert!(picture.contains(text), "{text} is not in {picture}");
    }
    // Marks without points, and one of no size.
    for panel in [panel(&[], vec![mark(7, "x", false)]), panel(&points, vec![mark(0, "x", false)])]
    {
        let picture = draw(&[panel]);
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
    }
}
