//! Runs every command of `examples/sandbox/README.md`; the output shown on the page must be the actual output.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what goes wrong here fails the test")]

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::operator::ports::free_port;

/// A command of the page with what it should print.
#[derive(Default)]
struct Step {
    commands: String,
    expected_output: String,
}

/// The blocks of a page: `sh` is run, the `text` after it is what comes out.
fn parse_steps(page: &str) -> Vec<Step> {
    let (mut steps, mut inside) = (Vec::<Step>::new(), None);
    for line in page.lines() {
        match (line.strip_prefix("```"), &inside) {
            (Some("sh"), None) => {
                steps.push(Step::default());
                inside = Some("sh");
            }
            (Some("text"), None) => inside = Some("text"),
            (Some(_), _) => inside = None,
            (None, Some(kind)) => {
                let step = steps.last_mut().expect("a command before what it prints");
                let text = if *kind == "sh" { &mut step.commands } else { &mut step.expected_output };
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    steps
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a newcomer's shell")]
fn the_tour_of_the_shop_is_true() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(top.join(path)).unwrap();
    let (frontend, catalog) = (free_port().to_string(), free_port().to_string());
    let dir = tempfile::tempdir().unwrap();
    // Ports, directories and deadlines are those of the test; everything else is the page's.
    let page = read("examples/sandbox/README.md")
        .replace("18080", &frontend)
        .replace("PORT=3000", &format!("PORT={catalog}"))
        .replace(
            "$PWD/target/debug",
            &Path::new(env!("CARGO_BIN_EXE_capt")).parent().unwrap().display().to_string(),
        )
        .replace("\"$PWD/.cache\"", "\"${CAPT_CACHE:-$PWD/.cache}\"")
        .replace("$PWD/.capt-shop", &dir.path().join("data").display().to_string())
        // A reader gives up sooner than a test on a busy machine may.
        .replace("--timeout=120s", "--timeout=15m")
        .replace("--timeout=60s", "--timeout=15m");
    let laptop = dir.path().join("laptop.yaml");
    fs::write(
        &laptop,
        read("examples/sandbox/laptop.yaml").replace("localhost:3000", &format!("localhost:{catalog}")),
    )
    .unwrap();
    let page = page.replace("examples/sandbox/laptop.yaml", &laptop.display().to_string());

    let mut steps = parse_steps(&page);
    assert_eq!(
        steps.remove(0).commands,
        "make build deps\n",
        "the page begins with what `make test` has done before"
    );
    assert!(
        steps.iter().filter(|it| !it.expected_output.is_empty()).count() >= 5,
        "a page that shows nothing proves nothing"
    );
    // Whatever goes wrong, nothing is left running.
    let end = "trap 'code=$?; set +e; { kill $(jobs -p); capt stop; capt aws stop; } >/dev/null 2>&1; exit $code' EXIT";
    let mut script = format!("set -euo pipefail\n{end}\n");
    for (index, step) in steps.iter().enumerate() {
        write!(script, "echo '@@ {index}'\n{}", step.commands).unwrap();
    }
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(top).stdin(Stdio::null()).output().unwrap();
    let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let nodes = fs::read_to_string(dir.path().join("data/node.log")).unwrap_or_default();
    assert!(output.status.success(), "{said}\n{log}\nnode.py:\n{nodes}");
    for (index, step) in steps.iter().enumerate() {
        let own = said.split(&format!("@@ {index}\n")).nth(1).unwrap_or_default();
        let own = own.split("@@ ").next().unwrap_or_default();
        assert!(
            own.ends_with(&step.expected_output),
            "after\n{}\nthe page shows\n{}\nand it was\n{own}",
            step.commands,
            step.expected_output
        );
    }
}
