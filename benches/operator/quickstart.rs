//! From `capt up` to ready, against the time that terraform itself took.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use capt_engine::process_env::ProcessEnv;
use terraform_driver::run::run_dir::RunDir;

use crate::{
    print_line,
    table::{Table, Verdict, seconds},
};

/// Fills in the row.
pub(crate) fn measure(process_env: &ProcessEnv, table: &mut Table) -> anyhow::Result<()> {
    print_line("capt up with the quickstart, in the local AWS");
    let dir = tempfile::tempdir()?;
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart.yaml");
    let manifest = manifest.display().to_string();
    let begun = Instant::now();
    let up = run_capt(process_env, dir.path(), &["up", "-f", &manifest]);
    let wall = begun.elapsed();
    let measured = match up {
        Ok(_) => terraform_time(dir.path()),
        Err(error) => Err(error),
    };
    run_capt(process_env, dir.path(), &["down", "--yes"]).context("taking the quickstart down")?;
    let runs = measured?;
    let over = wall.saturating_sub(runs);
    let text = format!("{} (runs {}, more {})", seconds(wall), seconds(runs), seconds(over));
    table.add(
        "quickstart, from nothing to ready",
        &text,
        "runs + 5 s",
        Verdict::from_met(over <= Duration::from_secs(5)),
    );
    Ok(())
}

/// The time in which at least one terraform ran: what waits for another run is no excuse.
fn terraform_time(data: &Path) -> anyhow::Result<Duration> {
    let mut spans = Vec::new();
    for workspace in fs::read_dir(data.join("workspaces/default"))? {
        for run in RunDir::list(&workspace?.path().join(".capt/runs"))? {
            let (spec, exit) = (run.spec()?.context("a run without a beginning")?, run.exit()?);
            spans.push((spec.created, exit.context("a run without an end")?.finished));
        }
    }
    ensure!(!spans.is_empty(), "no terraform ran");
    spans.sort();
    let (mut all, mut until) = (Duration::ZERO, spans[0].0);
    for (from, to) in spans {
        let begin = from.max(until);
        all += Duration::try_from(to.duration_since(begin)).unwrap_or_default();
        until = until.max(to);
    }
    Ok(all)
}

#[expect(clippy::disallowed_methods, reason = "a bench starts commands as a person would")]
fn run_capt(process_env: &ProcessEnv, data: &Path, args: &[&str]) -> anyhow::Result<String> {
    let done = Command::new(env!("CARGO_BIN_EXE_capt"))
        .args(args)
        .arg("--data")
        .arg(data)
        .env_clear()
        .envs(&process_env.env)
        .stdin(Stdio::null())
        .output()?;
    let [said, talk] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    ensure!(done.status.success(), "capt {} ended with {}:\n{talk}", args.join(" "), done.status);
    Ok(said)
}
