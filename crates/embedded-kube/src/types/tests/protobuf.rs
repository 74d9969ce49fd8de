use base64::{Engine as _, engine::general_purpose::STANDARD};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::Value;

use super::super::{ExpectedKind, from_protobuf, normalise, shape_of};

const ANY: ExpectedKind<'_> = ExpectedKind { group: "", version: "v1", kind: "Secret" };

fn samples() -> Vec<(&'static str, Vec<u8>, Value)> {
    let lines = include_str!("../samples.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let (kind, wire, json) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            (kind, STANDARD.decode(wire).unwrap(), serde_json::from_str(json).unwrap())
        })
        .collect()
}

#[test]
fn what_go_encodes_is_decoded_to_the_json_go_writes() {
    for (kind, wire, json) in samples() {
        assert_eq!(from_protobuf(&wire, ANY).unwrap(), json, "{kind}");
    }
    assert!(samples().len() > 25);
}

#[test]
fn what_go_writes_is_normal_already() {
    for (kind, _, json) in samples() {
        let (group, version) = json["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let mut normal = json.clone();
        normalise(&mut normal, &shape_of(group, version, kind).unwrap());
        assert_eq!(normal, json, "{kind}");
    }
}

#[rstest]
#[case(b"", "the object provided is unrecognized (must be of type Secret): empty data (<empty>)")]
#[case(
    b"{}",
    "the object provided is unrecognized (must be of type Secret): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})"
)]
#[case(b"k8s\0", "the object provided is unrecognized (must be of type Secret): empty body (6b387300)")]
#[case(
    b"k8s\0\x12\x7f",
    "the object provided is unrecognized (must be of type Secret): unexpected EOF (6b387300127f)"
)]
#[case(b"k8s\0\x12\x02\x0a\x05", "Secret in version \"v1\" cannot be handled as a Secret: unexpected EOF")]
#[case(
    b"k8s\0\x12\x02\x08\x05",
    "Secret in version \"v1\" cannot be handled as a Secret: proto: wrong wireType = 0 for field ObjectMeta"
)]
#[case(
    b"k8s\0\x12\x02\x00\x00",
    "Secret in version \"v1\" cannot be handled as a Secret: proto: Secret: illegal tag 0 (wire type 0)"
)]
#[case(
    b"k8s\0\x12\x03\x0a\x01\x04",
    "Secret in version \"v1\" cannot be handled as a Secret: proto: ObjectMeta: wiretype end group for non-group"
)]
#[case(
    b"k8s\0\x0a\x0a\x0a\x02v1\x12\x04Nope\x12\x00",
    "Nope in version \"v1\" cannot be handled as a Secret: no kind \"Nope\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\""
)]
fn malformed_bodies_are_refused_with_the_reason(#[case] body: &[u8], #[case] text: &str) {
    let failure = from_protobuf(body, ANY).unwrap_err();
    assert_eq!((failure.code(), failure.message()), (400, text));
}

#[test]
fn a_missing_type_is_the_expected_one() {
    let object = from_protobuf(b"k8s\0\x12\x00", ANY).unwrap();
    assert_eq!(object, serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}}));
}

#[test]
fn nesting_without_end_is_refused() {
    // A schema whose `not` is a schema whose `not` …
    let mut message = Vec::new();
    for _ in 0..2000 {
        let mut outer = vec![0xe2, 0x01];
        let mut length = message.len();
        while length >= 0x80 {
            outer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        outer.push(u8::try_from(length).unwrap());
        outer.extend(message);
        message = outer;
    }
    let go = super::super::schema_props_struct().unwrap();
    assert!(super::super::protobuf::message_fields(&message, go, 0).unwrap_err().contains("too deep"));
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..5_usize) {
        let kind = ["Pod", "Secret", "Event", "Node", "DeleteOptions"][kind];
        let body = [b"k8s\0\x12\x81\x00", bytes.as_slice()].concat();
        let _ = from_protobuf(&body, ExpectedKind { kind, ..ANY });
        let mut framed = b"k8s\0\x12".to_vec();
        framed.push(u8::try_from(bytes.len() & 0x7f).unwrap());
        framed.extend(bytes);
        let _ = from_protobuf(&framed, ExpectedKind { kind, ..ANY });
    }

    #[test]
    fn a_damaged_object_is_decoded_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>(), which in 0..23_usize) {
        let (_, mut wire, _) = samples().swap_remove(which);
        let at = at.index(wire.len());
        wire[at] = byte;
        let _ = from_protobuf(&wire, ANY);
    }
}
