//! Boundary movement: searching, settling and following.

use super::*;

const WINDOW: usize = 100_000;

/// Reads that every part of the window would have saved equally.
fn alike(reads: f64) -> GhostHits {
    GhostHits { window: reads, near: reads }
}

/// For a budget of a million bytes.
fn of_a_million() -> PartitionController {
    PartitionController::new(WINDOW)
}

#[test]
fn bytes_move_to_the_most_useful_component() {
    let mut controller = of_a_million();
    let mut split = [0, 0, 1_000_000];
    for _ in 0..200 {
        controller.credit(Component::Kv, alike(300.0));
        controller.credit(Component::Block, alike(100.0));
        let next = controller.step(split, [usize::MAX; 3]);
        assert_eq!(next.iter().sum::<usize>(), 1_000_000);
        split = next;
    }
    assert_eq!(split, [1_000_000, 0, 0]);
}

/// Bytes moved by chance cost more in repeated reads than the credits show.
#[test]
fn following_takes_large_steps_only_for_large_credit_differences() {
    let moved = |least: f64| {
        let split = [500_000, 0, 500_000];
        let phase = Phase::Follow { settled: [0.5, 0.0, 0.5] };
        let mut controller = PartitionController { phase, ..of_a_million() };
        controller.credit(Component::Kv, alike(100.0));
        controller.credit(Component::Block, alike(least));
        controller.step(split, [usize::MAX; 3])[0] - 500_000
    };
    // 0.2 apart, squared; all of a step.
    assert!(moved(100.0 * 0.8 / 1.2).abs_diff(400) <= 1);
    assert_eq!(moved(0.0), 10_000);
}

/// Metadata pays off up to a size and not beyond it.
#[test]
fn controller_finds_the_point_where_more_bytes_stop_helping() {
    let (mut controller, mut split) = (of_a_million(), [0, 0, 1_000_000]);
    let needed = 300_000;
    let mut run = |steps: u32, split: &mut Split| {
        for _ in 0..steps {
            let missing = needed.max(split[2]) - split[2];
            let of_missing = |window: usize| 200.0 * missing.min(window) as f64 / window as f64;
            let (window, near) = (of_missing(100_000), of_missing(25_000));
            controller.credit(Component::Block, GhostHits { window, near });
            controller.credit(Component::Kv, alike(100.0));
            *split = controller.step(*split, [usize::MAX; 3]);
        }
        split[2]
    };
    // By the average over the window.
    let searched = run(SEARCH_STEPS as u32, &mut split);
    assert!((240_000..265_000).contains(&searched), "{searched}");
    let settled = run(SEARCH_STEPS as u32, &mut split);
    assert!((280_000..300_000).contains(&settled), "{settled}");
    assert!(run(512, &mut split).abs_diff(settled) < 10_000);
}

/// A few hundred pointers may be valuable in a window of thousands: more are worthless.
#[test]
fn search_detects_that_a_few_pointers_are_valuable() {
    let mut controller = of_a_million();
    let mut split = [0, 0, 1_000_000];
    let needed = 20_000;
    for _ in 0..SEARCH_STEPS as u32 - 1 {
        let missing = needed.max(split[1]) - split[1];
        let saved = |window: usize| 1000.0 * missing.min(window) as f64 / window as f64;
        controller.credit(Component::Kp, GhostHits { window: saved(100_000), near: saved(12_500) });
        controller.credit(Component::Block, alike(300.0));
        split = controller.step(split, [usize::MAX; 3]);
    }
    assert!(matches!(controller.phase, Phase::Search { .. }));
    assert!((15_000..30_000).contains(&split[1]), "{split:?}");
}

/// By its most valuable eighth of the window, KP would keep growing where blocks save more. The
/// window of a large cache is less than a tenth of it.
#[test]
fn search_uses_the_window_average_once_kp_has_a_window() {
    let searched = |window: usize, from: Split| {
        let (mut controller, mut split) = (PartitionController::new(window), from);
        for _ in 0..SEARCH_STEPS as u32 / 2 {
            controller.credit(Component::Kp, GhostHits { window: 100.0, near: 800.0 });
            controller.credit(Component::Block, alike(300.0));
            split = controller.step(split, [usize::MAX; 3]);
        }
        assert!(controller.searches());
        split[1]
    };
    for window in [WINDOW, WINDOW / 3] {
        for from in [[0, 0, 1_000_000], [0, 400_000, 600_000]] {
            let pointers = searched(window, from);
            assert!(pointers.abs_diff(window) <= 20_000, "{pointers} from {from:?}");
        }
    }
}

/// Two optima: the search finds one, following the other, in steps of at most `bytes_max`.
fn run_between_two_places(
    controller: &mut PartitionController,
    split: &mut Split,
    (steps, bytes_max): (u32, usize),
) -> Split {
    for _ in 0..steps {
        controller.credit(Component::Kp, GhostHits { window: 300.0, near: 0.0 });
        controller.credit(Component::Kv, GhostHits { window: 100.0, near: 400.0 });
        *split = controller.step(*split, [bytes_max; 3]);
    }
    *split
}

