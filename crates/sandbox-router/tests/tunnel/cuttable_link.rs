//! A link between an agent and its gateway that can be cut: bytes then stall like unacknowledged packets.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

pub(crate) struct CuttableLink {
    pub(crate) address: SocketAddr,
    is_whole: watch::Sender<bool>,
    hung_up: watch::Sender<u64>,
}

impl CuttableLink {
    pub(crate) async fn to(gateway: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_whole = watch::Sender::new(true);
        let hung_up = watch::Sender::new(0);
        let (whole, ends) = (is_whole.subscribe(), hung_up.subscribe());
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let (whole, mut ends) = (whole.clone(), ends.clone());
                ends.mark_unchanged();
                tokio::spawn(async move {
                    let mut at_first = whole.clone();
                    at_first.wait_for(|it| *it).await.unwrap();
                    let Ok(far) = TcpStream::connect(gateway).await else { return };
                    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                    let both = async {
                        tokio::join!(carry(near_in, far_out, whole.clone()), carry(far_in, near_out, whole))
                    };
                    tokio::select! {
                        _ = both => {}
                        _ = ends.changed() => {}
                    }
                });
            }
        });
        Self { address, is_whole, hung_up }
    }

    pub(crate) fn cut(&self) {
        self.is_whole.send_replace(false);
    }

    /// Ends every connection that there is, and takes new ones.
    pub(crate) fn hang_up(&self) {
        self.hung_up.send_modify(|count| *count += 1);
    }

    pub(crate) fn mend(&self) {
        self.is_whole.send_replace(true);
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut whole: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read) = from.read(&mut buffer).await else { return };
        if whole.wait_for(|it| *it).await.is_err()
            || read == 0
            || to.write_all(&buffer[..read]).await.is_err()
        {
            return;
        }
    }
}
