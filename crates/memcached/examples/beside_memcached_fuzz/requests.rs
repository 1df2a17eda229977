//! Random requests of the text protocol, from templates, and what requests of both protocols share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use tidekv_io::SeededRandom;

use crate::replies;

/// The requests, a word for each argument; [`Generator::argument`] explains the capitals. `?` before
/// a word: it may be left out. [`Generator::value`] follows `DATA`.
const TEMPLATES: &[&str] = &[
    "get KEY",
    "get KEY KEY KEY",
    "gets KEY",
    "gets KEY KEY",
    "gat EXPIRY KEY",
    "gats EXPIRY KEY KEY",
    "set KEY FLAGS EXPIRY DATA ?noreply",
    "set KEY FLAGS EXPIRY DATA",
    "set KEY 0 0 DATA",
    "add KEY FLAGS EXPIRY DATA ?noreply",
    "replace KEY FLAGS EXPIRY DATA ?noreply",
    "append KEY FLAGS EXPIRY DATA ?noreply",
    "prepend KEY FLAGS EXPIRY DATA ?noreply",
    "cas KEY FLAGS EXPIRY DATA VERSION ?noreply",
    "cas KEY FLAGS EXPIRY DATA VERSION",
    "incr KEY NUMBER ?noreply",
    "incr KEY NUMBER",
    "decr KEY NUMBER ?noreply",
    "decr KEY NUMBER",
    "touch KEY EXPIRY ?noreply",
    "delete KEY ?0 ?noreply",
    "delete KEY ?WORD",
    "mg KEY OPTIONS",
    "mg KEY OPTIONS",
    "mg KEY s v OPTIONS",
    "mg KEY t f c OPTIONS",
    "mg KEY h t OPTIONS",
    "mg KEY v t RECACHE ?VIVIFY OPTIONS",
    "ms KEY DATA OPTIONS",
    "ms KEY DATA OPTIONS",
    "ms KEY DATA c MODE OPTIONS",
    "ms KEY DATA COMPARE I c",
    "ms KEY DATA COMPARE OPTIONS",
    "ms KEY DATA MODE VIVIFY OPTIONS",
    "md KEY OPTIONS",
    "md KEY I OPTIONS",
    "md KEY I TTL",
    "md KEY x OPTIONS",
    "ma KEY v OPTIONS",
    "ma KEY v t c OPTIONS",
    "ma KEY MODE DELTA OPTIONS",
    "ma KEY VIVIFY INITIAL v OPTIONS",
    "me KEY",
    "mn",
    "mn WORD",
    "version",
    "verbosity NUMBER ?noreply",
    "verbosity ?WORD ?noreply",
    "flush_all ?WHEN ?noreply",
    "cache_memlimit WORD",
    "stats STATISTICS",
    "stats reset",
    "stats detail WORD",
    "stats detai ?of",
    "stats cachedump x WORD",
    "shutdown",
    "shutdown WORD",
    "debugtime 1",
    "lru_crawler ?noreply",
    "slabs ?WORD ?noreply",
    "WORD ?KEY ?NUMBER",
    "mget KEY",
    "quit",
];

/// Templates that only every tenth of their turns uses: they end a connection or change much.
const RARE: [&str; 4] = ["flush_all", "quit", "shutdown", "lru_crawler"];

const EXPIRIES: &[&str] = &[
    "0",
    "0",
    "0",
    "0",
    "100000",
    "200000",
    "500000",
    "2000000",
    "2592000",
    "2592001",
    "-1",
    "-100",
    "2100000000",
    "2147483647",
    "4294967295",
    "2147483648",
    "99999999999",
    "-2147483649",
    "x",
    "-",
    "+5",
    "1x",
    "1.5",
    "000000000000",
    "-0",
];
const FLAGS: &[&str] = &[
    "0",
    "0",
    "0",
    "1",
    "42",
    "65536",
    "4294967295",
    "4294967296",
    "-1",
    "x",
    "+1",
    "1x",
    "-0",
    "007",
    "18446744073709551615",
    "18446744073709551616",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "1",
    "2",
    "7",
    "100",
    "-1",
    "18446744073709551615",
    "18446744073709551614",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999",
    "+1",
    "007",
    "000000000000000000000000001",
    "1x",
    "x",
    "1.5",
    "0x10",
    "-",
];
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "x",
    "noreply",
    "foo",
    "all",
    "on2",
    "k0",
    "MG",
    "m",
    "mz",
    "gett",
    "sett",
    "GET",
    "\u{e9}",
    "\t",
    "\u{1}",
    "+",
    "-",
    "metadum",
    "99999999999",
];
/// Numbers and what resembles them, as values.
const DIGITS: &[&str] = &[
    "0",
    "1",
    "9",
    "10",
    "99",
    "100",
    "5 ",
    "12  ",
    " 5",
    "-1",
    "+3",
    "12abc",
    "1e3",
    "007",
    "1 2",
    "\t4",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "00000000000000000000000012",
    "1\r",
    "1\n",
    "\0",
    "5\0x",
    "-18446744073709551615",
];

