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

use super::test_kube::TIMEOUT;

/// Number of output lines that a failed test prints.
const TAIL_LINES: usize = 40;

pub(crate) struct CaptProcess {
    /// Its arguments.
    args: String,
    process: Child,
    stderr: Arc<Mutex<String>>,
    /// Reads standard error until it is closed.
    reader: Option<JoinHandle<()>>,
}

impl CaptProcess {
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
        let stderr = Arc::new(Mutex::new(String::new()));
        let (lines, ear) = (BufReader::new(process.stderr.take().unwrap()).lines(), Arc::clone(&stderr));
        let listening = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut heard = ear.lock().unwrap();
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        Self { args: args.join(" "), process, stderr, reader: Some(listening) }
    }

    pub(crate) fn output(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) async fn wait_for_output(&mut self, words: &str) {
        let begun = Instant::now();
        while !self.output().contains(words) {
            assert!(begun.elapsed() < TIMEOUT, "it does not say {words:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for the exit and for all of its output; returns the exit code.
    pub(crate) async fn wait_for_exit(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                // The pipe may still contain output.
                self.reader.take().map(JoinHandle::join).transpose().unwrap();
                return status.code();
            }
            assert!(begun.elapsed() < TIMEOUT, "it goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for CaptProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        self.process.wait().unwrap();
        if std::thread::panicking() {
            let said = self.output();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
            eprintln!("`capt {}` said last:\n{last}", self.args);
        }
    }
}
