//! Who may use a gateway: the holder of its secret, the processes of a run, and packages of a mirror.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails a test")]

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio};

use provider_gateway::{
    admin::{AdminSecret, GatewayClient, GatewayClientError},
    gateway::{GatewayError, RunRegistration},
    serve::RunClients,
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    process::Command,
};

use crate::support::{Bench, own_processes, until};

/// A package whose program leaves a mark.
fn evil_package(dir: &Path) -> (RunRegistration, std::path::PathBuf) {
    let (package, mark) = (dir.join("evil"), dir.join("started"));
    fs::create_dir(&package).unwrap();
    let program = package.join("terraform-provider-evil_v1.0.0");
    fs::write(&program, format!("#!/bin/sh\n: > {}\n", mark.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let wanted = RunRegistration {
        workspace: "team-a/evil".to_owned(),
        tenant: "team-a".to_owned(),
        address: "registry.terraform.io/evil/evil".to_owned(),
        package_roots: vec![package.clone()],
        package,
        locked: None,
        env: std::collections::BTreeMap::new(),
        types: None,
        lease: None,
        is_replicated: false,
        clients: own_processes(),
    };
    (wanted, mark)
}

/// What the admin socket answers to these lines, sent by a process of the same user.
async fn said_to(socket: &Path, lines: &[String]) -> String {
    let (read, mut write) = UnixStream::connect(socket).await.unwrap().into_split();
    // It hangs up as soon as it has seen the first line.
    let _sent = write.write_all((lines.join("\n") + "\n").as_bytes()).await;
    let mut answer = String::new();
    BufReader::new(read).read_line(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "tests start the gateway")]
async fn h8_a_process_without_the_secret_makes_the_gateway_start_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (wanted, mark) = evil_package(dir.path());
    let place = dir.path().join("g");
    let _process = Command::new(env!("CARGO_BIN_EXE_provider-gateway"))
        .arg("serve")
        .arg(&place)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (socket, secret) = (place.join("admin.sock"), AdminSecret::file_in(&place));
    let client = GatewayClient::new(&socket, &secret);
    until("the gateway", async || client.report().await.map_err(|error| error.to_string())).await;
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);

    let register = json!({ "register": wanted }).to_string();
    let guess = json!({ "secret": "0".repeat(64) }).to_string();
    for lines in
        [vec![register.clone()], vec![guess, register.clone()], vec![json!({"secret": ""}).to_string()]]
    {
        let answer = said_to(&socket, &lines).await;
        assert_eq!(answer, "\"unauthenticated\"\n", "{lines:?}");
    }
    let older = GatewayClient::without_secret(&socket).register(wanted.clone()).await.unwrap_err();
    assert!(matches!(older, GatewayClientError::Unavailable { .. }), "{older}");
    assert!(!mark.exists());
    assert_eq!(client.report().await.unwrap().counts.strangers, 4);

    // With the secret it is started, and is no provider.
    let hello = json!({ "secret": fs::read_to_string(&secret).unwrap() }).to_string();
    let answer = said_to(&socket, &[hello, register]).await;
    assert!(answer.contains("exited before"), "{answer}");
    assert!(mark.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_a_process_of_another_run_gets_no_answer_at_the_socket_of_a_run() {
    let bench = Bench::new().await;
    let workspace = bench.workspace("theirs", "");
    let record = bench.dir.path().join("process.json");
    let clients = RunClients::Recorded { file: record.clone() };
    let wanted = RunRegistration { clients, ..Bench::registration(&workspace) };
    let registered = bench.gateway.register(wanted).await.unwrap();
    let socket = registered.reattach["registry.terraform.io/hashicorp/aws"]["Addr"]["String"].clone();
    let socket = socket.as_str().unwrap();
    assert!(Path::new(socket).file_stem().unwrap().len() > 20, "its name cannot be guessed: {socket}");

    // The run has not started yet when somebody connects.
    let mut stranger = UnixStream::connect(socket).await.unwrap();
    let init = json!({ "pid": 1, "started": 0 });
    fs::write(record.with_extension("new"), json!({ "shim": init, "engine": null }).to_string()).unwrap();
    fs::rename(record.with_extension("new"), &record).unwrap();
    assert_eq!(stranger.read(&mut [0; 64]).await.unwrap(), 0, "it hangs up");
    assert_eq!(bench.gateway.counters().counts().strangers, 1);

    // A process of the session that is recorded is answered: HTTP/2 begins with the settings of the server.
    let session = rustix::process::getsid(None).unwrap().as_raw_nonzero().get();
    let stat = fs::read_to_string(format!("/proc/{session}/stat")).unwrap_or_default();
    let started = stat.rsplit_once(')').and_then(|it| it.1.split_whitespace().nth(19)?.parse::<u64>().ok());
    let shim = json!({ "pid": session, "started": started.unwrap_or_default() });
    fs::write(record.with_extension("new"), json!({ "shim": shim }).to_string()).unwrap();
    fs::rename(record.with_extension("new"), &record).unwrap();
    let mut own = UnixStream::connect(socket).await.unwrap();
    own.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    assert!(own.read(&mut [0; 64]).await.unwrap() > 0);
    bench.gateway.release(&registered.run).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_a_package_outside_of_the_mirrors_is_not_started() {
    let bench = Bench::new().await;
    let (wanted, mark) = evil_package(bench.dir.path());
    let link = bench.dir.path().join("mirror");
    fs::create_dir(&link).unwrap();
    std::os::unix::fs::symlink(&wanted.package, link.join("aws")).unwrap();
    for package_roots in [Vec::new(), vec![link.clone()]] {
        let wanted = RunRegistration { package: link.join("aws"), package_roots, ..wanted.clone() };
        let error = bench.gateway.register(wanted).await.unwrap_err();
        assert!(matches!(error, GatewayError::ForeignPackage { .. }), "{error}");
    }
    assert!(!mark.exists());
}
