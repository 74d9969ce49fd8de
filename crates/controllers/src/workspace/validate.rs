//! Validates a workspace object and its template. Pure: no I/O.

use capt_kinds::api::{
    DeletionPolicy, ManagementPolicy, WorkspaceTemplate, WorkspaceTemplateApply, conditions::reasons,
};
use capt_model::{
    model::{
        ObjectKey, Problem, template,
        workspace_apply::{self, ValidatedApply},
    },
    workspaces::WorkspaceSource,
};
use kube::ResourceExt;

use super::{
    input_error::InputError,
    observation::{AllowedOperations, ConditionReason},
};

/// The key and the validated spec of an object.
pub fn validate(object: &WorkspaceTemplateApply) -> Result<(ObjectKey, ValidatedApply), InputError> {
    let key = object_key(object)?;
    let valid = workspace_apply::validate(&object.spec, &key.namespace).map_err(|it| invalid_spec(&it))?;
    Ok((key, valid))
}

/// Checks a template that an object references, before its placeholders are filled.
pub fn validate_template(key: &ObjectKey, found: &WorkspaceTemplate) -> Result<(), InputError> {
    template::validate(&found.spec).map(drop).map_err(|problems| invalid_template(key, &problems))
}

fn object_key(object: &WorkspaceTemplateApply) -> Result<ObjectKey, InputError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    ObjectKey::parse(&namespace, &name)
        .map_err(|error| InputError::Invalid(ConditionReason::new(reasons::INVALID_SPEC, error.to_string())))
}

/// The error of an invalid spec.
pub fn invalid_spec(problems: &[Problem]) -> InputError {
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    InputError::Invalid(ConditionReason::new(reasons::INVALID_SPEC, all.join("; ")))
}

/// The error of an invalid template.
pub fn invalid_template(key: &ObjectKey, problems: &[impl ToString]) -> InputError {
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let message = format!("WorkspaceTemplate {key}: {}", all.join("; "));
    InputError::Invalid(ConditionReason::new(reasons::TEMPLATE_INVALID, message))
}

/// Operations that the template's management policies allow.
pub fn allowed_operations(body: &WorkspaceSource) -> AllowedOperations {
    let WorkspaceSource::Template { template, .. } = body else {
        return AllowedOperations { apply: true, destroy: true };
    };
    let has = |wanted: ManagementPolicy| {
        template.management_policies.iter().any(|it| *it == wanted || *it == ManagementPolicy::All)
    };
    AllowedOperations {
        apply: has(ManagementPolicy::Create) && has(ManagementPolicy::Update),
        destroy: has(ManagementPolicy::Delete),
    }
}

/// Whether the template retains its resources when the object is deleted.
pub fn template_retains_resources(found: &WorkspaceTemplate) -> bool {
    template::validate(&found.spec).is_ok_and(|meaning| {
        meaning.deletion_policy == DeletionPolicy::Orphan
            || !meaning
                .management_policies
                .iter()
                .any(|it| matches!(it, ManagementPolicy::All | ManagementPolicy::Delete))
    })
}
