//! Random commands from templates.

use tidekv_io::{Random, SeededRandom};

/// The commands, a word for each argument; [`Generator::argument`] explains the capitals. `?` before
/// a word: it may be left out. Several words of one template may be options.
const TEMPLATES: &[&str] = &[
    "SET KEY VALUE",
    "SET KEY VALUE ?NX ?XX ?GET ?KEEPTTL",
    "SET KEY VALUE PXAT DEADLINE ?GET",
    "SET KEY VALUE EXAT SECONDS",
    "SET KEY VALUE EX DURATION",
    "GET KEY",
    "GET KEY",
    "GETSET KEY VALUE",
    "GETDEL KEY",
    "GETEX KEY",
    "GETEX KEY PERSIST",
    "GETEX KEY PXAT DEADLINE",
    "GETEX KEY EX WORD",
    "SETNX KEY VALUE",
    "SETEX KEY DURATION VALUE",
    "PSETEX KEY BIG VALUE",
    "MSET KEY VALUE KEY VALUE",
    "MSETNX KEY VALUE KEY VALUE",
    "MGET KEY KEY KEY",
    "APPEND KEY VALUE",
    "STRLEN KEY",
    "GETRANGE KEY INDEX INDEX",
    "GETRANGE KEY FAR FAR",
    "SUBSTR KEY INDEX INDEX",
    "SETRANGE KEY OFFSET VALUE",
    "SETRANGE KEY FAR VALUE",
    "INCR KEY",
    "DECR KEY",
    "INCRBY KEY NUMBER",
    "DECRBY KEY NUMBER",
    "INCRBYFLOAT KEY FLOAT",
    "LCS KEY KEY ?LEN ?IDX ?WITHMATCHLEN",
    "LCS KEY KEY IDX MINMATCHLEN INDEX",
    "SETBIT KEY OFFSET BIT",
    "SETBIT KEY FAR BIT",
    "BITCOUNT KEY FAR FAR UNIT",
    "BITPOS KEY BIT FAR",
    "GETBIT KEY OFFSET",
    "BITCOUNT KEY",
    "BITCOUNT KEY INDEX INDEX ?UNIT",
    "BITPOS KEY BIT",
    "BITPOS KEY BIT INDEX",
    "BITPOS KEY BIT INDEX INDEX ?UNIT",
    "BITOP OPERATION KEY KEY",
    "BITOP OPERATION KEY KEY KEY",
    "BITFIELD KEY GET TYPE OFFSET",
    "BITFIELD KEY OVERFLOW OVERFLOWS SET TYPE OFFSET NUMBER INCRBY TYPE OFFSET NUMBER",
    "BITFIELD KEY INCRBY TYPE OFFSET NUMBER GET TYPE OFFSET",
    "BITFIELD_RO KEY GET TYPE OFFSET",
    "DEL KEY KEY",
    "UNLINK KEY",
    "EXISTS KEY KEY",
    "TOUCH KEY KEY",
    "TYPE KEY",
    "RENAME KEY KEY",
    "RENAMENX KEY KEY",
    "COPY KEY KEY ?REPLACE",
    "COPY KEY KEY DB DATABASE ?REPLACE",
    "MOVE KEY DATABASE",
    "PERSIST KEY",
    "EXPIREAT KEY SECONDS ?CONDITION",
    "PEXPIREAT KEY DEADLINE ?CONDITION ?CONDITION",
    "EXPIRE KEY DURATION ?CONDITION",
    "PEXPIRE KEY DURATION",
    "TTL KEY",
    "PTTL KEY",
    "EXPIRETIME KEY",
    "PEXPIRETIME KEY",
    "KEYS PATTERN",
    "SCAN 0 COUNT 1000 MATCH PATTERN",
    "SCAN 0 COUNT 1000 ?TYPE ?string",
    "RANDOMKEY",
    "DBSIZE",
    "OBJECT REFCOUNT KEY",
    "OBJECT FREQ nokey",
    "MEMORY USAGE KEY",
    "HSET KEY FIELD VALUE",
    "HSET KEY FIELD VALUE FIELD VALUE",
    "HMSET KEY FIELD VALUE",
    "HSETNX KEY FIELD VALUE",
    "HGET KEY FIELD",
    "HMGET KEY FIELD FIELD",
    "HGETALL KEY",
    "HKEYS KEY",
    "HVALS KEY",
    "HLEN KEY",
    "HEXISTS KEY FIELD",
    "HSTRLEN KEY FIELD",
    "HDEL KEY FIELD FIELD",
    "HINCRBY KEY FIELD NUMBER",
    "HINCRBYFLOAT KEY FIELD FLOAT",
    "HRANDFIELD KEY",
    "HRANDFIELD KEY INDEX ?WITHVALUES",
    "HSCAN KEY 0 COUNT 1000",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH KEY KEY",
    "UNWATCH",
    "SELECT DATABASE",
    "SELECT DATABASE",
    "SWAPDB DATABASE DATABASE",
    "FLUSHDB",
    "FLUSHALL ASYNC",
    "PING",
    "PING VALUE",
    "ECHO VALUE",
    "HELLO 3",
    "HELLO 2",
    "RESET",
    "CLIENT SETNAME WORD",
    "CLIENT GETNAME",
    "CLIENT NO-EVICT ON",
    "CLIENT UNBLOCK NUMBER",
    "CLIENT KILL ID 0",
    "COMMAND GETKEYS SET KEY VALUE",
    "COMMAND GETKEYSANDFLAGS BITOP AND KEY KEY",
    "CONFIG SET WORD VALUE",
    "CONFIG SET maxmemory-samples NUMBER",
    "CONFIG GET databases",
    "SLOWLOG LEN WORD",
    "OBJECT WORD KEY",
];

