//! Random requests in the text, the meta and the binary protocol.

use tidekv_io::SeededRandom;

/// Keys, few so that requests meet.
const KEYS: u64 = 6;
/// Explicit versions (flag `E`) are above all that servers choose.
const EXPLICIT_VERSION: u64 = 1_000_000_000_000;
/// Recent pairs of versions that requests use.
const PAIRS_MAX: usize = 32;

/// A key with control characters, and the character of the longest key and of one that is too long.
const CONTROL_KEY: &str = "k\u{1}\u{7f}";
const LONG_KEY: &str = "x";

/// Times to live that do not end during a run.
const TTLS: &[&str] = &["0", "100", "1000", "2592000", "4000000000"];
/// Others: already expired, or no number.
const OTHER_TTLS: &[&str] = &["-1", "-100", "2592001", "x", "1x", "99999999999999999999", ""];
const NUMBERS: &[&str] =
    &["0", "1", "7", "18446744073709551615", "18446744073709551616", "-1", "x", "10x", ""];
const FLAG_NUMBERS: &[&str] = &["0", "0", "5", "65536", "4294967295", "4294967296", "-1", "x"];

const OPCODES: [u8; 33] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x11,
    0x12, 0x13, 0x14, 0x15, 0x16, 0x18, 0x19, 0x1a, 0x1c, 0x1d, 0x1e, 0x20, 0x21, 0x23, 0x24, 0x30,
    0x77,
];

/// The same request for both servers: only versions differ.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub memcached: Vec<u8>,
    pub ours: Vec<u8>,
    /// Time passes afterwards.
    pub is_slow: bool,
    /// Removes all objects.
    pub flushes: bool,
}

impl Request {
    fn both(bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref().to_vec();
        Self { ours: bytes.clone(), memcached: bytes, ..Self::default() }
    }

    fn push(&mut self, bytes: impl AsRef<[u8]>) {
        self.memcached.extend_from_slice(bytes.as_ref());
        self.ours.extend_from_slice(bytes.as_ref());
    }
}

