//! Files as people write them, right and wrong.

use super::*;
use crate::model::Limits;

mod verdicts;

const NETWORK: &str = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata: {name: harbour}
spec: {region: eu-central-1}
";

const CONTROL_PLANE: &str = "
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {name: harbour}
spec:
  version: v1.33.0
  additionalFargateProfiles:
  - name: apps
    selectors: [{namespace: 'team-*', labels: {tier: web}}]
";

fn source(name: &str, text: &str) -> ManifestSource {
    ManifestSource { name: name.to_owned(), text: text.to_owned() }
}

fn lines(text: &str) -> Vec<String> {
    match load(&[source("x.yaml", text)]) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn verdict(text: &str) -> Result<ValidatedManifests, Vec<String>> {
    let manifests = load(&[source("x.yaml", text)])
        .map_err(|it| it.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    validate(&manifests, &Limits::default()).map_err(|it| it.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn one_line(text: &str, expected: &str) {
    assert_eq!(lines(text), [expected.to_owned()]);
}

#[test]
fn an_empty_file_is_an_error() {
    for text in ["", "   \n", "# only a comment\n", "---\n---\n"] {
        one_line(text, "x.yaml: the file is empty; add at least one object");
    }
}

#[test]
fn text_that_is_not_yaml_is_an_error_with_its_line() {
    let errors = lines("apiVersion: v1\nkind: [unclosed\n");
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("x.yaml: line ") && errors[0].contains("invalid YAML"), "{errors:?}");
    assert!(!errors[0].contains('\n'), "{errors:?}");
    assert!(lines("\u{1}\u{2}binary")[0].contains("invalid YAML"));
    assert!(lines("a: 1\na: 2\n")[0].contains("invalid YAML"), "a key that is there twice");
}

#[test]
fn json_is_read_also_with_tabs() {
    let json = "{\n\t\"apiVersion\": \"infrastructure.cluster.x-k8s.io/v1beta1\",\n\t\"kind\": \"CAPTCluster\",\n\t\
                \"metadata\": {\"name\": \"harbour\"},\n\t\"spec\": {\"region\": \"eu-central-1\"}\n}\n";
    assert_eq!(verdict(json).unwrap().clusters.len(), 1);
}

#[test]
fn the_items_of_a_list_are_documents() {
    let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTCluster, metadata: {name: a}, spec: {region: eu-west-1}}
- {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTCluster, metadata: {name: b}, spec: {region: eu-west-1}}
";
    assert_eq!(verdict(text).unwrap().clusters.len(), 2);
}

#[test]
fn a_document_that_is_no_object_or_does_not_say_its_type_is_named_by_its_line() {
    one_line(
        "just text",
        "x.yaml: line 1: document 1 is not a Kubernetes object; give it apiVersion, kind and metadata",
    );
    one_line(
        &format!("{NETWORK}---\nkind: CAPTCluster\n"),
        "x.yaml: line 7: document 2 has no apiVersion; add it",
    );
    one_line("apiVersion: v1\n", "x.yaml: line 1: document 1 has no kind; add it");
    one_line(
        "{apiVersion: v1, kind: Secret, metadata: {}}",
        "x.yaml: line 1: document 1 has no metadata.name; add it",
    );
}

#[test]
fn an_unknown_field_is_named_with_those_that_are_known() {
    let errors = lines(
        &NETWORK.replace("region: eu-central-1", "region: eu-central-1, vpcConfig: {cdir: 10.0.0.0/16}"),
    );
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0]
            .starts_with("x.yaml: line 2: CAPTCluster default/harbour: spec.vpcConfig.cdir: unknown field; "),
        "{errors:?}"
    );
    assert!(errors[0].contains("cidr") && errors[0].contains("natGateways"), "{errors:?}");
    let errors = lines(&CONTROL_PLANE.replace("- name: apps", "- name: apps\n    slectors: []"));
    assert!(errors[0].contains("spec.additionalFargateProfiles[0].slectors: unknown field"), "{errors:?}");
    let errors = lines(&NETWORK.replace("{name: harbour}", "{name: harbour, labls: {}}"));
    assert!(errors[0].contains("metadata.labls: unknown field"), "{errors:?}");
}

#[test]
fn every_unknown_field_is_listed() {
    let errors = lines(&NETWORK.replace("region: eu-central-1", "region: eu-central-1, regoin: x, vpcId: y"));
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn a_missing_field_is_named_by_its_full_path() {
    one_line(
        &CONTROL_PLANE.replace("    selectors: [{namespace: 'team-*', labels: {tier: web}}]\n", ""),
        "x.yaml: line 2: CAPTControlPlane default/harbour: spec.additionalFargateProfiles[0].selectors: is missing; add it",
    );
    one_line(
        &NETWORK.replace("region: eu-central-1", "retainVpcOnDelete: true"),
        "x.yaml: line 2: CAPTCluster default/harbour: spec.region: is missing; add it",
    );
}

#[test]
fn a_wrong_type_is_named_by_its_full_path() {
    one_line(
        &CONTROL_PLANE.replace("version: v1.33.0", "version: 1.30"),
        "x.yaml: line 2: CAPTControlPlane default/harbour: spec.version: invalid type: floating point `1.3`, \
         expected a string; put the value in quotes",
    );
    let errors =
        lines(&NETWORK.replace("region: eu-central-1", "region: eu-central-1, vpcConfig: {tags: [a]}"));
    assert!(errors[0].contains("spec.vpcConfig.tags: invalid type: sequence"), "{errors:?}");
    let errors = lines(
        &NETWORK.replace("region: eu-central-1", "region: eu-central-1, vpcConfig: {natGateways: Two}"),
    );
    assert!(
        errors[0].contains("spec.vpcConfig.natGateways: unknown variant `Two`, expected one of"),
        "{errors:?}"
    );
}

#[test]
fn two_documents_of_one_name_are_an_error_that_names_both_places() {
    let sources = [source("a.yaml", NETWORK), source("b.yaml", &format!("\n\n{NETWORK}"))];
    let errors: Vec<_> = load(&sources).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "b.yaml: line 4: CAPTCluster default/harbour is defined twice, first at a.yaml: line 2; rename or remove one of them"
        ]
    );
    let elsewhere = NETWORK.replace("{name: harbour}", "{name: harbour, namespace: other}");
    assert!(load(&[source("a.yaml", NETWORK), source("b.yaml", &elsewhere)]).is_ok());
}

