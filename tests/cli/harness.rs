//! One command in a directory of its own, and what it must look like from outside.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// The manifests that every test starts from: everything in them is right.
pub(crate) const QUICKSTART: &str = include_str!("../../examples/quickstart.yaml");

/// No command of this suite has anything to wait for.
const DEADLINE: Duration = Duration::from_mins(5);

/// Words that only a bug, or a derived `Debug`, prints.
const NEVER: [&str; 11] = [
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
pub(crate) fn engine(name: &str) -> String {
    format!("{}/tests/cli/engines/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A directory in which commands run.
pub(crate) struct Ground {
    dir: TempDir,
}

impl Ground {
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

    /// A mirror that holds this version of the AWS provider, as far as looking at directories can tell.
    pub(crate) fn mirror(&self, version: &str) -> &'static str {
        let platform = terraform_driver::providers::platform();
        let dir = format!("mirror/registry.terraform.io/hashicorp/aws/{version}/{platform}");
        fs::create_dir_all(self.path(&dir)).unwrap();
        "mirror"
    }

    /// `capt` with these arguments.
    pub(crate) fn capt(&self, args: &[&str]) -> Run<'_> {
        self.program(Path::new(env!("CARGO_BIN_EXE_capt")), args)
    }

    /// `capt` with the engine and the mirror that make it go on to the data directory and the AWS.
    pub(crate) fn capt_ready(&self, args: &[&str]) -> Run<'_> {
        let mirror = self.mirror("6.0.0");
        self.capt(&[args, &["--engine", &engine("new"), "--provider-mirror", mirror]].concat())
    }

    /// `PATH` is empty, there is no python, and IMDS is not asked.
    #[expect(clippy::disallowed_methods, reason = "the one place of this suite that starts processes")]
    pub(crate) fn program(&self, program: &Path, args: &[&str]) -> Run<'_> {
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
        Run { ground: self, command, stdin: Vec::new() }
    }

    /// Renders `demo.yaml`.
    pub(crate) fn render(&self) -> Said {
        self.capt(&["render", "demo.yaml", "-o", "out"]).run()
    }
}

/// A command that is about to run.
pub(crate) struct Run<'a> {
    ground: &'a Ground,
    command: Command,
    stdin: Vec<u8>,
}

impl Run<'_> {
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub(crate) fn run(self) -> Said {
        self.start().end()
    }

    /// Its words go to files: no pipe fills up, and a deadline can be kept.
    pub(crate) fn start(mut self) -> Going {
        let words = tempfile::tempdir_in(self.ground.dir.path()).unwrap();
        let file = |name: &str| File::create(words.path().join(name)).unwrap();
        let mut stdin = tempfile::tempfile().unwrap();
        stdin.write_all(&self.stdin).unwrap();
        std::io::Seek::rewind(&mut stdin).unwrap();
        self.command.stdin(Stdio::from(stdin)).stdout(file("out")).stderr(file("err"));
        let begun = Instant::now();
        let child = self.command.spawn().unwrap();
        Going { shown: format!("{:?}", self.command), child, words, begun }
    }
}

/// A command that runs.
pub(crate) struct Going {
    shown: String,
    child: Child,
    words: TempDir,
    begun: Instant,
}

impl Going {
    /// `out` or `err`, as far as it is written.
    pub(crate) fn words(&self, name: &str) -> String {
        fs::read_to_string(self.words.path().join(name)).unwrap()
    }

    /// Waits until its standard output holds a text.
    #[track_caller]
    pub(crate) fn until_it_says(&self, text: &str) {
        self.until(&format!("it says {text:?}"), || self.words("out").contains(text));
    }

    /// Waits until its standard error holds a text.
    #[track_caller]
    pub(crate) fn until_it_tells(&self, text: &str) {
        self.until(&format!("it tells {text:?}"), || self.words("err").contains(text));
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is: impl Fn() -> bool) {
        while !is() {
            let (out, err) = (self.words("out"), self.words("err"));
            assert!(self.begun.elapsed() < DEADLINE, "not after {DEADLINE:?}: {what}:\n{out}\n{err}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to it, and to nobody else.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn end(mut self) -> Said {
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if self.begun.elapsed() > DEADLINE => break None,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        if status.is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        let (stdout, stderr) = (self.words("out"), self.words("err"));
        assert!(status.is_some(), "no end after {DEADLINE:?}: {}\n{stdout}\n{stderr}", self.shown);
        Said { code: status.and_then(|it| it.code()), stdout, stderr }
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// It did what it was asked to.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        assert!(!self.stderr.contains("error:"), "{self:#?}");
        self.decent()
    }

    /// It refused with exit code 1 and one message of one line that holds all these texts.
    #[track_caller]
    pub(crate) fn refused(self, texts: &[&str]) -> Self {
        let problems = self.problems();
        assert_eq!(problems.len(), 1, "one message, please: {self:#?}");
        for text in texts {
            assert!(problems[0].contains(text), "the message lacks {text:?}: {}", problems[0]);
        }
        self
    }

    /// The problems that it names, one a line, after refusing with exit code 1.
    #[track_caller]
    pub(crate) fn problems(&self) -> Vec<String> {
        assert_eq!(self.code, Some(1), "{self:#?}");
        assert_eq!(self.stdout, "", "a refusal is not data");
        self.decent_words();
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

    /// A mistake in the arguments.
    #[track_caller]
    pub(crate) fn misused(self, texts: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:#?}");
        assert_eq!(self.stdout, "");
        self.decent_words();
        for text in texts {
            assert!(self.stderr.contains(text), "the message lacks {text:?}: {self:#?}");
        }
    }

    #[track_caller]
    fn decent(self) -> Self {
        self.decent_words();
        self
    }

    #[track_caller]
    fn decent_words(&self) {
        for word in NEVER {
            assert!(!self.stderr.contains(word), "{word:?} is not for people: {self:#?}");
        }
    }
}

/// `demo.yaml` is refused with one message that holds `texts`, writes nothing, and nothing is in the way of the
/// same command once the file is right.
#[track_caller]
pub(crate) fn refused_until_corrected(bad: impl AsRef<[u8]>, texts: &[&str]) {
    let ground = Ground::new();
    ground.write("demo.yaml", bad);
    ground.render().refused(&[&["demo.yaml"], texts].concat());
    assert!(!ground.has("out"), "a refused file left something behind");
    ground.write("demo.yaml", QUICKSTART);
    ground.render().done();
    assert!(ground.has("out/default/demo-vpc/main.tf"));
}
