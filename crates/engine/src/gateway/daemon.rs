//! The gateway daemon: `capt gateway serve`.
//!
//! It is not a child of the operator or of a run, so that an apply keeps its provider when the operator restarts. It exits
//! after its idle timeout.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use provider_gateway::{
    admin::{AdminSecret, AdminServer, GatewayClient},
    gateway::{Gateway, GatewayError, GatewaySettings},
};
use serde::{Deserialize, Serialize};
use terraform_driver::{
    exec::ProcessId,
    workspace::{
        LockError,
        files::{FileError, create_private_dir, remove_optional, write_json},
    },
};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{daemon_files::DaemonFiles, process_env::ProcessEnv};

/// A running gateway daemon; stored in `DATA/gateway/server.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GatewayProcess {
    /// The process.
    pub process: ProcessId,
    /// Admin socket.
    pub socket: PathBuf,
    /// Version of capt; the admin protocol may differ between versions.
    pub version: String,
    /// File of the admin socket's secret; `None` for a gateway of an earlier version, which has none.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
}

impl GatewayProcess {
    /// A client of this daemon.
    pub fn client(&self) -> GatewayClient {
        match &self.secret_file {
            Some(file) => GatewayClient::new(&self.socket, file),
            None => GatewayClient::without_secret(&self.socket),
        }
    }

    /// Whether it answers everybody with this user id, as earlier versions did. It is replaced when no run uses it.
    pub fn is_outdated(&self) -> bool {
        self.secret_file.is_none()
    }
}

/// Why the daemon cannot serve.
#[derive(Debug, Error)]
pub enum GatewayDaemonError {
    /// Another daemon serves this directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The gateway's directory or journal is unusable.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// A system call failed.
    #[error("cannot {what}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Serves until a signal, or until the gateway is unused for `idle`.
pub async fn serve(process_env: &ProcessEnv, data: &Path, idle: Duration) -> Result<(), GatewayDaemonError> {
    let place = DaemonFiles::of_gateway(data);
    create_private_dir(place.dir())?;
    let _alone = place.acquire_lock().await?;
    // Remove the entry of a killed daemon: this process holds the lock.
    remove_optional(&place.server_file())?;
    let mut settings =
        GatewaySettings::new(place.dir().to_owned(), process_env.var("TMPDIR").unwrap_or("/tmp").into());
    settings.cache = process_env.cache_dir().join("gateway");
    settings.exec_wrapper =
        [process_env.exe.as_os_str(), "gateway".as_ref(), "exec".as_ref(), "--opened".as_ref()]
            .map(OsString::from)
            .to_vec();
    let gateway = Gateway::open(settings)?;
    let socket = gateway.sockets().join("admin.sock");
    let system = |what| move |source| GatewayDaemonError::System { what, source };
    let process = ProcessId::from_pid(std::process::id())
        .ok_or_else(|| std::io::ErrorKind::NotFound.into())
        .map_err(system("look up the daemon's own process"))?;
    let (secret, secret_file) = AdminSecret::create_in(place.dir()).map_err(system("store the secret"))?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let server = GatewayProcess { process, socket: socket.clone(), version, secret_file: Some(secret_file) };
    let stop = CancellationToken::new();
    let told = tokio::spawn(cancel_on_signal(stop.clone()));
    let listening = AdminServer::bind(&socket, secret).map_err(system("listen on the admin socket"))?;
    write_json(&place.server_file(), &server)?;
    let outcome = listening.serve(&gateway, Some(idle), &stop).await;
    told.abort();
    place.remove_record(process)?;
    outcome.map_err(system("serve"))
}

async fn cancel_on_signal(stop: CancellationToken) -> Option<()> {
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.cancel();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h8_a_gateway_of_an_earlier_version_is_recognised_by_its_record() {
        let record = |more: &str| {
            format!(r#"{{"process":{{"pid":1,"started":2}},"socket":"/s","version":"0.1.0"{more}}}"#)
        };
        let parse = |text: &str| serde_json::from_str::<GatewayProcess>(text).unwrap();
        assert!(parse(&record("")).is_outdated());
        assert!(!parse(&record(r#","secret_file":"/k""#)).is_outdated());
    }
}
