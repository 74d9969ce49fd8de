//! The arguments of the manifests are flags of the command that they are given to.

use std::process::Command;

use super::overlays::{of_kind, read_file, rendered_overlay};

/// What Cluster API expects every provider to take.
const EXPECTED: [&str; 4] = ["--namespace", "--watch-filter", "--leader-elect", "--listen"];

#[expect(clippy::disallowed_methods, reason = "a test starts the command as its caller would")]
fn capt_output(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_capt")).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The subcommands that the binary has, hidden ones too.
fn has_subcommand(subcommand: &str) -> bool {
    capt_output(&[subcommand, "--help"]).contains(&format!("capt {subcommand}"))
}

/// The names of the flags in a help text.
fn parse_flags(help: &str) -> Vec<&str> {
    let words = help.split(|letter: char| letter.is_whitespace() || "[]=<>,`()".contains(letter));
    words.filter(|word| word.starts_with("--") && word.len() > 2).collect()
}

#[test]
fn the_arguments_of_the_deployment_are_flags_of_run() {
    if !has_subcommand("run") {
        println!("notice: this capt has no `run`, so the arguments were not compared");
        return;
    }
    let help = capt_output(&["run", "--help"]);
    let known = parse_flags(&help);
    for overlay in ["base", "webhook", "standalone"] {
        let objects = rendered_overlay(overlay);
        let container = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
        for arg in container["args"].as_array().unwrap() {
            let flag = arg.as_str().unwrap().split('=').next().unwrap();
            assert!(known.contains(&flag), "{overlay}: `capt run` has no {flag}\n{help}");
        }
    }
    for flag in EXPECTED {
        assert!(known.contains(&flag), "`capt run` has no {flag}\n{help}");
    }
}

#[test]
fn the_entrypoint_is_made_of_commands_that_exist() {
    let dockerfile = read_file("deploy/Dockerfile");
    let line = dockerfile.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).expect("an ENTRYPOINT");
    let words: Vec<String> = serde_json::from_str(line).unwrap();
    assert_eq!(words, ["/usr/local/bin/capt", "init", "--", "/usr/local/bin/capt", "run"]);
    assert!(
        !has_subcommand("run") || has_subcommand("init"),
        "`capt run` is there, and nothing starts it in the image"
    );
}

#[test]
fn flags_are_found_in_a_help_text() {
    let help = "  --listen <ADDR>  where [env: X=] [default: --no]\n  -n, --namespace=<NS>  or `--all`";
    assert_eq!(parse_flags(help), ["--listen", "--no", "--namespace", "--all"]);
    assert!(parse_flags(&capt_output(&["apply", "--help"])).contains(&"--data"));
    assert!(has_subcommand("apply"));
    assert!(!has_subcommand("no-such-command"));
}
