//! Fuzzes the header parsers: for any `baggage`, `tracestate` and legacy headers nothing panics, and the key equals that of a
//! simple reference implementation of the grammar.
//!
//! Two seconds in an ordinary test run; `FUZZ_SECONDS=60` is what CI does. A failure prints the seed; `FUZZ_SEED` repeats it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on stops")]

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue};
use sandbox_router::key::{ExtraKeySources, LEGACY_HEADERS, MEMBER_NAMES, find_key};

/// What lists are made of: nearly right more often than wrong.
const PIECES: [&str; 40] = [
    "sd-routing-key",
    "sd-sandbox",
    "sd-routing-key=k1",
    "sd-sandbox=k2",
    "xsd-routing-key",
    "SD-Routing-Key",
    "=",
    "=",
    "=",
    ",",
    ",",
    ",",
    ";",
    ";",
    " ",
    "\t",
    "k1",
    "k-2",
    "-k",
    "k-",
    "K",
    "%6b",
    "%6B1",
    "%",
    "%2",
    "%zz",
    "%ff",
    "%c3%a4",
    "%2C",
    "%3D",
    "\"",
    "\\",
    "ttl=3",
    "a=b",
    "a@b/c=d",
    "ä",
    "x",
    ",sd-routing-key=",
    "=sd-routing-key=",
    ";sd-sandbox=k3",
];

#[expect(clippy::disallowed_methods, reason = "how long and from where is the caller's choice")]
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// A line of a header, now and then a long one.
fn line(numbers: &mut fastrand::Rng) -> Vec<u8> {
    let mut line = Vec::new();
    for _ in 0..numbers.usize(..12) {
        match numbers.usize(..12) {
            0 => line.push(numbers.u8(b' '..b'~')),
            1 if numbers.usize(..8) == 0 => line.extend(std::iter::repeat_n(b'x', numbers.usize(..9000))),
            _ => line.extend_from_slice(PIECES[numbers.usize(..PIECES.len())].as_bytes()),
        }
    }
    line
}

fn is_key(text: &str) -> bool {
    let is_inner = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-');
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// `%6b` is `k`; what is no such thing stays.
fn decoded(value: &str) -> Option<String> {
    let (bytes, mut out, mut at) = (value.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let pair = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        match pair.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok()) {
            // `from_str_radix` takes a sign.
            Some(byte) if bytes[at + 1] != b'+' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

/// The first 8192 bytes of all lines as one list, without a member that is cut.
fn scanned(lines: &[Vec<u8>]) -> Vec<u8> {
    let mut all = lines.join(&b',');
    if all.len() > 8192 {
        let is_cut = all[8192] != b',';
        all.truncate(8192);
        if is_cut {
            let end = all.iter().rposition(|it| *it == b',').unwrap_or(0);
            all.truncate(end);
        }
    }
    all
}

fn of_list(lines: &[Vec<u8>], is_encoded: bool) -> Option<String> {
    let all = scanned(lines);
    all.split(|it| *it == b',').find_map(|member| {
        let own = member.split(|it| *it == b';').next()?;
        let (name, value) = std::str::from_utf8(own).ok()?.split_once('=')?;
        let (name, value) = (name.trim_matches([' ', '\t']), value.trim_matches([' ', '\t']));
        let is_plain = |it: char| it.is_ascii_graphic() && !"\",;\\".contains(it);
        if !MEMBER_NAMES.contains(&name) || !value.chars().all(is_plain) {
            return None;
        }
        let value = if is_encoded { decoded(value)? } else { value.to_owned() };
        is_key(&value).then_some(value)
    })
}

fn expected(baggage: &[Vec<u8>], tracestate: &[Vec<u8>], older: &[Vec<u8>]) -> Option<String> {
    let whole = |line: &Vec<u8>| {
        let text = std::str::from_utf8(line).ok()?.trim_matches([' ', '\t']);
        is_key(text).then(|| text.to_owned())
    };
    of_list(baggage, true).or_else(|| of_list(tracestate, false)).or_else(|| older.iter().find_map(whole))
}

#[test]
fn no_header_breaks_the_parsers_or_is_read_in_two_ways() {
    let until = Instant::now() + Duration::from_secs(setting("FUZZ_SECONDS").unwrap_or(2));
    let seed = setting("FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut numbers = fastrand::Rng::with_seed(seed);
    let (mut found, mut round) = (0_u64, 0_u64);
    // At least so many, even where the machine gives them no time.
    while round < 10_000 || Instant::now() < until {
        let lines: [Vec<Vec<u8>>; 3] =
            std::array::from_fn(|_| (0..numbers.usize(..4)).map(|_| line(&mut numbers)).collect());
        let mut headers = HeaderMap::new();
        for (name, lines) in ["baggage", "tracestate", LEGACY_HEADERS[0]].into_iter().zip(&lines) {
            for line in lines {
                headers.append(name, HeaderValue::from_bytes(line).expect("no line has control characters"));
            }
        }
        let key = find_key(&headers, None, &ExtraKeySources::default()).map(|it| it.key.into_owned());
        let wanted = expected(&lines[0], &lines[1], &lines[2]);
        assert_eq!(key, wanted, "FUZZ_SEED={seed}, round {round}: {headers:?}");
        found += u64::from(key.is_some());
        round += 1;
    }
    assert!(found * 10 > round && found < round, "{found} of {round} had a key: this is no test of both");
}
