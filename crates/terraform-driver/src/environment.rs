//! Builds the environment of a terraform process from scratch.
//!
//! The caller passes its own environment as a map (this crate never reads the process environment), of which only the variables
//! in [`PASSED_VARIABLES`] are passed on. Variables that change terraform's behaviour are never passed on: in a template they are
//! rejected, in the caller's environment they are dropped and listed in [`Environment::ignored`].

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// Variables that are passed on from the caller's environment. `HOME` and `TMPDIR` are set per run.
pub const PASSED_VARIABLES: &[&str] = &[
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "USER",
    "LOGNAME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSH_AUTH_SOCK",
];

/// Default of `PATH`; terraform needs it for `git` and credential helpers.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Value of `GOGC`. Terraform and its providers are short-lived and load a schema of megabytes: less frequent garbage
/// collection saves a third of their CPU time (measured with the AWS provider: 8 s instead of 12 s) for a few hundred MB.
const GOGC_PERCENT: &str = "400";

/// Disables the instance metadata service: a run without its configured credentials must not find those of the machine.
const METADATA_SWITCH: &str = "AWS_EC2_METADATA_DISABLED";

/// Variables of the caller, each of which is a source of credentials that needs no instance metadata.
const OWN_CREDENTIALS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// AWS credentials of a run.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum TerraformCredentials {
    /// No credentials. The instance metadata service is disabled, here as below.
    #[default]
    None,
    /// The caller's `AWS_*` variables, without `AWS_CA_BUNDLE` (which the provider applies to every endpoint, including the
    /// local one) and endpoint overrides.
    Inherited,
    /// Static keys. The instance metadata service is disabled, so that no other credentials are used.
    Static {
        /// Access key id.
        access_key_id: String,
        /// Secret access key.
        secret_access_key: String,
        /// Session token of temporary credentials.
        session_token: Option<String>,
    },
    /// A web identity token, exchanged for credentials of a role. No other AWS variable is set, so the provider does not fall back
    /// to other credentials.
    WebIdentity {
        /// Role that trusts the token issuer.
        role_arn: String,
        /// File with the token; replaced on rotation.
        token_file: PathBuf,
        /// Session name.
        session_name: String,
    },
}

impl fmt::Debug for TerraformCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Inherited => f.write_str("Inherited"),
            Self::Static { .. } => f.write_str("Static(..)"),
            Self::WebIdentity { role_arn, .. } => write!(f, "WebIdentity({role_arn})"),
        }
    }
}

/// Inputs of the environment besides the caller's variables.
#[derive(Clone)]
pub struct EnvironmentInputs<'a> {
    /// Generated CLI configuration file.
    pub cli_config: &'a Path,
    /// `HOME`: a private directory, or the user's if the credential chain needs its files.
    pub home: &'a Path,
    /// `TMPDIR`.
    pub tmp: &'a Path,
    /// AWS credentials.
    pub credentials: TerraformCredentials,
    /// The template's `env`.
    pub template: &'a [(String, String)],
}

