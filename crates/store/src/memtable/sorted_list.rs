//! A sorted, insert-only list of internal entries over an arena, with an index over it that serves
//! only as a hint.
//!
//! Guarantees:
//! 1. One thread inserts at a time; any number of threads read concurrently. No thread blocks.
//! 2. Once [`SortedList::insert`] has returned, every later search finds the entry; a concurrent
//!    search may or may not find it.
//! 3. Entries never move and are never removed before the list is dropped, so a `&[u8]` into one
//!    lives as long as the list.
//!
//! Relies on: no two entries with the same user key and trailer (every write
//! has its own sequence).
//!
//! # The list is authoritative
//!
//! All entries are linked in order; an entry is in the list from the moment at which its
//! predecessor's link points to it (`Release`), and links are followed with `Acquire`. A search
//! needs some entry before its target to start from; the closer, the shorter its walk. The start
//! affects the duration of a search and never its result.
//!
//! # The index is a hint
//!
//! A B+ tree of fixed pages: a leaf holds up to [`SLOTS`] entries, an inner page as many children,
//! each under the first entry of its range. Pages also store eight bytes of each key (after those
//! that all keys of the page share) in a separate array, so that a search touches two or three
//! cache lines per page where a skip list touches one per entry. Pages split to the right; the
//! start of a page's range never changes.
//!
//! Readers read pages while the writer changes them. They still reach an entry before their target,
//! for these reasons:
//! 1. The target of a slot only ever moves left, and so does its prefix: an insertion shifts the
//!    slots after it to the right, so a slot takes over the contents of its predecessor; after a
//!    split the unused slots take over entries before the new page. The target of a slot is stored
//!    before its prefix and read after it. A reader that finds a slot whose prefix (or entry) is
//!    before the target is therefore led to an entry before the target.
//! 2. A page is complete before it can be found, and can be found before its half is removed from
//!    the page it was split from.
//! 3. A reader that was led too far left, beyond the end of a page's range, finds that all of the
//!    page is before the target, regardless of the prefixes there; only the walk along the list
//!    gets longer. The same holds for a target after all keys of a page that does not share their
//!    first bytes.

use std::cmp::Ordering as Order;
use std::ptr::null_mut;

use crate::format::key::Trailer;
use crate::memtable::arena::Arena;
use crate::sync::AccessTracker;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Entries of a leaf, and children of an inner page. In unit tests pages are small enough that
/// models see them split.
const SLOTS: usize = if cfg!(test) { 4 } else { 32 };

/// Levels of pages. With pages half full (of four slots in tests) this allows far more entries than
/// memory can hold.
const LEVELS_MAX: usize = if cfg!(test) { 24 } else { 10 };

#[derive(Debug)]
#[repr(C)]
struct Header {
    next: AtomicPtr<Header>,
    trailer: Trailer,
    value_len: u32,
    key_len: u32,
    /// Tracks all bytes of the entry but its link.
    tracker: AccessTracker,
}

const HEADER_BYTES: usize = size_of::<Header>();

/// The address of an entry, or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(*mut Header);

// SAFETY: an entry is only read, through atomics where it can change; its holder
// keeps the list alive.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Node {
    pub(crate) const NULL: Self = Self(null_mut());

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// # Safety
    /// Not null, and its list must be alive for `'a`.
    unsafe fn header<'a>(self) -> &'a Header {
        // SAFETY: the caller's promise; entries are aligned to 8.
        let header = unsafe { &*self.0 };
        header.tracker.read();
        header
    }

    /// # Safety
    /// As [`Self::header`].
    unsafe fn next(self) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { &*self.0 }.next.load(Ordering::Acquire))
    }

    /// # Safety
    /// As [`Self::header`].
    pub(crate) unsafe fn trailer(self) -> Trailer {
        // SAFETY: the caller's promise.
        unsafe { self.header() }.trailer
    }

    /// # Safety
    /// As [`Self::header`].
    pub(crate) unsafe fn key<'a>(self) -> &'a [u8] {
        // SAFETY: the key follows the header, written before the entry was
        // published, and never changes.
        unsafe {
            let len = self.header().key_len as usize;
            std::slice::from_raw_parts(self.0.cast::<u8>().add(HEADER_BYTES), len)
        }
    }

    /// # Safety
    /// As [`Self::header`].
    pub(crate) unsafe fn value<'a>(self) -> &'a [u8] {
        // SAFETY: the value follows the key. Its pointer comes from the
        // entry's: one made from the key may reach the key only.
        unsafe {
            let Header { key_len, value_len, .. } = self.header();
            let start = self.0.cast::<u8>().add(HEADER_BYTES + *key_len as usize);
            std::slice::from_raw_parts(start, *value_len as usize)
        }
    }
}

