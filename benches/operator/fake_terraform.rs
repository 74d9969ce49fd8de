//! A fake terraform that creates nothing and sleeps: this program, copied under another name.
//!
//! What fifteen minutes of EKS do to an operator is a matter of how many runs there are, how long they stay and how much
//! they say. All of that is here; AWS is not.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Cursor, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zip::write::SimpleFileOptions;

/// What the stand-in must know, beside its program.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Script {
    /// How long an apply takes.
    pub(crate) apply: Duration,
    /// Where it says what it made, and when it was started.
    pub(crate) world: PathBuf,
    /// Where the API of every cluster is.
    pub(crate) endpoint: String,
    /// Whose signature the API's certificate has.
    pub(crate) authority: String,
}

/// Objects that one workspace makes.
const OBJECTS: usize = 20;
/// How often an apply says that it goes on.
const PROGRESS_EVENTS: u32 = 10;
/// The exit code of a plan that has work.
const EXIT_CHANGES: u8 = 2;

/// Puts the stand-in into a directory; the program to give to capt.
pub(crate) fn install(dir: &Path, script: &Script) -> anyhow::Result<PathBuf> {
    let program = dir.join("terraform");
    fs::copy(env::current_exe()?, &program).context("copying the stand-in")?;
    fs::create_dir_all(&script.world)?;
    write_script(&program, script)?;
    Ok(program)
}

/// Gives the stand-in another script; what runs already keeps its own.
pub(crate) fn write_script(program: &Path, script: &Script) -> anyhow::Result<()> {
    // Replace the script atomically: a fake terraform may be reading it.
    let whole = program.with_extension("script.new");
    fs::write(&whole, serde_json::to_vec(script)?)?;
    Ok(fs::rename(whole, program.with_extension("script"))?)
}

/// When each command was started: its workspace, its name and the time.
pub(crate) fn read_starts(world: &Path) -> anyhow::Result<Vec<(String, String, SystemTime)>> {
    let text = fs::read_to_string(world.join("diary")).unwrap_or_default();
    text.lines()
        .map(|line| {
            let mut parts = line.split(' ');
            let mut part = || parts.next().context("a torn line in the diary");
            let at = UNIX_EPOCH + Duration::from_nanos(part()?.parse()?);
            Ok((part()?.to_owned(), part()?.to_owned(), at))
        })
        .collect()
}

