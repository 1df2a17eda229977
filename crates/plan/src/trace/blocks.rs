//! Disk traces by MSR Cambridge: `time,host,disk,Read or Write,offset,size,latency`, times in steps
//! of 100 ns. A disk request becomes one request for each block that it touches.

use std::io::{BufRead, Read};

use super::request::{Fault, Kind, Parts, Request, Requests};

const COLUMNS: usize = 7;
const BLOCK_BYTES: u64 = 4 << 10;
/// A longer request is invalid.
const SIZE_MAX: u64 = 256 << 20;
const LINE_BYTES_MAX: u64 = 4 << 10;
/// Steps of the clock in a second.
const STEPS_PER_S: f64 = 1e7;

pub(super) struct Lines<R> {
    input: R,
    line: u64,
    first_step: Option<u64>,
    text: Vec<u8>,
}

/// Whether a line names the columns of this format.
pub(super) fn is_header(line: &str) -> bool {
    let fields: Vec<String> =
        line.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    fields.len() == COLUMNS && fields[4].starts_with("offset") && fields[5].starts_with("size")
}

/// Whether a line has this format.
pub(super) fn is_line(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').collect();
    fields.len() == COLUMNS && kind_of(fields[3]).is_some()
}

fn kind_of(name: &str) -> Option<Kind> {
    match name {
        "Read" => Some(Kind::Get),
        "Write" => Some(Kind::Put),
        _ => None,
    }
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, line: 0, first_step: None, text: Vec::new() }
    }

    fn requests(&mut self) -> Result<Requests, String> {
        let text = std::str::from_utf8(&self.text).map_err(|_| "it is not text".to_owned())?;
        let fields: Vec<&str> = text.trim_end().split(',').collect();
        let &[step, host, disk, kind, offset, size, _] = &fields[..] else {
            return Err(format!("{} columns rather than {COLUMNS}", fields.len()));
        };
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        let kind = kind_of(kind).ok_or_else(|| format!("{kind:?} is not an operation"))?;
        let (step, offset, size) = (number(step)?, number(offset)?, number(size)?);
        let end = offset.checked_add(size).filter(|_| size <= SIZE_MAX);
        let end = end.ok_or_else(|| format!("{size} bytes are too many"))?;
        let first = *self.first_step.get_or_insert(step);
        let seconds = step.saturating_sub(first) as f64 / STEPS_PER_S;
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        Ok(blocks
            .map(|block| Request {
                seconds: Some(seconds),
                value_bytes: Some(BLOCK_BYTES),
                ..Request::new(kind, format!("{host}.{disk}:{block}"))
            })
            .collect())
    }
}

impl<R: BufRead> Parts for Lines<R> {
    fn next_part(&mut self) -> Option<Result<Requests, Fault>> {
        self.text.clear();
        match (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.text) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(Fault::Io(error))),
        }
        self.line += 1;
        if self.line == 1
            && std::str::from_utf8(&self.text).is_ok_and(|it| is_header(it.trim_end()))
        {
            return self.next_part();
        }
        let line = self.line;
        Some(self.requests().map_err(|what| Fault::Broken { line, what }))
    }
}
