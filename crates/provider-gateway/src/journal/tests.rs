//! Tests of the journal.

use std::{fs, os::unix::fs::PermissionsExt};

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::*;
use crate::wire::protobuf::put_bytes;

fn request() -> Vec<u8> {
    let mut request = Vec::new();
    put_bytes(&mut request, 1, b"aws_vpc");
    put_bytes(&mut request, 2, b"prior");
    put_bytes(&mut request, 3, b"planned");
    request
}

fn change(request: &[u8]) -> ChangeCall<'_> {
    ChangeCall {
        run: "r",
        workspace: "default/x",
        method: "ApplyResourceChange",
        request,
        schema_version: Some(1),
    }
}

#[tokio::test]
async fn beginnings_and_ends_are_on_disk_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let request = request();
    let mut answer = Vec::new();
    put_bytes(&mut answer, 1, b"new");
    put_bytes(&mut answer, 2, b"private");
    for round in 0..2 {
        let journal = Journal::open(&path).unwrap();
        let call = journal.record_start(&change(&request)).await.unwrap();
        journal.record_end(&change(&request), call, Some(&answer)).await.unwrap();
        let entries = read_entries(&path).unwrap();
        assert_eq!(entries.len(), 2 * (round + 1));
        let last = entries.last().unwrap();
        assert_eq!(
            (last.order, last.stage, last.kind.as_str()),
            (2 * (round as u64 + 1), ChangeStage::Done, "aws_vpc")
        );
        assert_eq!(BASE64_STANDARD.decode(&last.new).unwrap(), b"new");
        assert_eq!(BASE64_STANDARD.decode(&last.private).unwrap(), b"private");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_torn_line_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let request = request();
    Journal::open(&path).unwrap().record_start(&change(&request)).await.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"order\":");
    fs::write(&path, bytes).unwrap();
    assert_eq!(read_entries(&path).unwrap().len(), 1);
    Journal::open(&path).unwrap().record_start(&change(&request)).await.unwrap();
    assert_eq!(read_entries(&path).unwrap().len(), 2);
}

#[tokio::test]
async fn a_full_disk_is_told_before_anything_is_made() {
    let path = Path::new("/dev/full");
    let journal =
        Journal::spawn_writer(File::options().write(true).open(path).unwrap(), path, (0, 0), Arc::default())
            .unwrap();
    let request = request();
    let error = journal.record_start(&change(&request)).await.unwrap_err();
    assert!(error.contains("/dev/full") && error.contains("free some space"), "{error}");
}
#[tokio::test]
async fn a_change_is_in_flight_until_its_end_is_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(&dir.path().join("journal.jsonl")).unwrap();
    let request = request();
    let call = journal.record_start(&change(&request)).await.unwrap();
    let in_flight = journal.in_flight("default/x");
    assert_eq!(in_flight.len(), 1);
    assert_eq!(in_flight[0].kind, "aws_vpc");
    assert_eq!(journal.in_flight("default/y"), []);
    journal.record_end(&change(&request), call, None).await.unwrap();
    assert_eq!(journal.in_flight("default/x"), []);
}

#[tokio::test]
async fn dropped_calls_leave_the_file_and_later_ones_are_appended_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let request = request();
    let journal = Journal::open(&path).unwrap();
    let first = journal.record_start(&change(&request)).await.unwrap();
    journal.record_end(&change(&request), first, None).await.unwrap();
    let second = journal.record_start(&change(&request)).await.unwrap();
    journal.drop_calls(BTreeSet::from([first])).await.unwrap();
    journal.record_end(&change(&request), second, None).await.unwrap();
    let calls = |path| read_entries(path).unwrap().iter().map(|entry| entry.call).collect::<Vec<_>>();
    assert_eq!(calls(&path), [second, second]);
    // Another gateway does not use a number again.
    drop(journal);
    let third = Journal::open(&path).unwrap().record_start(&change(&request)).await.unwrap();
    assert_eq!(calls(&path), [second, second, third]);
    assert!(third > second);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
