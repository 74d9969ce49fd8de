//! The life of the local AWS beside the commands.

use crate::capt::{Capt, example};

#[test]
fn a_local_aws_that_lost_its_memory_is_recognised_and_explained() {
    let capt = Capt::new();
    let file = example("templates.yaml");
    capt.run(&["apply", &file]).ok();
    assert!(capt.run(&["aws", "status"]).ok().stdout.starts_with("running at http://127.0.0.1:"));
    capt.run(&["aws", "stop"]).ok();

    let planned = capt.run(&["plan", &file]);
    assert_eq!(planned.code, Some(1), "{planned:?}");
    assert!(planned.stderr.contains("what it held is gone"), "{}", planned.stderr);
    assert!(planned.stderr.contains("capt aws reset --data"), "{}", planned.stderr);
    assert_eq!(planned.stdout, "", "nothing was planned");

    capt.run(&["aws", "reset"]).ok();
    capt.run(&["apply", &file]).ok();
    capt.run(&["destroy", &file]).ok();
}

#[test]
fn two_data_directories_have_two_clouds() {
    let (one, two) = (Capt::new(), Capt::new());
    one.run(&["aws", "start"]).ok();
    two.run(&["aws", "start"]).ok();
    let endpoint = |capt: &Capt| capt.run(&["aws", "status", "-o", "json"]).ok().report()["endpoint"].clone();
    assert_ne!(endpoint(&one), endpoint(&two));
    one.run(&["aws", "stop"]).ok();
    assert!(two.run(&["aws", "status"]).ok().stdout.starts_with("running"));
    assert_eq!(one.run(&["aws", "status"]).ok().stdout, "not running\n");
}
