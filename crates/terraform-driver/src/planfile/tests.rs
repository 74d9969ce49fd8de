use super::*;

#[test]
fn bytes_that_are_no_plan_are_refused() {
    assert!(matches!(PlanFile::parse(b"not a zip"), Err(PlanFileError::Archive(_))));
}
