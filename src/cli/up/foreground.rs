//! `capt up --foreground`: serves and shows in one process, until Ctrl-C.

use terraform_driver::workspace::files::{open_append, private_dir};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Args, Session, attend, serve::Serving, session::prepare};
use crate::{
    cli::{
        gateway::end_with_the_rest,
        interruptible, log,
        objects::Wanted,
        operate::until_told,
        output::{self, ExitStatus},
    },
    config::Outer,
    local::up::{Server, Settings, Up},
};

/// Serves to the end. How it ends is how the objects of the files did.
pub(super) async fn run(
    args: &Args,
    outer: &Outer,
    (up, settings): (&Up, &Settings),
    wanted: &[Wanted],
) -> anyhow::Result<ExitStatus> {
    // Somebody who serves already is found out below, and must not get other settings.
    if !up.place().is_taken()? {
        interruptible(Box::pin(prepare(outer, &args.options, settings))).await?;
        up.write_settings(settings)?;
    }
    private_dir(up.place().dir())?;
    // The operator's own words would disturb the tree.
    log::begin(log::LogFormat::Text, log::USUAL, Some(open_append(&up.place().log())?))?;
    let stop = CancellationToken::new();
    let (tell, told) = oneshot::channel();
    let data = args.options.data.path(outer);
    let serving = Serving { outer, up, data: &data, settings, stop: stop.clone() };
    let mut status = ExitStatus::Interrupted;
    let work = Box::pin(async {
        tokio::select! {
            ended = serving.run(Some(tell)) => ended,
            never = follow(args, outer, (up, wanted), told, &mut status) => match never {},
        }
    });
    until_told(&stop, output::say, work).await?;
    end_with_the_rest(&data).await?;
    Ok(status)
}

/// Follows the objects of the files; what goes wrong with them is said, and no reason to stop serving.
async fn follow(
    args: &Args,
    outer: &Outer,
    (up, wanted): (&Up, &[Wanted]),
    told: oneshot::Receiver<Server>,
    status: &mut ExitStatus,
) -> std::convert::Infallible {
    if let Ok(server) = told.await {
        server.notes.iter().for_each(|note| output::say(note));
        let flag = args.options.data.flag(outer);
        let followed = async {
            let session = Session::open(up.clone(), server, flag, args.timeout).await?;
            attend(args, outer, &session, wanted).await
        };
        *status = followed.await.unwrap_or_else(|error| {
            output::error(&error);
            ExitStatus::Refused
        });
        output::say("serving until Ctrl-C; `capt status -w` in another terminal shows what happens");
    }
    std::future::pending().await
}
