//! A forwarder in front of the local AWS that blocks one kind of request, so that a test can keep an operation in progress.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// Dropping it lets nothing more through.
pub struct Gate {
    pub endpoint: String,
    open: watch::Sender<bool>,
    held: watch::Receiver<usize>,
}

impl Gate {
    /// Before an endpoint; requests with this text in them wait.
    pub async fn before(endpoint: &str, text: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, to) = (listener.local_addr().unwrap(), endpoint.replace("http://", ""));
        let (open, opened) = watch::channel(false);
        let (count, held) = watch::channel(0);
        let count = Arc::new(count);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (from_client, mut to_client) = client.into_split();
                let (mut from_aws, to_aws) = TcpStream::connect(&to).await.unwrap().into_split();
                tokio::spawn(async move { copy(&mut from_aws, &mut to_client).await });
                tokio::spawn(forward(from_client, to_aws, text, opened.clone(), Arc::clone(&count)));
            }
        });
        Self { endpoint: format!("http://{address}"), open, held }
    }

    /// Waits until so many requests are kept back.
    pub async fn holds(&self, count: usize) {
        let mut held = self.held.clone();
        let enough = tokio::time::timeout(super::PATIENCE, held.wait_for(|held| *held >= count)).await;
        assert!(enough.is_ok(), "{} of {count} requests have come to the gate", *self.held.borrow());
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    text: &str,
    mut open: watch::Receiver<bool>,
    hold: Arc<watch::Sender<usize>>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let piece = &buffer[..count];
        if !*open.borrow() && piece.windows(text.len()).any(|it| it == text.as_bytes()) {
            hold.send_modify(|held| *held += 1);
            if open.wait_for(|open| *open).await.is_err() {
                return;
            }
        }
        if to.write_all(piece).await.is_err() {
            return;
        }
    }
}
