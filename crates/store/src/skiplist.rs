//! A concurrent, insert-only skip list of internal entries over an arena.
//!
//! Guarantees:
//! 1. Any number of threads may insert and read at once; nobody blocks.
//! 2. Once [`SkipList::insert`] has returned, every later search finds the
//!    entry; a search that runs meanwhile finds it or not.
//! 3. Nodes never move and are never removed before the list is dropped, so a
//!    `&[u8]` into one lives as long as the list.
//!
//! Relies on: no two entries with the same user key and trailer (every write
//! has its own sequence).
//!
//! A node is one run of arena memory: [`Header`], then `height` atomic
//! pointers, then key and value. The header repeats the first eight bytes of
//! the key as a number, so most comparisons touch one cache line. Links are
//! published bottom-up by compare-and-swap with `Release` and followed with
//! `Acquire`; a node's own bytes are written before its first link.
//!
//! `unsafe` here is confined to nodes; Miri runs the tests of this module.

use std::cmp::Ordering as Order;

use crate::arena::Arena;
use crate::key::Trailer;
use crate::sync::Witness;
use crate::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// With one node in four rising a level, twelve levels suit 16 million entries.
const HEIGHT_MAX: usize = 12;

#[derive(Debug)]
#[repr(C)]
struct Header {
    /// The first eight bytes of the key, big-endian, zero-padded.
    prefix: u64,
    trailer: Trailer,
    value_len: u32,
    /// Key length in the low 24 bits, height above.
    key_len_and_height: u32,
    /// Of all bytes of the node but its links.
    witness: Witness,
}

const HEADER_BYTES: usize = size_of::<Header>();
const LINK_BYTES: usize = size_of::<AtomicPtr<u8>>();

/// A node, by address; null where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(*mut u8);

// SAFETY: a node is only read, through atomics where it can change; whoever
// holds one keeps the list alive.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Node {
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// # Safety
    /// Not null, and its list must be alive for `'a`.
    unsafe fn header<'a>(self) -> &'a Header {
        // SAFETY: the caller's promise; nodes are aligned to 8.
        let header = unsafe { &*self.0.cast::<Header>() };
        header.witness.read();
        header
    }

    /// # Safety
    /// As [`Self::header`], and `level` is below the node's height.
    unsafe fn link<'a>(self, level: usize) -> &'a AtomicPtr<u8> {
        // SAFETY: the links follow the header, and the caller vouches for both.
        unsafe { &*self.0.add(HEADER_BYTES + level * LINK_BYTES).cast::<AtomicPtr<u8>>() }
    }

    /// A node of `height` in memory that holds nothing yet: its header and links
    /// that lead nowhere.
    ///
    /// # Safety
    /// The memory is the caller's alone, aligned to 8 and large enough for both.
    unsafe fn write(memory: *mut u8, header: Header, height: usize) -> Self {
        // SAFETY: the caller's promise; links follow the header.
        unsafe {
            header.witness.write();
            memory.cast::<Header>().write(header);
            let links = memory.add(HEADER_BYTES).cast::<AtomicPtr<u8>>();
            for level in 0..height {
                links.add(level).write(AtomicPtr::new(std::ptr::null_mut()));
            }
        }
        Self(memory)
    }

    /// # Safety
    /// As [`Self::link`].
    unsafe fn next(self, level: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { self.link(level) }.load(Ordering::Acquire))
    }

    /// Has the processor fetch the node that a search comes to when it steps
    /// down from `level`, while it still compares on this one: most of a search
    /// is waiting for memory. Models have nothing to fetch.
    ///
    /// # Safety
    /// As [`Self::link`].
    #[inline(always)]
    unsafe fn fetch_below(self, level: usize) {
        #[cfg(all(target_arch = "x86_64", not(any(test, miri))))]
        if let Some(below) = level.checked_sub(1) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: the caller's promise; a prefetch touches nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.next(below).0.cast::<i8>()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(test, miri)))))]
        let _ = level;
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
        // SAFETY: the key stands behind header and links, written before the
        // node was published, and never changes.
        unsafe { std::slice::from_raw_parts(self.0.add(self.key_offset()), self.key_len()) }
    }

    /// # Safety
    /// As [`Self::header`].
    pub(crate) unsafe fn value<'a>(self) -> &'a [u8] {
        // SAFETY: the value stands behind the key. Its pointer comes from the
        // node's: one made from the key may reach the key only.
        unsafe {
            let start = self.0.add(self.key_offset() + self.key_len());
            std::slice::from_raw_parts(start, self.header().value_len as usize)
        }
    }

    /// # Safety
    /// As [`Self::header`].
    unsafe fn key_offset(self) -> usize {
        // SAFETY: the caller's promise.
        let packed = unsafe { self.header() }.key_len_and_height;
        HEADER_BYTES + (packed >> 24) as usize * LINK_BYTES
    }

    /// # Safety
    /// As [`Self::header`].
    unsafe fn key_len(self) -> usize {
        // SAFETY: the caller's promise.
        (unsafe { self.header() }.key_len_and_height & 0xff_ffff) as usize
    }
}