/// Prints only the names of the template's variables: their values may be secrets.
impl fmt::Debug for EnvironmentInputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cli_config, home, tmp, credentials, template } = self;
        f.debug_struct("EnvironmentInputs")
            .field("cli_config", cli_config)
            .field("home", home)
            .field("tmp", tmp)
            .field("credentials", credentials)
            .field("template", &template.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

/// A variable of the template is not allowed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvironmentError {
    /// It is reserved for the driver or changes terraform's behaviour.
    #[error("env: `{name}` cannot be set: {reason}")]
    Refused {
        /// The variable.
        name: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Invalid variable name.
    #[error("env: `{name}` is not the name of an environment variable")]
    BadName {
        /// The name.
        name: String,
    },
    /// Invalid value.
    #[error("env: the value of `{name}` contains a NUL character")]
    BadValue {
        /// The variable.
        name: String,
    },
}

/// Complete environment of a terraform process.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    ignored: Vec<String>,
    provider_home: Option<PathBuf>,
    wrapper: Vec<String>,
    provider_rules: Option<String>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("ignored", &self.ignored)
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// Builds the environment from the caller's variables and the inputs.
    pub fn build(
        outer: &BTreeMap<String, String>,
        inputs: &EnvironmentInputs<'_>,
    ) -> Result<Self, EnvironmentError> {
        let EnvironmentInputs { cli_config, home, tmp, credentials, template } = inputs;
        let mut variables: BTreeMap<String, String> = outer
            .iter()
            .filter(|(name, _)| PASSED_VARIABLES.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut set = |name: &str, value: &str| variables.insert(name.to_owned(), value.to_owned());
        if !outer.contains_key("PATH") {
            set("PATH", DEFAULT_PATH);
        }
        credential_variables(credentials, outer, &mut set);
        for (name, value) in *template {
            validate_variable(name, value)?;
            set(name, value);
        }
        set("HOME", &home.to_string_lossy());
        set("TMPDIR", &tmp.to_string_lossy());
        set("TF_CLI_CONFIG_FILE", &cli_config.to_string_lossy());
        set("TF_IN_AUTOMATION", "1");
        set("TF_INPUT", "0");
        set("CHECKPOINT_DISABLE", "1");
        set("GOGC", outer.get("GOGC").map_or(GOGC_PERCENT, String::as_str));
        let ignored = outer.keys().filter(|name| refusal_reason(name).is_some()).cloned().collect();
        Ok(Self { variables, ignored, provider_home: None, wrapper: Vec::new(), provider_rules: None })
    }

    /// Directs every AWS client to one endpoint that neither the provider block nor the template configures, for example that of a
    /// nested module.
    #[must_use]
    pub fn with_aws_endpoint(mut self, url: &str) -> Self {
        self.variables.entry("AWS_ENDPOINT_URL".to_owned()).or_insert_with(|| url.to_owned());
        self
    }

    /// Sets `HOME` of the providers that are shared by workspaces.
    #[must_use]
    pub fn with_provider_home(self, home: &Path) -> Self {
        Self { provider_home: Some(home.to_owned()), ..self }
    }

    /// `HOME` of the providers that are shared by workspaces, if it is not that of the commands.
    pub fn provider_home(&self) -> Option<&Path> {
        self.provider_home.as_deref()
    }

    /// Runs each command through a program that confines it: a command line before that of the engine. `provider_rules` confine the
    /// providers that other processes start for it.
    #[must_use]
    pub fn with_confinement(self, wrapper: Vec<String>, provider_rules: String) -> Self {
        Self { wrapper, provider_rules: Some(provider_rules), ..self }
    }

    /// The command line before that of the engine; empty if it is not confined.
    pub fn wrapper(&self) -> &[String] {
        &self.wrapper
    }

    /// Rules for providers that other processes start.
    pub fn provider_rules(&self) -> Option<&str> {
        self.provider_rules.as_deref()
    }

    /// Values by name.
    pub const fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// Variables of the caller that were dropped because they change terraform's behaviour; worth a warning.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }
}

fn credential_variables<R>(
    credentials: &TerraformCredentials,
    outer: &BTreeMap<String, String>,
    set: &mut impl FnMut(&str, &str) -> R,
) {
    match credentials {
        TerraformCredentials::None => {
            set(METADATA_SWITCH, "true");
        }
        TerraformCredentials::Inherited => {
            // Without other credentials, or with those of a profile, the caller's identity may be that of the instance.
            let complete = OWN_CREDENTIALS.iter().any(|name| outer.contains_key(*name));
            if complete && !outer.contains_key("AWS_PROFILE") {
                set(METADATA_SWITCH, "true");
            }
            let passes = |name: &str| {
                name.starts_with("AWS_") && name != "AWS_CA_BUNDLE" && !name.starts_with("AWS_ENDPOINT_URL")
            };
            for (name, value) in outer.iter().filter(|(name, _)| passes(name)) {
                set(name, value);
            }
        }
        TerraformCredentials::Static { access_key_id, secret_access_key, session_token } => {
            set("AWS_ACCESS_KEY_ID", access_key_id);
            set("AWS_SECRET_ACCESS_KEY", secret_access_key);
            set(METADATA_SWITCH, "true");
            if let Some(token) = session_token {
                set("AWS_SESSION_TOKEN", token);
            }
        }
        TerraformCredentials::WebIdentity { role_arn, token_file, session_name } => {
            set(METADATA_SWITCH, "true");
            set("AWS_ROLE_ARN", role_arn);
            set("AWS_WEB_IDENTITY_TOKEN_FILE", &token_file.to_string_lossy());
            set("AWS_ROLE_SESSION_NAME", session_name);
        }
    }
}

/// Validates an environment variable of a template.
pub fn validate_variable(name: &str, value: &str) -> Result<(), EnvironmentError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(EnvironmentError::BadName { name: name.replace('\0', "\\0") });
    }
    if value.contains('\0') {
        return Err(EnvironmentError::BadValue { name: name.to_owned() });
    }
    match refusal_reason(name) {
        Some(reason) => Err(EnvironmentError::Refused { name: name.to_owned(), reason }),
        None => Ok(()),
    }
}

/// Why a variable is rejected; `None` if it is allowed.
fn refusal_reason(name: &str) -> Option<&'static str> {
    let reason = match name {
        "TF_WORKSPACE" => "every object has its own directory and state; terraform workspaces are not used",
        "TF_DATA_DIR" => "the driver chooses the directory",
        "TF_CLI_CONFIG_FILE" | "TERRAFORM_CONFIG" => "the driver writes the CLI configuration",
        "TF_PLUGIN_CACHE_DIR" | "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE" => {
            "the plugin cache is not safe for parallel runs; use a provider mirror"
        }
        "TF_REATTACH_PROVIDERS" => "the driver starts the providers",
        "TF_INPUT" | "TF_IN_AUTOMATION" | "CHECKPOINT_DISABLE" | "HOME" | "TMPDIR" => "the driver sets it",
        "TF_STATE_PERSIST_INTERVAL" => "finished work must be written at once",
        "TF_ENCRYPTION" => "the driver must be able to read the state",
        "AWS_CA_BUNDLE" => "use SSL_CERT_FILE in the environment of capt",
        "LD_PRELOAD" | "LD_LIBRARY_PATH" | "LD_AUDIT" => "it would run foreign code inside terraform",
        _ if name.starts_with("TF_CLI_ARGS") => "use initArgs, planArgs, applyArgs or destroyArgs",
        _ if name.starts_with("TF_VAR_") => "use vars, varFiles or varmap",
        _ if name.starts_with("TF_LOG") => "terraform's log would mix with the event stream",
        _ => return None,
    };
    Some(reason)
}

#[cfg(test)]
mod tests;