/// A request, or several in one packet.
pub struct Request {
    pub bytes: Vec<u8>,
    /// A time to live of a second, or a flush after it, must be over before the next request.
    pub pauses: bool,
}

/// One generator has the state of one stream of requests.
pub struct Generator {
    random: SeededRandom,
    /// Versions in recent replies.
    versions: RefCell<VecDeque<u64>>,
    /// The request needs a pause behind it.
    pauses: Cell<bool>,
    /// The meta request has something invalid already: which of two errors is told is open.
    is_spoiled: Cell<bool>,
    /// The key of the meta request is in base64.
    is_binary: Cell<bool>,
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self {
            random: SeededRandom::new(seed),
            versions: RefCell::default(),
            pauses: Cell::new(false),
            is_spoiled: Cell::new(false),
            is_binary: Cell::new(false),
        }
    }

    pub fn below(&self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    pub fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Remembers the versions of a reply.
    pub fn learn(&self, found: impl IntoIterator<Item = u64>) {
        let mut versions = self.versions.borrow_mut();
        versions.extend(found);
        while versions.len() > 6 {
            versions.pop_front();
        }
    }

    /// A version: a recent one, or any.
    pub fn version(&self) -> u64 {
        let versions = self.versions.borrow();
        match self.below(10) {
            0 => 0,
            1 => 1 + self.below(50) as u64,
            2 => u64::MAX,
            3 => versions.back().map_or(1, |last| last.wrapping_add(1)),
            _ if versions.is_empty() => 7,
            _ => versions[self.below(versions.len())],
        }
    }

    /// The pause that the last request needs.
    pub fn take_pause(&self) -> bool {
        self.pauses.take()
    }

    /// Rarely true; then the request needs a pause behind it.
    pub fn pauses(&self) -> bool {
        let pauses = self.below(120) == 0;
        self.pauses.set(self.pauses.get() | pauses);
        pauses
    }

    /// The next request of the text protocol, sometimes several at once.
    pub fn next_text(&self) -> Request {
        let mut bytes = self.text_request();
        // In one packet a read and an increment of the same key differ.
        // The next object of the connection may get the version of an `ms` with a wrong value.
        while self.below(8) == 0 && bytes.len() < 2000 && !self.is_spoiled.get() {
            let next = self.text_request();
            let counts = |bytes: &[u8]| {
                [&b"incr"[..], b"decr", b"ma "].iter().any(|name| bytes.starts_with(name))
            };
            if !counts(&next) && !counts(&bytes) {
                bytes.extend_from_slice(&next);
            }
        }
        Request { bytes, pauses: self.take_pause() }
    }

    fn text_request(&self) -> Vec<u8> {
        let template = self.one_of(TEMPLATES);
        if RARE.iter().any(|name| template.starts_with(name)) && self.below(10) > 0 {
            return self.text_request();
        }
        self.is_spoiled.set(false);
        self.is_binary.set(false);
        let is_meta = template.starts_with('m') && template.as_bytes().get(2) == Some(&b' ');
        let (mut line, mut behind) = (Vec::new(), Vec::new());
        for word in template.split(' ') {
            let word = match word.strip_prefix('?') {
                Some(_) if self.below(2) == 0 => continue,
                Some(word) => word,
                None => word,
            };
            if !line.is_empty() {
                line.extend_from_slice(if self.below(200) == 0 { b"  " } else { b" " });
            }
            match word {
                "DATA" => {
                    let (len, data) = self.data(is_meta);
                    line.extend_from_slice(len.as_bytes());
                    behind = data;
                }
                "OPTIONS" => {
                    let options = self.options(template);
                    line.extend_from_slice(options.join(" ").as_bytes());
                }
                "KEY" if is_meta => line.extend_from_slice(&self.meta_key()),
                _ => line.extend_from_slice(&self.argument(word)),
            }
        }
        if self.is_binary.get() {
            line.extend_from_slice(b" b");
        }
        self.spoil(&mut line, is_meta);
        line.extend_from_slice(if self.below(100) == 0 { b"\n" } else { b"\r\n" });
        line.extend_from_slice(&behind);
        line
    }

    /// Makes the line unusual, rarely.
    fn spoil(&self, line: &mut Vec<u8>, is_meta: bool) {
        match self.below(150) {
            0 if !is_meta => line.extend_from_slice(&[b" ", &self.argument("WORD")[..]].concat()),
            // All statistics would be told.
            1 if !is_meta && !line.starts_with(b"stats") => {
                let end = line.iter().rposition(|&byte| byte == b' ').unwrap_or(line.len());
                line.truncate(end);
            }
            2 => line.push(b' '),
            3 => line.insert(0, b' '),
            4 if !is_meta => line.extend_from_slice(" x".repeat(30).as_bytes()),
            5 if line.starts_with(b"get") => {
                line.extend_from_slice(" k1 long".repeat(30 + self.below(400)).as_bytes());
            }
            6 if self.below(8) == 0 => line.extend_from_slice(&[b'y'; 2100]),
            _ => {}
        }
    }

    /// An argument: a word in capitals names its kind; other words stay as they are.
    fn argument(&self, word: &str) -> Vec<u8> {
        match word {
            "KEY" => self.key(),
            "EXPIRY" | "WHEN" => self.expiry().into_bytes(),
            "FLAGS" if self.below(3) > 0 => b"5".to_vec(),
            "FLAGS" => self.one_of(FLAGS).into(),
            "NUMBER" if self.below(2) > 0 => self.below(30).to_string().into(),
            "NUMBER" => self.one_of(NUMBERS).into(),
            "VERSION" if self.below(20) == 0 => self.one_of(NUMBERS).into(),
            "VERSION" => self.version().to_string().into(),
            "WORD" => self.one_of(WORDS).into(),
            // Not those whose numbers differ.
            "STATISTICS" => self.one_of(&["r", "rese", "d", "ca", "foo", "resets", "item"]).into(),
            "RECACHE" => self.option(b'R').into(),
            "VIVIFY" => self.option(b'N').into(),
            "TTL" => self.option(b'T').into(),
            "MODE" => self.option(b'M').into(),
            "COMPARE" => self.option(b'C').into(),
            "DELTA" => self.option(b'D').into(),
            "INITIAL" => self.option(b'J').into(),
            other => other.into(),
        }
    }

    fn expiry(&self) -> String {
        if self.pauses() {
            return "1".into();
        }
        if self.below(2) == 0 { "0" } else { self.one_of(EXPIRIES) }.into()
    }

    pub fn key(&self) -> Vec<u8> {
        match self.below(40) {
            0 => vec![b'l'; 250],
            1 => vec![b'm'; 251],
            2 => b"c\x01\x7f".to_vec(),
            3 => b"t\tb".to_vec(),
            4 => "\u{e9}".into(),
            5 => b"b0".to_vec(),
            6 => b"b1".to_vec(),
            7..12 => format!("n{}", self.below(2)).into(),
            _ => format!("k{}", self.below(5)).into(),
        }
    }

    fn meta_key(&self) -> Vec<u8> {
        let encoded = match self.below(60) {
            0..6 => "YjA=",
            6..10 => "YjE=",
            10 => "YjE",
            11 => "Yj",
            12 => "Y jE=",
            13 => "=",
            _ => return self.key(),
        };
        if self.below(10) > 0 {
            self.is_binary.set(true);
            self.is_spoiled.set(!encoded.starts_with("Yj") || encoded.len() < 4);
        }
        encoded.into()
    }

    pub fn value(&self) -> Vec<u8> {
        match self.below(16) {
            0 => Vec::new(),
            1 => b"\x00\xff\x80\n\r".to_vec(),
            2 => vec![b'x'; 1 + self.below(300)],
            3 => vec![b'y'; 1000 + self.below(5000)],
            4 if self.below(40) == 0 => vec![b'z'; (1 << 20) - 8192],
            4 if self.below(40) == 0 => vec![b'z'; 300_000],
            5..9 => self.one_of(DIGITS).into(),
            9..12 => self.below(200).to_string().into(),
            _ => format!("v{}", self.below(1_000)).into(),
        }
    }

    /// A length, and a value with its line end, which may be wrong.
    fn data(&self, is_meta: bool) -> (String, Vec<u8>) {
        let mut data = self.value();
        let len = data.len();
        data.extend_from_slice(b"\r\n");
        if self.below(15) > 0 || self.is_spoiled.get() {
            return (len.to_string(), data);
        }
        self.is_spoiled.set(is_meta);
        let is_large = self.below(40) == 0;
        let len = match self.below(9) {
            _ if is_large => {
                let len = self.one_of(&[(1 << 20) + 1, 1_100_000, 2 << 20]);
                data = vec![b'z'; len];
                data.extend_from_slice(b"\r\n");
                len.to_string()
            }
            0 => len.saturating_sub(1).to_string(),
            1 => len.saturating_sub(3).to_string(),
            2 => {
                // The requests that follow become part of it.
                data.extend_from_slice(&b"version\r\n".repeat(6));
                (len + 1 + self.below(40)).to_string()
            }
            3 => "-1".into(),
            4 => self.one_of(&["x", "-", "1x", "+1", "1.5"]).into(),
            5 => self.one_of(&["4294967295", "4294967296", "99999999999"]).into(),
            6 => format!("0{len}"),
            7 => self.one_of(&["-2147483648", "-2147483649", "-4294967296"]).into(),
            _ => {
                data.splice(len.., b"x\n".iter().copied());
                len.to_string()
            }
        };
        (len, data)
    }

    /// Flags of a meta request, none twice.
    fn options(&self, template: &str) -> Vec<String> {
        let of_command: &[u8] = match &template[..2] {
            "mg" => b"cfhklOqstvuCENRT",
            "ms" => b"ckOqsCEFIMTN",
            "md" => b"kOqCETIx",
            _ => b"NJDTMqtcvkOCE",
        };
        let mut letters: Vec<u8> = Vec::new();
        for _ in 0..self.below(6) {
            let letter = if self.below(12) == 0 {
                self.one_of(b"cfhklOqstvuCENRTDFIJMxLP")
            } else {
                self.one_of(of_command)
            };
            letters.push(letter);
        }
        let is_in_template = |letter: &u8| {
            let named = |word: &str| match word {
                "RECACHE" => b'R',
                "VIVIFY" => b'N',
                "TTL" => b'T',
                "MODE" => b'M',
                "COMPARE" => b'C',
                "DELTA" => b'D',
                "INITIAL" => b'J',
                word if word.len() == 1 => word.as_bytes()[0],
                _ => 0,
            };
            template.split([' ', '?']).any(|word| named(word) == *letter)
        };
        let mut options: Vec<String> = Vec::new();
        let mut seen = Vec::new();
        for letter in letters {
            if !is_in_template(&letter) && !seen.contains(&letter) {
                seen.push(letter);
                options.push(self.option(letter));
            }
        }
        if self.below(40) == 0 && !self.is_spoiled.replace(true) {
            let wrong =
                ["W", "X", "Z", "a", "B", "!", "1", "~", "q q", "k k", "\u{e9}", "", "_", "S3"];
            options.push(self.one_of(&wrong).into());
        }
        options
    }

    /// A flag with its token.
    fn option(&self, letter: u8) -> String {
        let is_odd = self.below(40) == 0 && b"TNRCEDJFM".contains(&letter);
        let wrong = is_odd && !self.is_spoiled.replace(true);
        let token = match letter {
            b'T' | b'N' | b'C' | b'E' | b'D' | b'J' | b'F' | b'R' if wrong => {
                self.one_of(&["x", "", "-", "1x", "+1", "99999999999999999999999", "-1x"]).into()
            }
            b'M' if wrong => self.one_of(&["", "x", "Q", "1"]).into(),
            b'M' => {
                self.one_of(&["E", "A", "P", "R", "S", "I", "D", "+", "-", "Sx", "e", "a"]).into()
            }
            b'T' | b'N' if self.pauses() => "1".into(),
            // No object comes near any of these limits during a run.
            b'R' => self.one_of(&["0", "30", "50000", "150000", "1000000", "-1"]).into(),
            b'T' | b'N' => self
                .one_of(&["0", "0", "100000", "200000", "500000", "2000000", "-1", "2147483647"])
                .into(),
            b'C' => self.version().to_string(),
            b'E' => (1 + self.below(60)).to_string(),
            b'D' => self.one_of(&["0", "1", "5", "100", "18446744073709551615"]).into(),
            b'J' => self.one_of(&["0", "1", "13", "18446744073709551615"]).into(),
            b'F' => self.one_of(&["0", "1", "77", "4294967295"]).into(),
            b'O' => ["", "a", "123", "0123456789012345678901234567890"][self.below(4)].into(),
            b'L' | b'P' => ["", "a", "x y"][self.below(2)].into(),
            // Tokens of flags that have none.
            _ if self.below(40) == 0 => "1".into(),
            _ => String::new(),
        };
        format!("{}{token}", char::from(letter))
    }
}

/// The keys that requests of the text protocol name.
pub fn all_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = (0..5).map(|number| format!("k{number}").into()).collect();
    for key in ["n0", "n1", "b0", "b1", "c\u{1}\u{7f}", "t\tb", "\u{e9}"] {
        keys.push(key.into());
    }
    keys.push(vec![b'l'; 250]);
    keys
}

/// A request as text, shortened.
pub fn shown(bytes: &[u8]) -> String {
    replies::shortened(bytes, 300)
}
