//! Load by wrk and h2load, and what it costs the proxy.

use std::{fs, process::Command};

use crate::programs::{LOAD_CORE, Proxied};

/// How much load.
pub(crate) struct Load {
    pub(crate) connections: u64,
    pub(crate) seconds: u64,
    pub(crate) header: Option<&'static str>,
}

/// What came of it.
pub(crate) struct Sample {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Microseconds of the proxy's CPU for each request.
    pub(crate) cpu: f64,
    /// Microseconds.
    pub(crate) p50: f64,
    /// Microseconds.
    pub(crate) p99: f64,
}

impl Load {
    pub(crate) fn http1(&self, proxy: &Proxied) -> Sample {
        let url = format!("http://127.0.0.1:{}/", proxy.http1);
        let mut command = command("wrk");
        command.args([
            "-t1",
            "--latency",
            &format!("-c{}", self.connections),
            &format!("-d{}s", self.seconds),
        ]);
        self.add_header(&mut command);
        let before = cpu(proxy.pid);
        let said = run(command.arg(&url));
        let used = cpu(proxy.pid) - before;
        assert!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{}: {said}", proxy.name);
        let count = said.lines().find(|line| line.contains(" requests in ")).expect("a count");
        let count = count.split_whitespace().next().unwrap().parse::<f64>().unwrap();
        Sample {
            rate: after(&said, "Requests/sec:").parse().unwrap(),
            cpu: used / count,
            p50: micros(after(&said, "50%")),
            p99: micros(after(&said, "99%")),
        }
    }

    /// With one of the backends of HTTP/2.
    pub(crate) fn http2(&self, proxy: &Proxied, backend: usize) -> Sample {
        let url = format!("http://127.0.0.1:{}/", proxy.http2[backend]);
        let mut command = command("h2load");
        command.args(["-t1", "-m16", &format!("-c{}", self.connections), &format!("-D{}", self.seconds)]);
        self.add_header(&mut command);
        let before = cpu(proxy.pid);
        let said = run(command.arg(&url));
        let used = cpu(proxy.pid) - before;
        let counts = said.lines().find(|line| line.starts_with("status codes:")).expect("counts");
        let count = counts.split_whitespace().nth(2).unwrap().parse::<f64>().unwrap();
        assert!(count > 0.0 && counts.contains(" 0 3xx, 0 4xx, 0 5xx"), "{}: {said}", proxy.name);
        Sample { rate: count / self.seconds as f64, cpu: used / count, p50: 0.0, p99: 0.0 }
    }

    fn add_header(&self, command: &mut Command) {
        if let Some(header) = self.header {
            command.args(["-H", header]);
        }
    }
}

fn command(program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE, program]);
    command
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("wrk and h2load are installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// The word behind a word.
fn after<'a>(text: &'a str, word: &str) -> &'a str {
    let line = text.lines().find(|line| line.trim_start().starts_with(word)).expect(word);
    line.trim_start()[word.len()..].split_whitespace().next().unwrap()
}

/// `178.00us`, `1.20ms`, `1.00s`.
fn micros(text: &str) -> f64 {
    let digits = text.trim_end_matches(|it: char| it.is_alphabetic());
    let factor = match &text[digits.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        unit => panic!("{unit}"),
    };
    digits.parse::<f64>().unwrap() * factor
}

/// Microseconds of CPU that a process and its children have used: nginx works in a child.
pub(crate) fn cpu(pid: u32) -> f64 {
    let all = [pid].into_iter().chain(children(pid));
    all.map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().collect::<Vec<_>>();
        let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
        // In hundredths of a second.
        (ticks(11) + ticks(12)) * 1e4
    })
    .sum()
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