/// The stand-in's part: `None` if this process is the bench itself.
pub(crate) fn run_as_fake() -> Option<ExitCode> {
    let me = PathBuf::from(env::args_os().next()?);
    let script: Script = serde_json::from_slice(&fs::read(me.with_extension("script")).ok()?).ok()?;
    match run_command(&script) {
        Ok(code) => Some(ExitCode::from(code)),
        Err(error) => {
            // Visible in the log of the run.
            let _nobody_listens = writeln!(io::stderr(), "{error:#}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn run_command(script: &Script) -> anyhow::Result<u8> {
    let args: Vec<String> = env::args().skip(1).collect();
    let command = args.first().map(String::as_str).unwrap_or_default();
    if command == "version" {
        print_json(
            &json!({"terraform_version": "1.11.4", "platform": "linux_amd64", "provider_selections": {}}),
        )?;
        return Ok(0);
    }
    log_start(script, command)?;
    let destroys = args.iter().any(|arg| arg == "-destroy");
    match command {
        "init" => fs::create_dir_all(".terraform").map(|()| 0).context("making .terraform"),
        "plan" => plan(destroys, plan_file_argument(&args)?),
        "apply" => apply(script),
        other => anyhow::bail!("nobody taught me `{other}`"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a diary needs the time")]
fn log_start(script: &Script, command: &str) -> anyhow::Result<()> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let path = script.world.join("diary");
    let mut diary = fs::OpenOptions::new().create(true).append(true).open(path)?;
    Ok(diary.write_all(format!("{at} {} {command}\n", workspace_name()?).as_bytes())?)
}

/// The name of the workspace.
fn workspace_name() -> anyhow::Result<String> {
    let dir = fs::canonicalize(".")?;
    Ok(dir.file_name().context("a workspace without a name")?.to_string_lossy().into_owned())
}

/// All variables, whichever file they are in.
fn variables() -> anyhow::Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for file in ["terraform.tfvars.json", "upstream.auto.tfvars.json"] {
        if let Ok(bytes) = fs::read(file) {
            all.extend(serde_json::from_slice::<BTreeMap<String, Value>>(&bytes)?);
        }
    }
    Ok(all)
}

/// Where a plan is to be saved.
fn plan_file_argument(args: &[String]) -> anyhow::Result<&str> {
    args.iter().find_map(|arg| arg.strip_prefix("-out=")).context("a plan is always saved")
}

/// Has work if there is no state, or one that other variables led to.
fn plan(destroys: bool, file: &str) -> anyhow::Result<u8> {
    let digest = serde_json::to_string(&variables()?)?;
    let made = fs::read_to_string("made").unwrap_or_default();
    let has_work = destroys || made != digest;
    // Delete, create, update in terraform's plan format.
    let action = match (destroys, made.is_empty()) {
        (true, _) => 5,
        (false, true) => 1,
        (false, false) => 3,
    };
    let mut message = Vec::new();
    if has_work {
        for number in 0..OBJECTS {
            let body = protobuf_field(9, &[8, action]);
            let address = protobuf_field(13, format!("terraform_data.it[{number}]").as_bytes());
            message.extend(protobuf_field(3, &[body, address].concat()));
        }
    }
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("tfplan", SimpleFileOptions::default())?;
    archive.write_all(&message)?;
    fs::write(file, archive.finish()?.into_inner())?;
    fs::write("planned", if destroys { "destroy" } else { &digest })?;
    Ok(if has_work { EXIT_CHANGES } else { 0 })
}

/// A field of a protobuf message that has a length.
fn protobuf_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 127 {
        all.push(u8::try_from(length & 127).unwrap_or_default() | 128);
        length >>= 7;
    }
    all.push(u8::try_from(length).unwrap_or_default());
    all.extend_from_slice(bytes);
    all
}

fn apply(script: &Script) -> anyhow::Result<u8> {
    let planned = fs::read_to_string("planned")?;
    let destroys = planned == "destroy";
    for number in 0..OBJECTS {
        print_hook_event("apply_start", number, 0)?;
    }
    for word in 0..PROGRESS_EVENTS {
        thread::sleep(script.apply / PROGRESS_EVENTS);
        if !destroys {
            // As terraform does, object by object.
            let share = OBJECTS * usize::try_from(word + 1)? / usize::try_from(PROGRESS_EVENTS)?;
            write_state(script, share, word)?;
        }
        for number in 0..OBJECTS {
            print_hook_event("apply_progress", number, word)?;
        }
    }
    for number in 0..OBJECTS {
        print_hook_event("apply_complete", number, PROGRESS_EVENTS)?;
    }
    if destroys {
        write_state(script, 0, PROGRESS_EVENTS)?;
        fs::remove_file("made").ok();
    } else {
        fs::write("made", planned)?;
        let variables = variables()?;
        let text = |name: &str| variables.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(cluster) = text("cluster_name").filter(|_| !variables.contains_key("cidr")) {
            let profile = text("profile_name").map(|profile| format!(".{profile}")).unwrap_or_default();
            fs::write(script.world.join(format!("{cluster}{profile}")), "")?;
        }
    }
    Ok(0)
}

fn print_hook_event(kind: &str, number: usize, seconds: u32) -> anyhow::Result<()> {
    let address = format!("terraform_data.it[{number}]");
    print_json(&json!({"@level": "info", "@message": format!("{address}: {kind}"), "@module": "terraform.ui",
        "@timestamp": "2026-11-17T00:00:00.000000Z", "type": kind,
        "hook": {"resource": {"addr": address, "module": "", "resource": address, "implied_provider": "terraform",
            "resource_type": "terraform_data", "resource_name": "it", "resource_key": number},
            "action": "create", "elapsed_seconds": seconds}}))
}

fn print_json(value: &Value) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{value}")?)
}

/// A state with so many objects, as large as a real one.
fn write_state(script: &Script, objects: usize, serial: u32) -> anyhow::Result<()> {
    let filler = "x".repeat(1500);
    let instances: Vec<Value> = (0..objects)
        .map(|number| json!({"index_key": number, "schema_version": 0, "attributes": {"id": number.to_string(), "output": filler}}))
        .collect();
    let resources = if instances.is_empty() {
        json!([])
    } else {
        json!([{"mode": "managed", "type": "terraform_data", "name": "it",
            "provider": "provider[\"terraform.io/builtin/terraform\"]", "instances": instances}])
    };
    let outputs: serde_json::Map<String, Value> = outputs(script)?
        .into_iter()
        .map(|(name, value)| {
            let kind = if value.is_array() { json!(["list", "string"]) } else { json!("string") };
            (name.to_owned(), json!({"value": value, "type": kind}))
        })
        .collect();
    let before = fs::read("terraform.tfstate").ok().and_then(|it| serde_json::from_slice::<Value>(&it).ok());
    let lineage = before.as_ref().map_or_else(
        || json!(format!("{}-{}", workspace_name().unwrap_or_default(), std::process::id())),
        |it| it["lineage"].clone(),
    );
    let next = before.as_ref().and_then(|it| it["serial"].as_u64()).unwrap_or_default() + 1;
    let whole = json!({"version": 4, "terraform_version": "1.11.4", "serial": next.max(u64::from(serial)),
        "lineage": lineage, "outputs": outputs, "resources": resources});
    fs::write("terraform.tfstate.new", serde_json::to_vec(&whole)?)?;
    Ok(fs::rename("terraform.tfstate.new", "terraform.tfstate")?)
}

/// What the built-in modules say, all of them at once.
fn outputs(script: &Script) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let variables = variables()?;
    let text = |name: &str| variables.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (cluster, profile) = (text("cluster_name"), text("profile_name"));
    let arn = |what: &str| json!(format!("arn:aws:eks:eu-central-1:123456789012:{what}"));
    Ok(vec![
        ("vpc_id", json!("vpc-0123456789abcdef0")),
        ("vpc_cidr", json!("10.0.0.0/16")),
        ("private_subnets", json!(["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"])),
        ("public_subnets", json!(["subnet-0123456789abcdef2", "subnet-0123456789abcdef3"])),
        ("azs", json!(["eu-central-1a", "eu-central-1b"])),
        ("cluster_name", json!(cluster)),
        ("cluster_arn", arn(&format!("cluster/{cluster}"))),
        ("cluster_endpoint", json!(script.endpoint)),
        ("cluster_certificate_authority_data", json!(script.authority)),
        ("cluster_version", json!("1.33")),
        ("cluster_status", json!("ACTIVE")),
        ("oidc_provider", json!("oidc.example")),
        ("oidc_provider_arn", arn("oidc-provider/x")),
        ("cluster_primary_security_group_id", json!("sg-0123456789abcdef0")),
        ("pod_execution_role_arn", json!("arn:aws:iam::123456789012:role/pods")),
        ("fargate_profile_arn", arn(&format!("fargateprofile/{cluster}/{profile}/x"))),
        ("fargate_profile_name", json!(profile)),
        ("fargate_profile_status", json!("ACTIVE")),
    ])
}