/// A stream of requests.
pub struct Generator {
    random: SeededRandom,
    explicit: u64,
    /// Versions of the same states of objects, memcached's and ours.
    pairs: Vec<(u64, u64)>,
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self { random: SeededRandom::new(seed), explicit: EXPLICIT_VERSION, pairs: Vec::new() }
    }

    /// Records a pair of versions.
    pub fn learn(&mut self, pair: (u64, u64)) {
        if self.pairs.len() == PAIRS_MAX {
            self.pairs.remove(0);
        }
        self.pairs.push(pair);
    }

    fn below(&self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn one_in(&self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a>(&self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// The keys whose contents are compared.
    pub fn keys() -> impl Iterator<Item = String> {
        (0..KEYS).map(|number| format!("key{number}"))
    }

    /// Requests that remove all objects.
    pub fn removals() -> impl Iterator<Item = String> {
        let others = ["AAEC b".to_owned(), CONTROL_KEY.to_owned(), LONG_KEY.repeat(250)];
        Self::keys().chain(others).map(|key| format!("md {key}\r\n"))
    }

    fn key(&self) -> String {
        match self.below(40) {
            0 => LONG_KEY.repeat(250),
            1 => LONG_KEY.repeat(251),
            2 => CONTROL_KEY.to_owned(),
            _ => format!("key{}", self.random.below(KEYS)),
        }
    }

    fn ttl(&self) -> &'static str {
        if self.one_in(12) { self.pick(OTHER_TTLS) } else { self.pick(TTLS) }
    }

    fn value(&self) -> Vec<u8> {
        match self.below(14) {
            0 => Vec::new(),
            1..5 => self.random.below(30).to_string().into_bytes(),
            5 => b"18446744073709551610".to_vec(),
            6 => b"12 ".to_vec(),
            7 => b"abc".to_vec(),
            // Shorter than a line may be: after a wrong length it is one.
            8 => vec![b'a' + self.below(26) as u8; self.below(1900)],
            9 => b"a\r\nb\0c".to_vec(),
            _ => vec![b'a' + self.below(26) as u8; self.below(100)],
        }
    }

    fn pair(&mut self) -> (u64, u64) {
        if self.pairs.is_empty() || self.one_in(4) {
            let version = EXPLICIT_VERSION * 2 + self.random.below(10);
            return (version, version);
        }
        self.pairs[self.below(self.pairs.len())]
    }

    fn explicit(&mut self) -> u64 {
        self.explicit += 1;
        self.explicit
    }

    /// The next request over text.
    pub fn text(&mut self) -> Request {
        match self.below(100) {
            0..45 => self.classic(),
            45..97 => self.meta(),
            _ => self.odd(),
        }
    }

    fn noreply(&self) -> &'static str {
        match self.below(12) {
            0 => " noreply",
            1 => " nonsense",
            _ => "",
        }
    }

    fn classic(&mut self) -> Request {
        let (key, ttl, noreply) = (self.key(), self.ttl(), self.noreply());
        match self.below(24) {
            0..4 => {
                let verb = self.pick(&["get", "gets"]);
                let keys: Vec<String> = (0..=self.below(3)).map(|_| self.key()).collect();
                Request::both(format!("{verb} {}\r\n", keys.join(" ")))
            }
            4..6 => {
                let verb = self.pick(&["gat", "gats"]);
                Request::both(format!("{verb} {ttl} {key} {}\r\n", self.key()))
            }
            6..13 => {
                let verb = self.pick(&["set", "set", "add", "replace", "append", "prepend"]);
                self.storage(&format!("{verb} {key}"), noreply, None)
            }
            13..16 => {
                let pair = self.pair();
                self.storage(&format!("cas {key}"), noreply, Some(pair))
            }
            16 | 17 => {
                Request::both(format!("delete {key}{}{noreply}\r\n", self.pick(&["", " 0"])))
            }
            18..21 => {
                let (verb, number) = (self.pick(&["incr", "decr"]), self.pick(NUMBERS));
                Request::both(format!("{verb} {key} {number}{noreply}\r\n"))
            }
            21 | 22 => Request::both(format!("touch {key} {ttl}{noreply}\r\n")),
            _ => match self.below(50) {
                // Rare: everything is gone afterwards.
                0 => self.flush(&format!("flush_all{noreply}\r\n")),
                2 => self.flush(&format!("flush_all 0{noreply}\r\n")),
                1 | 7..20 => Request::both(format!("flush_all x{noreply}\r\n")),
                3 => Request::both(format!("verbosity 0{noreply}\r\n")),
                4 => Request::both("version\r\n"),
                5 => Request::both(format!("verbosity{noreply}\r\n")),
                _ => Request::both(format!("{key}\r\n")),
            },
        }
    }

    fn flush(&self, text: &str) -> Request {
        Request { flushes: true, ..Request::both(text) }
    }

    /// A storing command with its value.
    fn storage(&mut self, head: &str, noreply: &str, pair: Option<(u64, u64)>) -> Request {
        let mut value = self.value();
        let (flags, ttl) = (self.pick(FLAG_NUMBERS), self.ttl());
        let len = match self.below(60) {
            0 => "-1".to_owned(),
            1 => "x".to_owned(),
            // The line end is not where it should be.
            2 => (value.len() + 1).to_string(),
            3 => value.len().saturating_sub(1).to_string(),
            4 => {
                value = vec![b'v'; 1_300_000];
                value.len().to_string()
            }
            _ => value.len().to_string(),
        };
        let mut request = Request::both(format!("{head} {flags} {ttl} {len}"));
        if let Some((memcached, ours)) = pair {
            request.memcached.extend_from_slice(format!(" {memcached}").as_bytes());
            request.ours.extend_from_slice(format!(" {ours}").as_bytes());
        }
        request.push(noreply);
        request.push(b"\r\n");
        request.push(&value);
        request.push(b"\r\n");
        request
    }

    fn meta(&mut self) -> Request {
        let verb = self.pick(&["mg", "mg", "mg", "ms", "ms", "ms", "md", "ma", "ma", "me"]);
        let is_encoded = self.one_in(12);
        let key = match is_encoded {
            true => self.pick(&["a2V5MA==", "a2V5MQ==", "a2V5MA", "!!!!", "AAEC"]).to_owned(),
            false => self.key(),
        };
        let mut request = Request::both(format!("{verb} {key}"));
        let mut value = None;
        if verb == "ms" {
            let bytes = self.value();
            let len = match self.below(50) {
                0 => "x".to_owned(),
                1 => (bytes.len() + 1).to_string(),
                2 => "-1".to_owned(),
                _ => bytes.len().to_string(),
            };
            request.push(format!(" {len}"));
            value = Some(bytes);
        }
        if verb != "me" {
            self.meta_flags(verb, is_encoded, &mut request);
        }
        request.push(b"\r\n");
        if let Some(bytes) = value {
            request.push(&bytes);
            request.push(b"\r\n");
        }
        request
    }

    fn meta_flags(&mut self, verb: &str, is_encoded: bool, request: &mut Request) {
        if is_encoded {
            request.push(" b");
        }
        let flags = match verb {
            "mg" => "cfhklOqstvENRTx",
            "ms" => "cfkOqsCEFIMTNbI",
            "md" => "kOqCEITx",
            _ => "tcvkOqNJDTMCE",
        };
        // Of two errors in one request another one may be reported.
        let is_wrong = !is_encoded && self.one_in(25);
        let count = self.below(7);
        let mut used = String::new();
        for _ in 0..count {
            let flag = flags.as_bytes()[self.below(flags.len())] as char;
            if used.contains(flag) || flag == 'b' && !is_encoded || (flag == 'N' && is_encoded) {
                continue;
            }
            used.push(flag);
            request.push(format!(" {flag}"));
            match flag {
                'O' => request.push(format!("{:x}", self.random.below(1 << 20))),
                'C' => {
                    let (memcached, ours) = self.pair();
                    request.memcached.extend_from_slice(memcached.to_string().as_bytes());
                    request.ours.extend_from_slice(ours.to_string().as_bytes());
                }
                'E' if verb != "mg" => {
                    let version = self.explicit();
                    request.push(version.to_string());
                }
                'E' => request.push((EXPLICIT_VERSION * 3 + self.random.below(10)).to_string()),
                'F' => request.push(self.pick(&FLAG_NUMBERS[..5])),
                'R' => request.push(self.pick(&["30", "500", "5000"])),
                'T' | 'N' => request.push(self.pick(TTLS)),
                'J' | 'D' => request.push(self.pick(&NUMBERS[..4])),
                'M' if verb == "ms" => {
                    request.push(self.pick(&["S", "E", "A", "P", "R", "s", "append", "Q"]));
                }
                'M' => request.push(self.pick(&["I", "D", "+", "-", "incr", "decr", "i", "Q"])),
                _ => {}
            }
        }
        if is_wrong {
            request.push(
                self.pick(&[" !", " Cx", " Fx", " Tx", " Nx", " Jx", " v v", " S", " \u{1}"]),
            );
        }
    }

    /// Requests that are no commands, and those after which time passes.
    fn odd(&mut self) -> Request {
        let key = format!("key{}", self.random.below(KEYS));
        match self.below(60) {
            0 => Request { is_slow: true, ..Request::both(format!("touch {key} 2\r\n")) },
            1 => Request { is_slow: true, ..Request::both(format!("set {key} 1 2 1\r\n1\r\n")) },
            2 => Request { is_slow: true, ..Request::both(format!("mg {key} N2 v T2\r\n")) },
            3 => Request { is_slow: true, ..Request::both("flush_all 2\r\n") },
            4 => Request::both("quit\r\n"),
            5 => Request::both(b"\r\n"),
            6 => Request::both(b"get\r\n"),
            7 => Request::both(b"set\r\n"),
            8 => Request::both(b"gets \r\n"),
            9 => Request::both(b"gat 0\r\n"),
            10 => Request::both(b"set key0 0 0\r\n"),
            11 => Request::both(b"cas key0 0 0 1\r\n1\r\n"),
            12 => Request::both(b"incr key0\r\n"),
            13 => Request::both(b"touch key0\r\n"),
            14 => Request::both(b"delete\r\n"),
            15 => Request::both(b"delete key0 5\r\n"),
            16 => Request::both(b"mg\r\n"),
            17 => Request::both(b"ms key0\r\n"),
            18 => Request::both(b"ms\r\n"),
            19 => Request::both(b"ma\r\n"),
            20 => Request::both(b"md\r\n"),
            21 => Request::both(b"me\r\n"),
            22 => Request::both(b"GET key0\r\n"),
            23 => Request::both(b"get  key0   key1 \r\n"),
            24 => Request::both(b"get key0\n"),
            25 => Request::both(b"mg key0 v\n"),
            26 => Request::both(b"set key0 0 0 1 \r\n1\r\n"),
            27 => Request::both(b" get key0\r\n"),
            28 => self.flush("flush_all -1\r\n"),
            29 => self.flush("flush_all 0 0\r\n"),
            30 => Request::both(b"get key0\tkey1\r\n"),
            _ => Request::both(format!("set {key} 0 0 2\r\n10\r\n")),
        }
    }

    /// The next request over the binary protocol.
    pub fn binary(&mut self) -> Request {
        let opcode = OPCODES[self.below(OPCODES.len())];
        // `stat` lists what differs, and `quit` is for the text protocol to test.
        if matches!(opcode, 0x07 | 0x10 | 0x17) {
            return Request::both([]);
        }
        let ttl = [0_u32, 100, 1000, 2_592_000, 2_592_001, 4_000_000_000][self.below(6)];
        let (mut extras, mut key, mut value) = (Vec::new(), self.key().into_bytes(), Vec::new());
        match opcode {
            0x01..=0x03 | 0x11..=0x13 => {
                extras.extend_from_slice(&[0, 0, 0, self.below(256) as u8]);
                extras.extend_from_slice(&ttl.to_be_bytes());
                value = self.value();
                if self.one_in(300) {
                    value = vec![b'v'; 1_300_000];
                }
            }
            0x05 | 0x06 | 0x15 | 0x16 => {
                let delta = [0_u64, 1, 7, u64::MAX][self.below(4)];
                extras.extend_from_slice(&delta.to_be_bytes());
                extras.extend_from_slice(&self.random.below(50).to_be_bytes());
                let ttl = if self.one_in(3) { u32::MAX } else { ttl };
                extras.extend_from_slice(&ttl.to_be_bytes());
            }
            0x0e | 0x0f | 0x19 | 0x1a => value = self.value(),
            0x1c | 0x1d | 0x1e | 0x23 | 0x24 => extras.extend_from_slice(&ttl.to_be_bytes()),
            0x08 | 0x18 => {
                key.clear();
                if self.one_in(2) {
                    extras.extend_from_slice(&0_u32.to_be_bytes());
                }
                if !self.one_in(20) {
                    return Request::both([]);
                }
            }
            0x0a | 0x0b | 0x30 | 0x77 => key.clear(),
            _ => {}
        }
        let is_known = !matches!(opcode, 0x30 | 0x77);
        match self.below(40) {
            _ if !is_known => {}
            0 => extras.push(0),
            1 => value.extend_from_slice(b"more"),
            2 => key.clear(),
            3 => extras.clear(),
            _ => {}
        }
        let (memcached, ours) = match self.below(4) {
            0 => self.pair(),
            _ => (0, 0),
        };
        let flushes = matches!(opcode, 0x08 | 0x18);
        let opaque = self.random.below(1 << 31) as u32;
        let frame = |version: u64| {
            let body_len = (extras.len() + key.len() + value.len()) as u32;
            let mut frame = vec![0x80, opcode];
            frame.extend_from_slice(&(key.len() as u16).to_be_bytes());
            frame.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
            frame.extend_from_slice(&body_len.to_be_bytes());
            frame.extend_from_slice(&opaque.to_be_bytes());
            frame.extend_from_slice(&version.to_be_bytes());
            [&frame[..], &extras, &key, &value].concat()
        };
        Request { memcached: frame(memcached), ours: frame(ours), flushes, ..Request::default() }
    }
}
