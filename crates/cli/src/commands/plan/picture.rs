//! A plan as a picture: each tenant's curve, and what he gets in it.

use tidekv_plan::{Allotment, Plan, Question, Tenant};

use crate::commands::plan::report::{FLASH_FOR_DRAM, proportional};
use crate::curve_picture::{self, Mark, Panel};
use crate::quantity::show_size;

/// Of DRAM, and of both.
const COLOURS: [&str; 2] = ["#b3261e", "#1b7a3d"];

/// Sizes of one allotment: DRAM for objects, and with flash.
fn marks(gets: &Allotment, of: &str, is_other: bool) -> [Mark; 2] {
    let mark = |size: u64, what: &str, miss_ratio: f64, colour| Mark {
        size,
        text: format!("{of}{what} {}: misses {miss_ratio:.4}", show_size(size)),
        colour,
        is_other,
    };
    let [of_dram, of_both] = COLOURS;
    let both = gets.memory_bytes + gets.flash_bytes;
    [
        mark(gets.memory_bytes, "DRAM", gets.memory_miss_ratio, of_dram),
        mark(both, "with flash", gets.miss_ratio, of_both),
    ]
}

fn title(tenant: &Tenant, gets: &Allotment) -> String {
    let sla = tenant.sla_us.map_or(String::new(), |sla_us| format!(" of {sla_us:.1}"));
    format!("{}: {:.1}{sla} µs for {:.3}", tenant.name, gets.latency_us, gets.cost)
}

/// The picture, with the fixed ratio beside it where that serves everybody.
pub(super) fn draw(question: &Question, plan: &Plan) -> String {
    let fixed = proportional(question);
    let points: Vec<Vec<(u64, f64)>> = question
        .tenants
        .iter()
        .map(|tenant| tenant.curve.points().iter().map(|it| (it.size, it.miss_ratio)).collect())
        .collect();
    let panel = |(number, tenant): (usize, &Tenant)| {
        let gets = &plan.tenants[number];
        let of_fixed = format!("1 : {FLASH_FOR_DRAM} ");
        let others = fixed.iter().flat_map(|fixed| marks(&fixed[number], &of_fixed, true));
        // What there is none of has no place in it.
        let all = marks(gets, "", false).into_iter().chain(others).filter(|mark| mark.size > 0);
        Panel {
            title: title(tenant, gets),
            points: &points[number],
            is_in_bytes: true,
            marks: all.collect(),
        }
    };
    let panels: Vec<Panel<'_>> = question.tenants.iter().enumerate().map(panel).collect();
    curve_picture::draw(&panels)
}
