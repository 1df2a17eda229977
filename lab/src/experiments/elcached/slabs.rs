//! A model of memcached's slabs at page level, for effects that depend on pages, such as the choice
//! of pages to release.
//!
//! As in [`tidekv_plan::SlabClasses`], a class without a free chunk takes a page, as long as there
//! are pages or it has none, and otherwise evicts its least recently used item. Each page has a
//! [`Distinct`] counter of its accessed items (ElCached §6).
//!
//! Guarantees: an item is in one chunk of a page of its class; releasing a page removes exactly its
//! items and its free chunks.

use std::collections::HashMap;

use tidekv_plan::{Distinct, PAGE_BYTES, SlabClasses};

use crate::load::dice::mix;

/// The number of a chunk; `None` without a neighbour.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Chunk {
    /// The item's, if any.
    key: Option<u64>,
    page: u32,
    /// Towards the item used later.
    newer: u32,
    older: u32,
}

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    class: usize,
    first_chunk: u32,
    chunks: u32,
    seen: Distinct,
    is_there: bool,
}

#[derive(Debug, Clone)]
struct Class {
    newest: u32,
    oldest: u32,
    free: Vec<u32>,
    pages: u64,
}

/// The slabs.
#[derive(Debug)]
pub(super) struct Slabs {
    classes: SlabClasses,
    of_class: Vec<Class>,
    chunks: Vec<Chunk>,
    pages: Vec<Page>,
    /// The location of items.
    places: HashMap<u64, u32>,
    pages_max: u64,
}

impl Slabs {
    /// Slabs of this number of pages.
    pub(super) fn new(classes: SlabClasses, pages_max: u64) -> Self {
        let class = Class { newest: NONE, oldest: NONE, free: Vec::new(), pages: 0 };
        let of_class = vec![class; classes.chunk_bytes().len()];
        let (chunks, pages, places) = (Vec::new(), Vec::new(), HashMap::new());
        Self { classes, of_class, chunks, pages, places, pages_max }
    }

    /// The pages of each class.
    pub(super) fn pages_of_classes(&self) -> Vec<u64> {
        self.of_class.iter().map(|class| class.pages).collect()
    }

    /// Accesses an item, which is stored afterwards; whether it was a hit.
    pub(super) fn ask(&mut self, key: u64, item_bytes: u64) -> bool {
        if let Some(chunk) = self.places.get(&key).copied() {
            self.unlink(chunk);
            self.link(chunk, key);
            return true;
        }
        if let Some(class) = self.classes.class_of(item_bytes) {
            let chunk = self.free_chunk(class);
            self.places.insert(key, chunk);
            self.link(chunk, key);
        }
        false
    }

    /// A chunk without an item, unused by others.
    fn free_chunk(&mut self, class: usize) -> u32 {
        let taken: u64 = self.of_class.iter().map(|class| class.pages).sum();
        let of_class = &self.of_class[class];
        if of_class.free.is_empty() && (taken < self.pages_max || of_class.pages == 0) {
            self.add_page(class);
        }
        if let Some(chunk) = self.of_class[class].free.pop() {
            return chunk;
        }
        // All chunks of its pages are in its list.
        let oldest = self.of_class[class].oldest;
        self.take_out(oldest);
        oldest
    }

    fn add_page(&mut self, class: usize) {
        let chunks = (PAGE_BYTES / self.classes.chunk_bytes()[class]) as u32;
        let (page, first_chunk) = (self.pages.len() as u32, self.chunks.len() as u32);
        let chunk = Chunk { key: None, page, newer: NONE, older: NONE };
        self.chunks.extend(std::iter::repeat_n(chunk, chunks as usize));
        let seen = Distinct::default();
        self.pages.push(Page { class, first_chunk, chunks, seen, is_there: true });
        let of_class = &mut self.of_class[class];
        of_class.free.extend((first_chunk..first_chunk + chunks).rev());
        of_class.pages += 1;
    }

    /// Puts `key` into a chunk, and on top.
    fn link(&mut self, chunk: u32, key: u64) {
        let page = &mut self.pages[self.chunks[chunk as usize].page as usize];
        page.seen.record(mix(key));
        let class = &mut self.of_class[page.class];
        let older = std::mem::replace(&mut class.newest, chunk);
        let link = &mut self.chunks[chunk as usize];
        (link.key, link.newer, link.older) = (Some(key), NONE, older);
        match older {
            NONE => class.oldest = chunk,
            older => self.chunks[older as usize].newer = chunk,
        }
    }

