//! Validation of a `CAPTIdentity`: AWS credentials and the namespaces that may use them.

use capt_kinds::api::{self, IdentitySource};

use super::{
    newtypes::{FileName, Namespace, RoleArn},
    problem::{FieldPath, Problem, Problems},
    references::{self, ObjectKey},
    tags::{self, Tags},
};

/// A validated `CAPTIdentity`.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedIdentity {
    /// Source of the initial credentials.
    pub source: CredentialSource,
    /// Roles to assume, chained.
    pub roles: Vec<ValidatedRole>,
    /// Namespaces that may use the identity; none if `None`.
    pub allowed: Option<api::AllowedNamespaces>,
    /// HCL added to every workspace.
    pub configuration: Option<String>,
    /// HCL of a backend that replaces the default one.
    pub backend: Option<String>,
    /// Files written beside the configuration.
    pub files: Vec<ValidatedCredentialFile>,
}

/// Source of credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// The SDK's default credential chain.
    Default,
    /// A Secret.
    Secret(ObjectKey),
    /// A web identity token.
    WebIdentity {
        /// The role to assume with it.
        role: RoleArn,
        /// The token file.
        token_file: String,
    },
}

/// A role to assume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedRole {
    /// The role.
    pub role: RoleArn,
    /// The external id that the role's trust policy requires.
    pub external_id: Option<String>,
    /// Lifetime of the credentials in seconds.
    pub duration_seconds: i32,
    /// Session tags.
    pub tags: Tags,
}

/// A file written beside the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedCredentialFile {
    /// Its name.
    pub name: FileName,
    /// The Secret it comes from.
    pub secret: ObjectKey,
    /// The key in it.
    pub key: String,
}

/// Validates the spec of a `CAPTIdentity`.
pub fn validate(spec: &api::CaptIdentitySpec) -> Result<ValidatedIdentity, Vec<Problem>> {
    let mut problems = Problems::default();
    let valid = check_spec(&FieldPath::root("spec"), spec, &mut problems);
    problems.into_result(valid)
}

fn check_spec(
    path: &FieldPath<'_>,
    spec: &api::CaptIdentitySpec,
    problems: &mut Problems,
) -> Option<ValidatedIdentity> {
    let api::CaptIdentitySpec {
        source: _,
        secret_ref: _,
        web_identity: _,
        assume_roles,
        allowed_namespaces,
        configuration,
        backend_file,
        credential_files,
    } = spec;
    let source = check_source(path, spec, problems);
    let roles_path = path.field("assumeRoles");
    if assume_roles.len() > 5 {
        problems.add(&roles_path, "has more than 5 roles", "shorten the chain");
    }
    let roles = assume_roles.iter().enumerate();
    let roles = roles.filter_map(|(at, it)| check_role(&roles_path.index(at), it, problems)).collect();
    if let Some(allowed) = allowed_namespaces {
        let list_path = path.field("allowedNamespaces");
        let list_path = list_path.field("list");
        let _names: Vec<Namespace> = problems.parse_set(&list_path, &allowed.list);
        if allowed.list.len() > 1000 {
            problems.add(&list_path, "has more than 1000 namespaces", "use selector");
        }
    }
    let files = check_credential_files(&path.field("credentialFiles"), credential_files, problems);
    Some(ValidatedIdentity {
        source: source?,
        roles,
        allowed: allowed_namespaces.clone(),
        configuration: configuration.clone(),
        backend: backend_file.clone(),
        files,
    })
}

fn check_source(
    path: &FieldPath<'_>,
    spec: &api::CaptIdentitySpec,
    problems: &mut Problems,
) -> Option<CredentialSource> {
    let (secret_path, web_path) = (path.field("secretRef"), path.field("webIdentity"));
    if spec.secret_ref.is_some() != (spec.source == IdentitySource::Secret) {
        problems.add(
            &secret_path,
            "is required for source Secret, and only allowed there",
            "add or remove it, or change source",
        );
    }
    if spec.web_identity.is_some() != (spec.source == IdentitySource::WebIdentity) {
        problems.add(
            &web_path,
            "is required for source WebIdentity, and only allowed there",
            "add or remove it, or change source",
        );
    }
    let secret = spec
        .secret_ref
        .as_ref()
        .and_then(|reference| references::check_secret(&secret_path, reference, problems));
    let web = spec.web_identity.as_ref().and_then(|web| {
        let role = problems.parse(&web_path.field("roleArn"), &web.role_arn);
        if !(1..=4096).contains(&web.token_file.chars().count()) {
            problems.add(
                &web_path.field("tokenFile"),
                "must have 1 to 4096 characters",
                "use the path of a file",
            );
        }
        Some((role?, web.token_file.clone()))
    });
    match spec.source {
        IdentitySource::Default => Some(CredentialSource::Default),
        IdentitySource::Secret => secret.map(CredentialSource::Secret),
        IdentitySource::WebIdentity => {
            web.map(|(role, token_file)| CredentialSource::WebIdentity { role, token_file })
        }
    }
}

fn check_role(
    path: &FieldPath<'_>,
    role: &api::AssumeRole,
    problems: &mut Problems,
) -> Option<ValidatedRole> {
    let api::AssumeRole { role_arn, external_id, duration_seconds, session_tags } = role;
    let arn = problems.parse(&path.field("roleArn"), role_arn);
    if external_id.as_ref().is_some_and(|id| !(2..=1224).contains(&id.chars().count())) {
        problems.add(
            &path.field("externalId"),
            "must have 2 to 1224 characters",
            "use the external id of the role's trust policy",
        );
    }
    let seconds = duration_seconds.unwrap_or(3600);
    if !(900..=43200).contains(&seconds) {
        problems.add(&path.field("durationSeconds"), "must be from 900 to 43200", "use 3600 for an hour");
    }
    let tags = tags::check_tags(&path.field("sessionTags"), session_tags, problems);
    Some(ValidatedRole { role: arn?, external_id: external_id.clone(), duration_seconds: seconds, tags })
}

fn check_credential_files(
    path: &FieldPath<'_>,
    files: &[api::CredentialFile],
    problems: &mut Problems,
) -> Vec<ValidatedCredentialFile> {
    if files.len() > 20 {
        problems.add(path, "has more than 20 files", "remove some");
    }
    let mut valid = Vec::with_capacity(files.len());
    for (index, file) in files.iter().enumerate() {
        let path = path.index(index);
        let api::CredentialFile { filename, secret_ref, key } = file;
        if files[..index].iter().any(|earlier| earlier.filename == *filename) {
            problems.add(&path.field("filename"), "is listed twice", "rename one of them");
        }
        let name = problems.parse(&path.field("filename"), filename);
        let secret = references::check_secret(&path.field("secretRef"), secret_ref, problems);
        if !(1..=253).contains(&key.chars().count()) {
            problems.add(&path.field("key"), "must have 1 to 253 characters", "use a key of the Secret");
        }
        if let (Some(name), Some(secret)) = (name, secret) {
            valid.push(ValidatedCredentialFile { name, secret, key: key.clone() });
        }
    }
    valid
}
