//! A sequence of bits in which fields can be inserted and removed. Pure.

/// Words of memory that a sequence grows by: more would stay unused in many sequences.
const GROWTH_WORDS: usize = 2;

/// A sequence of bits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

/// The lowest `width` bits, fewer than 64.
fn mask(width: u32) -> u64 {
    (1 << width) - 1
}

impl Bits {
    /// A sequence of `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    /// The number of bits.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The field of `width` bits, 1 to 63, from bit `at` on.
    pub(crate) fn get(&self, at: usize, width: u32) -> u64 {
        let (word, shift) = (at / 64, (at % 64) as u32);
        let low = self.words[word] >> shift;
        let rest = 64 - shift;
        let high = if width > rest { self.words[word + 1] << rest } else { 0 };
        (low | high) & mask(width)
    }

    /// Inserts a field of `width` bits, 1 to 63, at bit `at`; the bits from there on move up.
    pub(crate) fn insert(&mut self, at: usize, width: u32, value: u64) {
        debug_assert!(at <= self.len && value <= mask(width));
        self.len += width as usize;
        let words = self.len.div_ceil(64);
        if words > self.words.len() {
            if words > self.words.capacity() {
                self.words.reserve_exact(GROWTH_WORDS);
            }
            self.words.push(0);
        }
        let (first, shift) = (at / 64, (at % 64) as u32);
        for word in (first + 1..words).rev() {
            self.words[word] = self.words[word] << width | self.words[word - 1] >> (64 - width);
        }
        let before = self.words[first];
        let (low, end) = (before & mask(shift), shift + width);
        let high = if end < 64 { before >> shift << end } else { 0 };
        self.words[first] = low | value << shift | high;
        if end > 64 {
            let next = &mut self.words[first + 1];
            *next = *next & !mask(end - 64) | value >> (64 - shift);
        }
    }

    /// Removes the `width` bits, 1 to 63, from bit `at` on; those behind move down.
    pub(crate) fn remove(&mut self, at: usize, width: u32) {
        debug_assert!(at + width as usize <= self.len);
        let (first, shift) = (at / 64, (at % 64) as u32);
        let low = self.words[first] & mask(shift);
        for word in first..self.words.len() {
            let next = self.words.get(word + 1).map_or(0, |next| next << (64 - width));
            self.words[word] = self.words[word] >> width | next;
        }
        // Those in front of the field stay.
        self.words[first] = low | self.words[first] & !mask(shift);
        self.len -= width as usize;
        self.words.truncate(self.len.div_ceil(64));
    }

    /// Appends a field of `width` bits, 1 to 63.
    pub(crate) fn push(&mut self, width: u32, value: u64) {
        self.insert(self.len, width, value);
    }

    /// The place of the zero that `before` zeros precede.
    ///
    /// # Panics
    ///
    /// When there are no more zeros.
    pub(crate) fn zero(&self, mut before: usize) -> usize {
        for (number, word) in self.words.iter().enumerate() {
            let zeros = word.count_zeros() as usize;
            if before < zeros {
                let mut zeros = !word;
                (0..before).for_each(|_| zeros &= zeros - 1);
                return number * 64 + zeros.trailing_zeros() as usize;
            }
            before -= zeros;
        }
        unreachable!("there are as many zeros as lists")
    }

    /// The number of ones from bit `at` on up to the next zero.
    pub(crate) fn ones(&self, at: usize) -> usize {
        let mut count = 0;
        while at + count < self.len && self.get(at + count, 1) == 1 {
            count += 1;
        }
        count
    }

    /// Its heap memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    /// Gives unused memory back.
    pub(crate) fn shrink(&mut self) {
        if self.words.capacity() > self.words.len() + 2 * GROWTH_WORDS {
            self.words.shrink_to(self.words.len() + GROWTH_WORDS);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_are_inserted_and_removed_as_in_a_list(
            width in 1..64_u32,
            steps in prop::collection::vec((any::<u64>(), any::<u32>(), any::<bool>()), 1..200),
        ) {
            let (mut bits, mut fields) = (Bits::default(), Vec::<u64>::new());
            for (value, place, is_removed) in steps {
                let value = value & mask(width);
                if is_removed && !fields.is_empty() {
                    let place = place as usize % fields.len();
                    fields.remove(place);
                    bits.remove(place * width as usize, width);
                } else {
                    let place = place as usize % (fields.len() + 1);
                    fields.insert(place, value);
                    bits.insert(place * width as usize, width, value);
                }
                prop_assert_eq!(bits.len(), fields.len() * width as usize);
                let read = (0..fields.len()).map(|n| bits.get(n * width as usize, width));
                prop_assert!(read.eq(fields.iter().copied()));
            }
        }

        #[test]
        fn zeros_and_ones_are_counted(bools in prop::collection::vec(any::<bool>(), 1..300)) {
            let mut bits = Bits::default();
            bools.iter().for_each(|bit| bits.push(1, u64::from(*bit)));
            let zeros = bools.iter().enumerate().filter(|(_, bit)| !**bit).map(|(at, _)| at);
            for (before, at) in zeros.enumerate() {
                prop_assert_eq!(bits.zero(before), at);
            }
            for at in 0..bools.len() {
                let ones = bools[at..].iter().take_while(|bit| **bit).count();
                prop_assert_eq!(bits.ones(at), ones);
            }
        }
    }
}
