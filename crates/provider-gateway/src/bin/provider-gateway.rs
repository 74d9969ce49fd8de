//! The gateway as a program of its own, for tests and manual use: `provider-gateway serve DIR` and, started by itself,
//! `provider-gateway exec PROVIDER`.

use std::{path::Path, process::ExitCode, time::Duration};

use provider_gateway::{
    admin::{AdminSecret, AdminServer},
    gateway::{Gateway, GatewaySettings},
    plugin::become_provider,
};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let what = args.next().unwrap_or_default();
    let Some(argument) = args.next() else { return usage() };
    match what.to_string_lossy().as_ref() {
        "exec" => fail(&become_provider(&argument)),
        "serve" => match serve(Path::new(&argument)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(error.as_ref()),
        },
        _ => usage(),
    }
}

fn serve(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
    runtime.block_on(async {
        let mut settings = GatewaySettings::new(dir.to_owned(), std::env::temp_dir());
        settings.exec_wrapper = vec![std::env::current_exe()?.into_os_string(), "exec".into()];
        // Used against a local AWS, which needs no rate limit.
        settings.reads_per_second = 1000.0;
        let gateway = Gateway::open(settings)?;
        let idle = Some(Duration::from_mins(10));
        let (secret, _) = AdminSecret::create_in(dir)?;
        AdminServer::bind(&dir.join("admin.sock"), secret)?
            .serve(&gateway, idle, &CancellationToken::new())
            .await?;
        Ok(())
    })
}

#[expect(clippy::print_stderr, reason = "command-line errors go to stderr")]
fn usage() -> ExitCode {
    eprintln!("usage: provider-gateway serve DIR");
    ExitCode::from(2)
}

#[expect(clippy::print_stderr, reason = "command-line errors go to stderr")]
fn fail(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
