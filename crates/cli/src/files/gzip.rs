//! Reading of `gzip` files.
//!
//! Guarantees: the content is that which `zcat` prints: all members one after the other. Zeros
//! behind them, as some tools pad files, are ignored. Other bytes behind them end the content with
//! a warning on standard error.

use std::io::{self, BufRead, Read, Write};

use flate2::bufread::GzDecoder;

/// The first bytes of a member.
pub const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The content of a `gzip` file.
pub struct Gunzip<R> {
    /// The member that is read; `None` behind the last one.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gunzip<R> {
    /// The content of `input`, which begins with a member.
    pub fn new(input: R) -> Self {
        Self { member: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(member) = self.member.take() else { break };
            let mut input = member.into_inner();
            let head = behind_zeros(&mut input)?;
            if head.starts_with(&MAGIC[..1]) {
                self.member = Some(GzDecoder::new(input));
            } else if !head.is_empty() {
                // The content is complete without the message.
                let message = "the bytes behind the compressed data are not gzip and are ignored";
                let _ = writeln!(io::stderr(), "tidekv: {message}");
            }
        }
        Ok(0)
    }
}

/// The next buffered bytes that are not zeros; empty at the end.
fn behind_zeros(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        if zeros < bytes.len() {
            let head = bytes[zeros..].iter().copied().take(MAGIC.len()).collect();
            input.consume(zeros);
            return Ok(head);
        }
        input.consume(zeros);
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn content(parts: &[&[u8]], buffer_bytes: usize) -> io::Result<String> {
        let input = parts.concat();
        let mut content = String::new();
        let input = BufReader::with_capacity(buffer_bytes, &input[..]);
        Gunzip::new(input).read_to_string(&mut content)?;
        Ok(content)
    }

    #[test]
    fn members_are_read_as_by_zcat() {
        let (one, two) = (member("one "), member("two"));
        for buffer_bytes in [1, 2, 7, 10_000] {
            let read = |parts: &[&[u8]]| content(parts, buffer_bytes).unwrap();
            assert_eq!(read(&[&one]), "one ");
            assert_eq!(read(&[&one, &two]), "one two");
            assert_eq!(read(&[&one, &two, &[0; 5_000]]), "one two");
            assert_eq!(read(&[&one, &[0; 10], &two, &[0; 1]]), "one two");
            assert_eq!(read(&[&one, &member(""), &two]), "one two");
            assert_eq!(read(&[&one, b"rest"]), "one ");
            // A truncated member is an error.
            assert!(content(&[&one, &two[..two.len() - 3]], buffer_bytes).is_err());
            assert!(content(&[&one, &two[..1]], buffer_bytes).is_err());
        }
    }
}
