//! `capt up --foreground`: serves and follows the objects in one process, until Ctrl-C.

use capt_engine::process_env::ProcessEnv;
use terraform_driver::workspace::files::{create_private_dir, open_append};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Args, UpSession, apply_and_follow, serve::UpServer, session::prepare_tools};
use crate::{
    cli::{
        gateway::stop_gateway,
        interruptible, logging,
        manifest_objects::ManifestObject,
        operator_setup::run_until_signalled,
        output::{self, ExitStatus},
    },
    local::up_daemon::{UpDaemon, UpRecord, UpSettings},
};

/// Serves until stopped; the exit status is the result of the manifest objects.
pub(super) async fn run(
    args: &Args,
    process_env: &ProcessEnv,
    (up, settings): (&UpDaemon, &UpSettings),
    wanted: &[ManifestObject],
) -> anyhow::Result<ExitStatus> {
    // If another process serves already, the lock below fails; its settings must not be overwritten.
    if !up.files().is_locked()? {
        interruptible(Box::pin(prepare_tools(process_env, &args.options, settings))).await?;
        up.write_settings(settings)?;
    }
    create_private_dir(up.files().dir())?;
    // Operator logs would disturb the tree on the terminal.
    logging::init_logging(
        logging::LogFormat::Text,
        logging::DEFAULT_FILTER,
        Some(open_append(&up.files().log_file())?),
    )?;
    let stop = CancellationToken::new();
    let (tell, told) = oneshot::channel();
    let data = args.options.data.path(process_env);
    let serving = UpServer { process_env, up, data: &data, settings, stop: stop.clone() };
    let mut status = ExitStatus::Interrupted;
    let work = Box::pin(async {
        tokio::select! {
            ended = serving.run(Some(tell)) => ended,
            never = follow_objects(args, process_env, (up, wanted), told, &mut status) => match never {},
        }
    });
    run_until_signalled(&stop, output::print_message, work).await?;
    stop_gateway(&data).await?;
    Ok(status)
}

/// Follows the manifest objects; their errors are printed and do not stop the server.
async fn follow_objects(
    args: &Args,
    process_env: &ProcessEnv,
    (up, wanted): (&UpDaemon, &[ManifestObject]),
    told: oneshot::Receiver<UpRecord>,
    status: &mut ExitStatus,
) -> std::convert::Infallible {
    if let Ok(server) = told.await {
        server.notes.iter().for_each(|note| output::print_message(note));
        let flag = args.options.data.command_flag(process_env);
        let followed = async {
            let session = UpSession::open(up.clone(), server, flag, args.timeout).await?;
            apply_and_follow(args, process_env, &session, wanted).await
        };
        *status = followed.await.unwrap_or_else(|error| {
            output::print_error(&error);
            ExitStatus::Refused
        });
        output::print_message("serving until Ctrl-C; run `capt status -w` in another terminal to watch");
    }
    std::future::pending().await
}
