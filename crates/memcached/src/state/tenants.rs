//! The metrics of tenants: one flat list for `/metrics`, `stats tenants` and `/api/stats`.

use tidekv_observe::metric::Kind::{self, Counter, Gauge};
use tidekv_tiered::TenantStats;

/// A metric of a tenant, with the label `tenant`.
pub(crate) struct TenantMetric {
    /// Its name in `stats tenants` and `/api/stats`.
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) read: fn(&TenantStats) -> u64,
}

const fn tenant(
    key: &'static str,
    kind: Kind,
    name: &'static str,
    help: &'static str,
    read: fn(&TenantStats) -> u64,
) -> TenantMetric {
    TenantMetric { key, name, kind, help, read }
}

/// All metrics of tenants, in the order in which they are written.
#[rustfmt::skip]
pub(crate) static TENANT_METRICS: [TenantMetric; 11] = [
    tenant("dram_bytes_max", Gauge, "tidekv_cache_tenant_dram_budget_bytes", "DRAM budget of the tenant.", |t| t.cache.dram_bytes_max),
    tenant("dram_bytes", Gauge, "tidekv_cache_tenant_dram_bytes", "DRAM of the tenant's objects.", |t| t.cache.dram_bytes),
    tenant("dram_objects", Gauge, "tidekv_cache_tenant_dram_objects", "Objects of the tenant in DRAM.", |t| t.cache.dram_objects),
    tenant("flash_bytes_max", Gauge, "tidekv_cache_tenant_flash_budget_bytes", "Flash budget of the tenant.", |t| t.flash_bytes_max),
    tenant("flash_objects", Gauge, "tidekv_cache_tenant_flash_objects", "Objects of the tenant on flash, estimated: some have been replaced since.", |t| t.flash_objects),
    tenant("dram_hits", Counter, "tidekv_cache_tenant_dram_hits_total", "Lookups that found an object of the tenant in DRAM.", |t| t.cache.dram_hits),
    tenant("flash_hits", Counter, "tidekv_cache_tenant_flash_hits_total", "Lookups that found an object of the tenant on flash.", |t| t.cache.flash_hits),
    tenant("misses", Counter, "tidekv_cache_tenant_misses_total", "Lookups of the tenant's keys that found no object.", |t| t.cache.misses),
    tenant("stores", Counter, "tidekv_cache_tenant_stores_total", "Objects of the tenant stored, new or changed.", |t| t.cache.stores),
    tenant("evictions", Counter, "tidekv_cache_tenant_evictions_total", "Objects of the tenant evicted from DRAM.", |t| t.cache.evicted),
    tenant("expired", Counter, "tidekv_cache_tenant_expired_total", "Objects of the tenant found expired in DRAM.", |t| t.cache.expired),
];
