//! The journal of a workspace as a stream of batches, over a connection of its own.
//!
//! The gateway sends a batch when the last one was answered: all entries that were written meanwhile are stored at once.

use std::io;

use tokio::{
    io::{AsyncBufRead, AsyncWriteExt, BufReader, Lines},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
};

use super::{
    client::{GatewayClient, GatewayClientError},
    protocol::{AdminRequest, to_line},
};
use crate::journal::{Journal, JournalBatch, JournalReceipt};

/// Sends the entries of a workspace to the follower at the other end, until it hangs up or another one takes over.
pub(super) async fn serve<R: AsyncBufRead + Unpin>(
    mut receipts: Lines<R>,
    mut write: OwnedWriteHalf,
    (journal, workspace): (&Journal, &str),
) {
    let mut feed = match journal.follow(workspace).await {
        Ok(feed) => feed,
        Err(error) => {
            // The follower connects again.
            tracing::warn!(workspace, error, "the journal cannot be followed");
            return;
        }
    };
    let mut is_answered = true;
    loop {
        tokio::select! {
            line = receipts.next_line() => {
                let receipt = line.ok().flatten().and_then(|line| serde_json::from_str(&line).ok());
                let Some(receipt) = receipt else { break };
                journal.record_receipt(workspace, &feed, receipt);
                is_answered = true;
            }
            batch = feed.next(), if is_answered => {
                let Some(line) = batch.and_then(|batch| to_line(&batch).ok()) else { break };
                if write.write_all(&line).await.is_err() {
                    break;
                }
                is_answered = false;
            }
        }
    }
    journal.unfollow(workspace, &feed);
}

/// A follower of the journal of one workspace.
#[derive(Debug)]
pub struct JournalFollower {
    batches: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl JournalFollower {
    /// The next batch; `None` if the gateway has exited, or another follower has taken over. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<Option<JournalBatch>> {
        match self.batches.next_line().await? {
            Some(line) => Ok(Some(serde_json::from_str(&line)?)),
            None => Ok(None),
        }
    }

    /// Answers the last batch. A batch that was not stored may be answered again later.
    pub async fn answer(&mut self, receipt: &JournalReceipt) -> io::Result<()> {
        self.write.write_all(&to_line(receipt)?).await
    }
}

impl GatewayClient {
    /// Follows the journal of a workspace. The first batch has all of its entries.
    pub async fn follow_journal(&self, workspace: &str) -> Result<JournalFollower, GatewayClientError> {
        let request = AdminRequest::FollowJournal { workspace: workspace.to_owned() };
        let sent = self.send(&request).await;
        let (batches, write) = sent
            .map_err(|source| GatewayClientError::Unavailable { socket: self.socket().to_owned(), source })?;
        Ok(JournalFollower { batches, write })
    }
}
