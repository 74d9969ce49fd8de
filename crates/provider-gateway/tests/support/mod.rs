//! A real terraform, a real provider, a local AWS and a gateway between them.

#![allow(unreachable_pub, reason = "a module of several test programs")]
#![allow(dead_code, reason = "every test file uses its own part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

pub mod gate;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use local_aws::{Config, LocalAws, Timing};
use provider_gateway::{
    gateway::{Gateway, GatewaySettings, RegisteredRun, RunRegistration},
    serve::RunClients,
    wire::schema::collect_identifiers,
};
use serde_json::Value;
use terraform_driver::{
    engine::EngineKind,
    providers::{
        DiscoveryInputs, ProviderRequirement, ProviderSource, default_search_roots, discover_providers,
        platform,
    },
};
use tokio::{
    io::AsyncReadExt,
    process::{Child, Command},
};

/// Bounds a hang; no test measures time.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// Waits for a condition. `look` returns the awaited value, or the current one as error.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(instead) if begun.elapsed() > PATIENCE => panic!("waited for {what}; there is: {instead}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// The environment of the tests, where they find their cache and terraform.
#[expect(clippy::disallowed_methods, reason = "tests find their tools in the environment")]
pub fn outer() -> BTreeMap<String, String> {
    std::env::vars().collect()
}

/// The directory above the unpacked provider.
pub fn mirror() -> PathBuf {
    let env = outer();
    let home = env.get("HOME").map(PathBuf::from);
    let roots = default_search_roots(home.as_deref());
    let around = DiscoveryInputs { setting: None, env: &env, roots: &roots, engine: EngineKind::Terraform };
    let wanted = ProviderRequirement::new("hashicorp", "aws", ">= 5.61, < 7").unwrap();
    match discover_providers(&around, &[wanted]).unwrap().source {
        ProviderSource::Mirror { dir, .. } => dir,
        other => panic!("the tests need a provider mirror on disk, and found {other}"),
    }
}

/// The directory of the unpacked AWS provider.
pub fn package() -> PathBuf {
    let versions = mirror().join("registry.terraform.io/hashicorp/aws");
    let mut all: Vec<PathBuf> = fs::read_dir(versions).unwrap().map(|it| it.unwrap().path()).collect();
    all.sort();
    all.pop().unwrap().join(platform())
}

fn python() -> PathBuf {
    let repo = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache = outer().get("CAPT_CACHE").map_or_else(|| repo.join(".cache"), PathBuf::from);
    let python = cache.join("moto-venv/bin/python");
    assert!(python.exists(), "{} is missing; make it with `make deps`", python.display());
    python
}

/// A local AWS that all tests of a process share; it dies with the process.
pub async fn aws() -> String {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    let get = || {
        ENDPOINT
            .get_or_init(|| {
                let (sender, endpoint) = std::sync::mpsc::channel();
                std::thread::spawn(move || {
                    tokio::runtime::Runtime::new().unwrap().block_on(async {
                        let config = Config { timing: Timing::instant(), ..Config::new(python()) };
                        let aws = LocalAws::start(config).await.expect("the local AWS starts");
                        sender.send(aws.endpoint()).unwrap();
                        std::future::pending::<()>().await;
                    });
                });
                endpoint.recv().expect("the local AWS starts")
            })
            .clone()
    };
    tokio::task::spawn_blocking(get).await.unwrap()
}

/// A directory with a gateway.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub gateway: Arc<Gateway>,
    pub endpoint: String,
}

impl Bench {
    pub async fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("gw").tempdir().unwrap();
        let settings = GatewaySettings::new(dir.path().join("g"), dir.path().to_owned());
        let gateway = Gateway::open(settings).unwrap();
        Self { gateway, endpoint: aws().await, dir }
    }

    /// A workspace with this configuration, a provider block for the local AWS before it.
    pub fn workspace(&self, name: &str, body: &str) -> Workspace {
        let text = format!("{}\n{body}\n", provider(&self.endpoint, "us-east-1", "test", ""));
        self.bare_workspace(name, &text)
    }

    /// A workspace with this configuration in which `terraform init` need not run: it has what that left in the template.
    pub fn like(&self, template: &Workspace, name: &str, text: &str) -> Workspace {
        let workspace = self.bare_workspace(name, text);
        // A reattached provider leaves nothing behind.
        for left in [".terraform", ".terraform.lock.hcl"]
            .map(|name| (template.root.join(name), workspace.root.join(name)))
        {
            match &left {
                (from, to) if from.is_dir() => copy(from, to),
                (from, to) if from.exists() => drop(fs::copy(from, to).unwrap()),
                _ => {}
            }
        }
        workspace
    }

    /// A workspace with this configuration and nothing else.
    pub fn bare_workspace(&self, name: &str, text: &str) -> Workspace {
        let root = self.dir.path().join(name);
        fs::create_dir_all(&root).unwrap();
        let required =
            "terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\" }\n  }\n}\n";
        fs::write(root.join("versions.tf"), required).unwrap();
        fs::write(root.join("main.tf"), text).unwrap();
        let cli = format!(
            "disable_checkpoint = true\nprovider_installation {{\n  filesystem_mirror {{ path = \"{}\" }}\n}}\n",
            mirror().display()
        );
        fs::write(self.dir.path().join("cli.tfrc"), cli).unwrap();
        Workspace { root, cli: self.dir.path().join("cli.tfrc") }
    }

    pub fn registration(workspace: &Workspace) -> RunRegistration {
        RunRegistration {
            workspace: workspace.root.display().to_string(),
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
        }
    }

    pub async fn register(&self, workspace: &Workspace) -> RegisteredRun {
        self.gateway.register(Self::registration(workspace)).await.unwrap()
    }

    /// A command through the gateway.
    pub async fn run(&self, workspace: &Workspace, args: &[&str]) -> Said {
        let registered = self.register(workspace).await;
        let said = workspace.run(args, Some(&registered.reattach)).await;
        self.gateway.release(&registered.run).unwrap();
        said
    }
}

