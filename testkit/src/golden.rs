//! Golden bytes for tests: released files as annotated hex dumps that are read in review.
//!
//! ```text
//! A description.
//!
//! ## name of a file                    (left out where there is one file only)
//!
//! # A part of it, 20 bytes
//! 000000  74 69 64 65 …                                    tide…
//! *                                    (lines that repeat the one before)
//! ```
//!
//! With `TIDEKV_BLESS=1` in the environment dumps are rewritten, for a new version of a format;
//! otherwise they must equal the bytes that the code writes.
#![allow(clippy::disallowed_methods, reason = "golden files are in the source tree")]

use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

const LINE_BYTES: usize = 16;

/// A dump that grows part by part.
#[derive(Debug)]
pub struct Dump {
    text: String,
    at: usize,
}

impl Dump {
    /// A dump with the heading `head`, which describes the bytes and links to their layout.
    pub fn new(head: &str) -> Self {
        Self { text: format!("{head}\n"), at: 0 }
    }

    /// Starts the file `name`.
    pub fn file(&mut self, name: &str) {
        writeln!(self.text, "\n## {name}").unwrap();
        self.at = 0;
    }

    /// Adds the next bytes.
    pub fn part(&mut self, name: &str, bytes: &[u8]) {
        self.range(name, self.at..self.at + bytes.len(), bytes);
    }

    /// Adds all of `bytes`, split into named parts at these ends.
    pub fn parts(&mut self, bytes: &[u8], parts: &[(usize, &str)]) {
        for &(end, name) in parts {
            let start = self.at;
            self.part(name, &bytes[start..end]);
        }
        assert_eq!(self.at, bytes.len(), "the parts are the whole");
    }

    fn range(&mut self, name: &str, range: Range<usize>, bytes: &[u8]) {
        writeln!(self.text, "\n# {name}, {} bytes", bytes.len()).unwrap();
        let mut before: &[u8] = &[];
        let mut starred = false;
        for (i, line) in bytes.chunks(LINE_BYTES).enumerate() {
            if line == before {
                if !std::mem::replace(&mut starred, true) {
                    self.text.push_str("*\n");
                }
                continue;
            }
            (before, starred) = (line, false);
            let numbers: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
            let shown = |b: &u8| if b.is_ascii_graphic() { *b as char } else { '.' };
            let text: String = line.iter().map(shown).collect();
            let offset = range.start + LINE_BYTES * i;
            writeln!(self.text, "{offset:06x}  {:<47}  {text}", numbers.join(" ")).unwrap();
        }
        self.at = range.end;
    }

    /// Compares the dump with `testdata/<name>.golden.txt` of the crate; returns the released files
    /// by name.
    #[track_caller]
    pub fn hold_against(self, name: &str) -> Vec<(String, Vec<u8>)> {
        self.bless(name);
        let released = read(name);
        assert!(self.text == released, "the format has changed; it now writes\n{}", self.text);
        parse(&released)
    }

    /// Writes the dump if `TIDEKV_BLESS` is set; returns the released files by name, which may
    /// differ from the dump (compressors may improve).
    pub fn bless(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        if std::env::var_os("TIDEKV_BLESS").is_some() {
            std::fs::write(path(name), &self.text).unwrap();
        }
        parse(&read(name))
    }
}

/// The files of the released dump `testdata/<name>.golden.txt` of the crate, by name.
pub fn released(name: &str) -> Vec<(String, Vec<u8>)> {
    parse(&read(name))
}

/// Cargo sets the folder of the crate for its tests, and starts them there.
fn path(name: &str) -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| ".".into());
    Path::new(&folder).join(format!("testdata/{name}.golden.txt"))
}

fn read(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a dump by name; one with an empty name if it names none.
fn parse(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    // The end of the part, and the line that a star repeats.
    let (mut end, mut last) = (0, Vec::new());
    for line in text.lines().skip(1) {
        if let Some(name) = line.strip_prefix("## ") {
            files.push((name.to_owned(), Vec::new()));
        } else if let Some(part) = line.strip_prefix("# ") {
            if files.is_empty() {
                files.push((String::new(), Vec::new()));
            }
            let bytes = &files.last().unwrap().1;
            assert_eq!(bytes.len(), if bytes.is_empty() { 0 } else { end }, "before {part}");
            let len = part.rsplit_once(", ").unwrap().1.strip_suffix(" bytes").unwrap();
            end = bytes.len() + len.parse::<usize>().unwrap();
        } else if line == "*" {
            // Up to the next line, or to the end of the part: repeats the line until the next one.
            let bytes = &mut files.last_mut().unwrap().1;
            while bytes.len() + last.len() <= end {
                bytes.extend_from_slice(&last);
            }
        } else if let Some((offset, rest)) = line.split_once("  ") {
            let bytes = &mut files.last_mut().unwrap().1;
            bytes.truncate(usize::from_str_radix(offset, 16).unwrap());
            let digits = &rest[..rest.len().min(3 * LINE_BYTES - 1)];
            last = digits.split_whitespace().map(|d| u8::from_str_radix(d, 16).unwrap()).collect();
            bytes.extend_from_slice(&last);
        }
    }
    files
}

#[test]
fn dumps_round_trip() {
    let zeros = [&[7; 16][..], &[0; 100], &[1; 37]].concat();
    let mut dump = Dump::new("Two files.");
    dump.file("a");
    dump.part("Some", b"tide");
    dump.part("More", &zeros);
    dump.file("b");
    dump.part("Zeros", &[0; 64]);
    dump.part("Nothing", b"");
    let a = [&b"tide"[..], &zeros].concat();
    assert_eq!(parse(&dump.text), [("a".to_owned(), a), ("b".to_owned(), vec![0; 64])]);
    assert!(dump.text.contains("\n*\n"));
}
