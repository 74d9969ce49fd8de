//! Tail of a provider's standard error, for crash messages.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Number of lines kept.
const MAX_LINES: usize = 40;

/// The last lines of a provider's standard error. Never logged, because a provider may print values.
#[derive(Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<String>>>);

impl StderrTail {
    /// Reads until end of file.
    pub(super) async fn collect(self, stderr: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut kept = self.0.lock();
            if kept.len() == MAX_LINES {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    }

    /// The panic line, if there is one. Go prints `panic: …` or `fatal error: …`; other lines may contain values.
    pub(super) fn panic_line(&self) -> String {
        let kept = self.0.lock();
        let why = kept.iter().find(|line| line.starts_with("panic:") || line.starts_with("fatal error:"));
        why.map_or_else(String::new, |line| {
            format!("Its standard error: {}", line.chars().take(300).collect::<String>())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_reason_is_passed_on() {
        let words = StderrTail::default();
        words.clone().collect(&b"password: hush\npanic: of its own\ngoroutine 1\n"[..]).await;
        assert_eq!(words.panic_line(), "Its standard error: panic: of its own");
        let silent = StderrTail::default();
        silent.clone().collect(&b"password: hush\n"[..]).await;
        assert_eq!(silent.panic_line(), "");
    }
}