#[test]
fn boundaries_that_strayed_start_a_new_search() {
    let (mut controller, mut split) = (of_a_million(), [0, 0, 1_000_000]);
    let mut run = |split: &mut Split, steps| {
        run_between_two_places(&mut controller, split, (steps, usize::MAX))
    };
    assert!(run(&mut split, 256)[1] > 990_000);
    assert!(run(&mut split, 2000)[0] > 990_000, "by near credits");
    // Another load has moved them away.
    split = [700_000, 0, 300_000];
    let before = run(&mut split, 2);
    assert!(run(&mut split, 64)[1] > before[1]);
}

/// However long they move from the point that the search has found.
#[test]
fn moving_boundaries_have_not_settled_and_do_not_search_again() {
    let (mut controller, mut split) = (of_a_million(), [0, 0, 1_000_000]);
    run_between_two_places(&mut controller, &mut split, (256, usize::MAX));
    let mut least = 0;
    for _ in 0..4000 {
        let [kv, ..] = run_between_two_places(&mut controller, &mut split, (1, usize::MAX));
        assert!(kv >= least, "{kv} after {least}");
        least = kv;
    }
    assert_eq!(split, [1_000_000, 0, 0]);
}

/// Bytes beyond its entries would stay empty.
#[test]
fn component_with_free_room_gets_no_bytes_and_the_search_waits() {
    let (mut controller, mut split) = (of_a_million(), [0, 0, 1_000_000]);
    let mut step = |split: Split, bytes_max| {
        controller.credit(Component::Kv, alike(300.0));
        controller.credit(Component::Block, alike(100.0));
        (controller.step(split, bytes_max), controller.phase)
    };
    for _ in 0..10 * SEARCH_STEPS as u32 {
        let (after, phase) = step(split, [0, usize::MAX, usize::MAX]);
        assert_eq!((after, phase), (split, Phase::SEARCH));
    }
    split = step(split, [5_000, 0, 0]).0;
    assert_eq!(split, [5_000, 0, 995_000]);
}

/// Where a step can move only a few bytes, a search takes more steps, and without evidence it does
/// not end.
#[test]
fn search_counts_steps_by_their_possible_size() {
    let (mut controller, mut split) = (of_a_million(), [0, 0, 1_000_000]);
    (0..10_000).for_each(|_| split = controller.step(split, [usize::MAX; 3]));
    assert_eq!(controller.phase, Phase::SEARCH);
    // A tenth of a step.
    run_between_two_places(&mut controller, &mut split, (2000, 2_000));
    assert!(matches!(controller.phase, Phase::Search { .. }), "{:?}", controller.phase);
    run_between_two_places(&mut controller, &mut split, (600, 2_000));
    assert!(matches!(controller.phase, Phase::Settle { .. }), "{:?}", controller.phase);
}

#[test]
fn restored_boundaries_follow_from_their_position() {
    let mut controller = of_a_million();
    controller.settle_at([500_000, 0, 500_000]);
    controller.credit(Component::Kp, GhostHits { window: 300.0, near: 0.0 });
    controller.credit(Component::Kv, GhostHits { window: 100.0, near: 400.0 });
    let [kv, ..] = controller.step([500_000, 0, 500_000], [usize::MAX; 3]);
    assert!(kv > 500_000, "{kv}");
}

/// With a handful of hits, four times as many are near by chance.
#[test]
fn near_credits_are_ignored_when_there_are_few() {
    let (mut controller, mut split) = (of_a_million(), [500_000, 0, 500_000]);
    controller.settle_at(split);
    for _ in 0..1000 {
        controller.credit(Component::Kv, GhostHits { window: 1.0, near: 4.0 });
        split = controller.step(split, [usize::MAX; 3]);
    }
    assert_eq!(split, [500_000, 0, 500_000]);
}

#[test]
fn kv_grows_to_save_time_when_no_reads_are_saved() {
    let mut controller = of_a_million();
    let split = [0, 0, 1_000_000];
    controller.credit_time(300.0);
    controller.credit(Component::Block, alike(1.05));
    assert_eq!(controller.step(split, [usize::MAX; 3]), split);
    // The remaining bytes of both.
    let [kv, kp, block] = controller.step(split, [usize::MAX; 3]);
    assert!(kv > 15_000 && kp == 0 && kv + block == 1_000_000, "{kv}, {kp} and {block}");
}

#[test]
fn boundaries_do_not_move_by_chance_or_between_equals() {
    let mut controller = of_a_million();
    let split = [100, 200, 700];
    controller.credit(Component::Kp, alike(10.0));
    assert_eq!(controller.step(split, [usize::MAX; 3]), split);
    controller.credit(Component::Kv, alike(1000.0));
    controller.credit(Component::Kp, alike(1050.0));
    controller.credit(Component::Block, alike(1000.0));
    assert_eq!(controller.step(split, [usize::MAX; 3]), split);
}
