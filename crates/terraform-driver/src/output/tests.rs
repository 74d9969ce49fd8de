use serde_json::json;

use super::*;

const CANARY: &str = "canary-7f3a";

fn state() -> Vec<u8> {
    json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l-1",
        "outputs": {
            "vpc_id": {"value": "vpc-1", "type": "string"},
            "private_subnets": {"value": ["a", "b"], "type": ["list", "string"]},
            "ready": {"value": true, "type": "bool"},
            "count": {"value": 3, "type": "number"},
            "nothing": {"value": null, "type": "dynamic"},
            "kubeconfig": {"value": CANARY, "type": "string", "sensitive": true},
            "vpc_config": {"value": {"k": CANARY}, "type": ["object", {"k": "string"}], "sensitive": true},
        },
        "resources": [{"mode": "managed", "type": "aws_vpc"}], "check_results": null
    })
    .to_string()
    .into_bytes()
}

#[test]
fn connection_strings_are_raw_for_strings_and_json_for_the_rest() {
    let strings = Outputs::from_state(&state()).unwrap().connection_strings();
    let get = |name: &str| strings[name].expose().as_str();
    assert_eq!(get("vpc_id"), "vpc-1");
    assert_eq!(get("private_subnets"), r#"["a","b"]"#);
    assert_eq!(get("ready"), "true");
    assert_eq!(get("count"), "3");
    assert_eq!(get("nothing"), "null");
    assert_eq!(get("kubeconfig"), CANARY);
    assert_eq!(get("vpc_config"), format!(r#"{{"k":"{CANARY}"}}"#));
}

#[test]
fn sensitive_outputs_are_neither_public_nor_printable() {
    let outputs = Outputs::from_state(&state()).unwrap();
    assert_eq!(
        outputs.non_sensitive().into_keys().collect::<Vec<_>>(),
        ["count", "nothing", "private_subnets", "ready", "vpc_id"]
    );
    assert!(outputs.get("kubeconfig").unwrap().is_sensitive());
    for printed in [
        format!("{outputs:?}"),
        format!("{:#?}", outputs.connection_strings()),
        Sensitive::new(CANARY).to_string(),
    ] {
        assert!(!printed.contains(CANARY), "{printed}");
        assert!(printed.contains(REDACTED));
    }
}

#[test]
fn an_empty_state_has_no_outputs() {
    let outputs = Outputs::from_state(br#"{"version":4,"serial":0,"lineage":""}"#).unwrap();
    assert!(outputs.is_empty());
    assert_eq!(outputs.len(), 0);
}

#[test]
fn what_is_not_a_readable_state_is_named() {
    assert!(matches!(Outputs::from_state(b"{\"version\":4,\"outp"), Err(OutputError::NotState(_))));
    assert!(matches!(Outputs::from_state(b""), Err(OutputError::NotState(_))));
    assert!(matches!(Outputs::from_state(br#"{"version":3}"#), Err(OutputError::Format { found: 3 })));
    assert!(matches!(
        Outputs::from_state(br#"{"serial":1,"lineage":"x","meta":{},"encrypted_data":"AAAA"}"#),
        Err(OutputError::Encrypted)
    ));
}
