//! Validation by the code that the command line and the controllers use.

use capt_kinds::api;
use capt_model::{
    manifest::{ManifestError, ManifestSource, Manifests, load},
    model::{
        Limits, Parse as _, Problem, cluster_class, control_plane, identity, immutability, network,
        newtypes::Namespace, template, workspace_apply,
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Paths and messages of everything that is wrong.
pub(super) type Problems = Vec<(String, String)>;

pub(super) fn validate(kind: &str, object: &Value, old: Option<&Value>) -> Result<(), Problems> {
    let source = ManifestSource { name: "case".to_owned(), text: object.to_string() };
    let manifests =
        load(&[source]).map_err(|errors| errors.iter().map(problem_from_error).collect::<Problems>())?;
    let mut problems = validate_object(kind, &manifests);
    if let Some(old) = old {
        problems.extend(validate_update(kind, object, old));
    }
    let problems: Problems = problems.into_iter().map(|it| (it.path.clone(), it.to_string())).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn problem_from_error(error: &ManifestError) -> (String, String) {
    let ManifestError::Field { path, .. } = error else { panic!("{error}") };
    (path.clone(), error.to_string())
}

fn validate_object(kind: &str, manifests: &Manifests) -> Vec<Problem> {
    fn only<K, V>(objects: &std::collections::BTreeMap<K, V>) -> &V {
        objects.values().next().unwrap()
    }
    fn problems<T>(result: Result<T, Vec<Problem>>) -> Vec<Problem> {
        result.err().unwrap_or_default()
    }
    let (home, limits) = (Namespace::parse("default").unwrap(), Limits::default());
    match kind {
        "CAPTCluster" => problems(network::validate(&only(&manifests.capt_clusters).object.spec, &home)),
        "CAPTControlPlane" => {
            problems(control_plane::validate(&only(&manifests.control_planes).object.spec, &home, &limits))
        }
        "CAPTClusterTemplate" => problems(cluster_class::validate_cluster_template(
            &only(&manifests.cluster_templates).object.spec,
            &home,
        )),
        "CAPTControlPlaneTemplate" => {
            let spec = &only(&manifests.control_plane_templates).object.spec;
            problems(cluster_class::validate_control_plane_template(spec, &home, &limits))
        }
        "CAPTIdentity" => problems(identity::validate(&only(&manifests.identities).object.spec)),
        "WorkspaceTemplate" => problems(template::validate(&only(&manifests.templates).object.spec)),
        "WorkspaceTemplateApply" => {
            problems(workspace_apply::validate(&only(&manifests.applies).object.spec, &home))
        }
        other => panic!("no such kind: {other}"),
    }
}

fn validate_update(kind: &str, new: &Value, old: &Value) -> Vec<Problem> {
    fn spec<T: DeserializeOwned>(object: &Value) -> T {
        serde_json::from_value(object["spec"].clone()).unwrap()
    }
    match kind {
        "CAPTCluster" => immutability::check_cluster_update(&spec(old), &spec(new)),
        "CAPTControlPlane" => {
            immutability::check_control_plane_update(&spec::<api::CaptControlPlaneSpec>(old), &spec(new))
        }
        "WorkspaceTemplateApply" => immutability::check_apply_update(&spec(old), &spec(new)),
        other => panic!("no updates of {other} in the table"),
    }
}
