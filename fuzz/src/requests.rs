//! The target of the Redis parser: requests, with any splits of the stream.

use tidekv_resp::fuzzing::parse;

use tidekv_testkit::allocation::bounded;

/// Name and function of each target.
pub const TARGETS: &[crate::corpus::Target] = &[("requests", requests)];

const REQUEST_BYTES_MAX: usize = 64 << 10;

/// A byte of flags, a byte that selects the splits, then the stream.
pub fn requests(data: &[u8]) {
    let [flags, cut, stream @ ..] = data else { return };
    let authenticated = flags & 1 != 0;
    // Any argument takes a few dozen bytes.
    let bytes_max = (64 << 10) + 200 * stream.len();
    let whole = bounded(bytes_max, || parse([stream], REQUEST_BYTES_MAX, authenticated));
    let len = 1 + usize::from(*cut) % 32;
    let pieces = bounded(bytes_max, || parse(stream.chunks(len), REQUEST_BYTES_MAX, authenticated));
    assert_eq!(whole, pieces, "how the stream is cut changes nothing");
    let (requests, error) = whole;
    assert!(requests.iter().all(|request| !request.is_empty()));
    // Written as arrays of bulk strings, the requests round-trip.
    let mut again = Vec::new();
    for request in &requests {
        again.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
        for argument in request {
            again.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            again.extend_from_slice(argument);
            again.extend_from_slice(b"\r\n");
        }
    }
    if authenticated {
        assert_eq!(parse([&again[..]], 4 * REQUEST_BYTES_MAX, true), (requests, None));
    }
    let _ = error;
}

/// Requests as clients send them.
pub fn seeds() -> Vec<(crate::corpus::Target, Vec<u8>)> {
    let streams: [&[u8]; 5] = [
        b"*3\r\n$3\r\nSET\r\n$4\r\ntide\r\n$4\r\nhigh\r\n*1\r\n$4\r\nPING\r\n",
        b"PING\r\nSET tide \"high\\x20\\n\" 'it\\'s'\n\r\n",
        b"*0\r\n*-1\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
        b"*2\r\n$3\r\nGET\r\n$70000\r\n",
        b"*1048577\r\n",
    ];
    let heads: [[u8; 2]; 2] = [[1, 0], [0, 6]];
    streams
        .iter()
        .flat_map(|stream| heads.iter().map(|head| (TARGETS[0], [&head[..], stream].concat())))
        .collect()
}
