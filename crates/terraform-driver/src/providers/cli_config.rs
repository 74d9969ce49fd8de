//! The caller's own CLI configuration, as far as it says where providers come from.
//!
//! A file that is missing or does not parse is no error here: the caller's terraform may be broken, ours is not.

use std::{collections::BTreeMap, fs, path::PathBuf};

use hcl_edit::structure::{Block, Body};

use crate::{engine::EngineKind, render::literal};

/// Text that goes into our own configuration as it is.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Carried {
    /// `credentials`, `credentials_helper` and `host` blocks.
    pub(super) credentials: String,
    /// The `provider_installation` block.
    pub(super) installation: String,
}

/// It may hold tokens.
impl std::fmt::Debug for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Carried(..)")
    }
}

#[derive(Debug, Default)]
pub(super) struct CliConfig {
    pub(super) file: Option<PathBuf>,
    /// Paths of `filesystem_mirror` blocks.
    pub(super) mirrors: Vec<PathBuf>,
    pub(super) has_network_mirror: bool,
    pub(super) carried: Carried,
}

/// Reads the first file that exists, in the order of the engine.
pub(super) fn read(env: &BTreeMap<String, String>, engine: EngineKind, notes: &mut Vec<String>) -> CliConfig {
    for file in candidates(env, engine) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match without_quoted_keys(&text).parse::<Body>() {
            Ok(body) => return of(file, &body),
            Err(error) => {
                let line = error.location().line();
                notes.push(format!(
                    "{}, line {line}: the CLI configuration does not parse and is not used",
                    file.display()
                ));
            }
        }
    }
    CliConfig::default()
}

/// The file's language is the old HCL, which allows `"hashicorp/aws" = "…"` inside of `dev_overrides`, and today's
/// does not. Overrides are for the caller's own work, so those lines are left out.
fn without_quoted_keys(text: &str) -> String {
    let is_quoted_key = |line: &str| {
        let key_ends = line.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
        key_ends.is_some_and(|(_, rest)| rest.trim_start().starts_with('='))
    };
    // The line itself stays, so that numbers in messages are right.
    text.lines().map(|line| if is_quoted_key(line) { "\n".to_owned() } else { format!("{line}\n") }).collect()
}

fn candidates(env: &BTreeMap<String, String>, engine: EngineKind) -> Vec<PathBuf> {
    let named = ["TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"].into_iter().filter_map(|name| env.get(name));
    let named = named.filter(|path| !path.is_empty()).map(PathBuf::from);
    let own: &[&str] = match engine {
        EngineKind::Terraform => &[".terraformrc"],
        EngineKind::OpenTofu => &[".tofurc", ".config/opentofu/tofurc", ".terraformrc"],
    };
    let home = env.get("HOME").map(PathBuf::from);
    named.chain(home.iter().flat_map(|home| own.iter().map(|name| home.join(name)))).collect()
}

fn of(file: PathBuf, body: &Body) -> CliConfig {
    let mut config = CliConfig { file: Some(file), ..CliConfig::default() };
    for block in body.blocks() {
        match block.ident.as_str() {
            "provider_installation" => {
                config.installation(block);
                config.carried.installation = text_of(block);
            }
            "credentials" | "credentials_helper" | "host" => config.carried.credentials += &text_of(block),
            _ => {}
        }
    }
    config
}

impl CliConfig {
    fn installation(&mut self, block: &Block) {
        for method in block.body.blocks() {
            match method.ident.as_str() {
                "filesystem_mirror" => {
                    let path = method.body.get_attribute("path").and_then(|path| literal::value(&path.value));
                    self.mirrors.extend(path.as_ref().and_then(|path| path.as_str()).map(PathBuf::from));
                }
                "network_mirror" => self.has_network_mirror = true,
                _ => {}
            }
        }
    }
}

fn text_of(block: &Block) -> String {
    let text = Body::builder().block(block.clone()).build().to_string();
    if text.ends_with('\n') { text } else { text + "\n" }
}
