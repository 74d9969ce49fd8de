//! Test harness: runs `capt` in its own directory and checks output and exit code.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Valid manifests that the tests modify.
pub(crate) const QUICKSTART: &str = include_str!("../../examples/quickstart.yaml");

/// Deadline of every command; only reached by a hang.
const DEADLINE: Duration = Duration::from_mins(5);

/// Text that only a bug or a derived `Debug` prints.
const FORBIDDEN_OUTPUT: [&str; 11] = [
    "panicked",
    "RUST_BACKTRACE",
    "a bug in capt",
    "Some(",
    "None,",
    "Err(",
    "Ok(",
    "Error {",
    "source: ",
    "kind: ",
    "StatusCode(",
];

/// The quickstart with one text in it replaced; the text must be there.
pub(crate) fn quickstart_with(old: &str, new: &str) -> String {
    assert!(QUICKSTART.contains(old), "the quickstart has no {old:?}");
    QUICKSTART.replacen(old, new, 1)
}

/// A script that answers `version -json`.
pub(crate) fn engine_script(name: &str) -> String {
    format!("{}/tests/cli/engines/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A directory in which commands run.
pub(crate) struct CliHarness {
    dir: TempDir,
}

impl CliHarness {
    pub(crate) fn new() -> Self {
        let ground = Self { dir: tempfile::tempdir().unwrap() };
        for dir in ["bin", "home"] {
            fs::create_dir(ground.path(dir)).unwrap();
        }
        ground
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Creates the directories of a provider mirror with this version of the AWS provider; no binaries.
    pub(crate) fn create_provider_mirror(&self, version: &str) -> &'static str {
        let platform = terraform_driver::providers::platform();
        let dir = format!("mirror/registry.terraform.io/hashicorp/aws/{version}/{platform}");
        fs::create_dir_all(self.path(&dir)).unwrap();
        "mirror"
    }

    /// `capt` with these arguments.
    pub(crate) fn capt(&self, args: &[&str]) -> CommandBuilder<'_> {
        self.program(Path::new(env!("CARGO_BIN_EXE_capt")), args)
    }

    /// `capt` with a usable engine and mirror, so that it gets to the data directory and the AWS.
    pub(crate) fn capt_with_engine(&self, args: &[&str]) -> CommandBuilder<'_> {
        let mirror = self.create_provider_mirror("6.0.0");
        self.capt(&[args, &["--engine", &engine_script("new"), "--provider-mirror", mirror]].concat())
    }

    /// `PATH` is empty, there is no python, and IMDS is not asked.
    #[expect(clippy::disallowed_methods, reason = "the one place of this suite that starts processes")]
    pub(crate) fn program(&self, program: &Path, args: &[&str]) -> CommandBuilder<'_> {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.path("home"))
            .env("CAPT_CACHE", self.path("cache"))
            .env("CAPT_PYTHON", "/nonexistent/python3")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        CommandBuilder { harness: self, command, stdin: Vec::new() }
    }

    /// Renders `demo.yaml`.
    pub(crate) fn render(&self) -> CommandOutput {
        self.capt(&["render", "demo.yaml", "-o", "out"]).run()
    }
}

/// A command that is about to run.
pub(crate) struct CommandBuilder<'a> {
    harness: &'a CliHarness,
    command: Command,
    stdin: Vec<u8>,
}

impl CommandBuilder<'_> {
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub(crate) fn run(self) -> CommandOutput {
        self.start().wait()
    }

    /// Output goes to files, so that no pipe fills up and the deadline can be enforced.
    pub(crate) fn start(mut self) -> RunningCommand {
        let words = tempfile::tempdir_in(self.harness.dir.path()).unwrap();
        let file = |name: &str| File::create(words.path().join(name)).unwrap();
        let mut stdin = tempfile::tempfile().unwrap();
        stdin.write_all(&self.stdin).unwrap();
        std::io::Seek::rewind(&mut stdin).unwrap();
        self.command.stdin(Stdio::from(stdin)).stdout(file("out")).stderr(file("err"));
        let begun = Instant::now();
        let child = self.command.spawn().unwrap();
        RunningCommand {
            command_line: format!("{:?}", self.command),
            child,
            output_dir: words,
            started: begun,
        }
    }
}

/// A command that runs.
pub(crate) struct RunningCommand {
    command_line: String,
    child: Child,
    output_dir: TempDir,
    started: Instant,
}