/// A key prepared for searching.
#[derive(Clone, Copy)]
struct Probe<'a> {
    prefix: u64,
    key: &'a [u8],
    trailer: Trailer,
}

impl<'a> Probe<'a> {
    fn new(key: &'a [u8], trailer: Trailer) -> Self {
        Self { prefix: prefix_of(key), key, trailer }
    }

    /// Whether `node` sorts before the probe.
    ///
    /// # Safety
    /// As [`Node::header`].
    unsafe fn is_after(&self, node: Node) -> bool {
        // SAFETY: the caller's promise.
        let header = unsafe { node.header() };
        match header.prefix.cmp(&self.prefix) {
            Order::Less => true,
            Order::Greater => false,
            Order::Equal => {
                // SAFETY: the caller's promise.
                let key = unsafe { node.key() };
                match key.cmp(self.key) {
                    Order::Less => true,
                    Order::Greater => false,
                    Order::Equal => header.trailer > self.trailer,
                }
            }
        }
    }
}

/// Zero-padding keeps the order: a shorter key that is equal so far compares
/// equal or less here, and the full comparison decides.
fn prefix_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(head)
        }
    }
}

/// Where the last insertion took place: the next one looks there first, which
/// makes ascending insertions cheap.
#[derive(Debug)]
pub(crate) struct Splice {
    before: [Node; HEIGHT_MAX],
}

impl Default for Splice {
    fn default() -> Self {
        Self { before: [Node::NULL; HEIGHT_MAX] }
    }
}

/// The list.
#[derive(Debug)]
pub(crate) struct SkipList {
    head: Node,
    height: AtomicU32,
    random: AtomicU32,
    arena: Arena,
}

impl SkipList {
    pub(crate) fn new() -> Self {
        let arena = Arena::new();
        let memory = arena.allocate(HEADER_BYTES + HEIGHT_MAX * LINK_BYTES).as_ptr();
        let header = Header {
            prefix: 0,
            trailer: Trailer(0),
            value_len: 0,
            key_len_and_height: (HEIGHT_MAX as u32) << 24,
            witness: Witness::new(),
        };
        Self {
            // SAFETY: the memory was handed out for a header and HEIGHT_MAX links.
            head: unsafe { Node::write(memory, header, HEIGHT_MAX) },
            height: AtomicU32::new(1),
            random: AtomicU32::new(0x9e37_79b9),
            arena,
        }
    }

    /// Bytes of DRAM held.
    pub(crate) fn charge(&self) -> usize {
        self.arena.charge()
    }

    /// Inserts an entry.
    pub(crate) fn insert(&self, key: &[u8], trailer: Trailer, value: &[u8], splice: &mut Splice) {
        let height = self.random_height();
        let node = self.new_node(key, trailer, value, height);
        let list_height = self.raise_to(height);
        let probe = Probe::new(key, trailer);
        if !self.brackets(splice, probe) {
            self.find_before(probe, list_height, &mut splice.before);
        }
        for level in 0..height {
            self.link(node, level, probe, splice);
            splice.before[level] = node;
        }
    }

    /// Whether `splice` is the place of `probe` on the lowest level (and then,
    /// since upper levels only skip nodes, on all levels).
    fn brackets(&self, splice: &Splice, probe: Probe<'_>) -> bool {
        let before = splice.before[0];
        if before.is_null() {
            return false;
        }
        // SAFETY: nodes of a splice belong to this list.
        unsafe {
            if before != self.head && !probe.is_after(before) {
                return false;
            }
            let after = before.next(0);
            after.is_null() || !probe.is_after(after)
        }
    }

