//! A model of memcached's slabs, down to which page an item is in: for what depends on pages, such as
//! which of them to give up.
//!
//! As [`tidekv_plan::SlabClasses`] has it, a class takes a page where it has no free chunk, as long as there
//! are pages or it has none, and evicts the least recently used of its items otherwise. Each page has a
//! [`Distinct`] of the items that were asked for in it (ElCached §6).
//!
//! Guarantees: an item is in one chunk of a page of its class; a page that is given up takes its items and
//! its free chunks along, and no other.

use std::collections::HashMap;

use tidekv_plan::{Distinct, PAGE_BYTES, SlabClasses};

use crate::load::dice::mix;

/// The number of a chunk; none where there is no neighbour.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Chunk {
    /// The item's, if there is one.
    key: Option<u64>,
    page: u32,
    /// Towards the item that was used later.
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
    /// Where items are.
    places: HashMap<u64, u32>,
    pages_max: u64,
}

impl Slabs {
    /// Slabs of so many pages.
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

    /// Asks for an item, which is there afterwards; whether it was.
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

    /// A chunk without an item, which nobody else has.
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

    /// Begins to look at which pages are used.
    pub(super) fn watch(&mut self) {
        self.pages.iter_mut().for_each(|page| page.seen.clear());
    }

    /// Gives up pages until there are no more than so many, of each class its share, and never its last:
    /// those for which `worth` is least. It is told a page's number, by age, and how many items were
    /// asked for in it since [`Slabs::watch`].
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
    fn they_miss_what_the_profile_of_classes_says() {
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
            let told = profiler.curve().miss_ratio(pages * PAGE_BYTES) * 20_000.0;
            assert_eq!(missed, told.round() as usize, "{pages}");
        }
    }

    #[test]
    fn pages_that_nobody_asks_for_are_given_up_first_and_take_their_items_along() {
        let mut slabs = Slabs::new(CLASSES(), 4);
        // Two items a page.
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
        // Another class has a page whatever there is.
        assert!(!slabs.ask(100, 90) && slabs.ask(100, 90));
    }
}
