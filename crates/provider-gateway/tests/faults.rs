//! Failures: crashed providers, modified packages, invalid input, full disks, a killed gateway.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Stdio,
};

use crate::support::{
    Bench, PATIENCE, calls, finish, gate::Gate, lives, own_processes, package, provider, provider_env, until,
};
use provider_gateway::{
    admin::{AdminSecret, GatewayClient, GatewayClientError},
    gateway::{Gateway, GatewayError, GatewaySettings, RegisteredRun, RunRegistration},
    package::PackageError,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    process::Command,
    time::timeout,
};

const VPC: &str = "resource \"aws_vpc\" \"this\" {\n  cidr_block = \"10.0.0.0/16\"\n}\n";

/// A bench whose AWS never responds to `CreateVpc`.
async fn stuck() -> (Bench, Gate) {
    let mut bench = Bench::new().await;
    let gate = Gate::before(&bench.endpoint, "Action=CreateVpc&").await;
    bench.endpoint.clone_from(&gate.endpoint);
    (bench, gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_dies_fails_its_calls_and_is_replaced() {
    let (bench, gate) = stuck().await;
    let workspace = bench.workspace("one", VPC);
    bench.run(&workspace, &["init", "-no-color"]).await.ok();
    let registered = bench.register(&workspace).await;
    let child = workspace.start(&["apply", "-auto-approve", "-no-color"], Some(&registered.reattach));
    let journal = bench.dir.path().join("g/journal.jsonl");
    gate.holds(1).await;
    let process = bench.gateway.pool.groups()[0].processes()[0].clone();
    process.kill();
    let said = finish(child).await;
    assert_eq!(said.code, 1);
    // Terraform draws a frame around its errors and breaks their lines.
    let words: Vec<&str> = said.err.split_whitespace().filter(|word| *word != "│").collect();
    let words = words.join(" ");
    assert!(words.contains("exited during ApplyResourceChange"), "{}", said.err);
    let entries = provider_gateway::journal::read_entries(&journal).unwrap();
    assert_eq!(entries.last().unwrap().stage, provider_gateway::journal::ChangeStage::Lost);
    drop(process);
    // The next run has another one.
    bench.run(&workspace, &["plan", "-no-color"]).await.ok();
    assert_eq!(bench.gateway.counters().counts().started, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_harms_nobody_but_its_sender() {
    let bench = Bench::new().await;
    let workspace = bench.workspace("one", "data \"aws_region\" \"here\" {}\n");
    bench.run(&workspace, &["init", "-no-color"]).await.ok();
    let registered = bench.register(&workspace).await;
    let socket =
        registered.reattach["registry.terraform.io/hashicorp/aws"]["Addr"]["String"].as_str().unwrap();
    assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    let above = Path::new(socket).parent().unwrap();
    assert_eq!(fs::metadata(above).unwrap().permissions().mode() & 0o777, 0o700);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let garbage: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 4096],
        [&preface[..], &[0xff; 300]].concat(),
        // A frame that claims to be as long as they get.
        [&preface[..], &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat(),
        preface[..10].to_vec(),
    ];
    for bytes in garbage {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        // It may hang up before all of it has arrived.
        let _hung_up = stream.write_all(&bytes).await;
        let _hung_up = stream.shutdown().await;
        let mut answer = Vec::new();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "the connection stays open after {} bytes", bytes.len());
    }
    let said = workspace.run(&["plan", "-no-color"], Some(&registered.reattach)).await;
    assert_eq!(said.code, 0, "{}", said.err);
    bench.gateway.release(&registered.run).unwrap();
    let removed = async || if Path::new(socket).exists() { Err(socket.to_owned()) } else { Ok(()) };
    until("the removal of the socket of a run that is over", removed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_that_is_not_the_locked_one_is_refused() {
    let bench = Bench::new().await;
    let workspace = bench.workspace("one", VPC);
    let mut wanted = Bench::registration(&workspace);
    wanted.locked = Some(vec!["h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_owned()]);
    let error = bench.gateway.register(wanted.clone()).await.unwrap_err();
    assert!(matches!(error, GatewayError::Package(PackageError::Mismatch { .. })), "{error}");
    assert_eq!(bench.gateway.counters().counts().started, 0, "it was not even started");
    let h1 = bench.gateway.read_package(&package()).await.unwrap().h1;
    wanted.locked = Some(vec![h1]);
    bench.gateway.register(wanted).await.unwrap();
}

/// A package whose provider is a script.
fn fake(dir: &Path, script: &str) -> std::path::PathBuf {
    let package = dir.join("fake");
    fs::create_dir_all(&package).unwrap();
    let program = package.join("terraform-provider-fake");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    package
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_no_provider_is_told_by_name() {
    let bench = Bench::new().await;
    let workspace = bench.workspace("one", VPC);
    for (script, words) in [
        ("echo This binary is a plugin.", "no handshake"),
        ("echo '1|4|unix|/x|grpc|'", "provider protocol 4"),
        ("echo '1|5|unix|/x|grpc|MIIB'", "TLS"),
        ("echo 'panic: of its own' >&2; exit 2", "exited before it was ready"),
        ("echo '1|5|unix|/nowhere/x.sock|grpc|'; sleep 5", "does not accept connections on its socket"),
    ] {
        let mut wanted = Bench::registration(&workspace);
        wanted.package = fake(bench.dir.path(), script);
        wanted.package_roots = vec![wanted.package.clone()];
        let error = bench.gateway.register(wanted).await.unwrap_err().to_string();
        assert!(error.contains(words), "{script}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let settings = GatewaySettings::new(dir.path().join("file/below"), dir.path().to_owned());
    let error = Gateway::open(settings).err().unwrap().to_string();
    assert!(error.contains("file/below"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_directory_that_cannot_be_written_is_named_and_others_go_on() {
    let bench = Bench::new().await;
    let workspace = bench.workspace("one", "data \"aws_region\" \"here\" {}\n");
    bench.run(&workspace, &["init", "-no-color"]).await.ok();
    let before = bench.register(&workspace).await;
    let (sockets, aside) = (bench.gateway.sockets().to_owned(), bench.dir.path().join("aside"));
    // Root may write everywhere, but not where nothing is.
    fs::rename(&sockets, &aside).unwrap();
    let error = bench.gateway.register(Bench::registration(&workspace)).await.unwrap_err();
    assert!(error.to_string().contains(&sockets.display().to_string()), "{error}");
    fs::rename(&aside, &sockets).unwrap();
    // Who had a socket before still has it.
    let said = workspace.run(&["plan", "-no-color"], Some(&before.reattach)).await;
    assert_eq!(said.code, 0, "{}", said.err);
    bench.run(&workspace, &["plan", "-no-color"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_no_file_is_refused_before_any_run() {
    let dir = tempfile::tempdir().unwrap();
    symlink("/dev/full", dir.path().join("journal.jsonl")).unwrap();
    let settings = GatewaySettings::new(dir.path().to_owned(), dir.path().to_owned());
    let error = Gateway::open(settings).err().unwrap();
    assert!(error.to_string().contains("journal.jsonl"), "{error}");
}

#[expect(clippy::disallowed_methods, reason = "tests start the gateway")]
fn gateway(dir: &Path) -> tokio::process::Child {
    Command::new(env!("CARGO_BIN_EXE_provider-gateway"))
        .arg("serve")
        .arg(dir)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// A gateway whose files may not become longer than so many blocks: to it, the disk is full then.
#[expect(clippy::disallowed_methods, reason = "tests start the gateway")]
fn gateway_on_a_small_disk(dir: &Path, blocks: u32) -> tokio::process::Child {
    // The signal would end it; ignored, the write fails as it does on a full disk.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" serve \"$1\"");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_provider-gateway")])
        .arg(dir)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Waits until a gateway has taken a run.
async fn registered(client: &GatewayClient, wanted: impl Fn() -> RunRegistration) -> RegisteredRun {
    until("a gateway that takes a run", async || match client.register(wanted()).await {
        Err(gone @ GatewayClientError::Unavailable { .. }) => Err(gone.to_string()),
        registered => Ok(registered.unwrap()),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_nothing_is_made_that_cannot_be_written_down() {
    let bench = Bench::new().await;
    let queue = |at: usize| format!("resource \"aws_sqs_queue\" \"q{at}\" {{\n  name = \"full-{at}\"\n}}\n");
    // With a key of its own, by which its calls are told from those of other tests.
    let block = provider(&bench.endpoint, "us-east-1", "fulldisk", "");
    let workspace = bench.bare_workspace("full", &(0..30).map(queue).fold(block, |all, it| all + &it));
    let dir = bench.dir.path().join("h");
    let _process = gateway_on_a_small_disk(&dir, 16);
    let client = GatewayClient::new(dir.join("admin.sock"), AdminSecret::file_in(&dir));
    let run = registered(&client, || Bench::registration(&workspace)).await;
    workspace.run(&["init", "-no-color"], Some(&run.reattach)).await.ok();
    let said = workspace.run(&["apply", "-auto-approve", "-no-color"], Some(&run.reattach)).await;
    assert_eq!(said.code, 1, "{}", said.out);
    let words: Vec<&str> = said.err.split_whitespace().filter(|word| *word != "│").collect();
    let words = words.join(" ");
    assert!(words.contains("nothing was changed, because the journal entry could not be written"), "{words}");
    assert!(words.contains("free some space"), "{words}");
    // What was made is in the state; what is in the journal is whole; and nothing else was made.
    let resources = workspace.state()["resources"].as_array().unwrap().len();
    let entries = provider_gateway::journal::read_entries(&dir.join("journal.jsonl")).unwrap();
    assert!(
        !entries.is_empty() && resources > 0 && resources < 30,
        "{resources} of 30, {} lines",
        entries.len()
    );
    let all = calls(&bench.endpoint).await;
    let own = all.iter().filter(|call| call["access_key"] == "fulldisk");
    let made = own.filter(|call| call["operation"] == "CreateQueue").count();
    assert_eq!(made, resources, "each that was made is known");
    let told = client.report().await.unwrap().counts;
    assert!(told.not_journalled > 0 && told.lost == 0, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_killed_takes_its_providers_with_it() {
    let (bench, gate) = stuck().await;
    let workspace = bench.workspace("one", VPC);
    let dir = bench.dir.path().join("h");
    let mut process = gateway(&dir);
    let client = GatewayClient::new(dir.join("admin.sock"), AdminSecret::file_in(&dir));
    let register = || RunRegistration {
        workspace: "one".to_owned(),
        tenant: "test".to_owned(),
        address: "registry.terraform.io/hashicorp/aws".to_owned(),
        package: package(),
        package_roots: vec![package()],
        locked: None,
        env: provider_env(),
        types: Some(workspace.types()),
        lease: None,
        is_replicated: false,
        clients: own_processes(),
    };
    let registered = registered(&client, register).await;
    workspace.run(&["init", "-no-color"], Some(&registered.reattach)).await.ok();
    let child = workspace.start(&["apply", "-auto-approve", "-no-color"], Some(&registered.reattach));
    gate.holds(1).await;
    let providers: Vec<u32> = client.report().await.unwrap().providers.iter().map(|it| it.pid).collect();
    assert_eq!(providers.len(), 1);
    process.kill().await.unwrap();
    let said = finish(child).await;
    assert_eq!(said.code, 1, "{}", said.out);
    let gone = async || if lives(providers[0]) { Err(providers[0].to_string()) } else { Ok(()) };
    until("the end of the provider of a gateway that was killed", gone).await;
    // The next one comes up in the same place, and knows what had been begun.
    let _next = gateway(&dir);
    let answers = async || client.report().await.map_err(|error| error.to_string());
    until("an answer of the next gateway", answers).await;
    assert_eq!(provider_gateway::journal::read_entries(&dir.join("journal.jsonl")).unwrap().len(), 1);
}
