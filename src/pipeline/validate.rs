//! What terraform finds wrong with a configuration, without asking AWS anything.

use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use terraform_driver::{
    command::{Commands, Invocation, LockFile, UserArgs},
    exec::{Said, capture},
    hex::hex,
    render::{self, Request},
    run::StepError,
    workspace::{Workspace, files::FileError},
};

use super::{error::WorkError, site::Site};

/// How long `init` and `validate` may take each.
const PATIENCE: Duration = Duration::from_mins(5);

#[derive(Deserialize)]
struct Verdict {
    #[serde(default)]
    diagnostics: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    severity: String,
    summary: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    range: Option<Range>,
}

#[derive(Deserialize)]
struct Range {
    filename: String,
    start: Start,
}

#[derive(Deserialize)]
struct Start {
    line: u64,
}

/// Everything that is wrong, one sentence each. The configuration must not have to be fetched.
pub async fn validate(site: &Site, request: &Request) -> Result<Vec<String>, WorkError> {
    let rendered = render::render(request)?;
    let name = hex(&Sha256::digest(format!("{}/{} {}", request.namespace, request.name, rendered.digest)));
    let workspace = Workspace::at(site.data.join("validate").join(&name[..16]));
    workspace.write(super::files(&rendered, &[]))?;
    let findings = ask(site, &workspace).await;
    workspace.remove()?;
    findings
}

async fn ask(site: &Site, workspace: &Workspace) -> Result<Vec<String>, WorkError> {
    let environment = site.environment(&[], None)?;
    let none = UserArgs::default();
    let commands =
        Commands::new(&site.driver.engine, workspace.root(), &environment, none, Duration::from_secs(10))
            .map_err(StepError::from)?;
    let init = said(commands.init(LockFile::Absent)).await?;
    if !init.success {
        let text = String::from_utf8_lossy(&init.stdout);
        let errors = text.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let finding: Finding = serde_json::from_value(line.get("diagnostic")?.clone()).ok()?;
            (finding.severity == "error").then(|| sentence(&finding))
        });
        let errors: Vec<String> = errors.collect();
        let unknown = || vec!["terraform init fails".to_owned()];
        return Ok(if errors.is_empty() { unknown() } else { errors });
    }
    let verdict = said(commands.validate()).await?;
    let verdict: Verdict = serde_json::from_slice(&verdict.stdout)
        .map_err(|source| FileError::Garbled { path: workspace.dir().to_owned(), source })?;
    Ok(verdict.diagnostics.iter().filter(|it| it.severity == "error").map(sentence).collect())
}

async fn said(invocation: Invocation) -> Result<Said, WorkError> {
    let args: Vec<&str> = invocation.args.iter().map(String::as_str).collect();
    capture(&invocation.program, &args, &invocation.env, &invocation.cwd, PATIENCE)
        .await
        .map_err(|source| FileError::new("run terraform in", &invocation.cwd, source).into())
}

fn sentence(finding: &Finding) -> String {
    let place = finding.range.as_ref().map(|range| format!("{} line {}: ", range.filename, range.start.line));
    let detail = finding.detail.split_whitespace().collect::<Vec<_>>().join(" ");
    let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
    format!("{}{}{detail}", place.unwrap_or_default(), finding.summary)
}
