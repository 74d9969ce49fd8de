//! The last words of a provider, for the message of its crash.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// How many lines are kept.
const MOST: usize = 40;

/// What a provider said last on its standard error. Never logged, because a provider may print values.
#[derive(Clone, Default)]
pub(super) struct Words(Arc<Mutex<VecDeque<String>>>);

impl Words {
    /// Listens until it says nothing more.
    pub(super) async fn listen(self, stderr: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut kept = self.0.lock();
            if kept.len() == MOST {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    }

    /// The line that says why, if there is one. Go prints `panic: …` or `fatal error: …`; other lines may hold values.
    pub(super) fn last(&self) -> String {
        let kept = self.0.lock();
        let why = kept.iter().find(|line| line.starts_with("panic:") || line.starts_with("fatal error:"));
        why.map_or_else(String::new, |line| {
            format!("Its last words: {}", line.chars().take(300).collect::<String>())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_reason_is_passed_on() {
        let words = Words::default();
        words.clone().listen(&b"password: hush\npanic: of its own\ngoroutine 1\n"[..]).await;
        assert_eq!(words.last(), "Its last words: panic: of its own");
        let silent = Words::default();
        silent.clone().listen(&b"password: hush\n"[..]).await;
        assert_eq!(silent.last(), "");
    }
}
