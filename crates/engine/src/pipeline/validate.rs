//! Runs `terraform init` and `validate` on a configuration. Makes no AWS calls.

use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use terraform_driver::{
    command::{CommandBuilder, Invocation, LockFileMode, UserArgs},
    exec::{CapturedOutput, capture_output},
    hex::hex,
    render::{self, RenderRequest},
    run::StepError,
    workspace::{WorkspaceDir, files::FileError},
};

use super::{data_directory::DataDirectory, error::PipelineError};

/// Timeout of `init` and of `validate`.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(5);

#[derive(Deserialize)]
struct ValidateOutput {
    #[serde(default)]
    diagnostics: Vec<ValidateDiagnostic>,
}

#[derive(Deserialize)]
struct ValidateDiagnostic {
    severity: String,
    summary: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    range: Option<DiagnosticRange>,
}

#[derive(Deserialize)]
struct DiagnosticRange {
    filename: String,
    start: DiagnosticStart,
}

#[derive(Deserialize)]
struct DiagnosticStart {
    line: u64,
}

/// Errors in the configuration, one line each. The source must not be remote.
pub async fn validate_configuration(
    data_dir: &DataDirectory,
    request: &RenderRequest,
) -> Result<Vec<String>, PipelineError> {
    let rendered = render::render(request)?;
    let name = hex(Sha256::digest(format!("{}/{} {}", request.namespace, request.name, rendered.digest)));
    let workspace = WorkspaceDir::at(data_dir.path.join("validate").join(&name[..16]));
    workspace.sync_files(super::workspace_files(&rendered, &[]))?;
    let findings = run_init_and_validate(data_dir, &workspace).await;
    data_dir.remove_workspace(workspace)?;
    findings
}

async fn run_init_and_validate(
    data_dir: &DataDirectory,
    workspace: &WorkspaceDir,
) -> Result<Vec<String>, PipelineError> {
    let environment = data_dir.environment(workspace, &[], None)?;
    let none = UserArgs::default();
    let commands = CommandBuilder::new(
        data_dir.driver.engine(),
        workspace.root(),
        &environment,
        none,
        Duration::from_secs(10),
    )
    .map_err(StepError::from)?;
    let init = capture_invocation(commands.init(LockFileMode::Absent)).await?;
    if !init.success {
        let text = String::from_utf8_lossy(&init.stdout);
        let errors = text.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let finding: ValidateDiagnostic = serde_json::from_value(line.get("diagnostic")?.clone()).ok()?;
            (finding.severity == "error").then(|| format_diagnostic(&finding))
        });
        let errors: Vec<String> = errors.collect();
        let unknown = || vec!["terraform init failed".to_owned()];
        return Ok(if errors.is_empty() { unknown() } else { errors });
    }
    let verdict = capture_invocation(commands.validate()).await?;
    let verdict: ValidateOutput = serde_json::from_slice(&verdict.stdout)
        .map_err(|source| FileError::InvalidJson { path: workspace.dir().to_owned(), source })?;
    Ok(verdict.diagnostics.iter().filter(|it| it.severity == "error").map(format_diagnostic).collect())
}

async fn capture_invocation(invocation: Invocation) -> Result<CapturedOutput, PipelineError> {
    let (program, args) = invocation.command_line();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    capture_output(&program, &args, &invocation.env, &invocation.cwd, COMMAND_TIMEOUT)
        .await
        .map_err(|source| FileError::new("run terraform in", &invocation.cwd, source).into())
}

fn format_diagnostic(finding: &ValidateDiagnostic) -> String {
    let place = finding.range.as_ref().map(|range| format!("{} line {}: ", range.filename, range.start.line));
    let detail = finding.detail.split_whitespace().collect::<Vec<_>>().join(" ");
    let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
    format!("{}{}{detail}", place.unwrap_or_default(), finding.summary)
}
