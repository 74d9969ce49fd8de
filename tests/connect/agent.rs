//! A process that runs `capt connect` or `capt router`.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Nothing takes as long as this.
const LIMIT: Duration = Duration::from_mins(1);

pub(crate) struct Agent {
    process: Child,
    heard: Arc<Mutex<String>>,
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
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut heard = ear.lock().unwrap();
                heard.push_str(&line);
                heard.push('\n');
            }
        });
        Self { process, heard }
    }

    pub(crate) fn said(&self) -> String {
        self.heard.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) async fn says(&mut self, words: &str) {
        let said = async {
            while !self.said().contains(words) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let heard = tokio::time::timeout(LIMIT, said).await;
        assert!(heard.is_ok(), "it does not say {words:?} but {}", self.said());
    }

    /// Its exit code, and everything it said is heard.
    pub(crate) async fn ends(&mut self) -> Option<i32> {
        for _ in 0..LIMIT.as_millis() / 20 {
            if let Some(status) = self.process.try_wait().unwrap() {
                // Its last words may still be in the pipe.
                tokio::time::sleep(Duration::from_millis(200)).await;
                return status.code();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it goes on: {}", self.said());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        self.process.wait().unwrap();
    }
}