/// The target of a search.
#[derive(Clone, Copy)]
struct Probe<'a> {
    key: &'a [u8],
    trailer: Trailer,
}

impl Probe<'_> {
    /// Whether `entry` sorts before the probe, or is no entry but the start.
    ///
    /// # Safety
    /// The list of the entry is alive.
    unsafe fn is_after_or_start(&self, entry: Node) -> bool {
        // SAFETY: the caller's promise.
        entry.is_null() || unsafe { self.is_after(entry) }
    }

    /// Whether `entry` sorts before the probe.
    ///
    /// # Safety
    /// As [`Node::header`].
    unsafe fn is_after(&self, entry: Node) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match entry.key().cmp(self.key) {
                Order::Less => true,
                Order::Greater => false,
                Order::Equal => entry.trailer() > self.trailer,
            }
        }
    }
}

/// The eight bytes of `key` after the first `skip`, big-endian, zero-padded: if two of them differ,
/// so do the keys; if they are equal, the keys must be compared.
fn prefix_of(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(head)
        }
    }
}

fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A leaf or an inner page of the index. Only the writer changes it.
#[derive(Debug)]
#[repr(C)]
struct Page {
    /// 0 for a leaf.
    level: u32,
    /// Length of the prefix that all its keys share.
    skip: u32,
    count: AtomicU32,
    /// The first entry of its range; null for the first page of a level.
    low: Node,
    /// The first entry after its range; null for the last page of a level. Only the writer reads
    /// this field and the next.
    high: AtomicPtr<Header>,
    /// Keys between its last key and `high` may not share the prefix.
    is_skip_guessed: AtomicBool,
    prefixes: [AtomicU64; SLOTS],
    /// Entries in a leaf, pages in an inner page.
    targets: [AtomicPtr<u8>; SLOTS],
    /// Tracks the fields above that are not atomics.
    tracker: AccessTracker,
}

