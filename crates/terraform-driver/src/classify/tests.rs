mod messages;

use messages::REAL;
use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

fn error(summary: &str, detail: &str) -> Diagnostic {
    Diagnostic {
        severity: "error".to_owned(),
        summary: summary.to_owned(),
        detail: detail.to_owned(),
        ..Diagnostic::default()
    }
}

#[test]
fn real_messages_have_the_class_and_the_code_that_a_person_would_give_them() {
    assert!(REAL.len() >= 40);
    let wrong: Vec<_> = REAL
        .iter()
        .filter_map(|(class, code, summary, detail)| {
            let failure = classify_diagnostic(&error(summary, detail));
            let right = failure.class == *class && failure.code.as_deref() == *code;
            (!right)
                .then(|| format!("{:?} {:?}, not {class:?} {code:?}: {summary}", failure.class, failure.code))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_class_has_a_real_message_and_a_name_of_its_own() {
    use std::collections::BTreeSet;
    let classes: BTreeSet<_> = REAL.iter().map(|(class, ..)| *class).collect();
    let names: BTreeSet<_> = classes.iter().map(|class| class.name()).collect();
    assert_eq!(classes.len(), 17);
    assert_eq!(names.len(), 17);
}

#[test]
fn the_same_failure_has_the_same_text_whatever_its_request_id() {
    let with = |id: &str| {
        classify_diagnostic(&error(
            &format!("creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 400, RequestID: {id}, InvalidParameterException: no"),
            &format!("AccessDenied: x\n\tstatus code: 403, request id: {id}"),
        ))
        .message
    };
    assert_eq!(with("a-1"), with("b-22"));
    assert_eq!(
        with("a-1"),
        "creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 400, InvalidParameterException: no: AccessDenied: x\n\tstatus code: 403"
    );
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let failure = classify_diagnostic(&error(&"ä".repeat(2000), ""));
    assert!(failure.message.len() <= 1004, "{}", failure.message.len());
    assert!(failure.message.ends_with('…'));
}

#[test]
fn the_address_is_kept() {
    let diagnostic = Diagnostic { address: Some("aws_vpc.this".to_owned()), ..error("x", "y") };
    assert_eq!(classify_diagnostic(&diagnostic).address.as_deref(), Some("aws_vpc.this"));
}

#[test]
fn a_complaint_about_a_place_in_the_configuration_needs_a_person() {
    let range = crate::events::Position { filename: "main.tf".to_owned(), line: 3 };
    let diagnostic = Diagnostic { range: Some(range), ..error("Some new kind of syntax error", "") };
    assert_eq!(classify_diagnostic(&diagnostic).class, FailureClass::UserFix);
    let about_an_object = Diagnostic { address: Some("a.b".to_owned()), ..diagnostic };
    assert_eq!(classify_diagnostic(&about_an_object).class, FailureClass::Unknown);
}

#[test]
fn the_failure_that_needs_a_person_speaks_for_the_run() {
    let throttle = error("api error ThrottlingException: Rate exceeded", "");
    let denied = error("api error AccessDenied: no", "");
    let warning = Diagnostic { severity: "warning".to_owned(), ..error("lifecycle.prevent_destroy", "") };
    let failure = primary_failure(&[warning.clone(), throttle.clone(), denied]).unwrap();
    assert_eq!((failure.class, failure.code.as_deref()), (FailureClass::UserFix, Some("AccessDenied")));
    assert_eq!(primary_failure(&[throttle]).unwrap().class, FailureClass::Throttle);
    assert_eq!(primary_failure(&[warning]), None);
}

#[rstest]
#[case(FailureClass::Wait)]
#[case(FailureClass::Throttle)]
#[case(FailureClass::Network)]
#[case(FailureClass::Propagation)]
fn passing_troubles_never_wait_for_a_person(#[case] class: FailureClass) {
    assert!(!matches!(class.advice(), RetryAdvice::SlowRetry));
}

#[test]
fn a_person_is_never_asked_in_a_hot_loop() {
    for class in [FailureClass::UserFix, FailureClass::Credentials, FailureClass::Protected] {
        assert_eq!(class.advice(), RetryAdvice::SlowRetry);
    }
    for class in [FailureClass::Quota, FailureClass::Provider, FailureClass::Engine] {
        assert_eq!(class.advice(), RetryAdvice::SlowRetry);
    }
}

#[test]
fn plain_text_of_a_dead_child_is_classified_too() {
    assert_eq!(classify_text("write: no space left on device").class, FailureClass::Engine);
}

#[test]
fn an_object_that_exists_already_can_be_imported_and_the_message_says_so() {
    let failure =
        classify_diagnostic(&error("api error EntityAlreadyExists: Role with name demo already exists.", ""));
    assert_eq!(failure.advice(), RetryAdvice::SlowRetry);
    assert!(
        failure.message.contains("import it") && failure.message.contains("Role with name demo"),
        "{failure:?}"
    );
    assert!(
        FailureClass::UserFix.weight() > FailureClass::AlreadyExists.weight(),
        "other errors are fixed first"
    );
}
