//! The repository's table of accepted and rejected objects, validated with the server's own code.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde_json::{Value, json};

use super::{crds, created};
use crate::{
    crd::resources::served_resources,
    registry::{ObjectPart, ResourceStrategy},
    schema::{CompiledSchema, Schema},
};

struct Kind {
    api_version: String,
    rules: Arc<dyn ResourceStrategy>,
    schema: CompiledSchema,
}

fn kinds() -> BTreeMap<String, Kind> {
    let one = |(_, crd): (String, Value)| {
        let resource = served_resources(&created(crd), 1).remove(0);
        let schema = CompiledSchema::new_unchecked(Schema::parse(resource.strategy.schema().unwrap()));
        let kind =
            Kind { api_version: resource.api_version(), rules: Arc::clone(&resource.strategy), schema };
        (resource.kind, kind)
    };
    crds("../../crds").into_iter().map(one).collect()
}

impl Kind {
    /// As with strict field validation: unknown fields are rejected too.
    fn judge(&self, kind: &str, spec: Option<&Value>, old: Option<&Value>) -> Vec<String> {
        let object = |spec: Option<&Value>| {
            let mut object =
                json!({"apiVersion": self.api_version, "kind": kind, "metadata": {"name": "harbour"}});
            if let Some(spec) = spec {
                object["spec"] = spec.clone();
            }
            object
        };
        let mut new = object(spec);
        let mut wrong = self.schema.unknown_fields(&new);
        self.rules.set_defaults(&mut new);
        let errors = match old {
            None => self.rules.validate(&new),
            Some(old) => {
                let mut old = object(Some(old));
                self.rules.set_defaults(&mut old);
                self.rules.validate_update(ObjectPart::Object, &new, &old)
            }
        };
        wrong.extend(errors.iter().map(ToString::to_string));
        wrong
    }
}

#[test]
fn the_table_of_verdicts_holds() {
    let kinds = kinds();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/api_verdicts");
    let (mut count, mut differing) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "yaml") {
            continue;
        }
        let cases: Vec<Value> = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for case in cases {
            let name = case["kind"].as_str().unwrap_or("CAPTControlPlane");
            let config = case.get("config").cloned().unwrap_or_else(|| json!({}));
            let profiles = case.get("profiles").map(|profiles| {
                json!({"version": "1.33", "controlPlaneConfig": config, "additionalFargateProfiles": profiles})
            });
            let found =
                kinds[name].judge(name, profiles.as_ref().or_else(|| case.get("spec")), case.get("old"));
            let expected = case["verdict"].get("admission").unwrap_or_else(|| &case["verdict"]);
            if (expected == "accept") != found.is_empty() {
                differing.push(format!("{name}: {}: {expected} but {found:?}", case["name"]));
            }
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
    assert_eq!(differing, Vec::<String>::new());
}
