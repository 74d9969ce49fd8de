//! Files that cannot be read, or hold nothing that can be used.

use super::harness::{CliHarness, QUICKSTART, assert_refused_until_corrected, quickstart_with};

#[test]
fn an_empty_file_is_refused() {
    assert_refused_until_corrected("", &["demo.yaml: the file is empty", "add at least one object"]);
}

#[test]
fn a_file_of_comments_and_separators_is_empty_too() {
    assert_refused_until_corrected("# nothing\n---\n---\n", &["the file is empty"]);
}

#[test]
fn what_is_not_yaml_is_refused_with_its_place() {
    assert_refused_until_corrected(
        "kind: [CAPTCluster\n  spec: }",
        &["demo.yaml: line 2, column", "invalid YAML", "correct the file there"],
    );
}

#[test]
fn a_text_that_is_no_object_is_refused() {
    assert_refused_until_corrected(
        "hello\n",
        &["line 1", "is not a Kubernetes object", "give it apiVersion, kind"],
    );
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_and_the_remedy_is_not_to_find_another_file() {
    let mut bytes = b"# fine\nkind: ".to_vec();
    bytes.extend([0xff, 0xfe, b'\n']);
    let ground = CliHarness::new();
    ground.write("demo.yaml", &bytes);
    let said =
        ground.render().assert_refused(&["demo.yaml: line 2", "not valid UTF-8", "save the file as UTF-8"]);
    assert!(!said.stderr.contains("check that the file exists"), "{said:?}");
}

#[test]
fn standard_input_that_is_not_utf_8_is_refused_in_the_same_words() {
    let ground = CliHarness::new();
    let run = ground.capt(&["render", "-", "-o", "out"]).stdin([b'a', 0xff]);
    run.run().assert_refused(&["standard input: line 1", "not valid UTF-8", "save the file as UTF-8"]);
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    let ground = CliHarness::new();
    ground.capt(&["render", "-", "-o", "out"]).stdin(QUICKSTART).run().assert_success();
    assert!(ground.has("out/default/demo-vpc/main.tf"));
    ground.capt(&["render", "-", "-o", "out"]).run().assert_refused(&["standard input: the file is empty"]);
}

#[test]
fn a_file_that_does_not_exist_is_named() {
    let ground = CliHarness::new();
    ground.render().assert_refused(&["cannot read demo.yaml", "check that the file exists"]);
    assert!(!ground.has("out"));
}

#[test]
fn a_directory_without_manifests_is_named() {
    let ground = CliHarness::new();
    ground.write("manifests/README.md", "# nothing\n");
    let render = || ground.capt(&["render", "manifests", "-o", "out"]).run();
    render().assert_refused(&["manifests contains no .yaml, .yml or .json file", "pass a file"]);
    ground.write("manifests/demo.yml", QUICKSTART);
    render().assert_success();
}

#[test]
fn a_bad_file_of_a_directory_is_named_by_its_path() {
    let ground = CliHarness::new();
    ground.write("manifests/a.yaml", QUICKSTART);
    ground.write("manifests/b.json", "{");
    ground.capt(&["render", "manifests", "-o", "out"]).run().assert_refused(&["manifests/b.json: line 1"]);
    assert!(!ground.has("out"));
}

#[test]
fn two_documents_of_the_same_name_are_both_named() {
    let (_, network) = QUICKSTART.split_once("---\n").unwrap();
    let (network, _) = network.split_once("---\n").unwrap();
    let line = QUICKSTART.lines().count() + 2;
    assert_refused_until_corrected(
        format!("{QUICKSTART}---\n{network}"),
        &[
            &format!("demo.yaml: line {line}: CAPTCluster default/demo is defined twice"),
            "first at demo.yaml: line 17",
            "rename or remove one of them",
        ],
    );
}

#[test]
fn a_second_document_of_the_same_name_in_another_file_is_found_too() {
    let ground = CliHarness::new();
    ground.write("a.yaml", QUICKSTART);
    ground.write("b.yaml", QUICKSTART);
    let said = ground.capt(&["render", "a.yaml", "b.yaml", "-o", "out"]).run();
    let problems = said.problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(
        problems.iter().all(|it| it.starts_with("b.yaml: line ") && it.contains("first at a.yaml: line "))
    );
}

#[test]
fn a_file_without_anything_to_make_says_what_to_add() {
    assert_refused_until_corrected(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}",
        &["demo.yaml contains no object to apply", "add a CAPTCluster"],
    );
}

#[test]
fn a_misspelt_kind_says_how_it_is_written() {
    assert_refused_until_corrected(
        quickstart_with("kind: CAPTCluster\nmetadata", "kind: CaptCluster\nmetadata"),
        &["has no kind CaptCluster", "kind CAPTCluster"],
    );
}

#[test]
fn a_document_without_a_kind_or_a_name_is_refused() {
    assert_refused_until_corrected(
        quickstart_with("kind: Cluster\n", ""),
        &["demo.yaml: line 2", "has no kind", "add it"],
    );
    assert_refused_until_corrected(
        "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTCluster, metadata: {}, spec: {region: eu-central-1}}",
        &["has no metadata.name", "add it"],
    );
}