#[test]
fn a_kind_of_ours_that_is_misspelt_is_an_error_and_a_foreign_one_is_left_out() {
    let errors = lines(&NETWORK.replace("CAPTCluster", "CaptCluster"));
    assert_eq!(
        errors,
        ["x.yaml: line 2: infrastructure.cluster.x-k8s.io/v1beta1 has no kind CaptCluster; \
          use apiVersion infrastructure.cluster.x-k8s.io/v1beta1 and kind CAPTCluster"]
    );
    assert!(
        lines(&NETWORK.replace("CAPTCluster", "CAPTNetwork"))[0]
            .contains("supported kinds are CAPTCluster, ")
    );
    assert!(lines(&NETWORK.replace("CAPTCluster", "CaptMachine"))[0].contains("instead of machines"));
    assert!(lines(&NETWORK.replace("v1beta1", "v1alpha1"))[0].contains("use apiVersion"));

    let foreign = "apiVersion: addons.cluster.x-k8s.io/v1alpha1\nkind: HelmChartProxy\nmetadata: {name: cert-manager}\n";
    let manifests = load(&[source("x.yaml", &format!("{foreign}---{NETWORK}"))]).unwrap();
    let warnings: Vec<_> = manifests.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "x.yaml: line 1: HelmChartProxy default/cert-manager is not of a kind that capt supports and is ignored"
        ]
    );
}

#[test]
fn a_null_is_as_good_as_nothing_but_for_the_users_own_json() {
    let text =
        NETWORK.replace("region: eu-central-1", "region: eu-central-1, vpcConfig: {tags: null, cidr: ~}");
    assert_eq!(verdict(&text).unwrap().clusters.len(), 1);
    let apply = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: net}
spec: {module: vpc, region: eu-west-1, inputs: {name: net, existing_vpc_id: null}}
";
    let manifests = load(&[source("x.yaml", apply)]).unwrap();
    let (_, loaded) = manifests.applies.first_key_value().unwrap();
    assert!(loaded.object.spec.inputs.as_ref().unwrap()["existing_vpc_id"].is_null());
}

#[test]
fn an_object_without_a_spec_is_read_and_the_missing_field_is_named() {
    for spec in ["", "spec:\n", "spec: {}\n"] {
        let text = NETWORK.replace("spec: {region: eu-central-1}\n", spec);
        let errors = verdict(&text).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("spec.region: "), "{errors:?}");
    }
}

#[test]
fn secrets_are_decoded_and_never_shown() {
    let text = "
apiVersion: v1
kind: Secret
metadata: {name: creds}
data: {token: aHVudGVyMg==}
stringData: {plain: swordfish}
";
    let manifests = load(&[source("x.yaml", text)]).unwrap();
    let secret = &manifests.secrets.first_key_value().unwrap().1.object;
    assert_eq!(secret.value("token").unwrap().reveal(), b"hunter2");
    assert_eq!(secret.value("plain").unwrap().reveal(), b"swordfish");
    let shown = format!("{manifests:?}");
    assert!(
        shown.contains("<redacted>") && !shown.contains("hunter2") && !shown.contains("swordfish"),
        "{shown}"
    );
}

#[test]
fn an_error_about_a_secret_does_not_repeat_its_value() {
    for (data, message) in [
        ("data: {token: 'hunter2!'}", "data.token: is not base64"),
        ("stringData: {token: 4711}", "stringData.token: is not a string"),
        ("data: hunter2", "data: has the wrong type"),
    ] {
        let errors = lines(&format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: creds}}\n{data}\n"));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].contains(message), "{errors:?}");
        assert!(!errors[0].contains("hunter2") && !errors[0].contains("4711"), "{errors:?}");
    }
}

#[test]
fn quotes_newlines_and_placeholders_in_values_survive() {
    let text = NETWORK.replace(
        "region: eu-central-1",
        r#"region: eu-central-1, vpcConfig: {tags: {owner: "a \"b\"\n${c} %{d}"}}"#,
    );
    let valid = verdict(&text).unwrap();
    assert_eq!(valid.clusters[0].network.as_ref().unwrap().valid.tags["owner"], "a \"b\"\n${c} %{d}");
}

#[test]
fn deep_nesting_and_bombs_of_aliases_are_errors() {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(lines(&deep).len(), 1);
    let levels = (1..12).map(|level| {
        let alias = format!("*a{}", level - 1);
        format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 9].join(", "))
    });
    let bomb = format!("a0: &a0 [x, x, x, x, x, x, x, x, x]\n{}", levels.collect::<String>());
    assert_eq!(lines(&bomb).len(), 1);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_text_makes_the_loader_panic(text in "\\PC{0,200}", at in 0_usize..300, cut in 0_usize..20) {
        let _ = verdict(&text);
        let whole = format!("{NETWORK}---{CONTROL_PLANE}");
        let at = whole.len().min(at);
        let end = whole.len().min(at + cut);
        let _ = verdict(&format!("{}{text}{}", &whole[..at], &whole[end..]));
    }
}
