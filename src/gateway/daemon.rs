//! The background process of a gateway: `capt gateway serve`.
//!
//! Not a child of the controller and not of a run: an apply must not lose its provider because the controller was
//! started anew. It ends when nobody has needed it for a while.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use provider_gateway::{
    admin,
    gateway::{Gateway, GatewayError, Settings},
};
use serde::{Deserialize, Serialize};
use terraform_driver::{
    exec::ProcessId,
    workspace::{
        LockError,
        files::{FileError, private_dir, remove_optional, write_json},
    },
};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{config::Outer, local::place::Place};

/// What is known of a running gateway; in `DATA/gateway/server.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Server {
    /// The process.
    pub process: ProcessId,
    /// Where it is asked.
    pub socket: PathBuf,
    /// Which capt it is; another one may speak differently.
    pub version: String,
}

/// Why it cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another one serves this directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Its directory or its journal.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// Its socket, our process, or signals.
    #[error("cannot {what}")]
    System {
        /// What was refused.
        what: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Serves until a signal, or until nobody has needed it for `idle`.
pub async fn serve(outer: &Outer, data: &Path, idle: Duration) -> Result<(), ServeError> {
    let place = Place::of_gateway(data);
    private_dir(place.dir())?;
    let _alone = place.take().await?;
    // Of one that was killed: from here on whoever is written down there is us.
    remove_optional(&place.server())?;
    let mut settings = Settings::new(place.dir().to_owned(), outer.var("TMPDIR").unwrap_or("/tmp").into());
    settings.cache = outer.cache().join("gateway");
    settings.through =
        [outer.exe.as_os_str(), "gateway".as_ref(), "exec".as_ref()].map(OsString::from).to_vec();
    let gateway = Gateway::open(settings)?;
    let socket = gateway.sockets().join("admin.sock");
    let system = |what| move |source| ServeError::System { what, source };
    let process = ProcessId::of(std::process::id())
        .ok_or_else(|| std::io::ErrorKind::NotFound.into())
        .map_err(system("find our own process"))?;
    let server = Server { process, socket: socket.clone(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let stop = CancellationToken::new();
    let told = tokio::spawn(until_told(stop.clone()));
    let listening = admin::Listening::at(&socket).map_err(system("listen on its socket"))?;
    write_json(&place.server(), &server)?;
    let outcome = listening.serve(&gateway, Some(idle), &stop).await;
    told.abort();
    place.forget(process)?;
    outcome.map_err(system("serve"))
}

async fn until_told(stop: CancellationToken) -> Option<()> {
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.cancel();
    Some(())
}