    /// Takes a chunk out of the list of its class.
    fn unlink(&mut self, chunk: u32) {
        let Chunk { page, newer, older, .. } = self.chunks[chunk as usize];
        let class = &mut self.of_class[self.pages[page as usize].class];
        match newer {
            NONE => class.newest = older,
            newer => self.chunks[newer as usize].older = older,
        }
        match older {
            NONE => class.oldest = newer,
            older => self.chunks[older as usize].newer = newer,
        }
    }

    /// Takes an item out of its chunk.
    fn take_out(&mut self, chunk: u32) {
        if let Some(key) = self.chunks[chunk as usize].key.take() {
            self.unlink(chunk);
            self.places.remove(&key);
        }
    }

    /// Starts counting the accessed items of pages.
    pub(super) fn watch(&mut self) {
        self.pages.iter_mut().for_each(|page| page.seen.clear());
    }

    /// Releases pages until this number remains, of each class its share, and never its last one:
    /// those with the lowest `worth`, a function of a page's number, by age, and of its number of
    /// accessed items since [`Slabs::watch`].
    pub(super) fn shrink(&mut self, pages_max: u64, worth: &mut dyn FnMut(usize, f64) -> f64) {
        let all: u64 = self.of_class.iter().map(|class| class.pages).sum();
        let kept = |pages: u64| (pages as f64 * pages_max as f64 / all as f64).round().max(1.0);
        self.pages_max = pages_max;
        for class in 0..self.of_class.len() {
            let of_class = |(_, page): &(usize, &Page)| page.is_there && page.class == class;
            let pages = self.pages.iter().enumerate().filter(of_class);
            let pages = pages.map(|(number, page)| (worth(number, page.seen.count()), number));
            let mut pages: Vec<(f64, usize)> = pages.collect();
            pages.sort_by(|one, other| one.0.total_cmp(&other.0));
            let given_up = pages.len().saturating_sub(kept(pages.len() as u64) as usize);
            pages[..given_up].iter().for_each(|(_, number)| self.give_up(*number));
        }
    }

    fn give_up(&mut self, number: usize) {
        let Page { class, first_chunk, chunks, .. } = self.pages[number];
        let chunks = first_chunk..first_chunk + chunks;
        chunks.clone().for_each(|chunk| self.take_out(chunk));
        self.pages[number].is_there = false;
        let class = &mut self.of_class[class];
        class.free.retain(|chunk| !chunks.contains(chunk));
        class.pages -= 1;
    }
}

#[cfg(test)]
mod tests {
    use tidekv_plan::{Access, Action, ClassProfiler, Expiry, GROWTH};

    use super::*;
    use crate::load::dice::Dice;

    const CLASSES: fn() -> SlabClasses = || SlabClasses::of_growth(GROWTH);

    #[test]
    fn slabs_miss_as_the_profile_of_classes_predicts() {
        let mut dice = Dice::new(7);
        let requests: Vec<(u64, u64)> = (0..20_000)
            .map(|_| {
                let key = dice.below(300).min(dice.below(300));
                (key, 10_000 + mix(key) % 200_000)
            })
            .collect();
        let mut profiler = ClassProfiler::new(CLASSES(), Expiry::Ignored);
        for (key, bytes) in &requests {
            profiler.record(&Access::new(mix(*key), Action::Load(*bytes)));
        }
        for pages in [3, 8, 15, 30] {
            let mut slabs = Slabs::new(CLASSES(), pages);
            let missed = requests.iter().filter(|(key, bytes)| !slabs.ask(*key, *bytes)).count();
            let predicted = profiler.curve().miss_ratio(pages * PAGE_BYTES) * 20_000.0;
            assert_eq!(missed, predicted.round() as usize, "{pages}");
        }
    }

    #[test]
    fn unused_pages_are_released_first_with_their_items() {
        let mut slabs = Slabs::new(CLASSES(), 4);
        // Two items per page.
        for key in 0..8 {
            assert!(!slabs.ask(key, 500_000));
        }
        slabs.watch();
        for key in [0, 1, 4, 5] {
            assert!(slabs.ask(key, 500_000));
        }
        slabs.shrink(2, &mut |_, active| active);
        assert_eq!(slabs.pages_of_classes().iter().sum::<u64>(), 2);
        assert_eq!([0, 1, 4, 5].map(|key| slabs.ask(key, 500_000)), [true; 4]);
        // There is room for four.
        assert!(!slabs.ask(7, 500_000) && !slabs.ask(0, 500_000) && slabs.ask(7, 500_000));
        // Another class always has a page.
        assert!(!slabs.ask(100, 90) && slabs.ask(100, 90));
    }
}