const FLOATS: &[&str] = &[
    "0", "1.5", "-3.25", "0.1", "5.0e3", "1e-3", "3", "-0", "abc", "", " 1", "1 ", "nan", "inf",
    "-inf", "0x10", "1.", ".5", "+2",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "100",
    "-12",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "2147483648",
    "01",
    "+1",
    "1.5",
    "",
    " 1",
    "abc",
];

const DURATIONS: &[&str] = &[
    "99999999",
    "88888888",
    "0",
    "-1",
    "-12",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "01",
    "",
    "abc",
];

/// One generator has the state of one stream of commands.
pub struct Generator {
    random: SeededRandom,
    connections: usize,
    /// Whether a connection is in `MULTI`.
    is_queueing: Vec<bool>,
}

impl Generator {
    pub fn new(seed: u64, connections: usize) -> Self {
        let random = SeededRandom::new(seed);
        Self { random, connections, is_queueing: vec![false; connections] }
    }

    /// Both servers were emptied, and all connections are new.
    pub fn reset(&mut self) {
        self.is_queueing.fill(false);
    }

    fn below(&self, end: usize) -> usize {
        ((u128::from(self.random.next_u64()) * end as u128) >> 64) as usize
    }

    fn one_of<'a>(&self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// The next command, and the connection that sends it.
    pub fn next_command(&mut self) -> (usize, Vec<Vec<u8>>) {
        let connection = self.below(self.connections);
        // Transactions end soon, so that not every command is queued.
        if self.is_queueing[connection] && self.below(6) == 0 {
            self.is_queueing[connection] = false;
            let verb = if self.below(5) == 0 { "DISCARD" } else { "EXEC" };
            return (connection, vec![verb.into()]);
        }
        let template = TEMPLATES[self.below(TEMPLATES.len())];
        let rare = ["FLUSHALL", "RESET", "HELLO", "SWAPDB", "FLUSHDB", "HSCAN"];
        if rare.iter().any(|name| template.starts_with(name)) && self.below(4) > 0 {
            return self.next_command();
        }
        let mut words: Vec<Vec<u8>> = Vec::new();
        for word in template.split(' ') {
            let word = match word.strip_prefix('?') {
                Some(_) if self.below(2) == 0 => continue,
                Some(word) => word,
                None => word,
            };
            words.push(self.argument(word));
        }
        self.spoil(&mut words);
        match template {
            "MULTI" => self.is_queueing[connection] = true,
            "EXEC" | "DISCARD" | "RESET" => self.is_queueing[connection] = false,
            _ => {}
        }
        (connection, words)
    }

