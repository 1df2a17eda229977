//! Classes as memcached prints them, and curves compared with a page-by-page simulation of slabs.

use std::collections::VecDeque;

use super::*;

#[test]
fn classes_are_those_of_memcached() {
    // As `memcached -vv` prints them.
    let classes = SlabClasses::of_growth(GROWTH);
    assert_eq!(classes.chunk_bytes()[..8], [96, 120, 152, 192, 240, 304, 384, 480]);
    assert_eq!(classes.chunk_bytes().len(), 39);
    assert_eq!(classes.chunk_bytes()[37..], [394_840, 524_288]);
    let class = |bytes| classes.class_of(bytes);
    assert_eq!(
        [1, 96, 97, 524_288, 524_289].map(class),
        [Some(0), Some(0), Some(1), Some(38), None]
    );
}

#[test]
fn each_class_evicts_for_itself() {
    let mut profiler = ClassProfiler::new(SlabClasses::of_growth(GROWTH), Expiry::AtOnce);
    let record =
        |profiler: &mut ClassProfiler, key, action| profiler.record(&Access::new(key, action));
    // A page of the largest class has two chunks, one of the smallest 10 922.
    for key in 0..6 {
        record(&mut profiler, key, Action::Set(500_000));
    }
    for key in 100..200 {
        record(&mut profiler, key, Action::Set(90));
    }
    for key in (0..6).chain(100..200) {
        record(&mut profiler, key, Action::Get);
    }
    assert_eq!(profiler.bytes_max(), 4 << 20);
    let curve = profiler.curve();
    let missed = [0, 1 << 20, 2 << 20, 3 << 20].map(|size| curve.miss_ratio(size) * 106.0);
    assert_eq!(missed.map(f64::round), [106.0, 6.0, 6.0, 0.0]);
    // By shares, where both classes have a part of each page.
    let curve = profiler.curve_of_shares();
    let missed = [0, 1 << 20, (4 << 20) - 1, 4 << 20].map(|size| curve.miss_ratio(size) * 106.0);
    assert_eq!(missed.map(f64::round), [106.0, 6.0, 6.0, 0.0]);
    let pages = |large: u64, small: u64| {
        let mut pages = vec![0; 39];
        (pages[38], pages[0]) = (large, small);
        pages
    };
    let ratios = [pages(3, 1), pages(2, 1), pages(3, 0), pages(0, 0)];
    let ratios = ratios.map(|pages| profiler.miss_ratio_of_pages(&pages) * 106.0);
    assert_eq!(ratios.map(f64::round), [0.0, 6.0, 100.0, 106.0]);
    // It moves to another class, and leaves room there.
    record(&mut profiler, 0, Action::Set(90));
    record(&mut profiler, 0, Action::Get);
    record(&mut profiler, 1, Action::Delete);
    record(&mut profiler, 1, Action::Get);
    record(&mut profiler, 2, Action::Set(1 << 20));
    record(&mut profiler, 2, Action::Get);
    let curve = profiler.curve();
    assert_eq!((curve.requests(), curve.miss_ratio(1 << 30) * 109.0), (109.0, 2.0));
    profiler.reset_counts();
    record(&mut profiler, 0, Action::Get);
    record(&mut profiler, 9, Action::Get);
    assert_eq!(profiler.miss_ratio_of_pages(&pages(3, 1)), 0.5);
}

/// Slabs as memcached has them, with this many pages: a class takes a page if it has no free chunk
/// and there is a page or it has none, and evicts otherwise.
struct Slabs {
    classes: SlabClasses,
    pages: u64,
    of_class: Vec<(u64, VecDeque<u64>)>,
}

impl Slabs {
    /// Whether it is present; it is afterwards.
    fn ask(&mut self, key: u64, bytes: u64) -> bool {
        let class = self.classes.class_of(bytes).expect("it fits a chunk");
        let taken: u64 = self.of_class.iter().map(|(pages, _)| pages).sum();
        let (pages, queue) = &mut self.of_class[class];
        let place = queue.iter().position(|other| *other == key);
        if let Some(place) = place {
            queue.remove(place);
        } else if queue.len() as u64 == *pages * self.classes.chunks_in_a_page(class) {
            match taken < self.pages || *pages == 0 {
                true => *pages += 1,
                false => drop(queue.pop_front()),
            }
        }
        queue.push_back(key);
        place.is_some()
    }
}

#[test]
fn curve_equals_misses_of_simulated_slabs_of_any_limit() {
    let classes = SlabClasses::of_growth(GROWTH);
    let mut profiler = ClassProfiler::new(classes.clone(), Expiry::Ignored);
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % below
    };
    // Large items, so that pages have few; the smaller ones are used late.
    let requests: Vec<(u64, u64)> = (0..6_000)
        .map(|number| {
            let (first, second) = (random(60), random(60));
            let key = first.min(second) + if number > 3_000 { random(40) } else { 0 };
            (key, 20_000 * (1 + (99 - key) % 24))
        })
        .collect();
    for (key, bytes) in &requests {
        profiler.record(&Access::new(*key, Action::Load(*bytes)));
    }
    let (curve, pages) = (profiler.curve(), profiler.bytes_max() / PAGE_BYTES);
    assert!(pages > 20, "{pages}");
    let mut apart_by_shares = 0.0_f64;
    for limit in (1..=pages + 1).step_by(3) {
        let of_class = vec![(0, VecDeque::new()); classes.chunk_bytes().len()];
        let mut slabs = Slabs { classes: classes.clone(), pages: limit, of_class };
        let missed = requests.iter().filter(|(key, bytes)| !slabs.ask(*key, *bytes)).count();
        let ratio = |curve: &Curve| curve.miss_ratio(limit * PAGE_BYTES) * 6_000.0;
        assert_eq!(ratio(&curve).round() as usize, missed, "{limit} pages");
        apart_by_shares =
            apart_by_shares.max((ratio(&profiler.curve_of_shares()) - missed as f64).abs());
    }
    assert!(apart_by_shares > 60.0, "{apart_by_shares}");
}
