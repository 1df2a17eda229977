//! What is told of tenants, in one flat list: as metrics, in `stats tenants` and in `/api/stats`.

use tidekv_observe::metric::Kind::{self, Counter, Gauge};
use tidekv_tiered::TenantStats;

/// A metric of a tenant, told apart by the label `tenant`.
pub(crate) struct TenantMetric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) read: fn(&TenantStats) -> u64,
}

impl TenantMetric {
    /// Its name in `stats tenants` and `/api/stats`.
    pub(crate) fn short_name(&self) -> &'static str {
        let name = self.name.trim_start_matches("tidekv_cache_tenant_");
        name.trim_end_matches("_total")
    }
}

const fn tenant(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    read: fn(&TenantStats) -> u64,
) -> TenantMetric {
    TenantMetric { name, kind, help, read }
}

/// All metrics of tenants, in the order in which they are shown.
#[rustfmt::skip]
pub(crate) static TENANT_METRICS: [TenantMetric; 11] = [
    tenant(Gauge, "tidekv_cache_tenant_dram_bytes_max", "DRAM that the tenant has.", |t| t.cache.dram_bytes_max),
    tenant(Gauge, "tidekv_cache_tenant_dram_bytes", "DRAM that its objects take.", |t| t.cache.dram_bytes),
    tenant(Gauge, "tidekv_cache_tenant_dram_objects", "Its objects in DRAM.", |t| t.cache.dram_objects),
    tenant(Gauge, "tidekv_cache_tenant_flash_bytes_max", "Flash that it has.", |t| t.flash_bytes_max),
    tenant(Gauge, "tidekv_cache_tenant_flash_objects", "Its objects on flash, about: some have been replaced since.", |t| t.flash_objects),
    tenant(Counter, "tidekv_cache_tenant_dram_hits_total", "Its objects that were found in DRAM.", |t| t.cache.dram_hits),
    tenant(Counter, "tidekv_cache_tenant_flash_hits_total", "Its objects that were found on flash.", |t| t.cache.flash_hits),
    tenant(Counter, "tidekv_cache_tenant_misses_total", "Its objects that were not there.", |t| t.cache.misses),
    tenant(Counter, "tidekv_cache_tenant_stores_total", "Its objects that were stored.", |t| t.cache.stores),
    tenant(Counter, "tidekv_cache_tenant_evicted_total", "Its objects that left DRAM for want of room.", |t| t.cache.evicted),
    tenant(Counter, "tidekv_cache_tenant_expired_total", "Its objects that were found in DRAM after their time.", |t| t.cache.expired),
];
