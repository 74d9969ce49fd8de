//! Mutates valid input: by bytes, by words, and by JSON structure.

use serde_json::{Map, Value, json};

use super::seeds::Seed;

const WORDS: &[&str] = &[
    "null",
    "{}",
    "[]",
    "\"\"",
    "-1",
    "1e999",
    "9223372036854775808",
    "0.1",
    "true",
    "\u{0}",
    "\u{feff}",
    "\\u0000",
    "\"$patch\"",
    "\"$retainKeys\"",
    "\"$setElementOrder/containers\"",
    "\"metadata\"",
    "\"managedFields\"",
    "\"resourceVersion\"",
    "\"name\"",
    "\"finalizers\"",
    "~1",
    "~0",
    "/-",
    "k8s\u{0}",
    "---\n",
    "&a *a",
    "!!binary ",
];

/// A mutator with a reproducible sequence.
pub(crate) struct Mutator {
    state: u64,
}

impl Mutator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { usize::try_from(self.next() % (bound as u64)).unwrap_or_default() }
    }

    pub(crate) fn choose<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let place = self.below(all.len());
        &all[place]
    }

    /// A few changes to one input.
    pub(crate) fn mutate(&mut self, body: &[u8], seeds: &[Seed]) -> Vec<u8> {
        let mut body = body.to_vec();
        for _ in 0..=self.below(3) {
            body = match self.below(4) {
                0 => self.bytes(body),
                1 => self.words(body),
                2 => self.splice(&body, seeds),
                _ => self.structure(&body).unwrap_or(body),
            };
        }
        body.truncate(64 * 1024);
        body
    }

    fn bytes(&mut self, mut body: Vec<u8>) -> Vec<u8> {
        let place = self.below(body.len() + 1);
        let byte = u8::try_from(self.below(256)).unwrap_or_default();
        match self.below(3) {
            0 if place < body.len() => body[place] = byte,
            1 if place < body.len() => {
                body.remove(place);
            }
            _ => body.insert(place, byte),
        }
        body
    }

    fn words(&mut self, mut body: Vec<u8>) -> Vec<u8> {
        let place = self.below(body.len() + 1);
        let until = (place + self.below(6)).min(body.len());
        let word = *self.choose(WORDS);
        body.splice(place..until, word.bytes());
        body
    }

    fn splice(&mut self, body: &[u8], seeds: &[Seed]) -> Vec<u8> {
        let other = self.choose(seeds).body.clone();
        let (mine, theirs) = (self.below(body.len() + 1), self.below(other.len() + 1));
        [&body[..mine], &other[theirs..]].concat()
    }

    /// Changes one nested value, so that the result still parses.
    fn structure(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let mut value: Value = serde_json::from_slice(body).ok()?;
        self.visit(&mut value);
        serde_json::to_vec(&value).ok()
    }

    fn visit(&mut self, value: &mut Value) {
        let deeper = self.below(4) != 0;
        match value {
            Value::Object(map) if deeper && !map.is_empty() => {
                let key = map.keys().nth(self.below(map.len())).cloned().unwrap_or_default();
                match self.below(8) {
                    0 => {
                        map.shift_remove(&key);
                    }
                    1 => self.rename(map, &key),
                    _ => self.visit(&mut map[&key]),
                }
            }
            Value::Array(list) if deeper && !list.is_empty() => {
                let place = self.below(list.len());
                match self.below(6) {
                    0 => {
                        list.remove(place);
                    }
                    1 => list.push(list[place].clone()),
                    _ => self.visit(&mut list[place]),
                }
            }
            other => *other = self.replacement(other),
        }
    }

    fn rename(&mut self, map: &mut Map<String, Value>, key: &str) {
        if let Some(value) = map.shift_remove(key) {
            let name = self.choose(WORDS).trim_matches('"').to_owned();
            map.insert(name, value);
        }
    }

    fn replacement(&mut self, old: &Value) -> Value {
        match self.below(9) {
            0 => Value::Null,
            1 => json!({}),
            2 => json!([]),
            3 => json!("x".repeat(self.below(300))),
            4 => json!(i64::MIN),
            5 => json!(1.5),
            6 => json!([old, old]),
            7 => json!({ "name": old, "f:x": {}, "": old }),
            _ => json!(self.choose(WORDS)),
        }
    }
}
