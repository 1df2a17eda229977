//! What a plan writes to flash, and how long flash lasts.

use serde_json::{Value, json};
use tidekv_plan::{Allotment, Endurance, Plan, PlanRequest, drive_writes_per_day};

use crate::quantity::show_size;

const DAY_S: f64 = 86_400.0;

/// What is known of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Its request rate.
    pub(super) has_rate: bool,
    /// The mean size of its objects.
    pub(super) has_object_size: bool,
}

/// What the wear of flash follows from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wear {
    /// By tenant.
    pub(super) known: Vec<Known>,
    /// The endurance of flash, if the price file has it.
    pub(super) endurance: Option<Endurance>,
}

/// Bytes written per second, and the flash that takes them.
#[derive(Debug, Clone, Copy, Default)]
struct Writes {
    bytes_per_s: f64,
    flash_bytes: u64,
}

impl Writes {
    fn bytes_per_day(self) -> f64 {
        self.bytes_per_s * DAY_S
    }

    fn per_day(self) -> f64 {
        drive_writes_per_day(self.bytes_per_s, self.flash_bytes)
    }

    fn line(self, name: &str) -> String {
        format!(
            "{name:<16} {:>12} {:>12} {:>19}",
            show_size(self.bytes_per_s.round() as u64),
            show_size(self.bytes_per_day().round() as u64),
            if self.flash_bytes > 0 { format!("{:.3}", self.per_day()) } else { "-".to_owned() },
        )
    }

    fn to_json(self) -> Value {
        let is_on_flash = self.flash_bytes > 0;
        json!({
            "bytes_per_s": self.bytes_per_s,
            "bytes_per_day": self.bytes_per_day(),
            "drive_writes_per_day": is_on_flash.then(|| self.per_day()),
        })
    }
}

impl Wear {
    /// A tenant's writes; `None` if they are unknown. Without flash there are none.
    fn of(&self, request: &PlanRequest, number: usize, gets: &Allotment) -> Option<Writes> {
        let Known { has_rate, has_object_size } = self.known[number];
        let is_known = gets.flash_bytes == 0 || (has_rate && has_object_size);
        let bytes_per_s = request.tenants[number].flash_writes_bytes_per_s(gets);
        is_known.then_some(Writes { bytes_per_s, flash_bytes: gets.flash_bytes })
    }

    /// Those of all tenants.
    fn of_all(&self, request: &PlanRequest, plan: &Plan) -> Option<Writes> {
        let each = plan.tenants.iter().enumerate();
        each.map(|(number, gets)| self.of(request, number, gets)).try_fold(
            Writes::default(),
            |all, one| {
                let one = one?;
                let bytes_per_s = all.bytes_per_s + one.bytes_per_s;
                Some(Writes {
                    bytes_per_s,
                    flash_bytes: all.flash_bytes.saturating_add(one.flash_bytes),
                })
            },
        )
    }

    /// The writes of a plan and the life of its flash, as text; nothing without flash.
    pub(super) fn show(&self, request: &PlanRequest, plan: &Plan) -> Vec<String> {
        let of_flash = || {
            let each = request.tenants.iter().zip(&plan.tenants).zip(&self.known);
            each.filter(|((_, gets), _)| gets.flash_bytes > 0)
        };
        if of_flash().next().is_none() {
            return Vec::new();
        }
        let names = |is_missing: fn(&Known) -> bool| {
            let missing = of_flash().filter(|(_, known)| is_missing(known));
            missing.map(|((tenant, _), _)| tenant.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let rates = names(|known| !known.has_rate);
        let sizes = names(|known| !known.has_object_size);
        let mut needed = Vec::new();
        if !rates.is_empty() {
            needed.push(format!("the request rates of {rates} (--requests)"));
        }
        if !sizes.is_empty() {
            needed.push(format!("the object sizes of {sizes} (curves of `tidekv profile --json`)"));
        }
        let Some(all) = self.of_all(request, plan) else {
            return vec![format!("flash writes are unknown: they need {}", needed.join(" and "))];
        };
        let mut lines = vec![format!(
            "{:<16} {:>12} {:>12} {:>19}",
            "flash writes", "per second", "per day", "drive writes a day"
        )];
        for (number, (tenant, gets)) in request.tenants.iter().zip(&plan.tenants).enumerate() {
            lines.extend(self.of(request, number, gets).map(|writes| writes.line(&tenant.name)));
        }
        lines.push(all.line("all"));
        lines.extend(self.endurance.map(|endurance| life(endurance, all)));
        lines
    }

    /// A tenant's writes as JSON; null if they are unknown.
    pub(super) fn tenant_json(
        &self,
        request: &PlanRequest,
        number: usize,
        gets: &Allotment,
    ) -> Value {
        self.of(request, number, gets).map_or(Value::Null, Writes::to_json)
    }

    /// The writes of a plan as JSON, with the life of its flash; null if they are unknown.
    pub(super) fn plan_json(&self, request: &PlanRequest, plan: &Plan) -> Value {
        let Some(all) = self.of_all(request, plan) else { return Value::Null };
        let mut object = all.to_json();
        if let Some(endurance) = self.endurance.filter(|_| all.flash_bytes > 0) {
            let years = Some(endurance.years(all.per_day())).filter(|years| years.is_finite());
            object["endurance"] = json!({
                "drive_writes_per_day": endurance.drive_writes_per_day,
                "warranty_years": endurance.warranty_years,
                "total_bytes": endurance.total_bytes(all.flash_bytes),
                "years": years,
                "outlives_warranty": years.is_none_or(|years| years >= endurance.warranty_years),
            });
        }
        object
    }
}

/// Years as text, or days if they are few.
fn show_years(years: f64) -> String {
    if years < 1.0 { format!("{:.1} days", years * 365.0) } else { format!("{years:.1} years") }
}

/// How long flash lasts with these writes.
fn life(endurance: Endurance, all: Writes) -> String {
    let Endurance { drive_writes_per_day, warranty_years } = endurance;
    let years = endurance.years(all.per_day());
    let endures = format!("it endures {drive_writes_per_day} DWPD for {warranty_years} years");
    if years.is_infinite() {
        return format!("flash does not wear out: nothing is written to it; {endures}");
    }
    let after = format!("flash is worn out after {}", show_years(years));
    if years >= warranty_years {
        return format!("{after}: {endures}");
    }
    let most = drive_writes_per_day * all.flash_bytes as f64 / DAY_S;
    format!(
        "WARNING: {after}, before its warranty ends: {endures}, which is {} per second for this size",
        show_size(most as u64)
    )
}