impl RunningCommand {
    /// `out` or `err`, as far as it is written.
    pub(crate) fn read_stream(&self, name: &str) -> String {
        fs::read_to_string(self.output_dir.path().join(name)).unwrap()
    }

    /// Waits until its standard output holds a text.
    #[track_caller]
    pub(crate) fn wait_for_stdout(&self, text: &str) {
        self.wait_until(&format!("it says {text:?}"), || self.read_stream("out").contains(text));
    }

    /// Waits until its standard error holds a text.
    #[track_caller]
    pub(crate) fn wait_for_stderr(&self, text: &str) {
        self.wait_until(&format!("it tells {text:?}"), || self.read_stream("err").contains(text));
    }

    /// Waits until the condition is true.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is: impl Fn() -> bool) {
        while !is() {
            let (out, err) = (self.read_stream("out"), self.read_stream("err"));
            assert!(self.started.elapsed() < DEADLINE, "not after {DEADLINE:?}: {what}:\n{out}\n{err}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to this process only.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn wait(mut self) -> CommandOutput {
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if self.started.elapsed() > DEADLINE => break None,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        if status.is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        let (stdout, stderr) = (self.read_stream("out"), self.read_stream("err"));
        assert!(status.is_some(), "no end after {DEADLINE:?}: {}\n{stdout}\n{stderr}", self.command_line);
        CommandOutput { code: status.and_then(|it| it.code()), stdout, stderr }
    }
}

/// Output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    /// Asserts success.
    #[track_caller]
    pub(crate) fn assert_success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        assert!(!self.stderr.contains("error:"), "{self:#?}");
        self.without_debug_output()
    }

    /// Asserts exit code 1 and a one-line message that contains all these texts.
    #[track_caller]
    pub(crate) fn assert_refused(self, texts: &[&str]) -> Self {
        let problems = self.problems();
        assert_eq!(problems.len(), 1, "one message, please: {self:#?}");
        for text in texts {
            assert!(problems[0].contains(text), "the message lacks {text:?}: {}", problems[0]);
        }
        self
    }

    /// The reported problems, one per line, of a command with exit code 1.
    #[track_caller]
    pub(crate) fn problems(&self) -> Vec<String> {
        assert_eq!(self.code, Some(1), "{self:#?}");
        assert_eq!(self.stdout, "", "a refusal is not data");
        self.assert_no_debug_output();
        let lines: Vec<&str> = self.stderr.lines().skip_while(|line| !line.starts_with("error: ")).collect();
        assert!(!lines.is_empty(), "it does not say why: {self:#?}");
        let (first, rest) = lines.split_first().unwrap();
        assert!(rest.iter().all(|line| line.starts_with("  ")), "nothing comes after the error: {self:#?}");
        if rest.is_empty() {
            return vec![first.trim_start_matches("error: ").to_owned()];
        }
        assert_eq!(*first, format!("error: {} problems", rest.len()), "{self:#?}");
        rest.iter().map(|line| line.trim().to_owned()).collect()
    }

    /// Asserts a usage error.
    #[track_caller]
    pub(crate) fn assert_usage_error(self, texts: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:#?}");
        assert_eq!(self.stdout, "");
        self.assert_no_debug_output();
        for text in texts {
            assert!(self.stderr.contains(text), "the message lacks {text:?}: {self:#?}");
        }
    }

    #[track_caller]
    fn without_debug_output(self) -> Self {
        self.assert_no_debug_output();
        self
    }

    #[track_caller]
    fn assert_no_debug_output(&self) {
        for word in FORBIDDEN_OUTPUT {
            assert!(!self.stderr.contains(word), "{word:?} is not for people: {self:#?}");
        }
    }
}

/// `demo.yaml` is refused with one message that holds `texts`, writes nothing, and nothing is in the way of the
/// same command once the file is right.
#[track_caller]
pub(crate) fn assert_refused_until_corrected(bad: impl AsRef<[u8]>, texts: &[&str]) {
    let ground = CliHarness::new();
    ground.write("demo.yaml", bad);
    ground.render().assert_refused(&[&["demo.yaml"], texts].concat());
    assert!(!ground.has("out"), "a refused file left something behind");
    ground.write("demo.yaml", QUICKSTART);
    ground.render().assert_success();
    assert!(ground.has("out/default/demo-vpc/main.tf"));
}