    fn link(&self, node: Node, level: usize, probe: Probe<'_>, splice: &mut Splice) {
        let mut before = splice.before[level];
        if before.is_null() {
            before = self.head;
        }
        loop {
            // SAFETY: `before` is a node of this list that is linked on
            // `level`, so it has that link; so has `node`.
            unsafe {
                let mut after = before.next(level);
                // Others may have inserted in between: walk on.
                while !after.is_null() && probe.is_after(after) {
                    before = after;
                    after = before.next(level);
                }
                node.link(level).store(after.0, Ordering::Relaxed);
                let swapped = before.link(level).compare_exchange(
                    after.0,
                    node.0,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if swapped.is_ok() {
                    return;
                }
            }
        }
    }

    fn new_node(&self, key: &[u8], trailer: Trailer, value: &[u8], height: usize) -> Node {
        let links = height * LINK_BYTES;
        let memory = self.arena.allocate(HEADER_BYTES + links + key.len() + value.len()).as_ptr();
        let header = Header {
            prefix: prefix_of(key),
            trailer,
            value_len: u32::try_from(value.len()).expect("values are bounded far below 4 GiB"),
            key_len_and_height: (height as u32) << 24 | key.len() as u32,
            witness: Witness::new(),
        };
        debug_assert!(key.len() < 1 << 24);
        // SAFETY: the memory is ours alone and large enough for all parts.
        unsafe {
            let node = Node::write(memory, header, height);
            let bytes = memory.add(HEADER_BYTES + links);
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(value.as_ptr(), value.len());
            node
        }
    }

    /// Each level holds a quarter of the one below.
    fn random_height(&self) -> usize {
        // xorshift32; two threads that draw the same number do no harm.
        let mut x = self.random.load(Ordering::Relaxed);
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.store(x, Ordering::Relaxed);
        (1 + x.trailing_zeros() as usize / 2).min(HEIGHT_MAX)
    }

    fn raise_to(&self, height: usize) -> usize {
        let height = height as u32;
        self.height.fetch_max(height, Ordering::Relaxed).max(height) as usize
    }

    /// The last node before `probe` on every level below `height`.
    fn find_before(
        &self,
        probe: Probe<'_>,
        height: usize,
        before: &mut [Node; HEIGHT_MAX],
    ) -> Node {
        let mut node = self.head;
        for level in (0..height).rev() {
            // SAFETY: `node` is the head or was reached on this level or above.
            unsafe {
                let mut next = node.next(level);
                node.fetch_below(level);
                while !next.is_null() && probe.is_after(next) {
                    node = next;
                    next = node.next(level);
                    node.fetch_below(level);
                }
            }
            before[level] = node;
        }
        node
    }

    /// The neighbours of `probe`: the last node before it (or the head), and
    /// the first at or after it. Both from one look at each link: a node that
    /// is inserted between two looks would be taken for the second.
    fn around(&self, probe: Probe<'_>) -> (Node, Node) {
        let height = self.height.load(Ordering::Relaxed) as usize;
        let (mut node, mut next) = (self.head, Node::NULL);
        for level in (0..height).rev() {
            // SAFETY: as in `find_before`.
            unsafe {
                next = node.next(level);
                node.fetch_below(level);
                while !next.is_null() && probe.is_after(next) {
                    node = next;
                    next = node.next(level);
                    node.fetch_below(level);
                }
            }
        }
        (node, next)
    }

    fn or_null(&self, node: Node) -> Node {
        if node == self.head { Node::NULL } else { node }
    }

    /// The first entry at or after the internal key; null when there is none.
    pub(crate) fn at_or_after(&self, key: &[u8], trailer: Trailer) -> Node {
        self.around(Probe::new(key, trailer)).1
    }

    /// The last entry before the internal key; null when there is none.
    pub(crate) fn before(&self, key: &[u8], trailer: Trailer) -> Node {
        self.or_null(self.around(Probe::new(key, trailer)).0)
    }

    /// The first entry; null when the list is empty.
    pub(crate) fn first(&self) -> Node {
        // SAFETY: the head has all links.
        unsafe { self.head.next(0) }
    }

    /// The last entry; null when the list is empty.
    pub(crate) fn last(&self) -> Node {
        let mut node = self.head;
        for level in (0..self.height.load(Ordering::Relaxed) as usize).rev() {
            // SAFETY: as in `find_before`.
            unsafe {
                let mut next = node.next(level);
                while !next.is_null() {
                    node = next;
                    next = node.next(level);
                }
            }
        }
        self.or_null(node)
    }

    /// The entry after `node`, which must be of this list and not null.
    pub(crate) fn next(&self, node: Node) -> Node {
        debug_assert!(!node.is_null());
        // SAFETY: the caller's node is of this list, which is alive.
        unsafe { node.next(0) }
    }
}

#[cfg(test)]
mod tests;
