//! The cache as commands access it: from memory alone, with prefetched flash reads, or with
//! permission to wait for flash.
//!
//! Tests can make a key cold: memory then misses it, as if it were on flash.

use tidekv_tiered::{Cache, CachedObject, Change, Lookup, PendingRead, WouldBlock};

/// The cache, with the permission to wait.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) cache: Cache,
    #[cfg(test)]
    pub(crate) cold: Cold,
}

/// Whether keys are cold, and the effect of waiting for one.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Cold(pub(crate) Option<fn(key: &[u8], is_waiting: bool) -> bool>);

#[cfg(test)]
impl std::fmt::Debug for Cold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cold(..)")
    }
}

impl Objects {
    pub(crate) fn new(cache: Cache) -> Self {
        Self {
            cache,
            #[cfg(test)]
            cold: Cold::default(),
        }
    }

    /// The object of `key`; counts as an access. `pending` is its prefetched flash read, if there is
    /// one.
    pub(crate) fn get(
        &self,
        key: &[u8],
        may_wait: bool,
        pending: Option<PendingRead>,
    ) -> Result<Option<CachedObject>, WouldBlock> {
        self.check(key, may_wait)?;
        if let Some(pending) = pending {
            let fetch = |found: Option<&CachedObject>| (Change::Fetch, found.cloned());
            if let Ok(found) = self.cache.finish_update(pending, fetch) {
                return Ok(found);
            }
        }
        if may_wait {
            return Ok(self.cache.get(key));
        }
        match self.cache.try_get(key) {
            Lookup::Hit(found) => Ok(Some(found)),
            Lookup::Miss => Ok(None),
            Lookup::Unknown => Err(WouldBlock),
        }
    }

    /// Passes the object of `key` to `decide`, and applies the change that it returns, atomically.
    /// `pending` as in [`Objects::get`].
    pub(crate) fn change<R>(
        &self,
        key: &[u8],
        may_wait: bool,
        pending: Option<PendingRead>,
        mut decide: impl FnMut(Option<&CachedObject>) -> (Change, R),
    ) -> Result<R, WouldBlock> {
        self.check(key, may_wait)?;
        if let Some(pending) = pending
            && let Ok(result) = self.cache.finish_update(pending, &mut decide)
        {
            return Ok(result);
        }
        match may_wait {
            true => Ok(self.cache.change(key, decide)),
            false => self.cache.try_change(key, decide),
        }
    }

    #[cfg(test)]
    fn check(&self, key: &[u8], may_wait: bool) -> Result<(), WouldBlock> {
        match self.cold.0 {
            Some(is_cold) if is_cold(key, may_wait) && !may_wait => Err(WouldBlock),
            _ => Ok(()),
        }
    }

    #[cfg(not(test))]
    #[inline]
    fn check(&self, _key: &[u8], _may_wait: bool) -> Result<(), WouldBlock> {
        Ok(())
    }
}
