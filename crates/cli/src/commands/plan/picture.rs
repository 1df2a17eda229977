//! A plan as a picture: each tenant's curve with its planned sizes.

use tidekv_plan::{Allotment, DEFAULT_FLASH_FOR_DRAM, Plan, PlanRequest, Tenant};

use crate::commands::plan::report::Others;
use crate::curve_picture::{self, DrawnCurve, Mark, Panel};
use crate::quantity::show_size;

const DRAM_COLOUR: &str = "#b3261e";
const BOTH_COLOUR: &str = "#1b7a3d";

/// The sizes of an allotment that are not zero: DRAM for objects, and DRAM with flash.
fn marks(gets: &Allotment, of: &str, is_compared: bool) -> impl Iterator<Item = Mark> {
    let mark = |what: &str, size: u64, miss_ratio: f64, colour| Mark {
        size,
        text: format!("{of}{what} {}: misses {miss_ratio:.4}", show_size(size)),
        colour,
        is_compared,
    };
    let both = gets.memory_bytes.saturating_add(gets.flash_bytes);
    let dram = mark("DRAM", gets.memory_bytes, gets.memory_miss_ratio, DRAM_COLOUR);
    let both = mark("with flash", both, gets.miss_ratio, BOTH_COLOUR);
    let has_dram = (gets.memory_bytes > 0).then_some(dram);
    has_dram.into_iter().chain((gets.flash_bytes > 0).then_some(both))
}

fn title(tenant: &Tenant, gets: &Allotment) -> String {
    let mean = tenant.sla_us.map(|sla_us| format!("{sla_us:.1} µs"));
    let each = tenant.percentiles.iter();
    let percentiles = each.map(|target| format!("p{} {:.1} µs", target.percent, target.within_us));
    let slas: Vec<String> = mean.into_iter().chain(percentiles).collect();
    let sla = if slas.is_empty() { String::new() } else { format!(" (SLA {})", slas.join(", ")) };
    format!("{}: {:.1} µs{sla}, cost {:.3}", tenant.name, gets.latency_us, gets.cost)
}

/// The picture, with the fixed ratio for comparison if it can serve all tenants.
pub(super) fn draw(request: &PlanRequest, plan: &Plan, others: &Others<'_>) -> String {
    let of_fixed = format!("1 : {DEFAULT_FLASH_FOR_DRAM} ");
    let panel = |(number, tenant): (usize, &Tenant)| {
        let gets = &plan.tenants[number];
        let compared = others.proportional.map(|fixed| marks(&fixed[number], &of_fixed, true));
        let points = tenant.curve.points().iter().map(|it| (it.size, it.miss_ratio)).collect();
        let name = tenant.name.clone();
        Panel {
            title: title(tenant, gets),
            size_title: "Size of DRAM, or of DRAM with flash",
            curves: vec![DrawnCurve { name, points, is_of_bytes: false }],
            is_in_bytes: true,
            marks: marks(gets, "", false).chain(compared.into_iter().flatten()).collect(),
        }
    };
    let panels: Vec<Panel> = request.tenants.iter().enumerate().map(panel).collect();
    curve_picture::draw(&panels)
}
