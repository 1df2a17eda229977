//! Plan requests and plans: tenants share DRAM and flash within bounds.
//!
//! Pure.

use crate::planner::model::{Allotment, Prices, Tenant};

/// The objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Least cost, with every tenant's targets met.
    Cost,
    /// Least mean latency of all requests, within a cost; with every tenant's targets met, if it has any.
    Latency,
}

/// The bounds of all tenants together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bounds {
    /// DRAM, in bytes.
    pub dram_bytes: Option<u64>,
    /// Flash, in bytes.
    pub flash_bytes: Option<u64>,
    /// Money.
    pub cost: Option<f64>,
    /// Bytes written to flash per second.
    pub flash_writes_bytes_per_s: Option<f64>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// [`Bounds::dram_bytes`].
    Dram,
    /// [`Bounds::flash_bytes`].
    Flash,
    /// [`Bounds::cost`].
    Cost,
    /// [`Bounds::flash_writes_bytes_per_s`].
    FlashWrites,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dram, Self::Flash, Self::Cost, Self::FlashWrites];
}

impl Bounds {
    /// The value of a bound, if there is one.
    pub fn get(&self, bound: Bound) -> Option<f64> {
        match bound {
            Bound::Dram => self.dram_bytes.map(|bytes| bytes as f64),
            Bound::Flash => self.flash_bytes.map(|bytes| bytes as f64),
            Bound::Cost => self.cost,
            Bound::FlashWrites => self.flash_writes_bytes_per_s,
        }
    }

    /// The same without that one.
    pub(crate) fn without(mut self, bound: Bound) -> Self {
        match bound {
            Bound::Dram => self.dram_bytes = None,
            Bound::Flash => self.flash_bytes = None,
            Bound::Cost => self.cost = None,
            Bound::FlashWrites => self.flash_writes_bytes_per_s = None,
        }
        self
    }
}

/// A plan request.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRequest {
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// The prices.
    pub prices: Prices,
    /// The bounds.
    pub bounds: Bounds,
    /// The objective.
    pub goal: Goal,
}

/// The sizes of each tenant, and their consequences by its own curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In the order of the request.
    pub tenants: Vec<Allotment>,
    /// Of all tenants.
    pub cost: f64,
    /// The mean of all requests, in microseconds.
    pub latency_us: f64,
}

/// The quantity that is minimised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Objective {
    Goal(Goal),
    Use(Bound),
}

impl PlanRequest {
    /// A tenant's use of a bound, by the tenant's index.
    pub(crate) fn use_of(&self, tenant: usize, gets: &Allotment, bound: Bound) -> f64 {
        let tenant = &self.tenants[tenant];
        match bound {
            Bound::Dram => gets.dram_bytes() as f64,
            Bound::Flash => gets.flash_bytes as f64,
            Bound::Cost => gets.cost,
            Bound::FlashWrites => tenant.flash_writes_bytes_per_s(gets),
        }
    }
}

impl Plan {
    /// The plan with these bytes of DRAM for objects, and of flash, for each tenant.
    pub fn of(request: &PlanRequest, sizes: &[(u64, u64)]) -> Self {
        let allot = |(tenant, (memory, flash)): (&Tenant, &(u64, u64))| {
            tenant.allot(*memory, *flash, request.prices)
        };
        let tenants: Vec<Allotment> = request.tenants.iter().zip(sizes).map(allot).collect();
        let weights = || request.tenants.iter().map(|tenant| tenant.requests_per_s);
        let latency = |(allotment, weight): (&Allotment, f64)| allotment.latency_us * weight;
        let latency_us = tenants.iter().zip(weights()).map(latency).sum::<f64>();
        let requests = weights().sum::<f64>();
        // Without requests there is no mean.
        let latency_us = if requests > 0.0 { latency_us / requests } else { 0.0 };
        let cost = tenants.iter().map(|allotment| allotment.cost).sum();
        Self { latency_us, cost, tenants }
    }

    /// The plan's use of a bound.
    pub fn takes(&self, request: &PlanRequest, bound: Bound) -> f64 {
        let tenants = self.tenants.iter().enumerate();
        tenants.map(|(number, gets)| request.use_of(number, gets, bound)).sum()
    }
}
