//! The network between a program and the API server, and its failures.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::watch,
    task::JoinSet,
};

/// What a [`Forwarder`] does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// It forwards them.
    Open,
    /// It keeps them, in both directions, and new connections get nowhere: packets are lost, and nobody is told. When it opens again they arrive after all, late,
    /// as they do when TCP sends them again.
    Cut,
    /// Requests arrive, answers do not: what was done, and what not, is unknown.
    AnswersCut,
}

impl Flow {
    fn forwards(self, direction: Direction) -> bool {
        match self {
            Self::Open => true,
            Self::Cut => false,
            Self::AnswersCut => direction == Direction::Request,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Answer,
}

/// An address of the loopback that leads to another one, as long as it is wanted.
#[derive(Debug)]
pub struct Forwarder {
    address: SocketAddr,
    flow: watch::Sender<Flow>,
}

impl Forwarder {
    /// Starts one on a free port. Its connections end with it.
    pub(super) fn start(runtime: &Handle, to: SocketAddr) -> Self {
        let listener =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, super::free_port())).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, flow) = watch::channel(Flow::Open);
        runtime.spawn(serve(listener, to, flow));
        Self {
            address,
            flow: sender,
        }
    }

    /// Where to connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens to bytes from now on.
    pub(super) fn set(&self, flow: Flow) {
        self.flow.send_replace(flow);
    }
}

/// Until the forwarder is dropped.
async fn serve(listener: std::net::TcpListener, to: SocketAddr, mut flow: watch::Receiver<Flow>) {
    let listener = TcpListener::from_std(listener).unwrap();
    // They end with it.
    let mut connections = JoinSet::new();
    let connections_see = flow.clone();
    loop {
        tokio::select! {
            () = dropped(&mut flow) => return,
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(connect(client, to, connections_see.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn dropped(flow: &mut watch::Receiver<Flow>) {
    while flow.changed().await.is_ok() {}
}

async fn connect(client: TcpStream, to: SocketAddr, mut flow: watch::Receiver<Flow>) {
    // A handshake that is lost is not made: the server learns of the client when the network is back.
    if wait_for(&mut flow, Direction::Request).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Each ends by itself: while a direction is cut, its end is not told either.
    tokio::join!(
        copy(from_client, to_server, flow.clone(), Direction::Request),
        copy(from_server, to_client, flow, Direction::Answer),
    );
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<Flow>,
    direction: Direction,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = from.read(&mut buffer).await.unwrap_or(0);
        if wait_for(&mut flow, direction).await.is_err() {
            return;
        }
        let written = if length == 0 {
            let _ = to.shutdown().await;
            return;
        } else {
            to.write_all(&buffer[..length]).await
        };
        if written.is_err() {
            return;
        }
    }
}

/// Waits until bytes may pass; an error if they never will.
async fn wait_for(flow: &mut watch::Receiver<Flow>, direction: Direction) -> io::Result<()> {
    flow.wait_for(|flow| flow.forwards(direction))
        .await
        .map(|_| ())
        .map_err(io::Error::other)
}
