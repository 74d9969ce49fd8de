//! The AWS that a command works on: a real one without credentials, and a local one without python.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use super::capt::{Ground, QUICKSTART, Run};

fn ground() -> Ground {
    let ground = Ground::new();
    ground.write("demo.yaml", QUICKSTART);
    ground
}

fn with_keys<'a>(ground: &'a Ground, sts: &str) -> Run<'a> {
    ground
        .capt_ready(&["apply", "demo.yaml", "--data", "data", "--aws", "real", "--yes"])
        .env("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "not-for-your-eyes")
        .env("AWS_ENDPOINT_URL_STS", sts)
}

#[test]
fn a_real_account_is_not_changed_when_nobody_can_be_asked() {
    for (command, would) in [("apply", "would be changed"), ("destroy", "would be destroyed")] {
        let ground = ground();
        let said = ground.capt_ready(&[command, "demo.yaml", "--data", "data", "--aws", "real"]).run();
        said.refused(&["a real AWS account", would, "say --yes, or run this at a terminal"]);
        assert!(!ground.has("engine-ran") && !ground.has("data"), "refused before anything runs");
    }
}

#[test]
fn the_answer_of_a_pipe_is_not_the_answer_of_a_person() {
    let ground = ground();
    let run = ground.capt_ready(&["apply", "demo.yaml", "--data", "data", "--aws", "real"]).stdin("yes\n");
    run.run().refused(&["nobody can be asked"]);
    assert!(!ground.has("engine-ran"));
}

#[test]
fn missing_credentials_are_said_in_one_line_and_at_once() {
    let silent = silent();
    for command in [&["plan"][..], &["apply", "--yes"], &["destroy", "--yes"]] {
        let ground = ground();
        let args = [command, &["demo.yaml", "--data", "data", "--aws", "real"]].concat();
        let run = ground.capt_ready(&args).env("AWS_REGION", "eu-central-1");
        let said = run.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", url(&silent)).run();
        assert!(!was_asked(&silent), "nobody is waited for: {said:?}");
        said.refused(&["no credentials", "`aws sso login`", "leave `--aws real` out to use the local AWS"]);
        assert!(!ground.has("data/workspaces"));
    }
}

#[test]
fn a_metadata_service_that_keeps_silent_is_not_waited_for() {
    let silent = silent();
    let ground = ground();
    let said = ground
        .capt_ready(&["plan", "demo.yaml", "--data", "data", "--aws", "real"])
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_EC2_METADATA_DISABLED", "false")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", url(&silent))
        .run();
    assert!(was_asked(&silent), "it would have waited for nobody: {said:?}");
    said.refused(&["no credentials"]);
}

/// A metadata service that never answers.
fn silent() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// Whether a client has connected to it.
fn was_asked(listener: &TcpListener) -> bool {
    listener.accept().is_ok()
}

fn url(listener: &TcpListener) -> String {
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn refused_credentials_are_said_in_the_words_of_aws() {
    let sts = sts("403 Forbidden", REFUSAL);
    let ground = ground();
    let said = with_keys(&ground, &sts).env("AWS_REGION", "eu-central-1").run();
    assert!(!said.stderr.contains("not-for-your-eyes"), "{said:?}");
    said.refused(&[
        "InvalidClientTokenId",
        "The security token included in the request is invalid",
        "`aws sso login`",
    ]);
    assert!(!ground.has("data/workspaces"));
}

#[test]
fn credentials_without_a_region_are_told_how_to_name_one() {
    let sts = sts("403 Forbidden", REFUSAL);
    let ground = ground();
    let said = with_keys(&ground, &sts).run().refused(&["region", "AWS_REGION"]);
    assert!(!said.stderr.contains("sso login"), "logging in does not help: {said:?}");
}

#[test]
fn no_python_for_the_local_aws() {
    for python in ["/nonexistent/python3", "python-that-is-not-there"] {
        let ground = ground();
        for args in [&["apply", "demo.yaml"][..], &["plan", "demo.yaml"]] {
            let said =
                ground.capt_ready(&[args, &["--data", "data"]].concat()).env("CAPT_PYTHON", python).run();
            said.refused(&["the local AWS needs python3", python, "install it", "set CAPT_PYTHON"]);
        }
        let said = ground.capt(&["aws", "start", "--data", "data"]).env("CAPT_PYTHON", python).run();
        said.refused(&["the local AWS needs python3", python, "install it", "set CAPT_PYTHON"]);
        assert!(!ground.has("data/workspaces"));
        ground.capt(&["render", "demo.yaml", "-o", "out", "--data", "data"]).run().done();
    }
}

#[test]
fn a_local_aws_that_does_not_run_is_no_error_to_ask_about() {
    let ground = ground();
    let ask = |args: &[&str]| ground.capt(&[&["aws"], args, &["--data", "data"]].concat()).run().done();
    assert_eq!(ask(&["status"]).stdout, "not running\n");
    assert_eq!(ask(&["inventory"]).stdout, "nothing exists\n");
    assert_eq!(ask(&["stop"]).stderr, "the local AWS was not running\n");
    let status: serde_json::Value = serde_json::from_str(&ask(&["status", "-o", "json"]).stdout).unwrap();
    assert_eq!(status["running"], false);
    let inventory: serde_json::Value =
        serde_json::from_str(&ask(&["inventory", "-o", "json"]).stdout).unwrap();
    assert_eq!(inventory["items"], serde_json::json!([]));
    assert!(!ground.has("data"), "asking makes nothing");
}

#[test]
fn nothing_to_destroy_is_no_error_and_needs_no_terraform() {
    let ground = ground();
    let said = ground.capt(&["destroy", "demo.yaml", "--data", "data"]).run().done();
    assert_eq!(said.stderr, "nothing is there to destroy\n");
}

const REFUSAL: &str = "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
    <Code>InvalidClientTokenId</Code><Message>The security token included in the request is invalid.</Message>\
    </Error><RequestId>0a1b2c3d</RequestId></ErrorResponse>";

/// An STS on the loopback interface that gives every request this answer.
fn sts(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            thread::spawn(move || answer(connection.unwrap(), status, body));
        }
    });
    format!("http://{address}")
}

fn answer(mut connection: TcpStream, status: &str, body: &str) {
    let mut request = [0; 16 * 1024];
    // The SDK sends its few hundred bytes at once; what they say does not matter.
    let _read = connection.read(&mut request);
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _gone = connection.write_all(format!("{head}{body}").as_bytes());
}
