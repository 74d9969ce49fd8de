//! The real terraform with the real AWS provider acts as the SDK does.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use capt::{
    aws::{Cloud, Hop, Principal, Source, account, keys, session_name},
    config::Outer,
};
use tempfile::TempDir;
use terraform_driver::{
    engine,
    environment::{Credentials, Environment, Inputs},
    exec::capture,
    providers::{Surroundings, Wanted, discover, usual_roots},
    render::{InlineFormat, LocalEndpoint, ProviderBlock, Request, Source as Root, render},
};

use super::capt::Capt;

const REGION: &str = "eu-west-1";
const ROOT: &str =
    "data \"aws_caller_identity\" \"me\" {}\noutput \"arn\" { value = data.aws_caller_identity.me.arn }\n";

struct Terraform {
    dir: TempDir,
    outer: Outer,
    program: PathBuf,
    endpoint: String,
}

impl Terraform {
    fn new(endpoint: String) -> Self {
        let (dir, outer) = (tempfile::tempdir().unwrap(), Outer::read().unwrap());
        let found = engine::find(None, OsStr::new(outer.var("PATH").unwrap()), Path::new("/")).unwrap();
        let roots = usual_roots(outer.home());
        let around = Surroundings { setting: None, env: &outer.env, roots: &roots, engine: found.kind };
        let wanted = Wanted::new("hashicorp", "aws", "~> 5.100").unwrap();
        let text = discover(&around, &[wanted]).unwrap().cli_config_text();
        fs::write(dir.path().join("cli.tfrc"), text).unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        Self { dir, outer, program: found.path, endpoint }
    }

    fn cloud(&self) -> Cloud {
        Cloud::Local { endpoint: self.endpoint.clone() }
    }

    /// Writes down what terraform is told about a principal, and makes the environment that goes with it.
    fn environment(&self, who: &Principal) -> Environment {
        let (credentials, assume_roles) = who.terraform(&self.cloud());
        let source = Root::Inline { format: InlineFormat::Hcl, text: ROOT.to_owned() };
        let mut request = Request::new("default", "who", source);
        request.provider = Some(ProviderBlock {
            region: REGION.to_owned(),
            local: Some(LocalEndpoint { url: self.endpoint.clone() }),
            keys_from_environment: matches!(credentials, Credentials::Static { .. }),
            assume_roles,
            ..ProviderBlock::default()
        });
        for (path, contents) in render(&request).unwrap().files {
            fs::write(self.dir.path().join("root").join(path), contents.bytes).unwrap();
        }
        let inputs = Inputs {
            cli_config: &self.dir.path().join("cli.tfrc"),
            home: self.dir.path(),
            // The provider puts its socket there, and a socket's path must be short.
            tmp: Path::new("/tmp"),
            credentials,
            template: &[],
        };
        Environment::build(&self.outer.env, &inputs).unwrap()
    }

    async fn run(&self, environment: &Environment, args: &[&str]) -> String {
        let (env, cwd) = (environment.variables(), self.dir.path().join("root"));
        let said = capture(&self.program, args, env, &cwd, Duration::from_mins(3)).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(said.success, "{args:?}\n{}{}", text(&said.stdout), text(&said.stderr));
        text(&said.stdout)
    }

    /// Who terraform is to AWS.
    async fn arn(&self, who: &Principal) -> String {
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

fn principal(source: Source, hops: Vec<Hop>) -> Principal {
    Principal { source, hops, session_name: session_name("shop", "default") }
}

#[tokio::test(flavor = "multi_thread")]
async fn terraform_acts_as_the_sdk_does() {
    let capt = Capt::new();
    capt.run(&["aws", "start"]).ok();
    let terraform = Terraform::new(format!("http://{}", capt.aws()));
    let first = Hop {
        role_arn: role("first"),
        external_id: Some("wo${r}d".to_owned()),
        duration: Some(Duration::from_hours(2)),
        tags: [("team".to_owned(), "a".to_owned())].into(),
    };
    let second = Hop { role_arn: role("second"), ..Hop::default() };
    let source = keys("AKIAIOSFODNN7EXAMPLE", "hunter2", None).unwrap();
    let chain = principal(source, vec![first, second]);
    let token_file = capt.write("token", "header.payload.signature");
    let web = principal(Source::WebIdentity { role_arn: role("web"), token_file }, Vec::new());

    for (who, end) in [(&chain, "second/capt-shop@default"), (&web, "web/capt-shop@default")] {
        let sdk = terraform.cloud().sdk_as(who, Some(REGION)).await;
        let arn = account(&sdk).await.unwrap().arn;
        assert_eq!(terraform.arn(who).await, arn, "{who:?}");
        assert!(arn.ends_with(&format!(":assumed-role/{end}")), "{arn}");
    }

    // The first role with the key of the Secret, by both of them; the second with what that gave.
    let calls = capt.calls("AssumeRole");
    let count = |key: &str| calls.iter().filter(|call| call["access_key"] == key).count();
    assert!(count("AKIAIOSFODNN7EXAMPLE") >= 2, "{calls:?}");
    assert!(count("test") >= 1, "the web identity, by terraform: {calls:?}");
    assert!(calls.len() > count("AKIAIOSFODNN7EXAMPLE") + count("test"), "{calls:?}");
    capt.run(&["aws", "stop"]).ok();
}
