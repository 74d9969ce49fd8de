//! The environment of a terraform process, built from nothing.
//!
//! Contract: the caller hands in its own environment as a map (this crate never reads the process's), and only what
//! [`ALLOWED`] names passes. Variables that steer terraform behind the driver's back never do: a template that sets
//! one is refused, one that stands in the caller's environment is left out and listed in [`Environment::ignored`].

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// What passes from the caller's environment as it is. `HOME` and `TMPDIR` are the run's own.
pub const ALLOWED: &[&str] = &[
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

/// The path of `PATH` when the caller has none; terraform starts `git` and credential helpers through it.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Terraform and its providers live for seconds and load a schema of megabytes: collecting garbage less often saves
/// a third of their CPU (measured with the AWS provider: 12 s became 8 s) for a few hundred megabytes more.
const GARBAGE: &str = "400";

/// Which AWS credentials the run gets.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// None at all.
    #[default]
    None,
    /// The caller's `AWS_*` variables, without `AWS_CA_BUNDLE` (which the provider reads for every endpoint, the
    /// local one included) and without endpoint redirections.
    Outer,
    /// These. The instance metadata service is switched off, so that nothing else can slip in.
    Static {
        /// The access key's id.
        access_key_id: String,
        /// The secret.
        secret_access_key: String,
        /// The token of temporary credentials.
        session_token: Option<String>,
    },
    /// A token in a file, exchanged for those of a role. Nothing else of AWS is set; where the exchange fails, the
    /// provider says so and looks no further.
    WebIdentity {
        /// The role that trusts the token.
        role_arn: String,
        /// The file that holds it. Whoever rotates it writes a new one in its place.
        token_file: PathBuf,
        /// The name of the session.
        session_name: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Outer => f.write_str("Outer"),
            Self::Static { .. } => f.write_str("Static(..)"),
            Self::WebIdentity { role_arn, .. } => write!(f, "WebIdentity({role_arn})"),
        }
    }
}

/// Everything beside the caller's environment that goes in.
#[derive(Clone)]
pub struct Inputs<'a> {
    /// Our own CLI configuration file.
    pub cli_config: &'a Path,
    /// `HOME`: the run's own directory, or the user's where the credential chain needs its files.
    pub home: &'a Path,
    /// `TMPDIR`.
    pub tmp: &'a Path,
    /// AWS credentials.
    pub credentials: Credentials,
    /// The template's `env`.
    pub template: &'a [(String, String)],
}

/// The template's values may be secrets, so only their names are printed.
impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cli_config, home, tmp, credentials, template } = self;
        f.debug_struct("Inputs")
            .field("cli_config", cli_config)
            .field("home", home)
            .field("tmp", tmp)
            .field("credentials", credentials)
            .field("template", &template.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

/// A variable that must not be set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvironmentError {
    /// It steers terraform behind the driver's back.
    #[error("env: `{name}` cannot be set: {reason}")]
    Refused {
        /// The variable.
        name: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Not a name that an environment can hold.
    #[error("env: `{name}` is not the name of an environment variable")]
    BadName {
        /// The name.
        name: String,
    },
    /// A value that an environment cannot hold.
    #[error("env: the value of `{name}` contains a NUL character")]
    BadValue {
        /// The variable.
        name: String,
    },
}

/// The whole environment of a terraform process.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    ignored: Vec<String>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("ignored", &self.ignored)
            .finish()
    }
}

impl Environment {
    /// Builds it from the caller's environment and our inputs.
    pub fn build(outer: &BTreeMap<String, String>, inputs: &Inputs<'_>) -> Result<Self, EnvironmentError> {
        let Inputs { cli_config, home, tmp, credentials, template } = inputs;
        let mut variables: BTreeMap<String, String> = outer
            .iter()
            .filter(|(name, _)| ALLOWED.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut set = |name: &str, value: &str| variables.insert(name.to_owned(), value.to_owned());
        if !outer.contains_key("PATH") {
            set("PATH", DEFAULT_PATH);
        }
        credential_variables(credentials, outer, &mut set);
        for (name, value) in *template {
            check(name, value)?;
            set(name, value);
        }
        set("HOME", &home.to_string_lossy());
        set("TMPDIR", &tmp.to_string_lossy());
        set("TF_CLI_CONFIG_FILE", &cli_config.to_string_lossy());
        set("TF_IN_AUTOMATION", "1");
        set("TF_INPUT", "0");
        set("CHECKPOINT_DISABLE", "1");
        set("GOGC", outer.get("GOGC").map_or(GARBAGE, String::as_str));
        let ignored = outer.keys().filter(|name| refusal(name).is_some()).cloned().collect();
        Ok(Self { variables, ignored })
    }

    /// Name → value.
    pub const fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// Variables of the caller that would steer terraform and have no effect here; worth a warning.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }
}

fn credential_variables<R>(
    credentials: &Credentials,
    outer: &BTreeMap<String, String>,
    set: &mut impl FnMut(&str, &str) -> R,
) {
    match credentials {
        Credentials::None => {}
        Credentials::Outer => {
            let passes = |name: &str| {
                name.starts_with("AWS_") && name != "AWS_CA_BUNDLE" && !name.starts_with("AWS_ENDPOINT_URL")
            };
            for (name, value) in outer.iter().filter(|(name, _)| passes(name)) {
                set(name, value);
            }
        }
        Credentials::Static { access_key_id, secret_access_key, session_token } => {
            set("AWS_ACCESS_KEY_ID", access_key_id);
            set("AWS_SECRET_ACCESS_KEY", secret_access_key);
            set("AWS_EC2_METADATA_DISABLED", "true");
            if let Some(token) = session_token {
                set("AWS_SESSION_TOKEN", token);
            }
        }
        Credentials::WebIdentity { role_arn, token_file, session_name } => {
            set("AWS_ROLE_ARN", role_arn);
            set("AWS_WEB_IDENTITY_TOKEN_FILE", &token_file.to_string_lossy());
            set("AWS_ROLE_SESSION_NAME", session_name);
        }
    }
}

/// Whether a template may set a variable of terraform's environment.
pub fn check(name: &str, value: &str) -> Result<(), EnvironmentError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(EnvironmentError::BadName { name: name.replace('\0', "\\0") });
    }
    if value.contains('\0') {
        return Err(EnvironmentError::BadValue { name: name.to_owned() });
    }
    match refusal(name) {
        Some(reason) => Err(EnvironmentError::Refused { name: name.to_owned(), reason }),
        None => Ok(()),
    }
}

/// Why a variable is not let through; `None` for one that terraform's own behaviour does not depend on.
fn refusal(name: &str) -> Option<&'static str> {
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
