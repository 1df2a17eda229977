//! The target of the memcached parser: requests and values, with any splits of the stream.

use tidekv_memcached::fuzzing::parse;

use tidekv_testkit::allocation::bounded;

/// Name and function of each target.
pub const TARGETS: &[crate::corpus::Target] = &[("memcached", memcached)];

const OBJECT_BYTES_MAX: usize = 64 << 10;

/// A byte of flags, a byte that selects the splits, then the stream.
pub fn memcached(data: &[u8]) {
    let [flags, cut, stream @ ..] = data else { return };
    let is_known = flags & 1 != 0;
    // Any line takes a few hundred bytes; a value its full length at once.
    let bytes_max = (256 << 10) + 1000 * stream.len();
    let whole = bounded(bytes_max, || parse([stream], OBJECT_BYTES_MAX, is_known));
    let len = 1 + usize::from(*cut) % 32;
    let pieces = bounded(bytes_max, || parse(stream.chunks(len), OBJECT_BYTES_MAX, is_known));
    assert_eq!(whole, pieces, "how the stream is cut changes nothing");
}

/// Requests as clients send them.
pub fn seeds() -> Vec<(crate::corpus::Target, Vec<u8>)> {
    let streams: [&[u8]; 8] = [
        b"set tide 1 100 4\r\nhigh\r\ngets tide ebb\r\ngat 5 tide\r\ncas tide 0 0 1 7 noreply\r\nx\r\n",
        b"mg tide s t v k Oabc N30 R5\r\nms dGlkZQ== 4 b T60 F3 C1 I MA\r\nhigh\r\nmd tide q I\r\nma tide D5 J1 N0\r\nmn\r\n",
        b"incr tide 5\r\ndecr tide 1\r\ntouch tide 5\r\ndelete tide 0 noreply\r\nflush_all 10 noreply\r\nme tide\r\n",
        b"set tide 0 0 70000\r\nms tide 99999999 T0\r\n",
        b"set tide 0 0 4\r\nhighs\r\nset tide x 0 1\r\n\r\n\nquit\r\n",
        b"set any 0 0 7\r\nme word\r\nversion\r\n",
        b"\x80\x0a\x00\x00",
        b"stats settings\r\nlru_crawler metadump 1,2\r\ncache_memlimit 64\r\nverbosity 1\r\nGET / HTTP/1.1\r\n",
    ];
    let heads: [[u8; 2]; 2] = [[1, 0], [0, 6]];
    streams
        .iter()
        .flat_map(|stream| heads.iter().map(|head| (TARGETS[0], [&head[..], stream].concat())))
        .collect()
}
