//! `LCS`: the longest common subsequence of two strings, by dynamic programming: entry *(i, j)* of
//! a table is the length for the first *i* bytes of one string and the first *j* of the other.

use bytes::Bytes;

use crate::commands::errors::{SYNTAX, integer, is_word, operand};
use crate::data::execution::Execution;
use crate::data::values::{self, Value};
use crate::protocol::reply::{CommandError, CommandResult, Reply};

/// A range of both strings that is equal: the first and last index in each.
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

impl Match {
    fn len(&self) -> usize {
        self.a.1 - self.a.0 + 1
    }

    fn to_reply(&self, with_len: bool) -> Reply {
        let range = |(first, last)| Reply::Array(vec![Reply::count(first), Reply::count(last)]);
        let len = with_len.then(|| Reply::count(self.len()));
        Reply::Array([range(self.a), range(self.b)].into_iter().chain(len).collect())
    }
}

fn text_of(execution: &mut Execution<'_>, key: &Bytes) -> Result<Bytes, CommandError> {
    match values::find(execution, key)? {
        None => Ok(Bytes::new()),
        Some(Value::String(string)) => string.whole(execution),
        Some(Value::Hash(_)) => {
            Err(CommandError::text("ERR The specified keys must contain string values"))
        }
    }
}

/// The subsequence and the ranges that it consists of, the last first. The table takes at most
/// `table_bytes_max` bytes.
fn longest(
    a: &[u8],
    b: &[u8],
    table_bytes_max: usize,
) -> Result<(Vec<u8>, Vec<Match>), CommandError> {
    let width = b.len() + 1;
    let cells = (a.len() + 1).checked_mul(width);
    let cells = cells.filter(|cells| cells * size_of::<u32>() <= table_bytes_max);
    let cells = cells.ok_or(CommandError::text(
        "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
    ))?;
    let mut table = vec![0_u32; cells];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i * width + j] = if a[i - 1] == b[j - 1] {
                table[(i - 1) * width + j - 1] + 1
            } else {
                table[(i - 1) * width + j].max(table[i * width + j - 1])
            };
        }
    }
    let (mut i, mut j) = (a.len(), b.len());
    let (mut text, mut matches) = (Vec::new(), Vec::<Match>::new());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            text.push(a[i - 1]);
            match matches.last_mut() {
                Some(last) if last.a.0 == i && last.b.0 == j => {
                    (last.a.0, last.b.0) = (i - 1, j - 1);
                }
                _ => matches.push(Match { a: (i - 1, i - 1), b: (j - 1, j - 1) }),
            }
            (i, j) = (i - 1, j - 1);
        } else if table[(i - 1) * width + j] > table[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    text.reverse();
    Ok((text, matches))
}

pub(crate) fn lcs(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (mut with_ranges, mut only_len, mut with_len, mut len_min) = (false, false, false, 0);
    let a = text_of(execution, &arguments[0])?;
    let b = text_of(execution, &arguments[1])?;
    let mut options = arguments[2..].iter();
    while let Some(option) = options.next() {
        if is_word(option, "IDX") {
            with_ranges = true;
        } else if is_word(option, "LEN") {
            only_len = true;
        } else if is_word(option, "WITHMATCHLEN") {
            with_len = true;
        } else if is_word(option, "MINMATCHLEN") {
            len_min = usize::try_from(integer(operand(&mut options)?)?).unwrap_or(0);
        } else {
            return Err(SYNTAX);
        }
    }
    if with_ranges && only_len {
        return Err(CommandError::text(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    let (text, matches) = longest(&a, &b, execution.state.memory.reply_bytes_max())?;
    if !with_ranges {
        return Ok(if only_len { Reply::count(text.len()) } else { Reply::Bulk(text.into()) });
    }
    let wanted = matches.iter().filter(|found| found.len() >= len_min.max(1));
    let ranges = wanted.map(|found| found.to_reply(with_len)).collect();
    Ok(Reply::Map(vec![
        (Reply::word("matches"), Reply::Array(ranges)),
        (Reply::word("len"), Reply::count(text.len())),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subsequence_is_found_with_its_ranges() {
        let (text, matches) = longest(b"ohmytext", b"mynewtext", 1000).unwrap();
        assert_eq!(text, b"mytext");
        let ranges: Vec<_> = matches.iter().map(|found| (found.a, found.b)).collect();
        assert_eq!(ranges, [((4, 7), (5, 8)), ((2, 3), (0, 1))]);
        assert_eq!(longest(b"", b"x", 1000).unwrap().0, b"");
        assert!(longest(&[0; 10], &[0; 30], 1000).is_err());
    }
}
