use std::io::Write;

use pretty_assertions::assert_eq;

use super::*;

/// A field with a value of any length.
fn bytes(number: u64, value: &[u8]) -> Vec<u8> {
    let mut field = varint(number << 3 | 2);
    field.extend(varint(value.len() as u64));
    field.extend_from_slice(value);
    field
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut encoded = Vec::new();
    while value > 0x7f {
        encoded.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    encoded.push(u8::try_from(value).unwrap());
    encoded
}

fn change(address: &str, action: u64, values: &[u8]) -> Vec<u8> {
    let body = [number(BODY_ACTION, action), bytes(2, values)].concat();
    let parts = [bytes(CHANGE_ADDRESS, address.as_bytes()), bytes(CHANGE_BODY, &body)];
    bytes(PLAN_RESOURCE_CHANGES, &parts.concat())
}

fn decode(fields: &[Vec<u8>]) -> PlanFile {
    PlanFile::decode(&fields.concat()).unwrap()
}

fn version(lineage: &str, serial: u64) -> StateVersion {
    StateVersion { lineage: lineage.to_owned(), serial }
}

#[test]
fn actions_are_read_and_unknown_ones_are_never_harmless() {
    let plan = decode(&[
        change("aws_vpc.made", 1, b""),
        change("aws_vpc.kept", 0, b""),
        change("aws_vpc.changed", 3, b""),
        change("aws_vpc.gone", 5, b""),
        change("aws_vpc.replaced", 6, b""),
        change("aws_vpc.first", 7, b""),
        change("data.aws_region.now", 2, b""),
        change("aws_vpc.strange", 99, b""),
    ]);
    let summary = plan.summary(None, "");
    let actions: Vec<_> = summary.changes.iter().map(|it| (it.address.as_str(), it.action)).collect();
    assert_eq!(
        actions,
        [
            ("aws_vpc.changed", PlanAction::Change),
            ("aws_vpc.first", PlanAction::Replace),
            ("aws_vpc.gone", PlanAction::Destroy),
            ("aws_vpc.made", PlanAction::Add),
            ("aws_vpc.replaced", PlanAction::Replace),
            ("aws_vpc.strange", PlanAction::Unknown),
            ("data.aws_region.now", PlanAction::Read),
        ]
    );
    assert!(PlanAction::Unknown.is_destructive());
    assert_eq!(summary.existing, 6, "all that is managed and not new");
}

#[test]
fn the_hash_does_not_depend_on_order_time_or_private_notes() {
    let (a, b) = (change("aws_vpc.a", 1, b"x"), change("aws_vpc.b", 3, b"y"));
    let one = decode(&[a.clone(), b.clone()]).summary(None, "c").hash;
    let time = bytes(21, b"2026-11-16T02:19:30Z");
    assert_eq!(one, decode(&[time, b, a]).summary(None, "c").hash);

    let body = [number(BODY_ACTION, 1), bytes(2, b"x")].concat();
    let with_notes = |notes: &[u8]| {
        let parts =
            [bytes(CHANGE_ADDRESS, b"aws_vpc.a"), bytes(CHANGE_BODY, &body), bytes(CHANGE_PRIVATE, notes)];
        decode(&[bytes(PLAN_RESOURCE_CHANGES, &parts.concat())]).summary(None, "c").hash
    };
    assert_eq!(with_notes(b"one"), with_notes(b"two"));
}

#[test]
fn anything_that_matters_changes_the_hash() {
    let base = decode(&[change("aws_vpc.a", 3, b"x")]);
    let state = version("l", 4);
    let output = bytes(PLAN_OUTPUT_CHANGES, &bytes(OUTPUT_NAME, b"o"));
    let mut hashes = vec![
        base.summary(Some(&state), "c").hash,
        base.summary(Some(&version("l", 5)), "c").hash,
        base.summary(Some(&version("m", 4)), "c").hash,
        base.summary(None, "c").hash,
        base.summary(Some(&state), "d").hash,
        decode(&[change("aws_vpc.b", 3, b"x")]).summary(Some(&state), "c").hash,
        decode(&[change("aws_vpc.a", 5, b"x")]).summary(Some(&state), "c").hash,
        decode(&[change("aws_vpc.a", 3, b"y")]).summary(Some(&state), "c").hash,
        decode(&[change("aws_vpc.a", 3, b"x"), change("aws_vpc.z", 0, b"")]).summary(Some(&state), "c").hash,
        decode(&[change("aws_vpc.a", 3, b"x"), output]).summary(Some(&state), "c").hash,
    ];
    let all = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), all);
}

#[test]
fn bytes_that_are_no_plan_are_refused() {
    assert!(matches!(PlanFile::parse(b"not a zip"), Err(PlanFileError::Archive(_))));
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("tfplan", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(&[0x1a, 0xff]).unwrap();
    let whole = archive.finish().unwrap().into_inner();
    assert!(matches!(PlanFile::parse(&whole), Err(PlanFileError::Damaged)));
    let empty = zip::ZipWriter::new(Cursor::new(Vec::new())).finish().unwrap().into_inner();
    assert!(matches!(PlanFile::parse(&empty), Err(PlanFileError::Archive(_))));
}
