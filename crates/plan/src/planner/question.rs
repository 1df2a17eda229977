//! What is asked of a plan, and what one is: tenants who share DRAM and flash within bounds.
//!
//! Pure.

use crate::planner::model::{Allotment, Prices, Tenant};

/// What a latency and a bound may be missed by, as a part: by rounding.
pub(crate) const ROUNDING: f64 = 1e-9;

/// What is to be least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Cost, with every tenant's latency met.
    Cost,
    /// The mean latency of all requests, within a cost.
    Latency,
}

/// What all tenants together may have.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bounds {
    /// DRAM, in bytes.
    pub dram_bytes: Option<u64>,
    /// Flash, in bytes.
    pub flash_bytes: Option<u64>,
    /// Money.
    pub cost: Option<f64>,
    /// Bytes written to flash in a second.
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

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Who shares.
    pub tenants: Vec<Tenant>,
    /// What it costs.
    pub prices: Prices,
    /// What there is.
    pub bounds: Bounds,
    /// What is to be least.
    pub goal: Goal,
}

/// What each tenant gets, and what comes of it by his own curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In the order of the question.
    pub tenants: Vec<Allotment>,
    /// Of all.
    pub cost: f64,
    /// The mean of all requests, in microseconds.
    pub latency_us: f64,
}

/// What is made least.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Objective {
    Goal(Goal),
    Use(Bound),
}

impl Question {
    /// How much a tenant takes of what a bound is about, by his place.
    pub(crate) fn use_of(&self, tenant: usize, gets: &Allotment, bound: Bound) -> f64 {
        let tenant = &self.tenants[tenant];
        match bound {
            Bound::Dram => gets.dram_bytes() as f64,
            Bound::Flash => gets.flash_bytes as f64,
            Bound::Cost => gets.cost,
            Bound::FlashWrites => {
                tenant.requests_per_s * tenant.demoted_bytes * gets.memory_miss_ratio
            }
        }
    }
}

impl Plan {
    /// What comes of these bytes of DRAM for objects, and of flash, for each tenant.
    pub fn of(question: &Question, sizes: &[(u64, u64)]) -> Self {
        let allot = |(tenant, (memory, flash)): (&Tenant, &(u64, u64))| {
            tenant.allot(*memory, *flash, question.prices)
        };
        let tenants: Vec<Allotment> = question.tenants.iter().zip(sizes).map(allot).collect();
        let weights = || question.tenants.iter().map(|tenant| tenant.requests_per_s);
        let latency = |(allotment, weight): (&Allotment, f64)| allotment.latency_us * weight;
        let latency_us = tenants.iter().zip(weights()).map(latency).sum::<f64>();
        let requests = weights().sum::<f64>();
        // Of no requests there is no mean.
        let latency_us = if requests > 0.0 { latency_us / requests } else { 0.0 };
        let cost = tenants.iter().map(|allotment| allotment.cost).sum();
        Self { latency_us, cost, tenants }
    }

    /// How much of what a bound is about this takes.
    pub fn takes(&self, question: &Question, bound: Bound) -> f64 {
        let tenants = self.tenants.iter().enumerate();
        tenants.map(|(number, gets)| question.use_of(number, gets, bound)).sum()
    }
}
