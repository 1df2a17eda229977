//! Prefix sums over a row of changing numbers, in O(log n) (Fenwick 1994).

/// A row of numbers.
#[derive(Debug, Default)]
pub(crate) struct Fenwick {
    /// At `i`, counted from 1, the sum of the last numbers up to the `i`th, as many as its lowest
    /// set bit.
    sums: Vec<u64>,
}

impl Fenwick {
    /// A row of these numbers.
    pub(crate) fn of(numbers: impl Iterator<Item = u64>) -> Self {
        let mut sums: Vec<u64> = numbers.collect();
        for i in 1..=sums.len() {
            let above = i + (i & i.wrapping_neg());
            if above <= sums.len() {
                sums[above - 1] += sums[i - 1];
            }
        }
        Self { sums }
    }

    /// How many numbers there are.
    pub(crate) fn len(&self) -> usize {
        self.sums.len()
    }

    /// Adds to the number at `index`.
    pub(crate) fn add(&mut self, index: usize, amount: u64) {
        self.change(index, |sum| sum + amount);
    }

    /// Subtracts from the number at `index`, which is at least `amount`.
    pub(crate) fn take(&mut self, index: usize, amount: u64) {
        self.change(index, |sum| sum - amount);
    }

    fn change(&mut self, index: usize, change: impl Fn(u64) -> u64) {
        let mut i = index + 1;
        while i <= self.sums.len() {
            self.sums[i - 1] = change(self.sums[i - 1]);
            i += i & i.wrapping_neg();
        }
    }

    /// The sum of the first `count` numbers.
    pub(crate) fn sum(&self, count: usize) -> u64 {
        let (mut i, mut sum) = (count, 0);
        while i > 0 {
            sum += self.sums[i - 1];
            i &= i - 1;
        }
        sum
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_sums_are_correct() {
        for len in [0, 1, 2, 3, 7, 64, 100] {
            let mut numbers: Vec<u64> = (0..len).map(|i| i * 7 % 13).collect();
            let mut row = Fenwick::of(numbers.iter().copied());
            for turn in 0..len {
                let index = (turn * 5 % len) as usize;
                numbers[index] += turn;
                row.add(index, turn);
                let amount = numbers[index] / 3;
                numbers[index] -= amount;
                row.take(index, amount);
                for count in 0..=numbers.len() {
                    assert_eq!(row.sum(count), numbers[..count].iter().sum::<u64>());
                }
            }
            assert_eq!(row.len(), numbers.len());
        }
    }
}
