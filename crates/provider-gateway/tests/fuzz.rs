//! Fuzzes the wire parsers: no panic and no output larger than the input. `FUZZ_SECONDS` sets the duration.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::support::outer;
use provider_gateway::{
    plugin::Handshake,
    probe::parse_objects,
    wire::{grpc, messages, method::Method, msgpack, protobuf, schema},
};

/// Enough randomness to wander about, and the same each time from the same seed.
struct Rng(u64);

impl Rng {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }
}

/// Something that makes sense, to be damaged.
fn seeds() -> Vec<Vec<u8>> {
    let mut message = Vec::new();
    protobuf::put_bytes(&mut message, 1, b"aws_vpc");
    protobuf::put_bytes(&mut message, 2, &schema::map_entry("aws_vpc", b"schema"));
    protobuf::put_bytes(&mut message, 3, b"\x0a\x05\x81\xa1a\xc0");
    protobuf::put_number(&mut message, 4, u64::MAX);
    let mut configure = Vec::new();
    protobuf::put_bytes(&mut configure, 2, b"\x0a\x04\x81\xa1a\xc3");
    protobuf::put_bytes(&mut configure, 3, b"\x08\x01");
    let state = br#"{"lineage":"l","serial":1,"resources":[{"mode":"managed","type":"t","name":"n","provider":"p"}]}"#;
    vec![
        message.clone(),
        grpc::frame(&message).to_vec(),
        configure,
        b"1|5|unix|/tmp/x|grpc|".to_vec(),
        state.to_vec(),
        Vec::new(),
    ]
}

fn damage(dice: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=dice.below(6) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(4) {
            0 if at < bytes.len() => bytes[at] = dice.roll().to_le_bytes()[0],
            1 => bytes.insert(at, dice.roll().to_le_bytes()[0]),
            2 => bytes.truncate(at),
            _ => {
                let piece: Vec<u8> = bytes[at..].iter().copied().take(dice.below(40)).collect();
                bytes.splice(at..at, piece);
            }
        }
    }
}

fn decode(bytes: &[u8]) {
    let wanted = schema::TypeFilter::Types(BTreeSet::from(["aws_vpc".to_owned()]));
    if let Ok(kept) = schema::filter_schema(bytes, &wanted) {
        assert!(kept.len() <= bytes.len());
        // What was kept once is kept again.
        assert_eq!(schema::filter_schema(&kept, &wanted).unwrap(), kept);
    }
    let _refused = schema::filter_metadata(bytes, &wanted);
    for number in 1..5 {
        let _refused = messages::read_diagnostics(bytes, number);
        let _refused = protobuf::string_field(bytes, number);
    }
    let essence = messages::normalize_configure(bytes);
    assert!(essence.len() <= bytes.len() + 16);
    assert_eq!(messages::normalize_configure(&essence), essence, "what is left of the rest is all of it");
    let _ = (
        messages::type_name(bytes),
        messages::is_null(bytes),
        msgpack::is_known(bytes),
        grpc::unframe(bytes),
    );
    let text = String::from_utf8_lossy(bytes);
    let _refused = Handshake::parse(&text);
    let _ = Method::parse(&text).diagnostics_field();
    let _refused = parse_objects(bytes, "p");
    schema::collect_identifiers(&text, &mut BTreeSet::new());
}

#[test]
fn no_bytes_break_the_decoders() {
    let seconds = outer().get("FUZZ_SECONDS").map_or(2, |seconds| seconds.parse().unwrap());
    let (begun, mut dice, seeds) = (Instant::now(), Rng(0x9e37_79b9_7f4a_7c15), seeds());
    let mut count = 0_u64;
    // At least so many, even where the machine gives them no time.
    while count < 10_000 || begun.elapsed() < Duration::from_secs(seconds) {
        let mut bytes = seeds[dice.below(seeds.len())].clone();
        damage(&mut dice, &mut bytes);
        decode(&bytes);
        count += 1;
    }
}