    /// Makes the command invalid, rarely.
    fn spoil(&self, words: &mut Vec<Vec<u8>>) {
        match self.below(60) {
            0 if words.len() > 1 => {
                words.pop();
            }
            1 => words.push(self.argument("WORD")),
            2 if words.len() > 2 => {
                let at = 1 + self.below(words.len() - 1);
                words[at] = self.argument("WORD");
            }
            3 => words[0] = words[0].to_ascii_lowercase(),
            _ => {}
        }
    }

    /// An argument: a word in capitals names its kind; other words stay as they are.
    fn argument(&self, word: &str) -> Vec<u8> {
        let key = || format!("k{}", self.below(6));
        let text = match word {
            "KEY" => key(),
            "FIELD" => format!("f{}", self.below(4)),
            "VALUE" => return self.value(),
            "NUMBER" => self.one_of(NUMBERS).into(),
            // None passes during a run.
            "DURATION" => self.one_of(DURATIONS).into(),
            "BIG" => "99999999999".into(),
            "FLOAT" => self.one_of(FLOATS).into(),
            "INDEX" => self.one_of(&["0", "1", "2", "-1", "-2", "5", "-100", "100", "x"]).into(),
            "OFFSET" => self.one_of(&["0", "1", "7", "8", "13", "100", "-1", "#1", "x"]).into(),
            // Around the ends of parts, and the shortest string in parts.
            "FAR" => self
                .one_of(&[
                    "16383", "16384", "131070", "131071", "131072", "147456", "200000", "1600003",
                ])
                .into(),
            "BIT" => self.one_of(&["0", "1", "1", "0", "2", "x"]).into(),
            "UNIT" => self.one_of(&["BYTE", "BIT", "bit", "x"]).into(),
            "TYPE" => {
                self.one_of(&["u1", "u8", "i8", "i16", "u63", "i64", "u64", "i5", "x"]).into()
            }
            "OPERATION" => self.one_of(&["AND", "OR", "XOR", "NOT", "not", "NAND"]).into(),
            "OVERFLOWS" => self.one_of(&["WRAP", "SAT", "FAIL", "fail", "x"]).into(),
            "CONDITION" => self.one_of(&["NX", "XX", "GT", "LT", "x"]).into(),
            "DATABASE" => self.one_of(&["0", "1", "2", "3", "15", "16", "-1", "x"]).into(),
            "DEADLINE" => format!("99999999{}000", 10 + self.below(80)),
            "SECONDS" => format!("99999999{}", 10 + self.below(80)),
            "PATTERN" => self.one_of(&["*", "k*", "k[0-2]", "?1", "k\\*", "", "[", "k[^1]"]).into(),
            "WORD" => self.one_of(&["", "abc", "-1", "NX", "-5", "LEN", "nokey", "a b"]).into(),
            other => other.into(),
        };
        text.into_bytes()
    }

    fn value(&self) -> Vec<u8> {
        match self.below(12) {
            0 => Vec::new(),
            1 => b"\x00\xff\x80\n\r".to_vec(),
            2 => vec![b'x'; 1 + self.below(200)],
            3 => vec![b'y'; [20_000, 20_000, 140_000][self.below(3)]],
            4 | 5 => self.one_of(NUMBERS).into(),
            6 => self.one_of(FLOATS).into(),
            _ => format!("v{}", self.below(1_000)).into_bytes(),
        }
    }
}
