//! The way from one replica to the API server, which can be cut.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

/// Forwards bytes while it is open. While it is cut, what was sent arrives late, as with TCP.
pub struct Network {
    pub address: SocketAddr,
    open: watch::Sender<bool>,
    _serving: AbortOnDropHandle<()>,
}

impl Network {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = watch::Sender::new(true);
        let is_open = open.subscribe();
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, server, is_open.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            open,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    pub fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }
}

async fn forward(client: TcpStream, server: SocketAddr, open: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        copy(from_client, to_server, open.clone()),
        copy(from_server, to_client, open)
    );
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut buffer).await.unwrap_or(0);
        if open.wait_for(|open| *open).await.is_err() || length == 0 {
            return;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
