//! The files and ports that the commands of a workspace, and the providers of the gateway, may use.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use isolation::{Confinement, process::to_argument};
use terraform_driver::{
    engine::Engine,
    environment::Environment,
    workspace::{WorkspaceDir, files::FileError},
};

use super::scratch_dirs::ScratchDirs;
use crate::{aws::Cloud, process_env::ProcessEnv};

/// Variables with the address of a server that a run needs.
const ENDPOINT_VARIABLES: &[&str] = &[
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_ENDPOINT_URL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];

/// Variables with files that a run reads. A token is replaced on rotation, so its directory is readable.
const FILE_VARIABLES: &[&str] =
    &["SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"];
const TOKEN_VARIABLES: &[&str] = &["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];

/// Files of a user's home directory that a command line may use: access to AWS, module sources and registries.
const USER_FILES: &[&str] = &[
    ".aws",
    ".config/gh",
    ".config/git",
    ".git-credentials",
    ".gitconfig",
    ".netrc",
    ".ssh",
    ".terraform.d",
];
const SSH_PORT: u16 = 22;

/// What the confinement depends on, besides the workspace.
pub(crate) struct ConfinementInputs<'a> {
    pub(crate) process_env: &'a ProcessEnv,
    pub(crate) data: &'a Path,
    pub(crate) cloud: &'a Cloud,
    pub(crate) engine: &'a Engine,
    /// The CLI configuration and its text, which names the provider mirrors.
    pub(crate) cli_config: (&'a Path, &'a str),
    /// The user's home directory, if the run uses the credentials in it.
    pub(crate) user_home: Option<&'a Path>,
    /// Whether the user's home directory is also `HOME`.
    pub(crate) is_user_trusted: bool,
    /// Variables that the template sets: they open no port and no file.
    pub(crate) template: &'a [(String, String)],
}

impl ConfinementInputs<'_> {
    /// Adds the confinement to the environment of a workspace's commands.
    pub(crate) fn confine(
        &self,
        environment: Environment,
        workspace: &WorkspaceDir,
        scratch: &ScratchDirs,
    ) -> Result<Environment, FileError> {
        let base = self.common(environment.variables());
        let json = |rules: &Confinement| {
            to_argument(rules)
                .map_err(|source| FileError::InvalidJson { path: workspace.dir().to_owned(), source })
        };
        let run = base.clone().write(workspace.dir()).write(&scratch.home).write(&scratch.tmp);
        let provider = environment
            .provider_home()
            .map_or_else(|| base.clone(), |home| base.clone().read(&home.join(".aws")));
        let exe = self.process_env.exe.display().to_string();
        let (rules, provider_rules) = (json(&run)?, json(&provider)?);
        Ok(environment.with_confinement(vec![exe, "confine".to_owned(), rules], provider_rules))
    }

    fn common(&self, variables: &BTreeMap<String, String>) -> Confinement {
        let mut rules = Confinement::new([self.data.to_owned()]).read(self.cli_config.0);
        for path in self.readable(variables) {
            rules = rules.read(&path);
        }
        if let Some(home) = self.user_home {
            rules = rules.read(&home.join(".aws"));
            if self.is_user_trusted {
                rules = USER_FILES
                    .iter()
                    .fold(rules, |rules, name| rules.read(&home.join(name)))
                    .connect(SSH_PORT);
            }
        }
        // The EKS clusters of the local AWS listen on any port.
        if matches!(self.cloud, Cloud::Local { .. }) {
            return rules.connect_anywhere();
        }
        let ports =
            ENDPOINT_VARIABLES.iter().filter_map(|name| self.own(variables, name)).filter_map(port_of);
        ports.fold(rules, Confinement::connect)
    }

    fn readable(&self, variables: &BTreeMap<String, String>) -> Vec<PathBuf> {
        let engine = &self.engine.path;
        // A version manager or a wrapper script needs what lies beside it.
        let beside = engine.parent().map(Path::to_owned);
        let real = engine.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
        let set = |names: &[&str]| -> Vec<PathBuf> {
            names.iter().filter_map(|name| self.own(variables, name)).map(PathBuf::from).collect()
        };
        let tokens = set(TOKEN_VARIABLES).into_iter().filter_map(|file| file.parent().map(Path::to_owned));
        let tokens = tokens.filter(|dir| !dir.ends_with("kubernetes.io/serviceaccount"));
        let programs = self.own(variables, "PATH").unwrap_or_default().split(':').map(PathBuf::from);
        let mirrors = quoted_paths(self.cli_config.1);
        beside
            .into_iter()
            .chain(real)
            .chain(programs)
            .chain(set(FILE_VARIABLES))
            .chain(tokens)
            .chain(mirrors)
            .collect()
    }

    /// The value of a variable that is not the template's.
    fn own<'b>(&self, variables: &'b BTreeMap<String, String>, name: &str) -> Option<&'b str> {
        let is_template = self.template.iter().any(|(set, _)| set == name);
        variables.get(name).filter(|_| !is_template).map(String::as_str)
    }
}

/// The port of a URL, or of `host:port`.
fn port_of(address: &str) -> Option<u16> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let host = rest.split(['/', '?']).next()?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let explicit = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    explicit.or(match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    })
}

/// The absolute paths in a CLI configuration: mirrors and plugin caches.
fn quoted_paths(text: &str) -> Vec<PathBuf> {
    text.split('"').skip(1).step_by(2).filter(|it| it.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_addresses() {
        for (address, port) in [
            ("http://127.0.0.1:4566", Some(4566)),
            ("https://proxy", Some(443)),
            ("http://user:1@proxy:3128/", Some(3128)),
            ("proxy:8080", Some(8080)),
            ("http://proxy", Some(80)),
            ("socks5://proxy", None),
        ] {
            assert_eq!(port_of(address), port, "{address}");
        }
    }

    #[test]
    fn mirrors_are_read_from_the_cli_configuration() {
        let text = "provider_installation {\n filesystem_mirror {\n path = \"/opt/mirror\"\n include = [\"registry.terraform.io/hashicorp/aws\"]\n}}";
        assert_eq!(quoted_paths(text), [Path::new("/opt/mirror")]);
    }
}