impl Page {
    /// An empty page.
    fn new(level: u32, skip: usize, low: Node, high: Node) -> Self {
        let tracker = AccessTracker::new();
        tracker.write();
        Self {
            level,
            skip: skip as u32,
            count: AtomicU32::new(0),
            low,
            high: AtomicPtr::new(high.0),
            is_skip_guessed: AtomicBool::new(high.is_null()),
            prefixes: std::array::from_fn(|_| AtomicU64::new(0)),
            targets: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
            tracker,
        }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    fn high(&self) -> Node {
        Node(self.high.load(Ordering::Relaxed))
    }

    fn target(&self, slot: usize) -> *mut u8 {
        self.targets[slot].load(Ordering::Acquire)
    }

    /// # Safety
    /// This is an inner page, `slot` was counted, and the list is alive for `'a`.
    unsafe fn child<'a>(&self, slot: usize) -> &'a Page {
        // SAFETY: the caller's promise: the slot leads to a page.
        let page = unsafe { &*self.target(slot).cast::<Page>() };
        page.tracker.read();
        page.fetch();
        page
    }

    /// Prefetches all lines of the page that a search may need at once, instead of one after
    /// another during the binary search.
    #[inline(always)]
    fn fetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(any(test, miri))))]
        for slot in (0..SLOTS).step_by(8) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch touches nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const self.prefixes[slot]).cast()) };
        }
    }

    /// The entry of `slot`; null for the first child of a level.
    ///
    /// # Safety
    /// `slot` was counted, and the list is alive.
    unsafe fn entry(&self, slot: usize) -> Node {
        match self.level {
            0 => Node(self.target(slot).cast()),
            // SAFETY: the caller's promise.
            _ => unsafe { self.child(slot) }.low,
        }
    }

    /// The number of slots whose entries are before the probe.
    ///
    /// # Safety
    /// The list is alive.
    unsafe fn rank(&self, probe: Probe<'_>) -> usize {
        let prefix = prefix_of(probe.key, self.skip as usize);
        let (mut from, mut len) = (0, self.count());
        while len > 0 {
            let half = len / 2;
            let here = self.prefixes[from + half].load(Ordering::Acquire);
            // SAFETY: slots below the count lead to entries or pages.
            let is_before = here < prefix
                || here == prefix && unsafe { probe.is_after_or_start(self.entry(from + half)) };
            (from, len) = if is_before { (from + half + 1, len - half - 1) } else { (from, half) };
        }
        from
    }

    /// Whether `key`, which belongs into the range of this page, has the prefix that all keys of
    /// the page share. If not, it sorts after all of them.
    ///
    /// # Safety
    /// The list is alive.
    unsafe fn shares(&self, key: &[u8]) -> bool {
        let skip = self.skip as usize;
        // SAFETY: a page that skips anything has a first entry.
        skip == 0
            || !self.is_skip_guessed.load(Ordering::Relaxed)
            || key.get(..skip) == unsafe { self.low.key() }.get(..skip)
    }

    /// Sets the end of the range to `high`.
    ///
    /// # Safety
    /// Only the writer.
    unsafe fn end_at(&self, high: Node) {
        self.high.store(high.0, Ordering::Relaxed);
        // SAFETY: the caller's promise; `high` is an entry. Keys between two
        // keys share their common prefix.
        let is_guessed = !unsafe { self.shares(high.key()) };
        self.is_skip_guessed.store(is_guessed, Ordering::Relaxed);
    }

    /// Inserts a slot at `at`; there must be room.
    fn insert_at(&self, at: usize, prefix: u64, target: *mut u8) {
        let count = self.count();
        for slot in (at..count).rev() {
            // The target before the prefix, see the head of this file.
            self.targets[slot + 1].store(self.target(slot), Ordering::Release);
            let moved = self.prefixes[slot].load(Ordering::Relaxed);
            self.prefixes[slot + 1].store(moved, Ordering::Release);
        }
        self.targets[at].store(target, Ordering::Release);
        self.prefixes[at].store(prefix, Ordering::Release);
        self.count.store(count as u32 + 1, Ordering::Release);
    }
}

/// The position of the last insertion: the next one checks it first, which makes ascending
/// insertions cheap. Its holder is the only inserter.
#[derive(Debug)]
pub(crate) struct Splice {
    entry: Node,
    /// The leaf that holds the entry, and its slot.
    leaf: *const Page,
    slot: usize,
}

// SAFETY: it points into a list that its user keeps alive.
unsafe impl Send for Splice {}

impl Default for Splice {
    fn default() -> Self {
        Self { entry: Node::NULL, leaf: std::ptr::null(), slot: 0 }
    }
}

/// For each level, from the leaf up: the page, and the number of its slots before the target.
type Path<'a> = [Option<(&'a Page, usize)>; LEVELS_MAX];

/// The list.
#[derive(Debug)]
pub(crate) struct SortedList {
    /// Precedes all entries; has no key.
    head: Node,
    root: AtomicPtr<Page>,
    arena: Arena,
}

impl SortedList {
    pub(crate) fn new() -> Self {
        let arena = Arena::new();
        let head = new_entry(&arena, &[], Trailer(u64::MAX), &[]);
        Self { head, root: AtomicPtr::new(null_mut()), arena }
    }

