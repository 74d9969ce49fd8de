use super::*;

const BOOT: &str = "b";

fn record() -> LeaseRecord {
    LeaseRecord { holder: "a".to_owned(), fence: 3, boot_id: BOOT.to_owned(), deadline_ms: 10_000 }
}

/// A data directory with a record of this boot.
fn recorded(fence: u64, deadline: Duration) -> (tempfile::TempDir, RunLease) {
    let dir = tempfile::tempdir().unwrap();
    let file = LeaseFile::in_data_directory(dir.path());
    let deadline_ms = u64::try_from(deadline.as_millis()).unwrap();
    file.write(&LeaseRecord { fence, boot_id: clock::boot_id().unwrap(), deadline_ms, ..record() }).unwrap();
    (dir, RunLease { file, fence: 3 })
}

#[test]
fn a_change_may_begin_until_the_deadline_and_not_at_it() {
    let at = |millis| record().permits(3, BOOT, Duration::from_millis(millis));
    assert!(at(0).is_ok() && at(9_999).is_ok());
    assert!(matches!(at(10_000), Err(NotLeading::NotRenewed)));
    assert!(matches!(at(u64::MAX / 2), Err(NotLeading::NotRenewed)));
}

#[test]
fn h7_a_run_of_an_earlier_leadership_begins_nothing_under_a_later_one() {
    for fence in [2, 4] {
        let refused = record().permits(fence, BOOT, Duration::ZERO);
        assert!(matches!(refused, Err(NotLeading::OtherLeader { current: 3, .. })), "{fence}: {refused:?}");
    }
}

#[test]
fn a_deadline_of_another_boot_is_none() {
    assert!(matches!(record().permits(3, "another", Duration::ZERO), Err(NotLeading::Rebooted)));
}

#[test]
fn what_is_on_the_disk_decides() {
    let soon = clock::since_boot() + Duration::from_hours(1);
    let (_dir, lease) = recorded(3, soon);
    lease.check().unwrap();
    let (_dir, lease) = recorded(4, soon);
    assert!(matches!(lease.check(), Err(NotLeading::OtherLeader { started: 3, current: 4 })));
    let (_dir, lease) = recorded(3, Duration::ZERO);
    assert!(matches!(lease.check(), Err(NotLeading::NotRenewed)));
}

#[test]
fn a_record_that_is_missing_or_makes_no_sense_permits_nothing() {
    let (dir, lease) = recorded(3, clock::since_boot() + Duration::from_hours(1));
    lease.file.remove().unwrap();
    assert!(matches!(lease.check(), Err(NotLeading::NoRecord)));
    lease.file.remove().unwrap();
    for text in ["", "{\"holder\":", "[]"] {
        fs::write(lease.file.path(), text).unwrap();
        let error = lease.check().unwrap_err();
        assert!(matches!(error, NotLeading::Unreadable { .. }), "{text}: {error}");
        assert!(error.to_string().contains("lease.json"), "{error}");
    }
    drop(dir);
}

#[test]
fn the_clock_goes_forward_and_the_boot_has_a_name() {
    let first = clock::since_boot();
    assert!(first > Duration::ZERO && clock::since_boot() >= first);
    assert_eq!(clock::boot_id().unwrap(), clock::boot_id().unwrap());
    assert!(!clock::boot_id().unwrap().is_empty());
}
