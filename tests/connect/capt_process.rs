//! A process that runs `capt connect` or `capt router`.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::server::PATIENCE;

/// How many of the last lines are shown of a test that failed.
const LAST: usize = 40;

pub(crate) struct Agent {
    /// What it was started with.
    args: String,
    process: Child,
    heard: Arc<Mutex<String>>,
    /// Ends when the process has said everything.
    listening: Option<JoinHandle<()>>,
}

impl Agent {
    #[expect(clippy::disallowed_methods, reason = "the binary that is tested")]
    pub(crate) fn start(args: &[&str], home: &std::path::Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_capt"))
            .args(args)
            .env_clear()
            .env("HOME", home)
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let heard = Arc::new(Mutex::new(String::new()));
        let (lines, ear) = (BufReader::new(process.stderr.take().unwrap()).lines(), Arc::clone(&heard));
        let listening = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut heard = ear.lock().unwrap();
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        Self { args: args.join(" "), process, heard, listening: Some(listening) }
    }

    pub(crate) fn said(&self) -> String {
        self.heard.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) async fn says(&mut self, words: &str) {
        let begun = Instant::now();
        while !self.said().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "it does not say {words:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Its exit code, and everything it said is heard.
    pub(crate) async fn ends(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                // Its last words may still be in the pipe.
                self.listening.take().map(JoinHandle::join).transpose().unwrap();
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        self.process.wait().unwrap();
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(LAST)..].join("\n");
            eprintln!("`capt {}` said last:\n{last}", self.args);
        }
    }
}
