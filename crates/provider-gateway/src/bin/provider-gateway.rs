//! The gateway alone, for tests and for trying it by hand: `provider-gateway serve DIR` and, for itself,
//! `provider-gateway exec PROVIDER`.

use std::{path::Path, process::ExitCode, time::Duration};

use provider_gateway::{
    admin::Listening,
    gateway::{Gateway, Settings},
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
        let mut settings = Settings::new(dir.to_owned(), std::env::temp_dir());
        settings.through = vec![std::env::current_exe()?.into_os_string(), "exec".into()];
        // It is for a local AWS, which needs no mercy.
        settings.reads_per_second = 1000.0;
        let gateway = Gateway::open(settings)?;
        let idle = Some(Duration::from_mins(10));
        Listening::at(&dir.join("admin.sock"))?.serve(&gateway, idle, &CancellationToken::new()).await?;
        Ok(())
    })
}

#[expect(clippy::print_stderr, reason = "a command says what is wrong")]
fn usage() -> ExitCode {
    eprintln!("usage: provider-gateway serve DIR");
    ExitCode::from(2)
}

#[expect(clippy::print_stderr, reason = "a command says what is wrong")]
fn fail(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
