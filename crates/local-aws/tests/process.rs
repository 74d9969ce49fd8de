//! The moto child process: start errors, no orphan after the parent exits, and reported crashes.

use std::process::Stdio;

use crate::common::{PATIENCE, config, gone, is_running, kill, python, start, start_with, until};
use local_aws::{Config, LocalAws};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_leaves_no_process_and_no_listener() {
    // Where no other test takes the port that becomes free.
    let listen = "127.0.0.2:0".parse().unwrap();
    let (aws, client) = start_with(Config { listen, ..config() }).await;
    let moto = client.health().await["moto"]["pid"].as_u64().unwrap();
    assert!(is_running(moto));
    let address = aws.address();
    aws.shutdown().await;
    assert!(!is_running(moto), "shutdown returns when moto is gone");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_it_stops_it_too() {
    let (aws, client) = start().await;
    let moto = client.health().await["moto"]["pid"].as_u64().unwrap();
    drop(aws);
    gone(moto).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_path_can_ask_for_the_end() {
    let (aws, client) = start().await;
    let moto = client.health().await["moto"]["pid"].as_u64().unwrap();
    assert_eq!(client.admin("POST", "shutdown", Value::Null).await.status, 200);
    tokio::time::timeout(PATIENCE, aws.stop_requested()).await.expect("somebody asked");
    aws.shutdown().await;
    assert!(!is_running(moto));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moto_that_dies_takes_the_memory_with_it_and_every_call_says_so() {
    let (aws, client) = start().await;
    client.ground().await;
    assert_eq!(aws.lost_memory(), None);
    let moto = client.health().await["moto"]["pid"].as_u64().unwrap();
    kill(moto);
    // A call that comes before our process knows of the death may be answered with a mere failure.
    until("the news that moto has ended", async || aws.lost_memory().ok_or_else(|| "nothing".to_owned()))
        .await;

    let ec2 = client.query("ec2", "Action=DescribeVpcs&Version=2016-11-15").await;
    assert_eq!((ec2.status, ec2.xml("Code")), (400, "LocalAwsLostMemory".to_owned()));
    let eks = client.eks("GET", "/clusters", Value::Null).await;
    assert_eq!((eks.status, eks.header("x-amzn-errortype")), (400, "LocalAwsLostMemory"));
    let logs = client.target("logs", "Logs_20140328.DescribeLogGroups", json!({})).await;
    assert_eq!(logs.json()["__type"], "LocalAwsLostMemory");
    assert_eq!(client.admin("GET", "inventory", Value::Null).await.status, 409);
    assert_eq!(client.health().await["status"], "lost_memory");
    assert!(aws.lost_memory().unwrap().contains('9'), "{:?}", aws.lost_memory());
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interpreter_that_is_missing_or_has_no_moto_is_named() {
    let error = LocalAws::start(Config::new("/nowhere/python")).await.unwrap_err();
    assert_eq!(error.to_string(), "starting moto with /nowhere/python");
    let dir = tempfile::tempdir().unwrap();
    let fake = dir.path().join("python");
    std::fs::write(&fake, "#!/bin/sh\necho \"No module named 'moto'\" >&2\nexit 1\n").unwrap();
    let mut mode = std::fs::metadata(&fake).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&fake, mode).unwrap();
    let error = LocalAws::start(Config::new(fake)).await.unwrap_err().to_string();
    assert!(error.contains("No module named 'moto'") && error.contains("exit status: 1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_or_open_to_the_world_is_refused() {
    let (aws, _) = start().await;
    let open = Config { listen: "0.0.0.0:0".parse().unwrap(), ..config() };
    assert_eq!(LocalAws::start(open).await.unwrap_err().to_string(), "listening on 0.0.0.0:0");
    let again = Config { listen: aws.address(), ..config() };
    let error = LocalAws::start(again).await.unwrap_err();
    assert_eq!(error.to_string(), format!("listening on {}", aws.address()));
    aws.shutdown().await;
}

/// The other side of the next test: a process of its own that serves until it is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs only as a child of a_killed_server_leaves_no_moto"]
async fn serve_until_killed() {
    let (aws, client) = start().await;
    println!("\nmoto={}", client.health().await["moto"]["pid"]);
    std::future::pending::<()>().await;
    drop(aws);
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the test needs a process that it may kill")]
async fn a_killed_server_leaves_no_moto() {
    python();
    let mut server = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::serve_until_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let moto = loop {
        let line = lines.next_line().await.unwrap().expect("the child says which moto it has");
        if let Some(pid) = line.strip_prefix("moto=") {
            break pid.trim().parse().unwrap();
        }
    };
    assert!(is_running(moto));
    kill(u64::from(server.id().unwrap()));
    server.wait().await.unwrap();
    gone(moto).await;
}