/// This process and those that it starts.
pub fn own_processes() -> RunClients {
    RunClients::Descendants { of: std::process::id().try_into().unwrap() }
}

pub fn provider_env() -> BTreeMap<String, String> {
    ["PATH", "HOME"].iter().filter_map(|name| Some(((*name).to_owned(), outer().remove(*name)?))).collect()
}

/// A provider block for the local AWS.
pub fn provider(endpoint: &str, region: &str, key: &str, more: &str) -> String {
    let services = ["ec2", "eks", "iam", "sts", "s3", "sqs", "sns", "ssm", "kms", "logs", "secretsmanager"];
    let endpoints: Vec<String> = services.iter().map(|it| format!("    {it} = \"{endpoint}\"")).collect();
    let endpoints = endpoints.join("\n");
    format!(
        "provider \"aws\" {{\n  region = \"{region}\"\n  access_key = \"{key}\"\n  secret_key = \"test\"\n  \
         skip_credentials_validation = true\n  skip_metadata_api_check = true\n  \
         skip_requesting_account_id = true\n  s3_use_path_style = true\n{more}  endpoints {{\n{endpoints}\n  }}\n}}\n"
    )
}

pub struct Workspace {
    pub root: PathBuf,
    pub cli: PathBuf,
}

pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self.out
    }
}

impl Workspace {
    /// All identifiers of the configuration and the state.
    pub fn types(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut files: Vec<PathBuf> =
            fs::read_dir(&self.root).unwrap().map(|it| it.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|it| it == "tf" || it == "tfstate" || it == "json"));
        for file in files {
            collect_identifiers(&String::from_utf8_lossy(&fs::read(file).unwrap()), &mut all);
        }
        all
    }

    #[expect(clippy::disallowed_methods, reason = "tests start terraform")]
    pub fn start(&self, args: &[&str], reattach: Option<&Value>) -> Child {
        let mut command = Command::new("terraform");
        command
            .args(args)
            .current_dir(&self.root)
            .env_clear()
            .env("PATH", outer()["PATH"].clone())
            .env("HOME", &self.root)
            .env("TF_CLI_CONFIG_FILE", &self.cli)
            .env("TF_IN_AUTOMATION", "1")
            .env("CHECKPOINT_DISABLE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(reattach) = reattach {
            command.env("TF_REATTACH_PROVIDERS", reattach.to_string());
        }
        command.spawn().unwrap()
    }

    pub async fn run(&self, args: &[&str], reattach: Option<&Value>) -> Said {
        finish(self.start(args, reattach)).await
    }

    pub fn state(&self) -> Value {
        serde_json::from_slice(&fs::read(self.root.join("terraform.tfstate")).unwrap()).unwrap()
    }
}

pub async fn finish(mut child: Child) -> Said {
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let all =
        async { tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err), child.wait()) };
    let ended = tokio::time::timeout(PATIENCE, all).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&out), text(&err));
    let (_, _, status) = ended.unwrap_or_else(|_| panic!("terraform does not end:\n{out}\n{err}"));
    Said { code: status.unwrap().code().unwrap_or(-1), out, err }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(path).unwrap(), target).unwrap();
        } else if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(path, target).unwrap();
        }
    }
}

/// Whether a process lives.
pub fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Calls the local AWS without terraform.
pub async fn aws_call(endpoint: &str, service: &str, form: &str) {
    let scope = format!("Credential=test/20261116/us-east-1/{service}/aws4_request");
    let head = format!(
        "POST / HTTP/1.1\r\nauthorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0\r\n\
         content-type: application/x-www-form-urlencoded; charset=utf-8\r\ncontent-length: {}\r\n",
        form.len()
    );
    let answer = said_by(endpoint, &head, form).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{form}: {answer}");
}

/// One request on a connection of its own.
async fn said_by(endpoint: &str, head: &str, body: &str) -> String {
    let address = endpoint.trim_start_matches("http://").to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let request = format!("{head}host: {address}\r\nconnection: close\r\n\r\n{body}");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// What the local AWS was called for, by whom and where.
pub async fn calls(endpoint: &str) -> Vec<Value> {
    let answer = said_by(endpoint, "GET /_capt/calls HTTP/1.1\r\n", "").await;
    let at = answer.find(['{', '[']).unwrap();
    let body: Value = serde_json::Deserializer::from_str(&answer[at..]).into_iter().next().unwrap().unwrap();
    body.as_array().or_else(|| body["calls"].as_array()).unwrap().clone()
}
