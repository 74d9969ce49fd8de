//! The AWS that a command works on: a real one without credentials, and a local one without python.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use super::harness::{CliHarness, CommandBuilder, QUICKSTART};

fn harness_with_quickstart() -> CliHarness {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    ground
}

fn apply_with_credentials<'a>(ground: &'a CliHarness, sts: &str) -> CommandBuilder<'a> {
    ground
        .capt_with_engine(&["apply", "demo.yaml", "--data", "data", "--aws", "real", "--yes"])
        .env("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "not-for-your-eyes")
        .env("AWS_ENDPOINT_URL_STS", sts)
}

#[test]
fn a_real_account_is_not_changed_when_nobody_can_be_asked() {
    for (command, would) in [("apply", "this changes"), ("destroy", "this destroys")] {
        let ground = harness_with_quickstart();
        let said = ground.capt_with_engine(&[command, "demo.yaml", "--data", "data", "--aws", "real"]).run();
        said.assert_refused(&["a real AWS account", would, "pass --yes, or run it in a terminal"]);
        assert!(!ground.has("engine-ran") && !ground.has("data"), "refused before anything runs");
    }
}

#[test]
fn the_answer_of_a_pipe_is_not_the_answer_of_a_person() {
    let ground = harness_with_quickstart();
    let run =
        ground.capt_with_engine(&["apply", "demo.yaml", "--data", "data", "--aws", "real"]).stdin("yes\n");
    run.run().assert_refused(&["standard input is no terminal"]);
    assert!(!ground.has("engine-ran"));
}

#[test]
fn missing_credentials_are_said_in_one_line_and_at_once() {
    let silent = unresponsive_listener();
    for command in [&["plan"][..], &["apply", "--yes"], &["destroy", "--yes"]] {
        let ground = harness_with_quickstart();
        let args = [command, &["demo.yaml", "--data", "data", "--aws", "real"]].concat();
        let run = ground.capt_with_engine(&args).env("AWS_REGION", "eu-central-1");
        let said = run.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", url(&silent)).run();
        assert!(!has_connection(&silent), "it does not wait: {said:?}");
        said.assert_refused(&["no credentials", "`aws sso login`", "AWS_PROFILE"]);
        assert!(!ground.has("data/workspaces"));
    }
}

#[test]
fn a_metadata_service_that_keeps_silent_is_not_waited_for() {
    let silent = unresponsive_listener();
    let ground = harness_with_quickstart();
    let said = ground
        .capt_with_engine(&["plan", "demo.yaml", "--data", "data", "--aws", "real"])
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_EC2_METADATA_DISABLED", "false")
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", url(&silent))
        .run();
    assert!(has_connection(&silent), "it did not try to connect: {said:?}");
    said.assert_refused(&["no credentials"]);
}

/// A metadata service that never answers.
fn unresponsive_listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// Whether a client has connected to it.
fn has_connection(listener: &TcpListener) -> bool {
    listener.accept().is_ok()
}

fn url(listener: &TcpListener) -> String {
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn refused_credentials_are_said_in_the_words_of_aws() {
    let sts = start_fake_sts("403 Forbidden", STS_ERROR_BODY);
    let ground = harness_with_quickstart();
    let said = apply_with_credentials(&ground, &sts).env("AWS_REGION", "eu-central-1").run();
    assert!(!said.stderr.contains("not-for-your-eyes"), "{said:?}");
    said.assert_refused(&[
        "InvalidClientTokenId",
        "The security token included in the request is invalid",
        "`aws sso login`",
    ]);
    assert!(!ground.has("data/workspaces"));
}

#[test]
fn credentials_without_a_region_are_told_how_to_name_one() {
    let sts = start_fake_sts("403 Forbidden", STS_ERROR_BODY);
    let ground = harness_with_quickstart();
    let said = apply_with_credentials(&ground, &sts).run().assert_refused(&["region", "AWS_REGION"]);
    assert!(!said.stderr.contains("sso login"), "logging in does not help: {said:?}");
}

#[test]
fn no_python_for_the_local_aws() {
    for python in ["/nonexistent/python3", "python-that-is-not-there"] {
        let ground = harness_with_quickstart();
        for args in [&["apply", "demo.yaml"][..], &["plan", "demo.yaml"]] {
            let said = ground
                .capt_with_engine(&[args, &["--data", "data"]].concat())
                .env("CAPT_PYTHON", python)
                .run();
            said.assert_refused(&["the local AWS needs python3", python, "install it", "set CAPT_PYTHON"]);
        }
        let said = ground.capt(&["aws", "start", "--data", "data"]).env("CAPT_PYTHON", python).run();
        said.assert_refused(&["the local AWS needs python3", python, "install it", "set CAPT_PYTHON"]);
        assert!(!ground.has("data/workspaces"));
        ground.capt(&["render", "demo.yaml", "-o", "out", "--data", "data"]).run().assert_success();
    }
}

#[test]
fn a_local_aws_that_does_not_run_is_no_error_to_ask_about() {
    let ground = harness_with_quickstart();
    let ask =
        |args: &[&str]| ground.capt(&[&["aws"], args, &["--data", "data"]].concat()).run().assert_success();
    assert_eq!(ask(&["status"]).stdout, "not running\n");
    assert_eq!(ask(&["inventory"]).stdout, "no resources\n");
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
    let ground = harness_with_quickstart();
    let said = ground.capt(&["destroy", "demo.yaml", "--data", "data"]).run().assert_success();
    assert_eq!(said.stderr, "nothing to destroy\n");
}

const STS_ERROR_BODY: &str = "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
    <Code>InvalidClientTokenId</Code><Message>The security token included in the request is invalid.</Message>\
    </Error><RequestId>0a1b2c3d</RequestId></ErrorResponse>";

/// An STS on the loopback interface that gives every request this answer.
fn start_fake_sts(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            thread::spawn(move || respond(connection.unwrap(), status, body));
        }
    });
    format!("http://{address}")
}

fn respond(mut connection: TcpStream, status: &str, body: &str) {
    let mut request = [0; 16 * 1024];
    // The SDK sends its few hundred bytes at once; what they say does not matter.
    let _read = connection.read(&mut request);
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _gone = connection.write_all(format!("{head}{body}").as_bytes());
}