    /// Bytes of DRAM held.
    pub(crate) fn charge(&self) -> usize {
        self.arena.charge()
    }

    /// Inserts an entry. `splice` is the list's own, so only one thread inserts.
    pub(crate) fn insert(&self, key: &[u8], trailer: Trailer, value: &[u8], splice: &mut Splice) {
        let entry = new_entry(&self.arena, key, trailer, value);
        let probe = Probe { key, trailer };
        // SAFETY: all entries and pages are of this list, and so is `splice`.
        unsafe {
            if self.follows(splice, probe) {
                self.link(entry, splice.entry, probe);
                let (leaf, at) = (&*splice.leaf, splice.slot + 1);
                if leaf.count() < SLOTS && leaf.shares(key) {
                    leaf.insert_at(at, prefix_of(key, leaf.skip as usize), entry.0.cast());
                    (splice.entry, splice.slot) = (entry, at);
                    return;
                }
                return *splice = self.index(entry, &self.path(probe));
            }
            let path = self.path(probe);
            let before = match path[0] {
                Some((leaf, rank)) if rank > 0 => leaf.entry(rank - 1),
                _ => self.head,
            };
            self.link(entry, before, probe);
            *splice = self.index(entry, &path);
        }
    }

    /// Whether `probe` directly follows the last insertion.
    ///
    /// # Safety
    /// `splice` is of this list.
    unsafe fn follows(&self, splice: &Splice, probe: Probe<'_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if splice.entry.is_null() || !probe.is_after(splice.entry) {
                return false;
            }
            let next = splice.entry.next();
            next.is_null() || !probe.is_after(next)
        }
    }

    /// Links `entry` after `before` in the list.
    ///
    /// # Safety
    /// Both are of this list.
    unsafe fn link(&self, entry: Node, before: Node, probe: Probe<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            let after = before.next();
            debug_assert!(before == self.head || probe.is_after(before));
            debug_assert!(after.is_null() || !probe.is_after(after));
            (*entry.0).next.store(after.0, Ordering::Relaxed);
            (*before.0).next.store(entry.0, Ordering::Release);
        }
    }

    /// The writer's path to the position of `probe`: for each level the page, and the number of its
    /// slots before the probe.
    ///
    /// # Safety
    /// Only the writer.
    unsafe fn path<'a>(&'a self, probe: Probe<'_>) -> Path<'a> {
        let mut path = [None; LEVELS_MAX];
        // SAFETY: pages live as long as the list.
        let mut next = unsafe { self.root.load(Ordering::Acquire).as_ref() };
        while let Some(page) = next {
            page.tracker.read();
            // SAFETY: as above.
            let rank = unsafe {
                if page.level > 0 || page.shares(probe.key) {
                    page.rank(probe)
                } else {
                    page.count()
                }
            };
            path[page.level as usize] = Some((page, rank));
            // SAFETY: as above; an inner page has a child.
            next = (page.level > 0).then(|| unsafe { page.child(rank.max(1) - 1) });
        }
        path
    }

    /// Adds an entry of the list to the index; returns its position.
    ///
    /// # Safety
    /// Only the writer; the path is the one to the entry.
    unsafe fn index(&self, entry: Node, path: &Path<'_>) -> Splice {
        // SAFETY: the caller's promise.
        let (leaf, slot) = unsafe {
            match path[0] {
                Some((_, rank)) => self.add(path, 0, rank, entry, entry.0.cast()),
                None => {
                    let root = self.new_page(Page::new(0, 0, Node::NULL, Node::NULL));
                    root.insert_at(0, prefix_of(entry.key(), 0), entry.0.cast());
                    self.root.store(std::ptr::from_ref(root).cast_mut(), Ordering::Release);
                    (root, 0)
                }
            }
        };
        Splice { entry, leaf, slot }
    }

    /// Inserts a slot with the first entry `first` and the target `target` into the page of the
    /// path on `level`, at `at`, or into the page that it is split into; returns its position.
    ///
    /// # Safety
    /// Only the writer; the path is the one to `first`.
    unsafe fn add<'a>(
        &'a self,
        path: &Path<'a>,
        level: usize,
        at: usize,
        first: Node,
        target: *mut u8,
    ) -> (&'a Page, usize) {
        let (page, _) = path[level].expect("levels are added to from below");
        let count = page.count();
        let high = page.high();
        // SAFETY: the caller's promise; entries of the list.
        unsafe {
            let shares = level > 0 || page.shares(first.key());
            if count < SLOTS && shares {
                page.insert_at(at, prefix_of(first.key(), page.skip as usize), target);
                return (page, at);
            }
            // With ascending keys, splits leave full pages; otherwise half full ones.
            let is_appended = at == count && (high.is_null() || !shares);
            let kept = if is_appended { count } else { SLOTS / 2 };
            let low = if is_appended { first } else { page.entry(kept) };
            // Keys between two keys share their common prefix. For keys after the last one the
            // prefix is a guess, which `shares` verifies.
            let skip = match level {
                _ if !high.is_null() => common_len(low.key(), high.key()),
                0 => common_len(low.key(), page.entry(count - 1).key()),
                _ => 0,
            };
            let right = self.new_page(Page::new(level as u32, skip, low, high));
            for slot in kept..count {
                let prefix = prefix_of(page.entry(slot).key(), skip);
                right.insert_at(slot - kept, prefix, page.target(slot));
            }
            let goes_right = at > kept || is_appended;
            if goes_right {
                right.insert_at(at - kept, prefix_of(first.key(), skip), target);
            }
            page.end_at(low);
            self.add_page(path, level, page, right);
            page.count.store(kept as u32, Ordering::Release);
            if goes_right {
                return (right, at - kept);
            }
            page.insert_at(at, prefix_of(first.key(), page.skip as usize), target);
            (page, at)
        }
    }

    /// Makes `right`, the upper half of `page`, reachable.
    ///
    /// # Safety
    /// As [`Self::add`].
    unsafe fn add_page<'a>(
        &'a self,
        path: &Path<'a>,
        level: usize,
        page: &'a Page,
        right: &'a Page,
    ) {
        let pointer = |page: &Page| std::ptr::from_ref(page).cast_mut();
        if let Some((_, rank)) = path[level + 1] {
            // SAFETY: the caller's promise. The slot after that of `page`.
            unsafe { self.add(path, level + 1, rank.max(1), right.low, pointer(right).cast()) };
            return;
        }
        let root = self.new_page(Page::new(level as u32 + 1, 0, Node::NULL, Node::NULL));
        root.insert_at(0, 0, pointer(page).cast());
        // SAFETY: a page that was split off has a first entry.
        let prefix = prefix_of(unsafe { right.low.key() }, 0);
        root.insert_at(1, prefix, pointer(right).cast());
        self.root.store(pointer(root), Ordering::Release);
    }

    fn new_page(&self, page: Page) -> &Page {
        let memory = self.arena.allocate(size_of::<Page>()).cast::<Page>();
        // SAFETY: the memory is ours alone, large and aligned enough, and lives
        // as long as the list.
        unsafe {
            memory.write(page);
            memory.as_ref()
        }
    }

    /// The neighbours of `probe`: the last entry before it (or the head), and the first at or after
    /// it. Each link is read only once for both: an entry inserted between two reads would be
    /// mistaken for the second neighbour.
    fn around(&self, probe: Probe<'_>) -> (Node, Node) {
        // SAFETY: entries and pages live as long as the list.
        unsafe {
            let mut node = self.start_for(probe);
            debug_assert!(node == self.head || probe.is_after(node));
            let mut next = node.next();
            while !next.is_null() && probe.is_after(next) {
                node = next;
                next = node.next();
            }
            (node, next)
        }
    }

    /// An entry before the probe, or the head.
    ///
    /// # Safety
    /// None: marked because it follows pointers like its caller.
    unsafe fn start_for(&self, probe: Probe<'_>) -> Node {
        // SAFETY: pages live as long as the list.
        unsafe {
            let Some(mut page) = self.root.load(Ordering::Acquire).as_ref() else {
                return self.head;
            };
            loop {
                page.tracker.read();
                let rank = page.rank(probe);
                if page.level > 0 {
                    page = page.child(rank.max(1) - 1);
                } else if rank > 0 {
                    return page.entry(rank - 1);
                } else {
                    return if page.low.is_null() { self.head } else { page.low };
                }
            }
        }
    }

    fn or_null(&self, node: Node) -> Node {
        if node == self.head { Node::NULL } else { node }
    }

    /// The first entry at or after the internal key; null if there is none.
    pub(crate) fn at_or_after(&self, key: &[u8], trailer: Trailer) -> Node {
        self.around(Probe { key, trailer }).1
    }

    /// The last entry before the internal key; null if there is none.
    pub(crate) fn before(&self, key: &[u8], trailer: Trailer) -> Node {
        self.or_null(self.around(Probe { key, trailer }).0)
    }

    /// The first entry; null when the list is empty.
    pub(crate) fn first(&self) -> Node {
        // SAFETY: the head is of this list.
        unsafe { self.head.next() }
    }

    /// A random entry, all equally likely; null if there is none or the choice fell on an unused
    /// slot. `random` returns a number below its argument.
    pub(crate) fn random(&self, random: &mut dyn FnMut(usize) -> usize) -> Node {
        // SAFETY: entries and pages live as long as the list; slots below the count lead to some.
        unsafe {
            let Some(mut page) = self.root.load(Ordering::Acquire).as_ref() else {
                return Node::NULL;
            };
            page.tracker.read();
            // Every entry lies below the root; below it, pages are not equally full.
            let mut slot = random(page.count());
            while slot < page.count() {
                if page.level == 0 {
                    return page.entry(slot);
                }
                (page, slot) = (page.child(slot), random(SLOTS));
            }
            Node::NULL
        }
    }

    /// The last entry; null when the list is empty.
    pub(crate) fn last(&self) -> Node {
        // SAFETY: entries and pages live as long as the list.
        unsafe {
            let Some(mut page) = self.root.load(Ordering::Acquire).as_ref() else {
                return Node::NULL;
            };
            while page.level > 0 {
                page = page.child(page.count() - 1);
            }
            let mut node = page.entry(page.count() - 1);
            loop {
                let next = node.next();
                if next.is_null() {
                    return node;
                }
                node = next;
            }
        }
    }

    /// The entry after `node`, which must be of this list and not null.
    pub(crate) fn next(&self, node: Node) -> Node {
        debug_assert!(!node.is_null());
        // SAFETY: the caller's node is of this list, which is alive.
        unsafe { node.next() }
    }
}

fn new_entry(arena: &Arena, key: &[u8], trailer: Trailer, value: &[u8]) -> Node {
    let memory = arena.allocate(HEADER_BYTES + key.len() + value.len()).cast::<Header>();
    let header = Header {
        next: AtomicPtr::new(null_mut()),
        trailer,
        value_len: u32::try_from(value.len()).expect("values are bounded far below 4 GiB"),
        key_len: u32::try_from(key.len()).expect("keys are bounded far below 4 GiB"),
        tracker: AccessTracker::new(),
    };
    header.tracker.write();
    // SAFETY: the memory is ours alone and large enough for all parts.
    unsafe {
        memory.write(header);
        let bytes = memory.as_ptr().cast::<u8>().add(HEADER_BYTES);
        bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
        bytes.add(key.len()).copy_from_nonoverlapping(value.as_ptr(), value.len());
    }
    Node(memory.as_ptr())
}

#[cfg(test)]
mod tests;
