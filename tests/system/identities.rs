//! The real terraform with the real AWS provider acts as the SDK does.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use capt_engine::{
    aws::{Cloud, Principal, PrincipalSource, RoleHop, get_caller_identity, parse_keys, session_name},
    process_env::ProcessEnv,
};
use tempfile::TempDir;
use terraform_driver::{
    engine,
    environment::{Environment, EnvironmentInputs, TerraformCredentials},
    exec::capture_output,
    providers::{DiscoveryInputs, ProviderRequirement, default_search_roots, discover_providers},
    render::{InlineFormat, LocalEndpoint, ProviderBlock, RenderRequest, RootSource as Root, render},
};

use super::harness::SystemHarness;

const REGION: &str = "eu-west-1";
const ROOT: &str =
    "data \"aws_caller_identity\" \"me\" {}\noutput \"arn\" { value = data.aws_caller_identity.me.arn }\n";

struct TerraformRunner {
    dir: TempDir,
    process_env: ProcessEnv,
    program: PathBuf,
    endpoint: String,
}

impl TerraformRunner {
    fn new(endpoint: String) -> Self {
        let (dir, process_env) = (tempfile::tempdir().unwrap(), ProcessEnv::read().unwrap());
        let found =
            engine::locate(None, OsStr::new(process_env.var("PATH").unwrap()), Path::new("/")).unwrap();
        let roots = default_search_roots(process_env.home());
        let around =
            DiscoveryInputs { setting: None, env: &process_env.env, roots: &roots, engine: found.kind };
        let wanted = ProviderRequirement::new("hashicorp", "aws", "~> 5.100").unwrap();
        let text = discover_providers(&around, &[wanted]).unwrap().cli_config_text();
        fs::write(dir.path().join("cli.tfrc"), text).unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self { dir, process_env, program: found.path, endpoint }
    }

    fn cloud(&self) -> Cloud {
        Cloud::Local { endpoint: self.endpoint.clone() }
    }

    /// Writes the provider files for a principal, and returns the matching environment.
    fn environment(&self, who: &Principal) -> Environment {
        let (credentials, assume_roles) = who.terraform_credentials(&self.cloud());
        let source = Root::Inline { format: InlineFormat::Hcl, text: ROOT.to_owned() };
        let mut request = RenderRequest::new("default", "who", source);
        request.provider = Some(ProviderBlock {
            region: REGION.to_owned(),
            local: Some(LocalEndpoint { url: self.endpoint.clone() }),
            keys_from_environment: matches!(credentials, TerraformCredentials::Static { .. }),
            assume_roles,
            ..ProviderBlock::default()
        });
        for (path, contents) in render(&request).unwrap().files {
            fs::write(self.dir.path().join("root").join(path), contents.bytes).unwrap();
        }
        let inputs = EnvironmentInputs {
            cli_config: &self.dir.path().join("cli.tfrc"),
            home: self.dir.path(),
            // The provider puts its socket there, and a socket's path must be short.
            tmp: Path::new("/tmp"),
            credentials,
            template: &[],
        };
        Environment::build(&self.process_env.env, &inputs).unwrap()
    }

    async fn run(&self, environment: &Environment, args: &[&str]) -> String {
        let (env, cwd) = (environment.variables(), self.dir.path().join("root"));
        let said = capture_output(&self.program, args, env, &cwd, Duration::from_mins(3)).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(said.success, "{args:?}\n{}{}", text(&said.stdout), text(&said.stderr));
        text(&said.stdout)
    }

    /// Who terraform is to AWS.
    async fn caller_arn(&self, who: &Principal) -> String {
        let environment = self.environment(who);
        if !self.dir.path().join("root/.terraform").exists() {
            self.run(&environment, &["init", "-no-color"]).await;
        }
        self.run(&environment, &["apply", "-auto-approve", "-no-color"]).await;
        self.run(&environment, &["output", "-raw", "arn"]).await
    }
}

fn role(name: &str) -> String {
    format!("arn:aws:iam::123456789012:role/{name}")
}

fn principal(source: PrincipalSource, hops: Vec<RoleHop>) -> Principal {
    Principal { source, role_chain: hops, session_name: session_name("shop", "default") }
}

#[tokio::test(flavor = "multi_thread")]
async fn terraform_acts_as_the_sdk_does() {
    let capt = SystemHarness::new();
    capt.run(&["aws", "start"]).expect_success();
    let terraform = TerraformRunner::new(format!("http://{}", capt.aws_address()));
    let first = RoleHop {
        role_arn: role("first"),
        external_id: Some("wo${r}d".to_owned()),
        duration: Some(Duration::from_hours(2)),
        tags: [("team".to_owned(), "a".to_owned())].into(),
    };
    let second = RoleHop { role_arn: role("second"), ..RoleHop::default() };
    let source = parse_keys("AKIAIOSFODNN7EXAMPLE", "hunter2", None).unwrap();
    let chain = principal(source, vec![first, second]);
    let token_file = capt.write_file("token", "header.payload.signature");
    let web = principal(PrincipalSource::WebIdentity { role_arn: role("web"), token_file }, Vec::new());

    for (who, end) in [(&chain, "second/capt-shop@default"), (&web, "web/capt-shop@default")] {
        let sdk = terraform.cloud().sdk_config_as(who, Some(REGION)).await;
        let arn = get_caller_identity(&sdk).await.unwrap().arn;
        assert_eq!(terraform.caller_arn(who).await, arn, "{who:?}");
        assert!(arn.ends_with(&format!(":assumed-role/{end}")), "{arn}");
    }

    // The first role with the key of the Secret, by both of them; the second with what that gave.
    let calls = capt.calls_of_operation("AssumeRole");
    let count = |key: &str| calls.iter().filter(|call| call["access_key"] == key).count();
    assert!(count("AKIAIOSFODNN7EXAMPLE") >= 2, "{calls:?}");
    assert!(count("test") >= 1, "the web identity, by terraform: {calls:?}");
    assert!(calls.len() > count("AKIAIOSFODNN7EXAMPLE") + count("test"), "{calls:?}");
    capt.run(&["aws", "stop"]).expect_success();
}
