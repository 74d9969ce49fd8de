//! Provider settings of the caller's own terraform CLI configuration.
//!
//! A missing or invalid file is not an error: the generated configuration does not depend on it.

use std::{collections::BTreeMap, fs, path::PathBuf};

use hcl_edit::structure::{Block, Body};

use crate::{engine::EngineKind, render::literal};

/// Blocks that are copied verbatim into the generated configuration.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct CarriedBlocks {
    /// `credentials`, `credentials_helper` and `host` blocks.
    pub(super) credentials: String,
    /// The `provider_installation` block.
    pub(super) installation: String,
}

/// Redacted: it may contain tokens.
impl std::fmt::Debug for CarriedBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CarriedBlocks(..)")
    }
}

#[derive(Debug, Default)]
pub(super) struct CliConfig {
    pub(super) file: Option<PathBuf>,
    /// Paths of `filesystem_mirror` blocks.
    pub(super) mirrors: Vec<PathBuf>,
    pub(super) has_network_mirror: bool,
    pub(super) carried: CarriedBlocks,
}

/// Reads the first existing file, in the engine's order of precedence.
pub(super) fn read_cli_config(
    env: &BTreeMap<String, String>,
    engine: EngineKind,
    notes: &mut Vec<String>,
) -> CliConfig {
    for file in config_paths(env, engine) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match without_quoted_keys(&text).parse::<Body>() {
            Ok(body) => return from_body(file, &body),
            Err(error) => {
                let line = error.location().line();
                notes.push(format!(
                    "{}, line {line}: the CLI configuration is invalid and ignored",
                    file.display()
                ));
            }
        }
    }
    CliConfig::default()
}

/// The file is HCL 1, which allows `"hashicorp/aws" = "…"` in `dev_overrides`; HCL 2 does not. Overrides are for the caller's
/// own development, so those lines are blanked.
fn without_quoted_keys(text: &str) -> String {
    let is_quoted_key = |line: &str| {
        let key_ends = line.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
        key_ends.is_some_and(|(_, rest)| rest.trim_start().starts_with('='))
    };
    // Keep an empty line, so that line numbers in messages stay correct.
    text.lines().map(|line| if is_quoted_key(line) { "\n".to_owned() } else { format!("{line}\n") }).collect()
}

fn config_paths(env: &BTreeMap<String, String>, engine: EngineKind) -> Vec<PathBuf> {
    let named = ["TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"].into_iter().filter_map(|name| env.get(name));
    let named = named.filter(|path| !path.is_empty()).map(PathBuf::from);
    let own: &[&str] = match engine {
        EngineKind::Terraform => &[".terraformrc"],
        EngineKind::OpenTofu => &[".tofurc", ".config/opentofu/tofurc", ".terraformrc"],
    };
    let home = env.get("HOME").map(PathBuf::from);
    named.chain(home.iter().flat_map(|home| own.iter().map(|name| home.join(name)))).collect()
}

fn from_body(file: PathBuf, body: &Body) -> CliConfig {
    let mut config = CliConfig { file: Some(file), ..CliConfig::default() };
    for block in body.blocks() {
        match block.ident.as_str() {
            "provider_installation" => {
                config.installation(block);
                config.carried.installation = block_text(block);
            }
            "credentials" | "credentials_helper" | "host" => config.carried.credentials += &block_text(block),
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
                    let path = method
                        .body
                        .get_attribute("path")
                        .and_then(|path| literal::literal_value(&path.value));
                    self.mirrors.extend(path.as_ref().and_then(|path| path.as_str()).map(PathBuf::from));
                }
                "network_mirror" => self.has_network_mirror = true,
                _ => {}
            }
        }
    }
}

fn block_text(block: &Block) -> String {
    let text = Body::builder().block(block.clone()).build().to_string();
    if text.ends_with('\n') { text } else { text + "\n" }
}
